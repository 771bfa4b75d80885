"""The published circuits: every shape with a published proving key, and the names of their groups."""

from collections.abc import Iterable, Mapping

from shared.requests.circuit_id import KEY_SUFFIX, CircuitId, CircuitKind

TEST_BATCH = 10
"""Elements of a batch in the circuits of test networks."""

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


def _groups() -> dict[str, frozenset[CircuitId]]:
    groups: dict[str, frozenset[CircuitId]] = {}
    for kind in CircuitKind:
        members = frozenset(circuit for circuit in PUBLISHED_CIRCUITS if circuit.kind is kind)
        tests = frozenset(circuit for circuit in members if kind.is_batch and circuit.sizes == (TEST_BATCH,))
        groups[kind.value] = members - tests
        if tests:
            groups[f"{kind}-test"] = tests
    return groups


CIRCUIT_GROUPS: Mapping[str, frozenset[CircuitId]] = _groups()
"""Circuits by the names that select them: kinds at production size, and ``-test`` for batches of size 10."""


_EARLIER_GROUPS = {"append-with-proofs": "append", "append-with-proofs-test": "append-test"}
"""Names of groups in the reference's releases up to 0.27, which its launcher still passes."""


def group_named(name: str) -> frozenset[CircuitId] | None:
    """Return the circuits of a group by its current or earlier name, None if there is no such group."""
    return CIRCUIT_GROUPS.get(_EARLIER_GROUPS.get(name, name))


class UnknownCircuit(ValueError):
    """A name that is neither a group of circuits nor a published key."""


def circuits_named(names: Iterable[str]) -> frozenset[CircuitId]:
    """Return the circuits of groups (``update``, ``update-test``) and of single keys (``v2_inclusion_32_1``).

    Raises UnknownCircuit that lists the valid names.
    """
    chosen: set[CircuitId] = set()
    for name in names:
        single = CircuitId.from_key_file(name.removesuffix(KEY_SUFFIX) + KEY_SUFFIX)
        group = group_named(name)
        if group is not None:
            chosen |= group
        elif single in PUBLISHED_CIRCUITS:
            chosen.add(single)
        else:
            groups = ", ".join(CIRCUIT_GROUPS)
            raise UnknownCircuit(f"unknown circuit {name!r}; choose from {groups}, or name a key: v2_inclusion_32_1")
    return frozenset(chosen)


def smallest_first(circuits: Iterable[CircuitId]) -> list[CircuitId]:
    """Return circuits in the approximate order of the time and memory that their keys take."""
    return sorted(circuits, key=lambda circuit: (circuit.kind.is_batch, sum(circuit.sizes), circuit.name))
