"""Options of `forester start` about transactions: what a node is sent over a real socket, and how often."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scripted_node import serving
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from start_options import NEEDED, NOWHERE, Network, Pauses, budget, chosen, has_table, until

from forester.chain.rent import ExcessiveRent
from forester.daemon.services import Services, open_services
from forester.errors import SettingsInvalid
from forester.observability.metrics import Metrics
from forester.transactions.confirm import Fate, Outcome
from forester.transactions.spending import BudgetExceeded

TABLE = Pubkey(bytes([6]) * 32)
ACCOUNTS = [Pubkey(bytes([100 + place]) * 32) for place in range(12)]


@contextlib.asynccontextmanager
async def sending(folder: Path, node: Network, *words: str) -> AsyncIterator[Services]:
    """The services of a forester that was started with some words, at work on a node."""
    patience = ("--confirmation-poll-interval-ms", "1", "--confirmation-max-attempts", "1000000")
    fixed = ("--indexer-url", NOWHERE, "--journal", str(folder / "journal"), *patience)
    async with (
        serving(node),
        open_services(chosen("--rpc-url", node.url, *fixed, *NEEDED, *words), Metrics()) as services,
    ):
        yield services


async def send(services: Services, number: int = 1, within_s: float = 60.0) -> Outcome:
    metas = [AccountMeta(account, False, True) for account in ACCOUNTS]
    work = Instruction(Pubkey(bytes([9]) * 32), bytes([number]), metas)
    return await services.sender.send([work], purpose="test", subject=bytes([number]) * 32, within_s=within_s)


async def sent_one(folder: Path, node: Network, *words: str) -> dict[int, int]:
    """Return the budget of the transaction of a forester that was started with some words."""
    async with sending(folder, node, *words) as services:
        assert (await send(services)).fate is Fate.CONFIRMED
    return budget(node.transactions[0])


@pytest.mark.parametrize("limit", [300_000, 1_400_000])
async def test_cu_limit__of_a_transaction__is_in_it(limit: int, tmp_path: Path) -> None:
    assert await sent_one(tmp_path, Network(), "--cu-limit", str(limit)) == {2: limit}


@pytest.mark.parametrize(
    ("words", "price", "asked"),
    [
        ((), None, 0),
        (("--enable-priority-fees",), 4321, 1),
        (("--enable-priority-fees", "true"), 4321, 1),
        (("--enable-priority-fees", "false"), None, 0),
        (("--priority-fee-microlamports", "77"), 77, 0),
        (("--enable-priority-fees", "false", "--priority-fee-microlamports", "5"), 5, 0),
    ],
)
async def test_priority_fees__off_dynamic_or_fixed__are_in_the_transaction(
    words: tuple[str, ...], price: int | None, asked: int, tmp_path: Path
) -> None:
    node = Network(answers={"getPriorityFeeEstimate": {"priorityFeeEstimate": 4321}})
    assert (await sent_one(tmp_path, node, *words)).get(3) == price
    assert node.counted["getPriorityFeeEstimate"] == asked


async def test_priority_fee_max__of_an_estimate_or_a_fixed_price__bounds_both(tmp_path: Path) -> None:
    node = Network(answers={"getPriorityFeeEstimate": {"priorityFeeEstimate": 99_000_000}})
    assert (await sent_one(tmp_path, node, "--enable-priority-fees"))[3] == 1_000_000, "one lamport"
    words = ("--enable-priority-fees", "--priority-fee-max-microlamports", "5000")
    assert (await sent_one(tmp_path, Network(answers=node.answers), *words))[3] == 5000
    fixed = ("--priority-fee-microlamports", "1000001")
    with pytest.raises(SettingsInvalid, match="1000001 exceeds --priority-fee-max-microlamports") as refused:
        chosen(*NEEDED, *fixed)
    assert "priority_fee_microlamports" in refused.value.detail
    raised = ("--priority-fee-max-microlamports", "1000001")
    assert (await sent_one(tmp_path, Network(), *fixed, *raised))[3] == 1_000_001


async def test_spending_budget__of_an_hour__bounds_what_is_signed(tmp_path: Path) -> None:
    node = Network()
    async with sending(tmp_path, node, "--spending-budget-sol-per-hour", "0.000010") as services:
        assert [(await send(services, number)).fate for number in (1, 2)] == [Fate.CONFIRMED] * 2
        with pytest.raises(BudgetExceeded, match="--spending-budget-sol-per-hour"):
            await send(services, 3)
    assert len(node.transactions) == 2


async def test_rent_lamports_per_byte_year__of_a_dearer_cluster__accepts_its_rent(tmp_path: Path) -> None:
    node = Network(answers={"getMinimumBalanceForRentExemption": 2 * 890_880})
    async with sending(tmp_path, node) as services:
        with pytest.raises(ExcessiveRent, match="--rent-lamports-per-byte-year"):
            await services.rpc.minimum_balance(0)
    async with sending(tmp_path, node, "--rent-lamports-per-byte-year", "6960") as services:
        assert await services.rpc.minimum_balance(0) == 2 * 890_880


async def test_payer__of_two_keys__is_the_one_that_signs_and_pays(tmp_path: Path) -> None:
    for number in (1, 2):
        key, node = Keypair.from_seed(bytes([number]) * 32), Network()
        await sent_one(tmp_path, node, "--payer", str(key))
        (transaction,) = node.transactions
        assert transaction.message.account_keys[0] == key.pubkey()
        assert transaction.verify_with_results() == [True]


@pytest.mark.parametrize("given", [True, False])
async def test_lookup_table_address__of_a_table__makes_transactions_smaller(given: bool, tmp_path: Path) -> None:
    head = (1).to_bytes(4, "little") + (2**64 - 1).to_bytes(8, "little")
    data = head.ljust(56, b"\0") + b"".join(map(bytes, ACCOUNTS))
    owner = "AddressLookupTab1e1111111111111111111111111"
    account = {"lamports": 1, "owner": owner, "data": [base64.b64encode(data).decode(), "base64"]}
    node = Network(answers={"getMultipleAccounts": {"value": [account]}})
    await sent_one(tmp_path, node, *(("--lookup-table-address", str(TABLE)) if given else ()))
    (transaction,) = node.transactions
    assert has_table(transaction) is given
    assert (len(bytes(transaction)) < 32 * len(ACCOUNTS)) is given


@pytest.mark.parametrize("most", [2, 5])
async def test_max_concurrent_sends__of_many_transactions__is_how_many_are_in_flight(most: int, tmp_path: Path) -> None:
    node = Network(lands=False)
    async with sending(tmp_path, node, "--max-concurrent-sends", str(most)) as services:
        waiting = [asyncio.create_task(send(services, number)) for number in range(1, 9)]
        await until(lambda: node.counted["getSignatureStatuses"] > 5 and len(node.times_sent) >= most)
        assert len(node.times_sent) == most, "the others wait until one is confirmed"
        node.lands = True
        assert {(await task).fate for task in waiting} == {Fate.CONFIRMED}
    assert len(node.times_sent) == 8


@pytest.mark.parametrize("poll_ms", [123, 4567])
async def test_confirmation_poll_interval__of_a_transaction_in_flight__is_the_pause_between_looks(
    poll_ms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Network(lands=False)
    async with sending(tmp_path, node, "--confirmation-poll-interval-ms", str(poll_ms)) as services:
        pauses = Pauses.kept(monkeypatch)
        waiting = asyncio.create_task(send(services))
        await until(lambda: node.counted["getSignatureStatuses"] >= 3)
        node.lands = True
        await waiting
    assert len(pauses.slept) >= 3
    assert set(pauses.slept) == {poll_ms / 1000}


@pytest.mark.parametrize(("attempts", "fate"), [("20", Fate.DEADLINE_PASSED), ("1000000", Fate.CONFIRMED)])
async def test_confirmation_max_attempts__of_a_transaction_without_a_status__bounds_the_wait(
    attempts: str, fate: Fate, tmp_path: Path
) -> None:
    node = Network(lands=False)
    async with sending(tmp_path, node, "--confirmation-max-attempts", attempts) as services:
        waiting = asyncio.create_task(send(services, within_s=3600))
        await until(lambda: waiting.done() or node.counted["getSignatureStatuses"] > 25)
        node.lands = True
        assert (await asyncio.wait_for(waiting, 60)).fate is fate


@pytest.mark.parametrize(("ttl_s", "signed"), [("5", 2), ("500", 1)])
async def test_tx_cache_ttl__of_a_transaction_of_unknown_fate__is_how_long_its_work_is_not_signed_again(
    ttl_s: str, signed: int, tmp_path: Path
) -> None:
    node, now = Network(lands=False), 1000.0
    words = ("--tx-cache-ttl-seconds", ttl_s, "--confirmation-max-attempts", "1000")  # a second: it is sent
    async with sending(tmp_path, node, *words) as services:
        sender: Any = services.sender
        sender._clock = sender._unsettled._clock = lambda: now
        assert (await send(services)).fate is Fate.DEADLINE_PASSED
        now += 60
        assert (await send(services)).fate is Fate.DEADLINE_PASSED
    assert len(node.times_sent) == signed
