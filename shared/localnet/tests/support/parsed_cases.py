"""Accounts and instructions for a comparison with the decoders of a cluster's node."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from localnet.rpc.parsed.accounts import parse_account
from localnet.rpc.parsed.amounts import Display
from localnet.rpc.parsed.instructions import PARSERS, parse_instruction

Case = dict[str, Any]

TOKEN, TOKEN_2022 = (
    "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
    "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
)
TAGS = {"system": 14, "stake": 18, "address-lookup-table": 5, "bpf-loader": 2, "bpf-upgradeable-loader": 8}
EXTENSIONS = (26, 28, 30, 33, 34, 36, 39, 40, 41, 43, 44, 46)
CONFIDENTIAL_BYTES = {
    27: (65, 33, 45, 0, 1, 9, 47, 167, 44, 0, 0, 0, 0, 169, 0),
    37: (64, 37, 38, 0, 0, 0),
    42: (68, 33, 36, 167, 167, 0),
}
"""Sizes of the fields of instructions for confidential transfers."""
INTERFACES = (
    "spl_token_group_interface:initialize_token_group",
    "spl_token_group_interface:update_group_max_size",
    "spl_token_group_interface:update_authority",
    "spl_token_group_interface:initialize_member",
    "spl_token_metadata_interface:initialize_account",
    "spl_token_metadata_interface:updating_field",
    "spl_token_metadata_interface:remove_key_ix",
    "spl_token_metadata_interface:update_the_authority",
    "spl_token_metadata_interface:emitter",
)
BYTES_OF_EXTENSIONS = [0, 108, 8, 32, 65, 295, 1, 0, 1, 0, 52, 1, 32, 0, 64, 1, 129, 64, 64, 0, 64, 80, 64, 72, 196]
BYTES_OF_EXTENSIONS += [56, 33, 0, 32]
KEYS = [str(Pubkey(bytes([number]) * 32)) for number in range(1, 12)]


def _chunks(rng: random.Random) -> bytes:
    """Return bytes that are often a field: numbers, keys, options, texts."""
    kinds = (
        lambda: rng.randbytes(rng.choice((1, 2, 4, 8))),
        lambda: rng.randbytes(32),
        lambda: bytes(32),
        lambda: bytes([rng.randrange(3)]),
        lambda: rng.randrange(4).to_bytes(4, "little"),
        lambda: rng.randrange(10**6).to_bytes(8, "little"),
        lambda: (3).to_bytes(4, "little") + b"abc",
        lambda: (3).to_bytes(8, "little") + b"abc",
        lambda: b"\1" + rng.randbytes(32),
        lambda: (1).to_bytes(4, "little") + rng.randbytes(32),
        lambda: b"12.5",
    )
    return b"".join(rng.choice(kinds)() for _ in range(rng.randrange(7)))


def _tagged(rng: random.Random, name: str) -> bytes:
    if name in TAGS:
        return rng.randrange(TAGS[name] + 1).to_bytes(4, "little")
    if name == "spl-associated-token-account":
        return bytes([rng.randrange(4)]) if rng.random() < 0.9 else b""
    if name == "spl-memo":
        return b"a memo"
    kind = rng.random()
    if kind < 0.6:
        return bytes([rng.choice([*range(26), 29, 31, 32, 35, 38, 45])])
    if kind < 0.85:
        return bytes([rng.choice(EXTENSIONS), rng.randrange(6)])
    if kind < 0.9:
        inner = bytes([3]) + rng.randbytes(8)
        return bytes([255, 3, len(inner)]) + inner
    return hashlib.sha256(rng.choice(INTERFACES).encode()).digest()[:8]


def _confidential(rng: random.Random) -> bytes:
    """Return an instruction for confidential transfers; proof offsets at its end are often 0."""
    tag = rng.choice([*CONFIDENTIAL_BYTES, 46])
    if tag == 46:
        kind, count = 3, 167
    else:
        kind = rng.randrange(len(CONFIDENTIAL_BYTES[tag]))
        count = CONFIDENTIAL_BYTES[tag][kind]
    content = bytearray(rng.randbytes(count))
    for at in (0, 1, *range(count - 5, count)):
        if 0 <= at < count and rng.random() < 0.5:
            content[at] = rng.choice((0, 0, 1, 255))
    return bytes([tag, kind]) + bytes(content)


def instructions(seed: int, count: int) -> Iterator[Case]:
    """Yield instructions of every program with a parser; many of them are malformed."""
    rng = random.Random(seed)
    for _ in range(count):
        program = rng.choice(list(PARSERS))
        data = _tagged(rng, PARSERS[program][0]) + _chunks(rng)
        if program == TOKEN_2022 and rng.random() < 0.3:
            data = _confidential(rng)
        accounts = [rng.choice(KEYS) for _ in range(rng.randrange(10))]
        yield {"program": program, "data": data.hex(), "accounts": accounts}


def _maybe(rng: random.Random, value: bytes) -> bytes:
    present = rng.randrange(2)
    return present.to_bytes(4, "little") + (value if present else bytes(len(value)))


def _token_base(rng: random.Random, *, mint: bool) -> bytes:
    if mint:
        supply, decimals = rng.randrange(1 << 64).to_bytes(8, "little"), bytes([rng.randrange(20)])
        keys = [_maybe(rng, rng.randbytes(32)) for _ in range(2)]
        return keys[0] + supply + decimals + bytes([rng.randrange(2)]) + keys[1]
    amount = rng.randrange(1 << rng.choice((4, 30, 64))).to_bytes(8, "little")
    delegate, native = _maybe(rng, rng.randbytes(32)), _maybe(rng, (2_039_280).to_bytes(8, "little"))
    delegated = rng.randrange(1 << 40).to_bytes(8, "little")
    state = bytes([rng.randrange(3)])
    return rng.randbytes(64) + amount + delegate + state + native + delegated + _maybe(rng, rng.randbytes(32))


def _extension(rng: random.Random, kind: int) -> bytes:
    content = bytearray(
        rng.randbytes(BYTES_OF_EXTENSIONS[kind]) if rng.random() < 0.8 else bytes(BYTES_OF_EXTENSIONS[kind])
    )
    if kind == 19:
        texts = b"".join(len(word).to_bytes(4, "little") + word for word in (b"Name", b"SYM", b"https://example.org"))
        pair = b"".join(len(word).to_bytes(4, "little") + word for word in (b"key", b"value"))
        content = bytearray(rng.randbytes(64) + texts + (1).to_bytes(4, "little") + pair)
    if kind == 6:
        content = bytearray([rng.randrange(3)])
    if kind == 25:  # multipliers that a mint may have
        content[32:40], content[48:56] = bytes(6) + b"\xf8\x3f", bytes(6) + b"\x00\x40"
    return kind.to_bytes(2, "little") + len(content).to_bytes(2, "little") + bytes(content)


def _token_account(rng: random.Random, program: str) -> bytes:
    if rng.random() < 0.1:
        signers = [rng.randbytes(32) for _ in range(3)] + [bytes(32)] * 8
        return bytes([2, 3, rng.randrange(2)]) + b"".join(signers)
    mint = rng.random() < 0.5
    base = _token_base(rng, mint=mint)
    kinds = rng.sample(range(1, 29), rng.randrange(4))
    if program == TOKEN or not kinds:
        return base
    return base.ljust(165, b"\0") + bytes([1 if mint else 2]) + b"".join(_extension(rng, kind) for kind in kinds)


def _owned(rng: random.Random, owner: str) -> bytes:
    if owner in (TOKEN, TOKEN_2022):
        return _token_account(rng, owner)
    kind = rng.randrange(5).to_bytes(4, "little")
    if owner == "11111111111111111111111111111111":
        return rng.randrange(3).to_bytes(4, "little") + rng.randrange(2).to_bytes(4, "little") + rng.randbytes(72)
    if owner.startswith("AddressLookup"):
        meta = kind + rng.randbytes(17) + bytes([rng.randrange(2)]) + rng.randbytes(32) + bytes(2)
        return meta + rng.randbytes(32 * rng.randrange(4))
    if owner.startswith("Stake"):
        return kind + rng.randbytes(196)
    option = b"\1" + rng.randbytes(32) if rng.random() < 0.7 else b"\0" + bytes(32)
    slot = rng.randbytes(8) if kind[0] == 3 else b""
    return kind + slot + option + rng.randbytes(rng.randrange(40))


OWNERS = (
    TOKEN,
    TOKEN_2022,
    "11111111111111111111111111111111",
    "AddressLookupTab1e1111111111111111111111111",
    "Stake11111111111111111111111111111111111111",
    "BPFLoaderUpgradeab1e11111111111111111111111",
)


def accounts(seed: int, count: int) -> Iterator[Case]:
    """Yield accounts of every owner with a parser; some of them are cut short."""
    rng = random.Random(seed)
    for _ in range(count):
        owner = rng.choice(OWNERS)
        data = _owned(rng, owner)
        if rng.random() < 0.1:
            data = data[: rng.randrange(len(data) + 1)]
        yield {"owner": owner, "data": data.hex(), "decimals": rng.choice((None, 0, 6, 9, 19))}


def decoded(case: Case) -> Any:
    """Return what the localnet makes of a case."""
    data = bytes.fromhex(case["data"])
    if "program" in case:
        return parse_instruction(case["program"], data, case["accounts"])
    display = None if case["decimals"] is None else Display(case["decimals"])
    return parse_account(Account(1, data, Pubkey.from_string(case["owner"])), lambda _mint: display)
