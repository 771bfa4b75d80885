"""A program whose accounts pay rent, on a localnet, and its accounts.

The program is vectors/compressible_program.hex, which shared/localnet/tests/support/build_test_program.py compiles. It
does what Light's SDK does (forester/docs/reference/programs.md, "Accounts of other programs").
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Sequence
from pathlib import Path

from compressible_accounts import OUTPUT_QUEUE, metas_of, program_data, proof_of_new_addresses, system_accounts
from localnet_process import Localnet
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import LIGHT_SYSTEM
from forester.chain.programs.compressed_address import compressed_address
from forester.chain.programs.compression import MINT_ADDRESS_TREE
from forester.compressible.program_account import config_address
from forester.settings import LightProgram

PROGRAM = Keypair.from_seed(b"compressible program".ljust(32, b".")).pubkey()
DISCRIMINATOR = b"pdatest!"
NAMED = LightProgram(PROGRAM, DISCRIMINATOR)
NAME = f"{PROGRAM}:KoLy9ACSGkG"
SPONSOR = Keypair.from_seed(b"rent sponsor of it".ljust(32, b".")).pubkey()
CLOSER = Keypair.from_seed(b"compression authority".ljust(32, b".")).pubkey()
SIGNER, BUMP = Pubkey.find_program_address([b"cpi_authority"], PROGRAM)
SIZE = 72
COST, RENT = 11_000, 128 + SIZE

_ELF = Path(__file__).parents[2] / "vectors" / "compressible_program.hex"
_LOADER = "BPFLoader2111111111111111111111111111111111"
_INVOKE_WITH_ACCOUNT_INFO = bytes.fromhex("e42280542f8b56f0")
_PLACEHOLDER = b"\xff" * 7 + b"\x00"


def set_program(net: Localnet) -> None:
    """Put the program and its configuration on a localnet."""
    code = bytes.fromhex(_ELF.read_text().replace("\n", ""))
    _set(net, PROGRAM, 10**9, code, _LOADER, executable=True)
    config = b"LightCfg" + struct.pack(
        "<BI32s32s32s8xBBBI32s",
        1,
        0,
        bytes(32),
        bytes(SPONSOR),
        bytes(CLOSER),
        0,
        255,
        255,
        1,
        bytes(MINT_ADDRESS_TREE),
    )
    _set(net, config_address(PROGRAM), 10**8, config, str(PROGRAM))
    for key in (SPONSOR, CLOSER):
        _set(net, key, 10**9, b"", "1" * 32)


def account_key(number: int) -> Pubkey:
    """Return the address of an account of the program."""
    return Keypair.from_seed(f"account {number}".encode().ljust(32, b".")).pubkey()


def set_account(net: Localnet, key: Pubkey, epochs: int, slot: int) -> int:
    """Put an account with rent for some rent epochs on a localnet; return its lamports."""
    lamports = (128 + SIZE) * 6960 + COST + epochs * RENT
    _set(
        net, key, lamports, program_data(DISCRIMINATOR, last_claimed=slot, content=bytes(key) + bytes(8)), str(PROGRAM)
    )
    return lamports


def create_placeholders(net: Localnet, payer: Pubkey, keys: Sequence[Pubkey]) -> Instruction:
    """Create the compressed accounts that reserve the addresses of accounts, as the SDK does when it creates one."""
    addresses = [compressed_address(key, MINT_ADDRESS_TREE, PROGRAM) for key in keys]
    proof, root_index = proof_of_new_addresses(net, addresses)
    data = _INVOKE_WITH_ACCOUNT_INFO + struct.pack("<BB32sQ", 1, BUMP, bytes(PROGRAM), 0) + bytes(6)
    data += b"\x01" + proof + struct.pack("<I", len(keys))
    for number, key in enumerate(keys):
        data += struct.pack("<32sBBHBB", bytes(key), 1, 1, root_index, 1, number)
    data += struct.pack("<I", len(keys))
    for key, address in zip(keys, addresses, strict=True):
        digest = b"\0" + hashlib.sha256(bytes(key)).digest()[1:]
        data += b"\x01" + address + b"\x00\x01" + _PLACEHOLDER + digest
        data += struct.pack("<BQI32s", 0, 0, 32, bytes(key))
    data += bytes(8)
    metas = metas_of(
        *((LIGHT_SYSTEM, ""), (payer, "sw"), (SIGNER, ""), *system_accounts()),
        *((OUTPUT_QUEUE, "w"), (MINT_ADDRESS_TREE, "w")),
    )
    return Instruction(PROGRAM, data, metas)


def _set(net: Localnet, key: Pubkey, lamports: int, data: bytes, owner: str, *, executable: bool = False) -> None:
    content = {"lamports": lamports, "data": base64.b64encode(data).decode(), "owner": owner, "executable": executable}
    net.call("localnet_setAccount", str(key), content)
