"""Progress of trees: the clock of each, the choice of a cause, one line per interval."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from forester.errors import EndpointTimedOut, ForesterError, ProofTimedOut, RateLimited, TransactionRefused
from forester.network_status.symptoms import symptom_of
from forester.observability import progress
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.observability.progress import REMEDIES, Cause, Evidence, ProgressWatch, StandstillLimits, likely_cause
from forester.prover_client.failures import ProofFailed, ProverRefused
from forester.transactions.confirm import Fate

REGISTRY = "Lighton6oQpVkeewmo2mcPTQQp7kYHr4fWpAgJyEmDX"
COMPRESSION = "compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq"


class Scene:
    """A watch over one tree with a clock of its own and the lines that it writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.lines: list[dict[str, Any]] = []
        self.metrics = Metrics()
        self.board = HealthBoard()
        self.watch = ProgressWatch(
            self.metrics, self.board, patience=StandstillLimits(10, 30, 60), clock=lambda: self.now
        )
        monkeypatch.setattr(progress, "_log", self)
        self.watch.follow({"tree": "StateV2"})

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append({"event": event, **fields})

    def look_after(self, seconds: float) -> None:
        self.now += seconds
        self.watch.check()

    def ages(self) -> dict[str, float]:
        return self.gauge("forester_seconds_since_progress")

    def unprovable(self) -> dict[str, float]:
        return self.gauge("forester_tree_unprovable")

    def gauge(self, name: str) -> dict[str, float]:
        families = text_string_to_metric_families(self.metrics.exposition().decode())
        samples = (sample for family in families for sample in family.samples)
        return {item.labels["tree_pubkey"]: item.value for item in samples if item.name == name}


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_watch__idle_tree__is_never_late(scene: Scene) -> None:
    scene.watch.observe("tree", waiting=0, position=1)
    scene.look_after(10_000)
    assert scene.ages() == {"tree": 0}
    scene.watch.observe("tree", waiting=20, position=1)
    scene.look_after(5)
    assert scene.ages() == {"tree": 5}
    assert scene.lines == []
    assert not scene.board.problems


def test_watch__work_waits__writes_one_line_per_interval_and_turns_the_board_red(scene: Scene) -> None:
    scene.watch.observe("tree", waiting=20, position=1)
    for _ in range(60):
        scene.look_after(1)
    assert [line["seconds"] for line in scene.lines] == [10, 40]
    line = scene.lines[0]
    assert (line["event"], line["tree"], line["kind"], line["waiting"]) == ("no_progress", "tree", "StateV2", 20)
    assert (line["cause"], line["remedy"]) == ("unknown", REMEDIES[Cause.UNKNOWN])
    (problem,) = scene.board.problems
    assert problem.condition == "progress"
    assert "StateV2 tree for 60 s (unknown)" in problem.reason


@pytest.mark.parametrize("by_us", [True, False])
def test_watch__tree_moves__begins_again(scene: Scene, by_us: bool) -> None:
    scene.watch.observe("tree", waiting=20, position=1)
    scene.look_after(100)
    assert scene.board.problems
    if by_us:
        scene.watch.worked("tree", 10)
    else:
        scene.watch.observe("tree", waiting=10, position=2)
    scene.look_after(3)
    assert scene.ages() == {"tree": 3}
    assert not scene.board.problems
    scene.look_after(7)
    assert [line["seconds"] for line in scene.lines] == [100, 10]


def test_watch__trees_come_and_go__labels_follow(scene: Scene) -> None:
    for number in range(100):
        scene.watch.follow({f"tree {number}": "AddressV2"})
        scene.watch.observe(f"tree {number}", waiting=1, position=1)
        scene.look_after(1)
    scene.watch.worked("unknown", 1, Cause.CONGESTION)
    scene.watch.observe("unknown", waiting=1, position=1)
    assert set(scene.ages()) == {"tree 99"}


def test_watch__failures_of_rounds_and_timeouts__lead_the_line(scene: Scene) -> None:
    scene.watch.observe("tree", waiting=20, position=1)
    scene.metrics.failed.labels("confirmation_timeout").inc()
    scene.look_after(10)
    scene.watch.worked("tree", 0, Cause.INVALID_PROOF)
    scene.look_after(30)
    scene.watch.set_epoch(in_transition=True)
    scene.look_after(30)
    scene.watch.worked("tree", 0, Cause.ROLLOVER_NEEDED)
    scene.look_after(30)
    assert [line["cause"] for line in scene.lines] == [
        "congestion",
        "invalid proof",
        "epoch transition",
        "rollover needed",
    ]


def test_watch__prover_lacks_the_key_of_an_unusual_batch_size__reports_the_tree_and_stays_healthy(
    scene: Scene,
) -> None:
    scene.watch.follow({"tree": "StateV2", "foreign": "StateV2"})
    scene.watch.observe("tree", waiting=0, position=1, zkp_batch_size=500)
    scene.watch.observe("foreign", waiting=200, position=1, zkp_batch_size=100)
    scene.watch.worked("foreign", 0, Cause.NO_KEY)
    scene.watch.set_epoch(in_transition=True)
    scene.look_after(100)
    (line,) = scene.lines
    assert (line["tree"], line["cause"], line["remedy"]) == ("foreign", "no proving key", REMEDIES[Cause.NO_KEY])
    assert not scene.board.problems
    assert [view.cause for view in scene.watch.trees] == [None, "no proving key"]
    assert scene.unprovable() == {"tree": 0, "foreign": 1}
    scene.watch.observe("tree", waiting=500, position=1, zkp_batch_size=500)
    scene.look_after(60)
    (problem,) = scene.board.problems
    assert "StateV2 tree for 60 s" in problem.reason, "another tree makes no progress either"
    assert "foreign" not in problem.reason
    scene.watch.worked("foreign", 100)
    scene.look_after(1)
    assert scene.unprovable() == {"tree": 0, "foreign": 0}


