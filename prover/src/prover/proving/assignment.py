"""Requests become input vectors: public inputs, then secret inputs, in the order of each circuit.

The vector is built from columns, one per circuit variable. Numbers are read first, so a misspelt number
is reported even when shapes are wrong too; then every array is measured against the circuit. Values
pass through unchanged: wrong roots or hashes surface as unsatisfied constraints.

Orders are those of the reference's circuits (structs in declaration order, arrays row by row).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from prover.errors import MalformedRequest, ShapeMismatch
from shared.circuit_id import CircuitId
from shared.field import InvalidNumber, parse_scalar, scalar_bytes
from shared.proof_wire import (
    BatchAddressAppendRequest,
    BatchAppendRequest,
    BatchUpdateRequest,
    CombinedRequest,
    InclusionRequest,
    InputCompressedAccount,
    NewAddress,
    NonInclusionRequest,
    ProofRequest,
)

ACCOUNTS = "$.inputCompressedAccounts"
ADDRESSES = "$.newAddresses"
_REMEMBERED_PATHS = 8


@dataclass(frozen=True)
class Assignment:
    """Input values of one proof, 32 bytes each: ``public_inputs`` of them public, then the secret ones.

    ``reduced`` holds JSON paths of numbers outside the field, which were taken modulo r.
    """

    inputs: bytes
    public_inputs: bytes
    reduced: tuple[str, ...]


@dataclass(frozen=True)
class _Column:
    """Values of one circuit variable; ``size`` and ``height`` index the dimensions of the circuit."""

    rows: Sequence[Sequence[bytes]]
    noun: str = ""
    path: str = ""
    size: int | None = None
    height: int | None = None
    row_path: str = "{path}[{row}]"


@dataclass
class Draft:
    """A request whose numbers are read but whose shapes are not checked yet."""

    public: list[_Column] = field(default_factory=list)
    secret: list[_Column] = field(default_factory=list)
    reduced: list[str] = field(default_factory=list)

    def assign(self, circuit: CircuitId) -> Assignment:
        """Check every array against the circuit and flatten; raises ShapeMismatch."""
        for column in (*self.public, *self.secret):
            _check_shape(column, circuit)
        public = b"".join(_flat(self.public))
        return Assignment(public + b"".join(_flat(self.secret)), public, tuple(self.reduced))

    def number(self, text: str, path: str) -> bytes:
        """Read one number; raises MalformedRequest with its path."""
        try:
            data, canonical = parse_scalar(text)
        except InvalidNumber as error:
            raise MalformedRequest(f"{error} at {path}", path=path) from error
        if not canonical and len(self.reduced) < _REMEMBERED_PATHS:
            self.reduced.append(path)
        return data

    def scalar(self, text: str, path: str) -> _Column:
        """Read a single number."""
        return _Column([[self.number(text, path)]])

    def array(self, texts: Sequence[str], path: str, noun: str, size: int = 0) -> _Column:
        """Read an array that has one number per element."""
        row = [self.number(text, f"{path}[{index}]") for index, text in enumerate(texts)]
        return _Column([row], noun, path, size)

    def matrix(self, rows: Sequence[Sequence[str]], path: str, noun: str) -> _Column:
        """Read an array that has one path per element."""
        values = [
            [self.number(text, f"{path}[{row}][{level}]") for level, text in enumerate(texts)]
            for row, texts in enumerate(rows)
        ]
        return _Column(values, noun, path, size=0, height=0)


def draft(request: ProofRequest, version: int) -> Draft:
    """Read all numbers of a request for version 1 or 2 of its circuit; raises MalformedRequest."""
    new = Draft()
    match request:
        case InclusionRequest():
            public, secret = _inclusion(new, request.input_compressed_accounts)
            _merkle(new, request.public_input_hash, version, public, secret)
        case NonInclusionRequest():
            public, secret = _non_inclusion(new, request.new_addresses, version)
            _merkle(new, request.public_input_hash, version, public, secret)
        case CombinedRequest():
            _combined(new, request, version)
        case BatchAppendRequest():
            _batch_append(new, request)
        case BatchUpdateRequest():
            _batch_update(new, request)
        case BatchAddressAppendRequest():
            _batch_address_append(new, request)
    return new


Parts = tuple[list[_Column], list[_Column]]


def _inclusion(new: Draft, accounts: Sequence[InputCompressedAccount], size: int = 0) -> Parts:
    def places(member: str) -> Iterable[tuple[InputCompressedAccount, str]]:
        return ((account, f"{ACCOUNTS}[{i}].{member}") for i, account in enumerate(accounts))

    def column(row: list[bytes]) -> _Column:
        return _Column([row], "compressed accounts", ACCOUNTS, size)

    public = [
        column([new.number(account.root, path) for account, path in places("root")]),
        column([new.number(account.leaf, path) for account, path in places("leaf")]),
    ]
    secret = [
        column([scalar_bytes(account.path_index) for account in accounts]),
        _paths(new, [account.path_elements for account in accounts], ACCOUNTS, "compressed accounts", size),
    ]
    return public, secret


def _non_inclusion(new: Draft, addresses: Sequence[NewAddress], version: int, size: int = 0) -> Parts:
    def places(member: str) -> Iterable[tuple[NewAddress, str]]:
        return ((address, f"{ADDRESSES}[{i}].{member}") for i, address in enumerate(addresses))

    def column(row: list[bytes]) -> _Column:
        return _Column([row], "new addresses", ADDRESSES, size)

    public = [
        column([new.number(address.root, path) for address, path in places("root")]),
        column([new.number(address.value, path) for address, path in places("value")]),
    ]
    secret = [
        column([new.number(a.leaf_lower_range_value, path) for a, path in places("leafLowerRangeValue")]),
        column([new.number(a.leaf_higher_range_value, path) for a, path in places("leafHigherRangeValue")]),
        column([scalar_bytes(address.path_index) for address in addresses]),
        _paths(new, [address.path_elements for address in addresses], ADDRESSES, "new addresses", size),
    ]
    if version == 1:
        secret.insert(2, column([scalar_bytes(address.next_index) for address in addresses]))
    return public, secret


def _paths(new: Draft, rows: Sequence[Sequence[str]], path: str, noun: str, size: int) -> _Column:
    values = [
        [new.number(text, f"{path}[{row}].pathElements[{level}]") for level, text in enumerate(texts)]
        for row, texts in enumerate(rows)
    ]
    return _Column(values, noun, path, size, height=size, row_path="{path}[{row}].pathElements")


def _merkle(
    new: Draft, public_input_hash: str | None, version: int, public: list[_Column], secret: list[_Column]
) -> None:
    """In version 2 everything but the hash is secret, roots and leaves included."""
    if version == 1:
        new.public, new.secret = public, secret
    else:
        # An absent hash is taken as 0, as the reference does; the first constraint then fails.
        given = public_input_hash or "0"
        new.public = [new.scalar(given, "$.publicInputHash")]
        new.secret = public + secret


def _combined(new: Draft, request: CombinedRequest, version: int) -> None:
    if version == 2 and request.public_input_hash is None:
        raise MalformedRequest("publicInputHash is missing at $.publicInputHash", path="$.publicInputHash")
    inclusion_public, inclusion_secret = _inclusion(new, request.input_compressed_accounts, size=0)
    address_public, address_secret = _non_inclusion(new, request.new_addresses, version, size=1)
    if version == 1:
        new.public = inclusion_public + address_public
        new.secret = inclusion_secret + address_secret
    else:
        new.public = [new.scalar(request.public_input_hash or "", "$.publicInputHash")]
        new.secret = inclusion_public + inclusion_secret + address_public + address_secret


def _batch_append(new: Draft, request: BatchAppendRequest) -> None:
    new.public = [new.scalar(request.public_input_hash, "$.publicInputHash")]
    new.secret = [
        new.scalar(request.old_root, "$.oldRoot"),
        new.scalar(request.new_root, "$.newRoot"),
        new.scalar(request.leaves_hashchain_hash, "$.leavesHashchainHash"),
        _Column([[scalar_bytes(request.start_index)]]),
        new.array(request.old_leaves, "$.oldLeaves", "old leaves"),
        new.array(request.leaves, "$.leaves", "leaves"),
        new.matrix(request.merkle_proofs, "$.merkleProofs", "merkle proofs"),
    ]
    _check_equal_lengths({"leaves": request.leaves, "oldLeaves": request.old_leaves})


def _batch_update(new: Draft, request: BatchUpdateRequest) -> None:
    new.public = [new.scalar(request.public_input_hash, "$.publicInputHash")]
    new.secret = [
        new.scalar(request.old_root, "$.oldRoot"),
        new.scalar(request.new_root, "$.newRoot"),
        new.scalar(request.leaves_hashchain_hash, "$.leavesHashchainHash"),
        new.array(request.tx_hashes, "$.txHashes", "tx hashes"),
        new.array(request.leaves, "$.leaves", "leaves"),
        new.array(request.old_leaves, "$.oldLeaves", "old leaves"),
        new.matrix(request.new_merkle_proofs, "$.newMerkleProofs", "merkle proofs"),
        _Column([[scalar_bytes(i) for i in request.path_indices]], "path indices", "$.pathIndices", 0),
    ]
    _check_equal_lengths({"leaves": request.leaves, "oldLeaves": request.old_leaves, "txHashes": request.tx_hashes})


def _batch_address_append(new: Draft, request: BatchAddressAppendRequest) -> None:
    new.public = [new.scalar(request.public_input_hash, "$.publicInputHash")]
    new.secret = [
        new.scalar(request.old_root, "$.oldRoot"),
        new.scalar(request.new_root, "$.newRoot"),
        new.scalar(request.hashchain_hash, "$.hashchainHash"),
        _Column([[scalar_bytes(request.start_index)]]),
        new.array(request.low_element_values, "$.lowElementValues", "low element values"),
        new.array(request.low_element_next_values, "$.lowElementNextValues", "low element next values"),
        new.array(request.low_element_indices, "$.lowElementIndices", "low element indices"),
        new.matrix(request.low_element_proofs, "$.lowElementProofs", "low element proofs"),
        new.array(request.new_element_values, "$.newElementValues", "new element values"),
        new.matrix(request.new_element_proofs, "$.newElementProofs", "new element proofs"),
    ]


def _check_equal_lengths(arrays: dict[str, Sequence[str]]) -> None:
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}={length}" for name, length in lengths.items())
        raise MalformedRequest(f"array length mismatch: {listed}", path="$")


def _check_shape(column: _Column, circuit: CircuitId) -> None:
    if column.size is None:
        return
    size = circuit.sizes[column.size]
    length = len(column.rows) if column.height is not None else len(column.rows[0])
    if length != size:
        raise ShapeMismatch(
            f"wrong number of {column.noun}: {length}, expected: {size} at {column.path}", path=column.path
        )
    if column.height is None:
        return
    height = circuit.heights[column.height]
    for number, row in enumerate(column.rows):
        if len(row) != height:
            path = column.row_path.format(path=column.path, row=number)
            raise ShapeMismatch(
                f"wrong size of merkle proof for proof {number + 1}: {len(row)}, expected: {height} at {path}",
                path=path,
            )


def _flat(columns: Iterable[_Column]) -> Iterable[bytes]:
    return (value for column in columns for row in column.rows for value in row)
