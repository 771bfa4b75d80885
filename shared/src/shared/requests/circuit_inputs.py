"""Inputs of circuits: their order, their shapes, and the members of requests that have their values.

The compiler of circuits, the reader and the builders of requests, the checks before a proof and the reference pages
(prover/docs/reference/circuits.md, "Input order") all use this table.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from math import prod
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.proof_wire import ProofRequest
from shared.trees.field import format_number

Value = TypeVar("Value")
Request = TypeVar("Request", bound=ProofRequest)

PUBLIC_INPUT_HASH: Final = "PublicInputHash"
"""Input of version 2 alone."""
NEXT_INDICES: Final = "NextIndices"
"""Input of version 1 alone."""
INCLUSION_PART: Final = "Inclusion_"
NON_INCLUSION_PART: Final = "NonInclusion_"
"""Beginnings of the names of a combined circuit's inputs."""


class CircuitInput(Struct, frozen=True):
    """A named input of a circuit: a scalar, a vector or a matrix, by the number of ``[]`` in its ``member``.

    ``name`` is that of the reference's circuit. ``member`` is the path of the values in a request, as ``leaves[]`` or
    ``newAddresses[].pathElements[]``. An index is a number in JSON, any other value a field element. ``part`` is the
    position of the input's height and size in those of the circuit.
    """

    name: str
    member: str
    is_index: bool = False
    is_public: bool = False
    part: int = 0

    @property
    def dimensions(self) -> int:
        """Number of dimensions: 0 for a scalar, 1 for a vector, 2 for a matrix."""
        return self.member.count("[]")

    def shape(self, circuit: CircuitId) -> tuple[int, ...]:
        """Return the number of elements in each dimension."""
        return (circuit.sizes[self.part], circuit.heights[self.part])[: self.dimensions]

    def wire_names(self, circuit: CircuitId) -> list[str]:
        """Return the names of the elements, row by row: the name of the input and their indices."""
        positions = product(*map(range, self.shape(circuit)))
        return ["_".join((self.name, *map(str, position))) for position in positions]

    def path(self, *position: int) -> str:
        """Return the JSON path of an element, of a row, or without a position that of the outermost array."""
        pieces = self.member.split("[]")
        indexed = [f"{piece}[{index}]" for piece, index in zip(pieces, position, strict=False)]
        return f"$.{''.join(indexed)}{pieces[len(position)]}"

    def values_in(self, request: ProofRequest) -> Any:
        """Return the values as a request has them: texts, or numbers of an index, in arrays by the dimensions."""
        outer, *inner = _attributes(self.member)
        values = getattr(request, outer)
        return [getattr(element, inner[0]) for element in values] if inner else values


@cache
def _attributes(member: str) -> list[str]:
    """Return the attribute of a request that has the values of a member, and that of the elements of an array."""
    snake_case = re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", member)
    return snake_case.replace("[]", "").split(".")


def inputs_of(kind: CircuitKind, version: int) -> tuple[CircuitInput, ...]:
    """Return the inputs of a circuit family in the order of their wires, public ones first."""
    return _INPUTS[kind, version]


def positions_of(circuit: CircuitId) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Return the position of the first element of each input, in the order of the wires, and the shape of the input."""
    positions: dict[str, tuple[int, tuple[int, ...]]] = {}
    start = 0
    for each in inputs_of(circuit.kind, circuit.version):
        shape = each.shape(circuit)
        positions[each.name] = start, shape
        start += prod(shape)
    return positions


class NamedValues(Generic[Value]):
    """Values of all inputs of a circuit, found by the names of the inputs."""

    def __init__(self, circuit: CircuitId, values: list[Value]) -> None:
        """Name ``values``, which are in the order of the wires."""
        self._values = values
        self._positions = positions_of(circuit)

    def __contains__(self, name: str) -> bool:
        return name in self._positions

    def scalar(self, name: str) -> Value:
        """Return the value of a scalar."""
        start, () = self._positions[name]
        return self._values[start]

    def vector(self, name: str) -> list[Value]:
        """Return the elements of a vector."""
        start, (size,) = self._positions[name]
        return self._values[start : start + size]

    def matrix(self, name: str) -> list[list[Value]]:
        """Return the rows of a matrix."""
        start, (rows, columns) = self._positions[name]
        return [self._values[start + row * columns : start + (row + 1) * columns] for row in range(rows)]


def request_of(model: type[Request], circuit: CircuitId, values: Mapping[str, Any]) -> Request:
    """Return the request of a circuit with ``values`` by the names of the inputs: 32 bytes, or numbers of an index.

    ``model`` is the type of the requests of the circuit's kind. Raises ValueError for values that are missing, have
    other names, or have another shape than their input.
    """
    inputs = inputs_of(circuit.kind, circuit.version)
    if unlike := values.keys() ^ {each.name for each in inputs}:
        raise ValueError(f"inputs of {circuit} that are missing or unknown: {', '.join(sorted(unlike))}")
    members: dict[str, Any] = dict(zip(_HEIGHT_MEMBERS[circuit.kind], circuit.heights, strict=True))
    if circuit.kind.is_batch:
        members["batchSize"] = circuit.sizes[0]
    for each in inputs:
        written = _written(each, values[each.name], each.shape(circuit))
        outer, *inner = each.member.replace("[]", "").split(".")
        if not inner:
            members[outer] = written
            continue
        for element, value in zip(members.setdefault(outer, [{} for _ in written]), written, strict=True):
            element[inner[0]] = value
    return msgspec.convert(members, model)


def _written(each: CircuitInput, values: Any, shape: tuple[int, ...]) -> Any:
    """Return values as a request has them."""
    write: Callable[[Any], Any] = int if each.is_index else format_number
    if not shape:
        return write(values)
    if len(values) != shape[0]:
        raise ValueError(f"{each.name}: {len(values)} elements in place of {shape[0]}")
    return list(map(write, values)) if len(shape) == 1 else [_written(each, row, shape[1:]) for row in values]


_HEIGHT_MEMBERS: Final = {
    CircuitKind.INCLUSION: ("stateTreeHeight",),
    CircuitKind.NON_INCLUSION: ("addressTreeHeight",),
    CircuitKind.COMBINED: ("stateTreeHeight", "addressTreeHeight"),
    CircuitKind.BATCH_APPEND: ("height",),
    CircuitKind.BATCH_UPDATE: ("height",),
    CircuitKind.BATCH_ADDRESS_APPEND: ("treeHeight",),
}
"""Members of a request that have the heights of the circuit's trees."""

