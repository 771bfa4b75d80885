"""Proof requests and proofs in JSON, and the decoder that both services use.

A body is split into its members, which are decoded when they are read. As in the reference a few members are read
first, without their types, and determine the circuit. The members of that circuit are then decoded strictly. Field
elements stay strings here; ``shared.trees.field`` turns them into bytes.

All errors are WireError: one sentence and a JSON path.
"""

import re
from typing import Annotated, Any, Final, Self

import msgspec

from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.json_compact import JsonCompaction, MalformedJson
from shared.requests.proof_wire_leniency import Decoded, decode_text, forget_nulls

U32 = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
# msgspec has no upper bound this large; decode_request checks it.
U64 = Annotated[int, msgspec.Meta(ge=0)]
_LARGEST_U64 = 2**64 - 1

_SHOWN_CHARACTERS = 80
_TRUNCATED = "Input data was truncated"
_SOMEWHERE = "[...]"
"""Path element of msgspec for elements of unknown types."""
_NULL_BODY = re.compile(rb"\s*null\s*")
_MSGSPEC_PLACE = re.compile(r" - at `(?P<path>\$[^`]*)`\Z")


class WireError(ValueError):
    """A body does not follow the wire format. ``path`` is a JSON path, ``$`` for the body."""

    def __init__(self, detail: str, path: str = "$") -> None:
        super().__init__(detail if path == "$" else f"{detail} at {path}")
        self.detail = detail
        self.path = path


class UnknownCircuitType(WireError):
    """``circuitType`` names none of the circuit families; ``circuit_type`` is its value, shortened."""

    def __init__(self, circuit_type: str) -> None:
        super().__init__(f"unknown circuit type: {circuit_type}", "$.circuitType")
        self.circuit_type = circuit_type


