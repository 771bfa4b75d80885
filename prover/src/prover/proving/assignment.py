"""Input vectors of requests: public inputs, then secret inputs, in the order of each circuit.

The vector is built from columns, one per circuit variable. Numbers are read first, so a misspelt number
is reported even when shapes are wrong too; then the length of every array is compared with the circuit. Values
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
_MAXIMUM_REPORTED_PATHS = 8


@dataclass(frozen=True)
class Assignment:
    """Input values of one proof, 32 bytes each: all ``inputs``, which begin with the ``public_inputs``.

    ``reduced`` holds JSON paths of numbers outside the field, which were reduced modulo r.
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
class UncheckedAssignment:
    """A request whose numbers are parsed and whose array lengths are not checked yet."""

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
        if not canonical and len(self.reduced) < _MAXIMUM_REPORTED_PATHS:
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


def read_numbers(request: ProofRequest, version: int) -> UncheckedAssignment:
    """Read all numbers of a request for version 1 or 2 of its circuit; raises MalformedRequest."""
    numbers = UncheckedAssignment()
    match request:
        case InclusionRequest():
            public, secret = _inclusion(numbers, request.input_compressed_accounts)
            _merkle(numbers, request.public_input_hash, version, public, secret)
        case NonInclusionRequest():
            public, secret = _non_inclusion(numbers, request.new_addresses, version)
            _merkle(numbers, request.public_input_hash, version, public, secret)
        case CombinedRequest():
            _combined(numbers, request, version)
        case BatchAppendRequest():
            _batch_append(numbers, request)
        case BatchUpdateRequest():
            _batch_update(numbers, request)
        case BatchAddressAppendRequest():
            _batch_address_append(numbers, request)
    return numbers


Parts = tuple[list[_Column], list[_Column]]


def _inclusion(numbers: UncheckedAssignment, accounts: Sequence[InputCompressedAccount], size: int = 0) -> Parts:
    def members(member: str) -> Iterable[tuple[InputCompressedAccount, str]]:
        return ((account, f"{ACCOUNTS}[{i}].{member}") for i, account in enumerate(accounts))

    def column(row: list[bytes]) -> _Column:
        return _Column([row], "compressed accounts", ACCOUNTS, size)

    public = [
        column([numbers.number(account.root, path) for account, path in members("root")]),
        column([numbers.number(account.leaf, path) for account, path in members("leaf")]),
    ]
    secret = [
        column([scalar_bytes(account.path_index) for account in accounts]),
        _paths(numbers, [account.path_elements for account in accounts], ACCOUNTS, "compressed accounts", size),
    ]
    return public, secret


def _non_inclusion(numbers: UncheckedAssignment, addresses: Sequence[NewAddress], version: int, size: int = 0) -> Parts:
    def members(member: str) -> Iterable[tuple[NewAddress, str]]:
        return ((address, f"{ADDRESSES}[{i}].{member}") for i, address in enumerate(addresses))

    def column(row: list[bytes]) -> _Column:
        return _Column([row], "new addresses", ADDRESSES, size)

    public = [
        column([numbers.number(address.root, path) for address, path in members("root")]),
        column([numbers.number(address.value, path) for address, path in members("value")]),
    ]
    secret = [
        column([numbers.number(a.leaf_lower_range_value, path) for a, path in members("leafLowerRangeValue")]),
        column([numbers.number(a.leaf_higher_range_value, path) for a, path in members("leafHigherRangeValue")]),
        column([scalar_bytes(address.path_index) for address in addresses]),
        _paths(numbers, [address.path_elements for address in addresses], ADDRESSES, "new addresses", size),
    ]
    if version == 1:
        secret.insert(2, column([scalar_bytes(address.next_index) for address in addresses]))
    return public, secret


def _paths(numbers: UncheckedAssignment, rows: Sequence[Sequence[str]], path: str, noun: str, size: int) -> _Column:
    values = [
        [numbers.number(text, f"{path}[{row}].pathElements[{level}]") for level, text in enumerate(texts)]
        for row, texts in enumerate(rows)
    ]
    return _Column(values, noun, path, size, height=size, row_path="{path}[{row}].pathElements")


