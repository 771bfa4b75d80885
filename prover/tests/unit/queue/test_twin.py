"""The twin of Redis behaves as the real one, which integration/queue/test_model.py tests by the same sequences."""

from __future__ import annotations

import asyncio

import lua_messages
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lupa import lua51  # type: ignore[import-untyped]
from queue_inspection import Queue
from queue_machine import SEQUENCES_OF_THE_TWIN, run_machine
from redis_twin import RedisTwin

from prover.queue.jobs import JobState, Submission
from prover.settings import QueueSettings

TEXTS = st.text(max_size=40) | st.sampled_from(["x" * 31, "x" * 32, "x" * 255, "x" * 256, "x" * 65536])
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda values: st.lists(values, min_size=1, max_size=20) | st.dictionaries(TEXTS, values, min_size=1, max_size=20),
    max_leaves=30,
)


def test_jobs__under_random_transitions_on_the_twin__are_in_one_state_and_never_lost(twin: RedisTwin) -> None:
    run_machine(twin, examples=SEQUENCES_OF_THE_TWIN, repeatable=True)


@settings(deadline=None)
@given(VALUES)
def test_messages__of_any_value__are_read_and_written_as_msgpack(value: object) -> None:
    lua = lua51.LuaRuntime(encoding=None)
    message = msgspec.msgpack.encode(value)
    again = lua_messages.pack(lua_messages.unpack(message, lua.table))
    assert msgspec.msgpack.decode(again) == value


@pytest.mark.parametrize(("value", "message"), [({}, b"\x90"), (b"\xff", b"\xa1\xff"), (3.0, b"\x03")])
def test_messages__that_only_cmsgpack_writes_so__are_written_so(value: object, message: bytes) -> None:
    assert lua_messages.pack(lua51.LuaRuntime(encoding=None).table() if value == {} else value) == message


async def test_wait__while_another_connection_ends_the_job__returns_its_end(twin: RedisTwin) -> None:
    watching, ending = Queue(twin, QueueSettings()), Queue(twin, QueueSettings())
    submitted = await watching.submit(Submission("update", "", b"{}"))
    claim = await ending.claimed()
    waiting = asyncio.create_task(watching.wait(submitted.job_id, seconds=60))
    await asyncio.sleep(0)
    assert await ending.finish(claim, b"proof", 1)
    found = await waiting
    assert found is not None
    assert (found.state, found.proof) == (JobState.COMPLETED, b"proof")
    for queue in (watching, ending):
        await queue.end()
