"""Run modes: which published circuits a prover in a given role needs."""

import enum

from prover.keys.catalogue import PUBLISHED_CIRCUITS
from shared.circuit_id import CircuitId, CircuitKind

TEST_BATCH = 10
"""Elements of a batch in the circuits of test networks."""

_INCLUSION, _NON_INCLUSION = frozenset({CircuitKind.INCLUSION}), frozenset({CircuitKind.NON_INCLUSION})
_MERKLE = _INCLUSION | _NON_INCLUSION | {CircuitKind.COMBINED}


class RunMode(enum.StrEnum):
    """Names of the reference."""

    LOCAL_RPC = "local-rpc"
    RPC = "rpc"
    FORESTER = "forester"
    FORESTER_TEST = "forester-test"
    FULL = "full"
    FULL_TEST = "full-test"


def circuits_of(mode: RunMode) -> list[CircuitId]:
    """The circuits of a run mode, the small ones first."""
    chosen = (circuit for circuit in PUBLISHED_CIRCUITS if _needs(mode, circuit))
    return sorted(chosen, key=lambda circuit: (circuit.kind.is_batch, sum(circuit.sizes), circuit.name))


def _needs(mode: RunMode, circuit: CircuitId) -> bool:
    if mode is RunMode.LOCAL_RPC:
        return _is_local(circuit)
    if circuit.kind.is_batch:
        is_test = circuit.sizes == (TEST_BATCH,)
        if mode in (RunMode.FORESTER_TEST, RunMode.FULL_TEST):
            return is_test
        return mode in (RunMode.FORESTER, RunMode.FULL) and not is_test
    return circuit.kind in (_INCLUSION | _NON_INCLUSION if mode is RunMode.FORESTER else _MERKLE)


def _is_local(circuit: CircuitId) -> bool:
    if circuit.kind is CircuitKind.INCLUSION:
        return circuit.sizes[0] <= 4
    if circuit.kind is CircuitKind.NON_INCLUSION:
        return circuit.sizes[0] <= 2
    return circuit.kind is CircuitKind.COMBINED and circuit.sizes in ((1, 1), (1, 2), (2, 1))
