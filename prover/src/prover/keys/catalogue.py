"""The published circuits: every shape for which a proving key exists somewhere."""

from shared.circuit_id import CircuitId, CircuitKind

_STATE_V1, _STATE_V2 = 26, 32
_ADDRESS_V1, _ADDRESS_V2 = 26, 40


def _published() -> frozenset[CircuitId]:
    circuits = [CircuitId(CircuitKind.INCLUSION, 1, (_STATE_V1,), (n,)) for n in (1, 2, 3, 4, 8)]
    circuits += [CircuitId(CircuitKind.INCLUSION, 2, (_STATE_V2,), (n,)) for n in range(1, 21)]
    circuits += [CircuitId(CircuitKind.NON_INCLUSION, 1, (_ADDRESS_V1,), (n,)) for n in (1, 2)]
    circuits += [CircuitId(CircuitKind.NON_INCLUSION, 2, (_ADDRESS_V2,), (n,)) for n in range(1, 33)]
    for version, heights, most_addresses in (
        (1, (_STATE_V1, _ADDRESS_V1), 2),
        (2, (_STATE_V2, _ADDRESS_V2), 4),
    ):
        circuits += [
            CircuitId(CircuitKind.COMBINED, version, heights, (accounts, addresses))
            for accounts in range(1, 5)
            for addresses in range(1, most_addresses + 1)
        ]
    for kind, height, production in (
        (CircuitKind.BATCH_APPEND, _STATE_V2, 500),
        (CircuitKind.BATCH_UPDATE, _STATE_V2, 500),
        (CircuitKind.BATCH_ADDRESS_APPEND, _ADDRESS_V2, 250),
    ):
        circuits += [CircuitId(kind, 2, (height,), (size,)) for size in (production, 10)]
    return frozenset(circuits)


PUBLISHED_CIRCUITS: frozenset[CircuitId] = _published()
"""All 89 circuits with a published proving key."""