def test_watch__prover_lacks_the_keys_of_all_batch_sizes_of_a_kind__turns_the_board_red(scene: Scene) -> None:
    scene.watch.follow({"tree": "StateV2", "idle": "StateV2", "other": "AddressV2", "v1": "StateV1"})
    for address in ("tree", "idle"):
        scene.watch.observe(address, waiting=500 * (address == "tree"), position=1, zkp_batch_size=500)
    scene.watch.worked("tree", 0, Cause.NO_KEY)
    scene.look_after(100)
    (problem,) = scene.board.problems
    assert "StateV2 tree for 100 s (no proving key)" in problem.reason
    assert scene.unprovable() == {"tree": 1, "idle": 1, "other": 0, "v1": 0}


@pytest.mark.parametrize(
    ("evidence", "cause"),
    [
        (Evidence(), Cause.UNKNOWN),
        (Evidence(rollover_due=True), Cause.ROLLOVER_NEEDED),
        (Evidence(rollover_due=True, timeouts=1), Cause.CONGESTION),
        (Evidence({Cause.ROLLOVER_NEEDED: 1, Cause.INVALID_PROOF: 9}, epoch_in_transition=True), Cause.ROLLOVER_NEEDED),
        (Evidence({Cause.INVALID_PROOF: 9}, epoch_in_transition=True), Cause.EPOCH_TRANSITION),
        (Evidence({Cause.INVALID_PROOF: 2, Cause.CONGESTION: 2}), Cause.INVALID_PROOF),
        (Evidence({Cause.NO_KEY: 2, Cause.CONGESTION: 2}, epoch_in_transition=True), Cause.NO_KEY),
        (Evidence({Cause.NO_KEY: 1, Cause.CONGESTION: 2}), Cause.CONGESTION),
        (Evidence({Cause.INVALID_PROOF: 2, Cause.CONGESTION: 3}), Cause.CONGESTION),
        (Evidence({Cause.EPOCH_TRANSITION: 3, Cause.CONGESTION: 2}, rollover_due=True), Cause.EPOCH_TRANSITION),
    ],
)
def test_likely_cause__evidence__is_weighed(evidence: Evidence, cause: Cause) -> None:
    assert likely_cause(evidence) is cause


counts = st.dictionaries(st.sampled_from(Cause), st.integers(0, 5))


@given(counts, st.booleans(), st.booleans(), st.integers(0, 3))
def test_likely_cause__any_evidence__is_one_that_has_some(
    symptoms: dict[Cause, int], rollover_due: bool, in_transition: bool, timeouts: int
) -> None:
    cause = likely_cause(Evidence(symptoms, rollover_due, in_transition, timeouts))
    supported = {
        Cause.ROLLOVER_NEEDED: symptoms.get(Cause.ROLLOVER_NEEDED, 0) or rollover_due,
        Cause.EPOCH_TRANSITION: symptoms.get(Cause.EPOCH_TRANSITION, 0) or in_transition,
        Cause.NO_KEY: symptoms.get(Cause.NO_KEY, 0),
        Cause.INVALID_PROOF: symptoms.get(Cause.INVALID_PROOF, 0),
        Cause.CONGESTION: symptoms.get(Cause.CONGESTION, 0) or timeouts,
    }
    if cause is Cause.UNKNOWN:
        assert not any(supported.values())
    else:
        assert supported[cause]


def refused(code: int, program: str = COMPRESSION) -> TransactionRefused:
    return TransactionRefused("refused", program=program, code=code, instruction=0)


@pytest.mark.parametrize(
    ("failure", "symptom"),
    [
        (None, None),
        (RateLimited("429"), Cause.CONGESTION),
        (EndpointTimedOut("slow"), Cause.CONGESTION),
        (ProofTimedOut(), None),
        (ProverRefused(503, "key_not_found", "not found", retryable=True), Cause.NO_KEY),
        (ProverRefused(503, "circuit_disabled", "disabled", retryable=False), Cause.NO_KEY),
        (ProverRefused(400, "proving_error", "append: no key file mapping for append", retryable=False), Cause.NO_KEY),
        (ProofFailed("job", "proving key file not found: batch_append_32_100.key", retryable=True), Cause.NO_KEY),
        (ProverRefused(400, "proving_error", "constraint is not satisfied", retryable=False), None),
        (ProverRefused(503, "overloaded", "busy", retryable=True), None),
        (TransactionRefused("AccountInUse"), None),
        (refused(13006), Cause.INVALID_PROOF),
        (refused(10010), Cause.INVALID_PROOF),
        (refused(11001), Cause.INVALID_PROOF),
        (refused(14310), Cause.ROLLOVER_NEEDED),
        (refused(14301), None),
        (refused(6004, REGISTRY), Cause.EPOCH_TRANSITION),
        (refused(6011, REGISTRY), Cause.EPOCH_TRANSITION),
        (refused(6004), None),
    ],
)
def test_symptom_of__failure_of_a_round__points_to_a_cause(
    failure: ForesterError | None, symptom: Cause | None
) -> None:
    assert symptom_of(failure) is symptom


def test_timeouts__that_congestion_is_read_from__are_reasons_that_the_sender_counts() -> None:
    assert set(progress._TIMEOUTS) == {Fate.EXPIRED.value, Fate.DEADLINE_PASSED.value}
