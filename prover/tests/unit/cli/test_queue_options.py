"""Options of ``prover start`` about the queue: which parts run where, with flags and with the reference's variables."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from prover.cli.main import cli
from prover.errors import SettingsInvalid
from prover.keys.catalogue.circuits import circuits_named
from prover.keys.catalogue.selection import CircuitSelection
from prover.queue.circuit_queues import CircuitQueue, Network
from prover.settings import QueueSettings, Settings, load_settings
from prover.variables import Secret
from prover.worker.instance import claimable, queues_of

URL = "redis://user:secret@host:6379/2"


pytestmark = pytest.mark.usefixtures("no_variables")


def start(*words: str, **variables: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["start", *words], env=variables)
    return result.exit_code, result.output


def parts(settings: Settings) -> tuple[str, bool, bool]:
    queue = settings.queue
    return queue.url.reveal(), queue.http, queue.workers


@pytest.mark.parametrize(
    ("words", "variables", "expected"),
    [
        ((), {}, ("", True, True)),
        (("--redis-url", URL), {}, (URL, True, True)),
        ((), {"REDIS_URL": URL}, (URL, True, True)),
        ((), {"PROVER_QUEUE__URL": URL, "REDIS_URL": "redis://other"}, (URL, True, True)),
        (("--redis-url", URL), {"REDIS_URL": "redis://other"}, (URL, True, True)),
        (("--redis-url", ""), {"REDIS_URL": URL}, (URL, True, True)),
        (("--queue-only", "--redis-url", URL), {}, (URL, False, True)),
        (("--queue-only", "true", "--redis-url", URL), {}, (URL, False, True)),
        (("--no-workers", "--redis-url", URL), {}, (URL, True, False)),
        ((), {"PROVER_QUEUE__WORKERS": "false", "REDIS_URL": URL}, (URL, True, False)),
        (("--server-only", "--redis-url", URL), {}, ("", True, True)),
        (("--server-only",), {"PROVER_QUEUE__URL": URL}, ("", True, True)),
        ((), {"QUEUE_MODE": "true", "REDIS_URL": URL}, (URL, False, True)),
        ((), {"QUEUE_MODE": "true", "SERVER_MODE": "true", "REDIS_URL": URL}, (URL, True, True)),
        ((), {"QUEUE_MODE": "1", "REDIS_URL": URL}, (URL, True, True)),
        ((), {"SERVER_MODE": "true"}, ("", True, True)),
        (("--server-only",), {"QUEUE_MODE": "true", "REDIS_URL": URL}, ("", True, True)),
        (("--auto-download", "true", "--redis-url", URL), {}, (URL, True, True)),
    ],
)
def test_start__with_words_about_the_queue__runs_these_parts(
    started: list[Settings], words: tuple[str, ...], variables: dict[str, str], expected: tuple[str, bool, bool]
) -> None:
    code, output = start(*words, **variables)
    assert code == 0, output
    assert parts(started[0]) == expected


@pytest.mark.parametrize(
    ("words", "variables", "named"),
    [
        (("--queue-only",), {}, "--queue-only needs a queue; pass --redis-url"),
        ((), {"QUEUE_MODE": "true"}, "QUEUE_MODE needs a queue"),
        (("--queue-only", "--server-only", "--redis-url", URL), {}, "--queue-only and --server-only exclude"),
        (("--queue-only", "--no-workers", "--redis-url", URL), {}, "--queue-only and --no-workers exclude"),
        ((), {"PROVER_QUEUE__HTTP": "false"}, "needs a queue"),
        (
            (),
            {"PROVER_QUEUE__HTTP": "false", "PROVER_QUEUE__WORKERS": "false", "REDIS_URL": URL},
            "does nothing; enable",
        ),
        ((), {"PROVER_QUEUE__LEASE_S": "4"}, "heartbeat_s must be at most half of lease_s"),
        ((), {"PROVER_MAX_CONCURRENCY": "none"}, "PROVER_MAX_CONCURRENCY"),
        ((), {"PROVER_MAX_PENDING_DEVNET": "-1"}, "PROVER_MAX_PENDING_DEVNET"),
    ],
)
def test_start__with_contradicting_words__is_refused_by_name(
    started: list[Settings], words: tuple[str, ...], variables: dict[str, str], named: str
) -> None:
    code, output = start(*words, **variables)
    assert code == (2 if words else 78)
    assert named in output
    assert "secret" not in output
    assert not started


@pytest.mark.parametrize(
    ("words", "variables", "slots"),
    [
        ((), {}, 1),
        ((), {"PROVER_TOTAL_MEMORY_GB": "64"}, 1),
        ((), {"PROVER_TOTAL_MEMORY_GB": "110"}, 2),
        ((), {"PROVER_TOTAL_MEMORY_GB": "10000"}, 100),
        ((), {"PROVER_TOTAL_MEMORY_GB": "1"}, 1),
        ((), {"PROVER_TOTAL_MEMORY_GB": "110", "PROVER_MAX_CONCURRENCY": "7"}, 7),
        ((), {"PROVER_MAX_CONCURRENCY": "7", "PROVER_QUEUE__SLOTS": "3"}, 3),
        (("--queue-slots", "4"), {"PROVER_MAX_CONCURRENCY": "7"}, 4),
    ],
)
def test_slots__of_a_queue__follow_the_reference(
    started: list[Settings], words: tuple[str, ...], variables: dict[str, str], slots: int
) -> None:
    code, output = start(*words, **variables)
    assert code == 0, output
    assert started[0].queue.slots_of(started[0].keys.total_memory_gib) == slots


def test_settings__of_the_queue__have_the_periods_of_the_specification_and_hide_the_address() -> None:
    settings = QueueSettings(url=Secret(URL))
    periods = (
        settings.sweep_stuck_s, settings.sweep_requests_s, settings.sweep_failures_s, settings.sweep_results_s
    )  # fmt: skip
    assert periods == (10, 600, 1800, 1800)
    assert "secret" not in repr(settings)


def test_limits__given_by_variables__are_those_of_each_network(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"DEPTH_LIMIT": 5, "MAX_PENDING_MAINNET": 4, "MAX_PENDING_DEVNET": 6}.items():
        monkeypatch.setenv(f"PROVER_QUEUE__{name}", str(value))
    queue = load_settings().queue
    assert [queue.depth_limit_of(network) for network in (None, Network.MAINNET, Network.DEVNET)] == [5, 4, 6]
    monkeypatch.delenv("PROVER_QUEUE__MAX_PENDING_MAINNET")
    assert load_settings().queue.depth_limit_of(Network.MAINNET) == 5


@pytest.mark.parametrize(
    ("variables", "pending"),
    [
        ({}, (0, 0)),
        ({"PROVER_MAX_PENDING_MAINNET": "7", "PROVER_MAX_PENDING_DEVNET": "8"}, (7, 8)),
        ({"PROVER_MAX_PENDING_MAINNET": "7", "PROVER_QUEUE__MAX_PENDING_MAINNET": "9"}, (9, 0)),
    ],
)
def test_limits_of_networks__given_by_variables_of_the_reference__are_those(
    started: list[Settings], variables: dict[str, str], pending: tuple[int, int]
) -> None:
    code, output = start(**variables)
    assert code == 0, output
    assert (started[0].queue.max_pending_mainnet, started[0].queue.max_pending_devnet) == pending


def test_settings__of_the_queue__name_their_variable() -> None:
    with pytest.raises(SettingsInvalid, match="PROVER_QUEUE__ATTEMPTS"):
        load_settings({"queue": {"attempts": 0}})


@pytest.mark.parametrize(
    ("names", "queues"),
    [
        (("update",), {CircuitQueue.UPDATE}),
        (("inclusion",), {CircuitQueue.UPDATE}),
        (("append-test", "v2_inclusion_32_1"), {CircuitQueue.UPDATE, CircuitQueue.APPEND}),
        (("address-append",), {CircuitQueue.ADDRESS_APPEND}),
    ],
)
def test_queues__of_a_selection__are_those_of_its_circuits_on_every_network(
    names: tuple[str, ...], queues: set[CircuitQueue]
) -> None:
    found = queues_of(CircuitSelection(circuits_named(names)))
    assert {queue.without_network for queue in found} == queues
    assert len(found) == len(set(found)) == 3 * len(queues)


def test_claims__of_a_selection__include_jobs_that_can_only_fail() -> None:
    assert claimable(CircuitSelection(circuits_named(["append-test"]))) == frozenset({"batch_append_32_10", ""})
    assert claimable(CircuitSelection.everything()) is None
    assert queues_of(CircuitSelection.everything()) == list(CircuitQueue)
