"""Tokens of the real programs through an unmodified client: methods, balances in metadata, parsed forms."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from chains import FORESTER, USER, send
from rpc_server import Served, served
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed, Processed
from solana.rpc.models import TokenAccountOpts
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account
from spl.token import instructions as token
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID
from spl.token.models import ApproveParams, InitializeMintParams, MintToParams, TransferCheckedParams

PARSED = {"encoding": "jsonParsed", "commitment": "processed"}
NATIVE = "So11111111111111111111111111111111111111112"


@dataclass(frozen=True)
class Minted:
    """A mint of six decimals; USER holds 1.5 tokens and FORESTER may spend 0.25 of them."""

    mint: Pubkey
    held: Pubkey
    program: Pubkey


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Served]:
    async with served() as running:
        yield running


@pytest_asyncio.fixture
async def client(server: Served) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server.url, commitment=Processed) as client:
        yield client


def minted(server: Served, program: Pubkey, extension: bytes = b"", size: int = 82) -> Minted:
    network, mint, owner = server.network, Keypair(), USER.pubkey()
    held = token.get_associated_token_address(owner, mint.pubkey(), program)
    lamports = network.rent_exempt_minimum(size)
    setup = [
        create_account(
            CreateAccountParams(
                from_pubkey=owner, to_pubkey=mint.pubkey(), lamports=lamports, space=size, owner=program
            )
        )
    ]
    if extension:
        setup.append(Instruction(program, extension, [AccountMeta(mint.pubkey(), False, True)]))
    setup.append(
        token.initialize_mint(
            InitializeMintParams(decimals=6, program_id=program, mint=mint.pubkey(), mint_authority=owner)
        )
    )
    setup.append(token.create_associated_token_account(owner, owner, mint.pubkey(), program))
    assert send(network, setup, USER, mint).err is None
    mint_to = MintToParams(program_id=program, mint=mint.pubkey(), dest=held, mint_authority=owner, amount=1_500_000)
    approve = ApproveParams(program_id=program, source=held, delegate=FORESTER.pubkey(), owner=owner, amount=250_000)
    assert send(network, [token.mint_to(mint_to), token.approve(approve)], USER).err is None
    return Minted(mint.pubkey(), held, program)


@pytest.mark.parametrize("program", [TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID])
async def test_tokens__minted__are_found_by_every_method(server: Served, client: AsyncClient, program: Pubkey) -> None:
    made = minted(server, program)
    balance = (await client.get_token_account_balance(made.held)).value
    assert (balance.amount, balance.decimals, balance.ui_amount, balance.ui_amount_string) == (
        "1500000",
        6,
        1.5,
        "1.5",
    )
    assert (await client.get_token_supply(made.mint)).value == balance
    [largest] = (await client.get_token_largest_accounts(made.mint)).value
    assert (str(largest.address), largest.amount.amount) == (str(made.held), "1500000")
    for options in (TokenAccountOpts(mint=made.mint), TokenAccountOpts(program_id=program)):
        [by_owner] = (await client.get_token_accounts_by_owner(USER.pubkey(), options)).value
        [by_delegate] = (await client.get_token_accounts_by_delegate(FORESTER.pubkey(), options)).value
        assert by_owner.pubkey == by_delegate.pubkey == made.held
    assert (await client.get_token_accounts_by_owner(FORESTER.pubkey(), options)).value == []
    [shown] = (await client.get_token_accounts_by_owner_json_parsed(USER.pubkey(), options)).value
    parsed: Any = shown.account.data.parsed
    info = parsed["info"]
    assert info["delegatedAmount"]["uiAmountString"] == "0.25"
    assert info["owner"] == str(USER.pubkey())


async def test_tokens__transfer__has_balances_in_its_metadata(server: Served, client: AsyncClient) -> None:
    made = minted(server, TOKEN_PROGRAM_ID)
    to = token.get_associated_token_address(FORESTER.pubkey(), made.mint)
    moved = TransferCheckedParams(
        program_id=made.program,
        source=made.held,
        mint=made.mint,
        dest=to,
        owner=USER.pubkey(),
        amount=500_000,
        decimals=6,
    )
    instructions = [
        token.create_associated_token_account(USER.pubkey(), FORESTER.pubkey(), made.mint),
        token.transfer_checked(moved),
    ]
    done = send(server.network, instructions, USER)
    assert done.err is None
    server.network.advance()
    found = (await client.get_transaction(done.signature, "jsonParsed", Confirmed, 0)).value
    assert found is not None
    meta = found.transaction.meta
    assert meta is not None
    [before] = meta.pre_token_balances or []
    after = {str(entry.owner): entry for entry in meta.post_token_balances or []}
    assert (before.ui_token_amount.amount, str(before.mint)) == ("1500000", str(made.mint))
    assert after[str(USER.pubkey())].ui_token_amount.ui_amount == 1.0
    received = after[str(FORESTER.pubkey())]
    assert (received.ui_token_amount.ui_amount_string, str(received.program_id)) == ("0.5", str(made.program))
    assert done.account_keys[received.account_index] == to
    transaction: Any = found.transaction.transaction
    names = [entry.parsed["type"] for entry in transaction.message.instructions]
    assert names == ["create", "transferChecked"]


async def test_tokens__mint_with_multiplier__is_displayed_as_the_program_does(
    server: Served, client: AsyncClient
) -> None:
    # Extension 43: initialize, authority, a multiplier of 1.25 (shared/localnet/docs/parsed.md, "Token extensions").
    extension = bytes([43, 0]) + bytes(USER.pubkey()) + bytes(6) + b"\xf4\x3f"
    made = minted(server, TOKEN_2022_PROGRAM_ID, extension, size=226)
    data = bytes([23]) + (1_500_000).to_bytes(8, "little")  # AmountToUiAmount
    instruction = Instruction(made.program, data, [AccountMeta(made.mint, False, False)])
    done = send(server.network, [instruction], USER)
    assert done.return_data is not None
    balance = (await client.get_token_account_balance(made.held)).value
    assert balance.ui_amount_string == done.return_data[1].decode() == "1.875"
    mint: Any = (await client.get_account_info_json_parsed(made.mint)).value
    [shown] = mint.data.parsed["info"]["extensions"]
    assert (shown["extension"], shown["state"]["multiplier"]) == ("scaledUiAmountConfig", "1.25")


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("getTokenAccountBalance", [str(Keypair().pubkey())], "Invalid param: could not find account"),
        ("getTokenAccountBalance", [str(USER.pubkey())], "Invalid param: not a Token account"),
        ("getTokenAccountBalance", [NATIVE], "Invalid param: not a Token account"),
        ("getTokenSupply", [str(USER.pubkey())], "Invalid param: not a Token mint"),
        ("getTokenLargestAccounts", [str(Keypair().pubkey())], "Invalid param: could not find account"),
        (
            "getTokenAccountsByOwner",
            [NATIVE, {"mint": str(Keypair().pubkey())}],
            "Invalid param: could not find mint",
        ),
        (
            "getTokenAccountsByOwner",
            [NATIVE, {"programId": NATIVE}],
            "Invalid param: unrecognized Token program id",
        ),
        ("getTokenAccountsByDelegate", [NATIVE, {}], "either mint or programId"),
    ],
)
async def test_tokens__parameters_that_are_wrong__are_named(
    server: Served, method: str, params: list[Any], message: str
) -> None:
    error = await server.error(method, *params)
    assert error["code"] == -32602
    assert message in error["message"]


async def test_native_mint__new_network__is_that_of_every_cluster(server: Served) -> None:
    account = (await server.call("getAccountInfo", NATIVE, PARSED))["value"]
    assert account["owner"] == str(TOKEN_PROGRAM_ID)
    assert account["data"]["parsed"]["info"]["decimals"] == 9
    assert account["data"]["parsed"]["info"]["mintAuthority"] is None
