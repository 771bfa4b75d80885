"""Instructions of the light system program: compress lamports, spend compressed accounts.

Source: forester/docs/reference/programs.md, "User transactions".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from Crypto.Hash import keccak
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM

from localnet.chain import addresses
from localnet.programs.registry import u16, u32, u64

INVOKE = bytes.fromhex("1a10a90715caf219")


@dataclass(frozen=True)
class Output:
    """A new compressed account without data; ``tree`` is an output queue (V2) or a state tree (V1)."""

    owner: Pubkey
    lamports: int
    tree: Pubkey


@dataclass(frozen=True)
class Input:
    """A compressed account to spend; ``root_index`` None means that it is still in the queue (V2 only)."""

    owner: Pubkey
    lamports: int
    tree: Pubkey
    queue: Pubkey
    leaf_index: int
    root_index: int | None = None


@dataclass(frozen=True)
class NewAddress:
    """A V1 address that a wallet derives from a seed of 32 bytes; its proof is about the root of that index."""

    seed: bytes
    tree: Pubkey
    queue: Pubkey
    root_index: int

    @property
    def address(self) -> bytes:
        """Keccak-256 with its first byte cleared."""
        digest = keccak.new(digest_bits=256, data=bytes(self.tree) + self.seed + b"\xff").digest()
        return b"\0" + digest[1:]


def invoke(
    payer: Pubkey,
    *,
    inputs: Sequence[Input] = (),
    outputs: Sequence[Output] = (),
    new_addresses: Sequence[NewAddress] = (),
    compress: int = 0,
    decompress: int = 0,
    recipient: Pubkey | None = None,
    proof: bytes | None = None,
) -> Instruction:
    """Return the instruction for inputs, outputs, addresses and lamports; raise ValueError if it is unbalanced."""
    spent = sum(entry.lamports for entry in inputs) + compress
    if spent != sum(entry.lamports for entry in outputs) + decompress:
        raise ValueError(f"{spent} lamports go in and {sum(entry.lamports for entry in outputs) + decompress} come out")
    trees: list[Pubkey] = []
    body = b"\x00" if proof is None else b"\x01" + proof
    body += u32(len(inputs)) + b"".join(_input(entry, trees) for entry in inputs)
    body += u32(len(outputs)) + b"".join(_output(entry, trees) for entry in outputs)
    body += b"\x00" + u32(len(new_addresses)) + b"".join(_new_address(entry, trees) for entry in new_addresses)
    moved = compress or decompress
    body += (b"\x01" + u64(moved) if moved else b"\x00") + bytes([bool(compress)])
    metas = [
        AccountMeta(payer, True, True),
        AccountMeta(payer, True, False),
        AccountMeta(addresses.REGISTERED_LIGHT_SYSTEM, False, False),
        AccountMeta(addresses.NOOP, False, False),
        AccountMeta(addresses.LIGHT_SYSTEM_CPI_AUTHORITY, False, False),
        AccountMeta(addresses.ACCOUNT_COMPRESSION, False, False),
        _optional(addresses.SOL_POOL if moved else None),
        _optional(recipient),
        AccountMeta(SYSTEM_PROGRAM, False, False),
        *(AccountMeta(tree, False, True) for tree in trees),
    ]
    return Instruction(addresses.LIGHT_SYSTEM, INVOKE + u32(len(body)) + body, metas)


def _optional(key: Pubkey | None) -> AccountMeta:
    return AccountMeta(key or addresses.LIGHT_SYSTEM, False, key is not None)


def _index(tree: Pubkey, trees: list[Pubkey]) -> bytes:
    if tree not in trees:
        trees.append(tree)
    return bytes([trees.index(tree)])


def _account(owner: Pubkey, lamports: int) -> bytes:
    """Return an account without address and without data."""
    return bytes(owner) + u64(lamports) + b"\x00\x00"


def _input(entry: Input, trees: list[Pubkey]) -> bytes:
    places = _index(entry.tree, trees) + _index(entry.queue, trees)
    by_index = entry.root_index is None
    tail = u32(entry.leaf_index) + bytes([by_index]) + u16(entry.root_index or 0) + b"\x00"
    return _account(entry.owner, entry.lamports) + places + tail


def _new_address(entry: NewAddress, trees: list[Pubkey]) -> bytes:
    return entry.seed + _index(entry.queue, trees) + _index(entry.tree, trees) + u16(entry.root_index)


def _output(entry: Output, trees: list[Pubkey]) -> bytes:
    return _account(entry.owner, entry.lamports) + _index(entry.tree, trees)
