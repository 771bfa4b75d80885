"""Input vectors of requests, read member by member in the order of ``shared.circuit_inputs``.

Numbers are read first, so a misspelt number is reported even when shapes are wrong too; then the length of every
array is compared with the circuit. Values pass through unchanged: wrong roots or hashes surface as unsatisfied
constraints.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prover.errors import MalformedRequest, ShapeMismatch
from shared.circuit_id import CircuitId, CircuitKind
from shared.circuit_inputs import PUBLIC_INPUT_HASH, CircuitInput, inputs_of
from shared.field import FIELD_BYTES, InvalidNumber, parse_canonical, parse_scalar, scalar_bytes
from shared.proof_wire import (
    BatchAppendRequest,
    BatchUpdateRequest,
    InclusionRequest,
    NonInclusionRequest,
    ProofRequest,
)

_MAXIMUM_REPORTED_PATHS = 8


@dataclass(frozen=True)
class Assignment:
    """Input values of one proof, 32 bytes each: all ``inputs``, which begin with the ``public_inputs``.

    ``reduced`` holds JSON paths of numbers outside the field, which were reduced modulo r.
    """

    inputs: bytes
    public_inputs: bytes
    reduced: tuple[str, ...]


@dataclass
class UncheckedAssignment:
    """Values whose numbers are parsed and whose array lengths are not checked yet: the rows of each input.

    A scalar and a vector have one row.
    """

    columns: list[tuple[CircuitInput, list[bytes]]] = field(default_factory=list)
    reduced: list[str] = field(default_factory=list)

    @property
    def public_inputs(self) -> bytes:
        """Values of the public inputs."""
        return b"".join(row for each, rows in self.columns if each.is_public for row in rows)

    def assign(self, circuit: CircuitId) -> Assignment:
        """Check every array against the circuit and flatten; raises ShapeMismatch."""
        for each, rows in self.columns:
            _check_shape(each, rows, each.shape(circuit))
        inputs = b"".join(row for _, rows in self.columns for row in rows)
        return Assignment(inputs, self.public_inputs, tuple(self.reduced))

    def read(self, each: CircuitInput, given: Any) -> None:
        """Read the numbers of an input as a request has them; raises MalformedRequest with the path of a wrong one."""
        match each.dimensions:
            case 0:
                rows = [scalar_bytes(given) if each.is_index else self._number(given, each)]
            case 1:
                rows = [self._row(each, given)]
            case _:
                rows = [self._row(each, row, number) for number, row in enumerate(given)]
        self.columns.append((each, rows))

    def _row(self, each: CircuitInput, given: Sequence[Any], *position: int) -> bytes:
        if each.is_index:
            return b"".join(map(scalar_bytes, given))
        return parse_canonical(given) or b"".join(
            [self._number(text, each, *position, number) for number, text in enumerate(given)]
        )

    def _number(self, text: str, each: CircuitInput, *position: int) -> bytes:
        try:
            data, canonical = parse_scalar(text)
        except InvalidNumber as error:
            path = each.path(*position)
            raise MalformedRequest(f"{error} at {path}", path=path) from error
        if not canonical and len(self.reduced) < _MAXIMUM_REPORTED_PATHS:
            self.reduced.append(each.path(*position))
        return data


def read_numbers(request: ProofRequest, version: int, *, public_only: bool = False) -> UncheckedAssignment:
    """Read the numbers of a request for version 1 or 2 of its circuit; raises MalformedRequest."""
    numbers = UncheckedAssignment()
    for each in inputs_of(CircuitKind(request.circuit_type), version):
        if each.is_public or not public_only:
            is_hash = each.name == PUBLIC_INPUT_HASH
            numbers.read(each, _public_input_hash(each, request) if is_hash else each.values_in(request))
    match request:
        case BatchAppendRequest():
            _check_equal_lengths({"leaves": request.leaves, "oldLeaves": request.old_leaves})
        case BatchUpdateRequest():
            _check_equal_lengths(
                {"leaves": request.leaves, "oldLeaves": request.old_leaves, "txHashes": request.tx_hashes}
            )
    return numbers


def _public_input_hash(each: CircuitInput, request: ProofRequest) -> str:
    if isinstance(request, InclusionRequest | NonInclusionRequest):
        # A missing hash counts as 0, as in the reference; the first constraint then fails.
        return request.public_input_hash or "0"
    if request.public_input_hash is None:
        raise MalformedRequest(f"publicInputHash is missing at {each.path()}", path=each.path())
    return request.public_input_hash


def _check_equal_lengths(arrays: dict[str, tuple[str, ...]]) -> None:
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}={length}" for name, length in lengths.items())
        raise MalformedRequest(f"array length mismatch: {listed}", path="$")


def _check_shape(each: CircuitInput, rows: Sequence[bytes], shape: tuple[int, ...]) -> None:
    match shape:
        case (size,):
            _check_size(each, len(rows[0]) // FIELD_BYTES, size)
        case (size, height):
            _check_size(each, len(rows), size)
            for number, row in enumerate(rows):
                if len(row) != height * FIELD_BYTES:
                    path, length = each.path(number), len(row) // FIELD_BYTES
                    raise ShapeMismatch(
                        f"wrong size of merkle proof for proof {number + 1}: {length}, expected: {height} at {path}",
                        path=path,
                    )


def _check_size(each: CircuitInput, length: int, size: int) -> None:
    if length != size:
        noun = re.sub("(?!^)[A-Z]", lambda capital: f" {capital[0]}", each.name).lower()
        raise ShapeMismatch(f"wrong number of {noun}: {length}, expected: {size} at {each.path()}", path=each.path())
