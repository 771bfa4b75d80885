"""Input vectors of requests, read member by member in the order of ``shared.requests.circuit_inputs``.

Numbers are read first, so a misspelt number is reported even when shapes are wrong too; then the length of every
array is compared with the circuit. Values pass through unchanged: wrong roots or hashes surface as unsatisfied
constraints.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from prover.errors import MalformedRequest, ShapeMismatch
from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.circuit_inputs import PUBLIC_INPUT_HASH, CircuitInput, inputs_of
from shared.requests.json_elements import Elements, read_elements
from shared.requests.proof_wire import InclusionRequest, Members, NonInclusionRequest, ProofRequest, decode_request
from shared.trees.field import FIELD_BYTES, InvalidNumber, parse_scalar, scalar_bytes

_MAXIMUM_REPORTED_PATHS = 8
_PARALLEL_ARRAYS: Final = {
    CircuitKind.BATCH_APPEND: ("leaves", "oldLeaves"),
    CircuitKind.BATCH_UPDATE: ("leaves", "oldLeaves", "txHashes"),
}
"""Arrays of batches that must be equally long."""


class Assignment(Struct, frozen=True):
    """Input values of one proof, 32 bytes each: all ``inputs``, which begin with the ``public_inputs``.

    ``reduced`` holds JSON paths of numbers outside the field, which were reduced modulo r.
    """

    inputs: bytes
    public_inputs: bytes
    reduced: tuple[str, ...]


class _Column(NamedTuple):
    """Elements of one input, and the number in each row; a scalar and a vector have one row."""

    input: CircuitInput
    data: bytes | memoryview
    lengths: list[int]


class UncheckedAssignment(Struct):
    """Values whose numbers are parsed and whose array lengths are not checked yet."""

    columns: list[_Column] = field(default_factory=list)
    reduced: list[str] = field(default_factory=list)

    @property
    def public_inputs(self) -> bytes:
        """Values of the public inputs."""
        return b"".join(column.data for column in self.columns if column.input.is_public)

    def assign(self, circuit: CircuitId) -> Assignment:
        """Check every array against the circuit and flatten; raises ShapeMismatch."""
        for column in self.columns:
            _check_shape(column, column.input.shape(circuit))
        inputs = b"".join([column.data for column in self.columns])
        return Assignment(inputs, self.public_inputs, tuple(self.reduced))

    def read(self, each: CircuitInput, request: ProofRequest) -> None:
        """Read the numbers of an input of a request; raises MalformedRequest with the path of a wrong one."""
        given: Any = _public_input_hash(each, request) if each.name == PUBLIC_INPUT_HASH else each.values_in(request)
        match each.dimensions:
            case 0:
                rows = [scalar_bytes(given) if each.is_index else self._number(given, each)]
            case 1:
                rows = [self._row(each, given)]
            case _:
                rows = [self._row(each, row, number) for number, row in enumerate(given)]
        self.columns.append(_Column(each, b"".join(rows), [len(row) // FIELD_BYTES for row in rows]))

    def _row(self, each: CircuitInput, given: Sequence[Any], *position: int) -> bytes:
        if each.is_index:
            return b"".join(map(scalar_bytes, given))
        return b"".join([self._number(text, each, *position, number) for number, text in enumerate(given)])

    def _number(self, text: str, each: CircuitInput, *position: int) -> bytes:
        try:
            data, canonical = parse_scalar(text)
        except InvalidNumber as error:
            path = each.path(*position)
            raise MalformedRequest(f"{error} at {path}", path=path) from error
        if not canonical and len(self.reduced) < _MAXIMUM_REPORTED_PATHS:
            self.reduced.append(each.path(*position))
        return data


def read_numbers(members: Members, kind: CircuitKind, version: int) -> tuple[ProofRequest, UncheckedAssignment]:
    """Read the members of a request for version 1 or 2 of its circuit. Raises WireError or MalformedRequest.

    Arrays of usually spelt numbers are read without an object per number; the returned request does not have them.
    """
    inputs = inputs_of(kind, version)
    arrays = {each.member: elements for each in inputs if (elements := _elements(each, members)) is not None}
    read = {member.partition("[")[0] for member in arrays}
    request = decode_request({name: raw for name, raw in members.items() if name not in read}, kind, version)
    numbers = UncheckedAssignment()
    for each in inputs:
        if each.member in arrays:
            numbers.columns.append(_Column(each, *arrays[each.member]))
        else:
            numbers.read(each, request)
    _check_equal_lengths(numbers.columns, _PARALLEL_ARRAYS.get(kind, ()))
    return request, numbers


def read_public_numbers(members: Members, kind: CircuitKind, version: int) -> bytes:
    """Return the public inputs of a request, 32 bytes each. Raises WireError or MalformedRequest."""
    inputs = [each for each in inputs_of(kind, version) if each.is_public]
    public = {each.member.partition("[")[0] for each in inputs}
    request = decode_request({name: raw for name, raw in members.items() if name in public}, kind, version)
    numbers = UncheckedAssignment()
    for each in inputs:
        numbers.read(each, request)
    return numbers.public_inputs


def _elements(each: CircuitInput, members: Members) -> Elements | None:
    """Return the elements of an input that is a member of its own with usually spelt numbers, None for others."""
    name, dimensions, nested = each.member.partition("[")
    if not dimensions or each.is_index or "." in nested or name not in members:
        return None
    return read_elements(members[name], nested=each.dimensions > 1)


def _public_input_hash(each: CircuitInput, request: ProofRequest) -> str:
    if isinstance(request, InclusionRequest | NonInclusionRequest):
        # A missing hash counts as 0, as in the reference; the first constraint then fails.
        return request.public_input_hash or "0"
    if request.public_input_hash is None:
        raise MalformedRequest(f"publicInputHash is missing at {each.path()}", path=each.path())
    return request.public_input_hash


def _check_equal_lengths(columns: Sequence[_Column], names: Sequence[str]) -> None:
    """Check that the vectors of these members are equally long."""
    lengths = {column.input.member: sum(column.lengths) for column in columns}
    compared = {name: lengths[f"{name}[]"] for name in names}
    if len(set(compared.values())) > 1:
        listed = ", ".join(f"{name}={length}" for name, length in compared.items())
        raise MalformedRequest(f"array length mismatch: {listed}", path="$")


def _check_shape(column: _Column, shape: tuple[int, ...]) -> None:
    each, _, lengths = column
    match shape:
        case (size,):
            _check_size(each, lengths[0], size)
        case (size, height):
            _check_size(each, len(lengths), size)
            for number, length in enumerate(lengths):
                if length != height:
                    path = each.path(number)
                    raise ShapeMismatch(
                        f"wrong size of merkle proof for proof {number + 1}: {length}, expected: {height} at {path}",
                        path=path,
                    )


def _check_size(each: CircuitInput, length: int, size: int) -> None:
    if length != size:
        noun = re.sub("(?!^)[A-Z]", lambda capital: f" {capital[0]}", each.name).lower()
        raise ShapeMismatch(f"wrong number of {noun}: {length}, expected: {size} at {each.path()}", path=each.path())