class _Wire(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base of all bodies. Unknown members are ignored, the last of duplicates wins."""


class InputCompressedAccount(_Wire, frozen=True):
    """Proof that a leaf is in a state tree; path from the leaf upwards."""

    root: str = ""
    path_index: U32 = 0
    path_elements: tuple[str, ...] = ()
    leaf: str = ""


class NewAddress(_Wire, frozen=True):
    """Proof that a value is absent from an address tree: its low element with its path."""

    root: str = ""
    value: str = ""
    path_index: U32 = 0
    path_elements: tuple[str, ...] = ()
    leaf_lower_range_value: str = ""
    leaf_higher_range_value: str = ""
    next_index: U32 = 0


class InclusionRequest(_Wire, frozen=True):
    """Leaves are in state trees."""

    circuit_type: str = CircuitKind.INCLUSION.value
    state_tree_height: U32 = 0
    public_input_hash: str | None = None
    input_compressed_accounts: tuple[InputCompressedAccount, ...] = ()


class NonInclusionRequest(_Wire, frozen=True):
    """Values are absent from address trees."""

    circuit_type: str = CircuitKind.NON_INCLUSION.value
    address_tree_height: U32 = 0
    public_input_hash: str | None = None
    new_addresses: tuple[NewAddress, ...] = ()


class CombinedRequest(_Wire, frozen=True):
    """Leaves are in state trees and values are absent from address trees."""

    circuit_type: str = CircuitKind.COMBINED.value
    state_tree_height: U32 = 0
    address_tree_height: U32 = 0
    public_input_hash: str | None = None
    input_compressed_accounts: tuple[InputCompressedAccount, ...] = ()
    new_addresses: tuple[NewAddress, ...] = ()


class BatchAppendRequest(_Wire, frozen=True):
    """A batch of leaves written to consecutive slots of a state tree."""

    circuit_type: str = CircuitKind.BATCH_APPEND.value
    height: U32 = 0
    batch_size: U32 = 0
    public_input_hash: str = ""
    old_root: str = ""
    new_root: str = ""
    leaves_hashchain_hash: str = ""
    start_index: U64 = 0
    old_leaves: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    merkle_proofs: tuple[tuple[str, ...], ...] = ()


class BatchUpdateRequest(_Wire, frozen=True):
    """A batch of leaves of a state tree replaced by their nullifiers."""

    circuit_type: str = CircuitKind.BATCH_UPDATE.value
    height: U32 = 0
    batch_size: U32 = 0
    public_input_hash: str = ""
    old_root: str = ""
    new_root: str = ""
    leaves_hashchain_hash: str = ""
    tx_hashes: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    old_leaves: tuple[str, ...] = ()
    new_merkle_proofs: tuple[tuple[str, ...], ...] = ()
    path_indices: tuple[U32, ...] = ()


class BatchAddressAppendRequest(_Wire, frozen=True):
    """A batch of values inserted into an address tree."""

    circuit_type: str = CircuitKind.BATCH_ADDRESS_APPEND.value
    tree_height: U32 = 0
    batch_size: U32 = 0
    public_input_hash: str = ""
    old_root: str = ""
    new_root: str = ""
    hashchain_hash: str = ""
    start_index: U64 = 0
    low_element_values: tuple[str, ...] = ()
    low_element_indices: tuple[str, ...] = ()
    low_element_next_values: tuple[str, ...] = ()
    new_element_values: tuple[str, ...] = ()
    low_element_proofs: tuple[tuple[str, ...], ...] = ()
    new_element_proofs: tuple[tuple[str, ...], ...] = ()


MerkleRequest = InclusionRequest | NonInclusionRequest | CombinedRequest
BatchRequest = BatchAppendRequest | BatchUpdateRequest | BatchAddressAppendRequest
ProofRequest = MerkleRequest | BatchRequest

REQUEST_TYPES: dict[CircuitKind, type[ProofRequest]] = {
    CircuitKind.INCLUSION: InclusionRequest,
    CircuitKind.NON_INCLUSION: NonInclusionRequest,
    CircuitKind.COMBINED: CombinedRequest,
    CircuitKind.BATCH_APPEND: BatchAppendRequest,
    CircuitKind.BATCH_UPDATE: BatchUpdateRequest,
    CircuitKind.BATCH_ADDRESS_APPEND: BatchAddressAppendRequest,
}
"""Type of the request of each circuit family."""
_REQUEST_DECODERS = {
    kind: [(field, msgspec.json.Decoder(field.type)) for field in msgspec.structs.fields(model)]
    for kind, model in REQUEST_TYPES.items()
}
_NUMBERS_OF_ELEMENTS: Final = ("pathIndex", "nextIndex")
"""Members of accounts and addresses that are 0 when absent."""
_NULL_NUMBER = "Expected `int`, got `null`"
_HASH = "publicInputHash"


class ProofJson(msgspec.Struct, frozen=True):
    """A proof: hexadecimal coordinates; of a pair in ``bs`` the imaginary part comes first."""

    ar: tuple[str, str]
    bs: tuple[tuple[str, str], tuple[str, str]]
    krs: tuple[str, str]


Members = dict[str, msgspec.Raw]
"""Members of a body by name, of which none is decoded."""

_NULL, _ABSENT = msgspec.Raw(b"null"), msgspec.Raw(b"")
_MEMBER_NAMES: Final = {
    "treeId",
    "batchIndex",
    *(field.encode_name for model in REQUEST_TYPES.values() for field in msgspec.structs.fields(model)),
}
_ELEMENT_NAMES: Final = {
    field.encode_name for model in (InputCompressedAccount, NewAddress) for field in msgspec.structs.fields(model)
}
# A structure, unlike a dictionary, passes over unknown members.
_MEMBERS_DECODER = msgspec.json.Decoder(
    msgspec.defstruct("_Members", [(name, msgspec.Raw, _ABSENT) for name in sorted(_MEMBER_NAMES)])
)
_LIST_DECODER = msgspec.json.Decoder(list[msgspec.Raw])
_ELEMENTS_DECODER = msgspec.json.Decoder(list[Any])
_COMPACTION = JsonCompaction(_MEMBER_NAMES | _ELEMENT_NAMES)
_PROOF_DECODER = msgspec.json.Decoder(ProofJson)
_PROOF_ENCODER = msgspec.json.Encoder()


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a body, of which those are read that select its circuit and queue.

    Heights, counts and sizes are 0 when absent or unusable.
    """

    members: Members
    kind: CircuitKind
    state_tree_height: int
    address_tree_height: int
    batch_height: int
    """``treeHeight`` of an address-append request, ``height`` of other batches."""
    batch_size: int
    has_public_input_hash: bool
    accounts: int
    addresses: int
    tree_id: str | None
    batch_index: int

    @classmethod
    def read(cls, body: bytes | bytearray) -> Self:
        """Return the envelope of a body. Raises WireError if it determines no circuit."""
        members = split_body(body)

        def member(name: str) -> msgspec.Raw:
            return members.get(name, _NULL)

        circuit_type = _text(member("circuitType"))
        if not circuit_type:
            raise WireError("missing or invalid 'circuitType'", "$.circuitType")
        state_height, address_height = _height(member("stateTreeHeight")), _height(member("addressTreeHeight"))
        tree_height, height = _height(member("treeHeight")), _height(member("height"))
        if not (state_height or address_height or tree_height or height):
            raise WireError("no positive 'addressTreeHeight', 'stateTreeHeight', 'treeHeight' or 'height'")
        try:
            kind = CircuitKind(circuit_type)
        except ValueError:
            raise UnknownCircuitType(circuit_type[:_SHOWN_CHARACTERS]) from None
        return cls(
            members=members,
            kind=kind,
            state_tree_height=int(state_height),
            address_tree_height=int(address_height),
            batch_height=int(tree_height if kind is CircuitKind.BATCH_ADDRESS_APPEND else height),
            batch_size=int(_height(member("batchSize"))),
            has_public_input_hash=bool(_text(member("publicInputHash"))),
            accounts=_length(member("inputCompressedAccounts")),
            addresses=_length(member("newAddresses")),
            tree_id=_text(member("treeId")) or None,
            batch_index=_index(member("batchIndex")),
        )

    @property
    def version(self) -> int:
        """Version of the circuit. The hash determines it for inclusion, the address height otherwise."""
        if self.kind is CircuitKind.INCLUSION:
            return 2 if self.has_public_input_hash else 1
        if self.kind in (CircuitKind.NON_INCLUSION, CircuitKind.COMBINED):
            return 2 if self.address_tree_height == 40 else 1
        return 2

    @property
    def circuit(self) -> CircuitId:
        """Circuit of the request, published or not; one that ``decode_request`` refuses may have another."""
        state = (self.state_tree_height, self.accounts)
        address = (self.address_tree_height, self.addresses)
        parts = {
            CircuitKind.INCLUSION: (state,),
            CircuitKind.NON_INCLUSION: (address,),
            CircuitKind.COMBINED: (state, address),
        }.get(self.kind, ((self.batch_height, self.batch_size),))
        heights, sizes = zip(*parts, strict=True)
        return CircuitId(self.kind, self.version, heights, sizes)


def compact_body(body: bytes | bytearray, limit: int) -> bytes | bytearray:
    """Return a body without whitespace and unknown members, itself if it has none, without the interpreter lock.

    Raises WireError for what is not JSON, JsonTooLong when more than ``limit`` bytes are left.
    """
    try:
        return _COMPACTION.compact(body, limit)
    except MalformedJson as error:
        raise WireError(f"failed to parse JSON: {error}") from error


def batch_circuit(request: BatchRequest) -> CircuitId:
    """Return the circuit of a batch request, published or not."""
    height = request.tree_height if isinstance(request, BatchAddressAppendRequest) else request.height
    return CircuitId(CircuitKind(request.circuit_type), 2, (height,), (request.batch_size,))


def split_body(body: bytes | bytearray) -> Members:
    """Return the members of a body, which refer to its bytes. Raises WireError for what is no JSON object."""
    if _NULL_BODY.fullmatch(body):
        return {}  # as an object without members
    members = msgspec.structs.asdict(_decode(_MEMBERS_DECODER, body))
    return {name: raw for name, raw in members.items() if raw is not _ABSENT}


def decode_request(members: Members, kind: CircuitKind, version: int = 2) -> ProofRequest:
    """Return the request that members of a body make, with the strict types of a circuit family. Raises WireError.

    As in the reference a number that is null counts as absent, and version 1 does not read the public input hash.
    """
    values: dict[str, Any] = {}
    for field, decoder in _REQUEST_DECODERS[kind]:
        name = field.encode_name
        raw = members.get(name)
        if raw is None or (version == 1 and name == _HASH) or (field.default == 0 and bytes(raw) == b"null"):
            continue
        values[field.name] = _decode_member(decoder, raw, f"$.{name}")
    if values.get("start_index", 0) > _LARGEST_U64:
        raise WireError(f"failed to parse JSON: Expected `int` <= {_LARGEST_U64}", "$.startIndex")
    return REQUEST_TYPES[kind](**values)


def encode_request(request: ProofRequest) -> bytes:
    """Return a request as compact JSON, without a public input hash if it has none."""
    if request.public_input_hash is not None:
        return msgspec.json.encode(request)
    members: dict[str, object] = msgspec.to_builtins(request)
    del members["publicInputHash"]
    return msgspec.json.encode(members)


def decode_proof(body: bytes) -> ProofJson:
    """Return a proof from JSON. Raises WireError when members are missing or of a wrong type."""
    try:
        return _PROOF_DECODER.decode(body)
    except (ValueError, RecursionError) as error:
        raise _wire_error(error) from error


def encode_proof(proof: ProofJson) -> bytes:
    """Return a proof as compact JSON, 579 bytes when coordinates are padded."""
    return _PROOF_ENCODER.encode(proof)


def _decode_member(decoder: msgspec.json.Decoder[Any], raw: msgspec.Raw, path: str) -> Any:
    try:
        return _decode(decoder, raw, path)
    except WireError as error:
        if not (error.detail.endswith(_NULL_NUMBER) and error.path.endswith(_NUMBERS_OF_ELEMENTS)):
            raise
    elements = _decode(_ELEMENTS_DECODER, raw, path)
    forget_nulls(elements, _NUMBERS_OF_ELEMENTS)
    try:
        return msgspec.convert(elements, decoder.type)
    except ValueError as error:
        raise _wire_error(error, path=path) from error


def _decode(decoder: msgspec.json.Decoder[Decoded], text: bytes | bytearray | msgspec.Raw, path: str = "$") -> Decoded:
    try:
        return decode_text(decoder, text)
    except (ValueError, RecursionError) as error:
        raise _wire_error(error, text, path) from error


def _wire_error(
    error: ValueError | RecursionError, body: bytes | bytearray | msgspec.Raw = b"", path: str = "$"
) -> WireError:
    text = str(error)
    if text == _TRUNCATED:
        text = _fault_of(bytes(body)) or text
    if isinstance(error, RecursionError):
        text = "nested too deeply"
    elif isinstance(error, UnicodeDecodeError):
        text = "not valid UTF-8"
    place = _MSGSPEC_PLACE.search(text)
    if place is None:
        return WireError(f"failed to parse JSON: {text}", path)
    within = "" if _SOMEWHERE in place["path"] else place["path"].removeprefix("$")
    return WireError(f"failed to parse JSON: {text[: place.start()]}", path + within)


def _fault_of(body: bytes) -> str:
    """Return why a text is not JSON. For msgspec, one that ends after an invalid escape is also truncated."""
    try:
        _COMPACTION.compact(body, len(body))
    except MalformedJson as fault:
        return str(fault)
    return ""


def _plain(raw: msgspec.Raw) -> object:
    """Return a string, number or word; None for an array or object, which is not decoded."""
    if memoryview(raw)[0] in b"[{":
        return None
    try:
        return msgspec.json.decode(raw)
    except (ValueError, RecursionError) as error:
        raise _wire_error(error) from error


def _text(raw: msgspec.Raw) -> str:
    value = _plain(raw)
    return value if isinstance(value, str) else ""


def _number(raw: msgspec.Raw) -> int | float | None:
    value = _plain(raw)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _height(raw: msgspec.Raw) -> int | float:
    # Fractions and numbers beyond 32 bits pass here, the latter truncated, and are refused later.
    value = _number(raw)
    return min(value, 2**32) if value is not None and value > 0 else 0


def _index(raw: msgspec.Raw) -> int:
    value = _number(raw)
    return -1 if value is None else int(value)


def _length(raw: msgspec.Raw) -> int:
    try:
        return len(_LIST_DECODER.decode(raw))
    except (ValueError, RecursionError):
        return 0
