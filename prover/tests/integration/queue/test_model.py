from __future__ import annotations

from queue_machine import SEQUENCES_OF_THE_TWIN, run_machine
from redis_server import RedisServer


def test_jobs__under_random_transitions__are_in_one_state_and_never_lost(redis_database: RedisServer) -> None:
    run_machine(redis_database, examples=15, repeatable=False)


def test_jobs__under_the_transitions_of_the_twin__are_in_the_states_that_they_have_there(
    redis_database: RedisServer,
) -> None:
    run_machine(redis_database, examples=SEQUENCES_OF_THE_TWIN, repeatable=True)