_HASH = CircuitInput(PUBLIC_INPUT_HASH, "publicInputHash", is_public=True)
_CLAIMS = frozenset({"Roots", "Leaves", "Values"})
"""Inputs of merkle circuits that version 1 makes public; version 2 hashes them into the one public input."""

_ACCOUNTS = (
    CircuitInput("Roots", "inputCompressedAccounts[].root"),
    CircuitInput("Leaves", "inputCompressedAccounts[].leaf"),
    CircuitInput("InPathIndices", "inputCompressedAccounts[].pathIndex", is_index=True),
    CircuitInput("InPathElements", "inputCompressedAccounts[].pathElements[]"),
)
_ADDRESSES = (
    CircuitInput("Roots", "newAddresses[].root"),
    CircuitInput("Values", "newAddresses[].value"),
    CircuitInput("LeafLowerRangeValues", "newAddresses[].leafLowerRangeValue"),
    CircuitInput("LeafHigherRangeValues", "newAddresses[].leafHigherRangeValue"),
    CircuitInput(NEXT_INDICES, "newAddresses[].nextIndex", is_index=True),
    CircuitInput("InPathIndices", "newAddresses[].pathIndex", is_index=True),
    CircuitInput("InPathElements", "newAddresses[].pathElements[]"),
)
_APPEND = (
    _HASH,
    CircuitInput("OldRoot", "oldRoot"),
    CircuitInput("NewRoot", "newRoot"),
    CircuitInput("LeavesHashchainHash", "leavesHashchainHash"),
    CircuitInput("StartIndex", "startIndex", is_index=True),
    CircuitInput("OldLeaves", "oldLeaves[]"),
    CircuitInput("Leaves", "leaves[]"),
    CircuitInput("MerkleProofs", "merkleProofs[][]"),
)
_UPDATE = (
    _HASH,
    CircuitInput("OldRoot", "oldRoot"),
    CircuitInput("NewRoot", "newRoot"),
    CircuitInput("LeavesHashchainHash", "leavesHashchainHash"),
    CircuitInput("TxHashes", "txHashes[]"),
    CircuitInput("Leaves", "leaves[]"),
    CircuitInput("OldLeaves", "oldLeaves[]"),
    CircuitInput("MerkleProofs", "newMerkleProofs[][]"),
    CircuitInput("PathIndices", "pathIndices[]", is_index=True),
)
_ADDRESS_APPEND = (
    _HASH,
    CircuitInput("OldRoot", "oldRoot"),
    CircuitInput("NewRoot", "newRoot"),
    CircuitInput("HashchainHash", "hashchainHash"),
    CircuitInput("StartIndex", "startIndex", is_index=True),
    CircuitInput("LowElementValues", "lowElementValues[]"),
    CircuitInput("LowElementNextValues", "lowElementNextValues[]"),
    CircuitInput("LowElementIndices", "lowElementIndices[]"),
    CircuitInput("LowElementProofs", "lowElementProofs[][]"),
    CircuitInput("NewElementValues", "newElementValues[]"),
    CircuitInput("NewElementProofs", "newElementProofs[][]"),
)


def _merkle(version: int, *parts: tuple[str, Sequence[CircuitInput]]) -> tuple[CircuitInput, ...]:
    """Return the inputs of a merkle circuit, whose parts have prefixes of names."""
    inputs = [_HASH] if version == 2 else []
    for number, (prefix, part) in enumerate(parts):
        for each in part:
            is_public = version == 1 and each.name in _CLAIMS
            if version == 1 or each.name != NEXT_INDICES:
                inputs.append(replace(each, name=prefix + each.name, is_public=is_public, part=number))
    return tuple(sorted(inputs, key=lambda each: not each.is_public))


_INPUTS: Final = {
    (CircuitKind.BATCH_APPEND, 2): _APPEND,
    (CircuitKind.BATCH_UPDATE, 2): _UPDATE,
    (CircuitKind.BATCH_ADDRESS_APPEND, 2): _ADDRESS_APPEND,
}
for _version in (1, 2):
    _INPUTS[CircuitKind.INCLUSION, _version] = _merkle(_version, ("", _ACCOUNTS))
    _INPUTS[CircuitKind.NON_INCLUSION, _version] = _merkle(_version, ("", _ADDRESSES))
    _INPUTS[CircuitKind.COMBINED, _version] = _merkle(
        _version, (INCLUSION_PART, _ACCOUNTS), (NON_INCLUSION_PART, _ADDRESSES)
    )
