"""Programs and accounts of the user: deployed through the upgradeable loader, or loaded from files."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path

import pytest
from chains import USER, funded, send, simulated_artefacts
from solders.account import Account
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM
from solders.system_program import CreateAccountParams, create_account
from solders.sysvar import CLOCK, RENT

from localnet.chain.account_files import AccountFileInvalid, read_account, read_accounts
from localnet.chain.artefacts import load_artefacts
from localnet.chain.network import Network, ProgramUnusable

LOADER = Pubkey.from_string("BPFLoaderUpgradeab1e11111111111111111111111")
MEMO_PROGRAM = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
CHUNK = 900


@pytest.fixture
def network() -> Network:
    return funded(simulated_artefacts())


def created(network: Network, key: Keypair, size: int) -> Instruction:
    lamports = network.rent_exempt_minimum(size)
    return create_account(
        CreateAccountParams(
            from_pubkey=USER.pubkey(), to_pubkey=key.pubkey(), lamports=lamports, space=size, owner=LOADER
        )
    )


def written(network: Network, content: bytes) -> Pubkey:
    """Write a program into a buffer, as clients do."""
    buffer = Keypair()
    metas = [AccountMeta(buffer.pubkey(), False, True), AccountMeta(USER.pubkey(), True, False)]
    first = [created(network, buffer, 37 + len(content)), Instruction(LOADER, struct.pack("<I", 0), metas)]
    assert send(network, first, USER, buffer).err is None
    for offset in range(0, len(content), CHUNK):
        part = content[offset : offset + CHUNK]
        data = struct.pack("<IIQ", 1, offset, len(part)) + part
        assert send(network, [Instruction(LOADER, data, metas)], USER).err is None
    return buffer.pubkey()


def deployed(network: Network, content: bytes) -> Pubkey:
    program, buffer = Keypair(), written(network, content)
    data_account = Pubkey.find_program_address([bytes(program.pubkey())], LOADER)[0]
    metas = [
        AccountMeta(USER.pubkey(), True, True),
        AccountMeta(data_account, False, True),
        AccountMeta(program.pubkey(), False, True),
        AccountMeta(buffer, False, True),
        *(AccountMeta(key, False, False) for key in (RENT, CLOCK, SYSTEM)),
        AccountMeta(USER.pubkey(), True, False),
    ]
    deploy = Instruction(LOADER, struct.pack("<IQ", 2, 2 * len(content)), metas)
    assert send(network, [created(network, program, 36), deploy], USER, program).err is None
    network.advance()
    return program.pubkey()


def upgrade(network: Network, program: Pubkey, content: bytes) -> None:
    data_account = Pubkey.find_program_address([bytes(program)], LOADER)[0]
    keys = (data_account, program, written(network, content), USER.pubkey())
    metas = [AccountMeta(key, False, True) for key in keys]
    metas += [AccountMeta(key, False, False) for key in (RENT, CLOCK)] + [AccountMeta(USER.pubkey(), True, False)]
    assert send(network, [Instruction(LOADER, struct.pack("<I", 3), metas)], USER).err is None
    network.advance()


def test_deployment__by_a_client__program_runs_and_can_be_upgraded(network: Network) -> None:
    content = network.artefacts.programs["spl_noop.so"]
    program = deployed(network, content)
    call = Instruction(program, b"hello", [])
    assert send(network, [call], USER).err is None
    memo = network.account(MEMO_PROGRAM)
    assert memo is not None
    upgrade(network, program, bytes(memo.data))
    for _ in range(2):
        assert send(network, [call], USER).err is None
        text_only = send(network, [Instruction(program, b"\xff", [])], USER)
        assert text_only.err == {"InstructionError": [0, "ProgramFailedToComplete"]}
        network.restore(network.state())


def test_own_program__file__runs_and_survives_a_restored_state() -> None:
    published = load_artefacts()
    address = Keypair().pubkey()
    artefacts = simulated_artefacts()
    own = type(artefacts)(
        artefacts.version, artefacts.programs, artefacts.accounts, {address: published.programs["spl_noop.so"]}
    )
    network = funded(own)
    call = Instruction(address, b"hello", [])
    assert send(network, [call], USER).err is None
    network.restore(network.state())
    assert send(network, [call], USER).err is None


def test_own_program__not_a_program__names_address_and_remedy() -> None:
    artefacts = simulated_artefacts()
    address = Keypair().pubkey()
    own = type(artefacts)(artefacts.version, artefacts.programs, artefacts.accounts, {address: b"text"})
    with pytest.raises(ProgramUnusable, match=rf"{address} cannot be loaded.*\.so"):
        Network(own)


def test_set_account__executable_without_a_program__is_refused(network: Network) -> None:
    with pytest.raises(ProgramUnusable, match=r"not a program"):
        network.set_account(Keypair().pubkey(), Account(10**9, b"text", LOADER, executable=True))


def entry(key: Pubkey, data: bytes, encoding: str = "base64") -> dict[str, object]:
    account = {
        "lamports": 1_000_000,
        "data": [base64.b64encode(data).decode(), encoding],
        "owner": str(SYSTEM),
        "executable": False,
        "rentEpoch": (1 << 64) - 1,
        "space": len(data),
    }
    return {"pubkey": str(key), "account": account}


def test_account_files__every_format__are_read(tmp_path: Path) -> None:
    file, key = tmp_path / "accounts.json", Keypair().pubkey()
    expected = Account(1_000_000, b"data", SYSTEM, executable=False, rent_epoch=(1 << 64) - 1)
    file.write_text(json.dumps(entry(key, b"data")))
    assert read_account(file) == (key, expected)
    for content in (
        [entry(key, b"data")],
        {"jsonrpc": "2.0", "id": 1, "result": [entry(key, b"data")]},
        {"jsonrpc": "2.0", "id": 1, "result": {"context": {"slot": 1}, "value": [entry(key, b"data")]}},
    ):
        file.write_text(json.dumps(content))
        assert read_accounts(file) == [(key, expected)]


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", json.dumps(entry(USER.pubkey(), b"x", "base99")), '{"pubkey": "1", "account": 2}']
)
def test_account_files__malformed__are_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "account.json"
    file.write_text(content)
    with pytest.raises(AccountFileInvalid, match=r"account\.json does not contain accounts"):
        read_account(file)
    with pytest.raises(AccountFileInvalid, match=r"account\.json does not contain accounts"):
        read_accounts(file)
