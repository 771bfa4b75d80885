"""Run modes: the published circuits that a prover in a given role proves and needs keys for."""

import enum

from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS, TEST_BATCH, smallest_first
from shared.requests.circuit_id import CircuitId, CircuitKind

_INCLUSION, _NON_INCLUSION = frozenset({CircuitKind.INCLUSION}), frozenset({CircuitKind.NON_INCLUSION})
_MERKLE = _INCLUSION | _NON_INCLUSION | {CircuitKind.COMBINED}


class RunMode(enum.StrEnum):
    """Roles of a prover, by the names of the reference."""

    LOCAL_RPC = "local-rpc"
    RPC = "rpc"
    FORESTER = "forester"
    FORESTER_TEST = "forester-test"
    FULL = "full"
    FULL_TEST = "full-test"


class KeySet(enum.StrEnum):
    """Table of the circuits of each run mode.

    That of the specification gives a mode the circuits that its role proves. The reference downloads wider sets, for
    example the keys of clients for its forester modes, but no batch keys for ``local-rpc`` and none of production size
    for ``full-test``.
    """

    SPECIFICATION = "specification"
    REFERENCE = "reference"


def circuits_of(mode: RunMode, key_set: KeySet = KeySet.SPECIFICATION) -> list[CircuitId]:
    """Return the circuits of a run mode, the smallest first."""
    needs = _needs if key_set is KeySet.SPECIFICATION else _reference_needs
    return smallest_first(circuit for circuit in PUBLISHED_CIRCUITS if needs(mode, circuit))


def _needs(mode: RunMode, circuit: CircuitId) -> bool:
    is_test = circuit.kind.is_batch and circuit.sizes == (TEST_BATCH,)
    match mode:
        case RunMode.LOCAL_RPC:
            return is_test or _is_local(circuit)
        case RunMode.RPC:
            return circuit.kind in _MERKLE
        case RunMode.FORESTER:
            return circuit.kind.is_batch and not is_test
        case RunMode.FORESTER_TEST:
            return is_test
        case RunMode.FULL:
            return not is_test
        case RunMode.FULL_TEST:
            return True


def _reference_needs(mode: RunMode, circuit: CircuitId) -> bool:
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
