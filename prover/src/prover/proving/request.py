"""Reading of request bodies: envelope, circuit, types, numbers and array lengths, checked in this order.

These checks need no key and no proof.
"""

from collections.abc import Container
from typing import Final

from msgspec import Struct

from prover.errors import BodyTooLarge, CircuitNotPublished, CircuitUnknown, MalformedRequest
from prover.proving.assignment import Assignment, read_numbers, read_public_numbers
from shared.process.logs import get_logger
from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.json_compact import JsonTooLong, count_commas
from shared.requests.proof_wire import (
    Envelope,
    MerkleRequest,
    UnknownCircuitType,
    WireError,
    batch_circuit,
    compact_body,
)

_log = get_logger(__name__)

MAXIMUM_VALUES: Final = 1 << 16
"""A body with more values is refused: each costs many times its length in memory and time. Address-append 250 has
21,007, the maximum of the published circuits."""

MAXIMUM_COMPACT_BYTES: Final = 2 * 2**20
"""Maximum size of a body without blanks and unknown members. Address-append 250 has 1.4 million."""

_PREFIX = {
    CircuitKind.INCLUSION: "inclusion proof",
    CircuitKind.NON_INCLUSION: "non-inclusion proof",
    CircuitKind.COMBINED: "combined proof",
    CircuitKind.BATCH_APPEND: "batch append",
    CircuitKind.BATCH_UPDATE: "batch update",
    CircuitKind.BATCH_ADDRESS_APPEND: "batch address append",
}


class ProofTask(Struct, frozen=True):
    """A well-formed request: its circuit and its inputs."""

    circuit: CircuitId
    assignment: Assignment


def compact(body: bytes | bytearray) -> bytes | bytearray:
    """Return a body without members that no circuit needs, itself if it has none.

    Releases the interpreter lock, which decoders hold. Raises MalformedRequest, and BodyTooLarge when more remains than
    any request has.
    """
    try:
        return compact_body(body, MAXIMUM_COMPACT_BYTES)
    except JsonTooLong as error:
        raise BodyTooLarge(f"the request body is larger than that of any circuit: {error}", path="$") from error
    except WireError as error:
        raise MalformedRequest(str(error), path=error.path) from error


def is_readable(body: bytes | bytearray) -> bool:
    """Return True if a body has few enough bytes and values to be read as it is, without being compacted."""
    # Every value but the first of its container follows a comma.
    return len(body) <= MAXIMUM_COMPACT_BYTES and count_commas(body) < MAXIMUM_VALUES


def read_envelope(body: bytes | bytearray) -> Envelope:
    """Return the envelope, which names the circuit family. Raises MalformedRequest or CircuitUnknown."""
    if count_commas(body) >= MAXIMUM_VALUES:
        raise MalformedRequest(f"the body has more than {MAXIMUM_VALUES} values", path="$")
    return read_readable_envelope(body)


def read_readable_envelope(body: bytes | bytearray) -> Envelope:
    """Return the envelope of a body that ``is_readable``; raises as ``read_envelope``."""
    try:
        return Envelope.read(body)
    except UnknownCircuitType as error:
        raise CircuitUnknown(str(error), circuit_type=error.circuit_type) from error
    except WireError as error:
        raise MalformedRequest(str(error), path=error.path) from error


def read_task(envelope: Envelope, known: Container[CircuitId] | None) -> ProofTask:
    """Read the other members of a body; raises MalformedRequest, CircuitNotPublished or ShapeMismatch.

    ``known`` None accepts circuits of any size. The circuit of a merkle request is checked before its
    members, that of a batch request after them, in the order that existing clients expect.
    """
    if not envelope.kind.is_batch:
        _require_known(envelope.circuit, known)
    try:
        request, values = read_numbers(envelope.members, envelope.kind, envelope.version)
    except WireError as error:
        raise MalformedRequest(str(error), path=error.path) from error
    if isinstance(request, MerkleRequest):
        circuit = envelope.circuit
    else:
        circuit = batch_circuit(request)
        _require_known(circuit, known)
    assignment = values.assign(circuit)
    if assignment.reduced:
        _log.warning("request_numbers_reduced", circuit=circuit.name, paths=assignment.reduced)
    return ProofTask(circuit, assignment)


def read_public_inputs(envelope: Envelope) -> bytes | None:
    """Return the public inputs of a request, 32 bytes each, equal to those of ``read_task``, without its other members.

    None if they cannot be read; such a request has no proof.
    """
    try:
        return read_public_numbers(envelope.members, envelope.kind, envelope.version)
    except (WireError, MalformedRequest):
        return None


def _require_known(circuit: CircuitId, known: Container[CircuitId] | None) -> None:
    prefix = _PREFIX[circuit.kind]
    if not circuit.kind.is_batch and not any(circuit.sizes):
        raise CircuitNotPublished(
            f"{prefix}: invalid parameters: must specify either inclusion or non-inclusion accounts"
        )
    if circuit in known if known is not None else all(circuit.sizes + circuit.heights):
        return
    if circuit.kind.is_batch:
        wanted = f"{circuit.kind} with height {circuit.heights[0]} and batch size {circuit.sizes[0]}"
    else:
        pairs = list(zip(circuit.heights, circuit.sizes, strict=True))
        state = pairs[0] if circuit.kind is not CircuitKind.NON_INCLUSION else (0, 0)
        address = pairs[-1] if circuit.kind is not CircuitKind.INCLUSION else (0, 0)
        wanted = f"parameters: inc({state[0]},{state[1]}) non({address[0]},{address[1]}) v{circuit.version}"
    raise CircuitNotPublished(f"{prefix}: no key file mapping for {wanted}")