def _merkle(
    numbers: UncheckedAssignment,
    public_input_hash: str | None,
    version: int,
    public: list[_Column],
    secret: list[_Column],
) -> None:
    """Assign the inputs. In version 2 all but the hash are secret, roots and leaves included."""
    if version == 1:
        numbers.public, numbers.secret = public, secret
    else:
        # A missing hash counts as 0, as in the reference; the first constraint then fails.
        given = public_input_hash or "0"
        numbers.public = [numbers.scalar(given, "$.publicInputHash")]
        numbers.secret = public + secret


def _combined(numbers: UncheckedAssignment, request: CombinedRequest, version: int) -> None:
    if version == 2 and request.public_input_hash is None:
        raise MalformedRequest("publicInputHash is missing at $.publicInputHash", path="$.publicInputHash")
    inclusion_public, inclusion_secret = _inclusion(numbers, request.input_compressed_accounts, size=0)
    address_public, address_secret = _non_inclusion(numbers, request.new_addresses, version, size=1)
    if version == 1:
        numbers.public = inclusion_public + address_public
        numbers.secret = inclusion_secret + address_secret
    else:
        numbers.public = [numbers.scalar(request.public_input_hash or "", "$.publicInputHash")]
        numbers.secret = inclusion_public + inclusion_secret + address_public + address_secret


def _batch_append(numbers: UncheckedAssignment, request: BatchAppendRequest) -> None:
    numbers.public = [numbers.scalar(request.public_input_hash, "$.publicInputHash")]
    numbers.secret = [
        numbers.scalar(request.old_root, "$.oldRoot"),
        numbers.scalar(request.new_root, "$.newRoot"),
        numbers.scalar(request.leaves_hashchain_hash, "$.leavesHashchainHash"),
        _Column([[scalar_bytes(request.start_index)]]),
        numbers.array(request.old_leaves, "$.oldLeaves", "old leaves"),
        numbers.array(request.leaves, "$.leaves", "leaves"),
        numbers.matrix(request.merkle_proofs, "$.merkleProofs", "merkle proofs"),
    ]
    _check_equal_lengths({"leaves": request.leaves, "oldLeaves": request.old_leaves})


def _batch_update(numbers: UncheckedAssignment, request: BatchUpdateRequest) -> None:
    numbers.public = [numbers.scalar(request.public_input_hash, "$.publicInputHash")]
    numbers.secret = [
        numbers.scalar(request.old_root, "$.oldRoot"),
        numbers.scalar(request.new_root, "$.newRoot"),
        numbers.scalar(request.leaves_hashchain_hash, "$.leavesHashchainHash"),
        numbers.array(request.tx_hashes, "$.txHashes", "tx hashes"),
        numbers.array(request.leaves, "$.leaves", "leaves"),
        numbers.array(request.old_leaves, "$.oldLeaves", "old leaves"),
        numbers.matrix(request.new_merkle_proofs, "$.newMerkleProofs", "merkle proofs"),
        _Column([[scalar_bytes(i) for i in request.path_indices]], "path indices", "$.pathIndices", 0),
    ]
    _check_equal_lengths({"leaves": request.leaves, "oldLeaves": request.old_leaves, "txHashes": request.tx_hashes})


def _batch_address_append(numbers: UncheckedAssignment, request: BatchAddressAppendRequest) -> None:
    numbers.public = [numbers.scalar(request.public_input_hash, "$.publicInputHash")]
    numbers.secret = [
        numbers.scalar(request.old_root, "$.oldRoot"),
        numbers.scalar(request.new_root, "$.newRoot"),
        numbers.scalar(request.hashchain_hash, "$.hashchainHash"),
        _Column([[scalar_bytes(request.start_index)]]),
        numbers.array(request.low_element_values, "$.lowElementValues", "low element values"),
        numbers.array(request.low_element_next_values, "$.lowElementNextValues", "low element next values"),
        numbers.array(request.low_element_indices, "$.lowElementIndices", "low element indices"),
        numbers.matrix(request.low_element_proofs, "$.lowElementProofs", "low element proofs"),
        numbers.array(request.new_element_values, "$.newElementValues", "new element values"),
        numbers.matrix(request.new_element_proofs, "$.newElementProofs", "new element proofs"),
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
