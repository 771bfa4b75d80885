"""Transactions on a network that loses some, and one that a program inside the registry refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from localnet_forester import EPOCH, forester_on
from localnet_process import Localnet, running_localnet
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.system_program import TransferParams
from solders.system_program import transfer as system_transfer

from forester.chain.programs import registry
from forester.errors import TransactionRefused
from forester.settings import SigningKey
from forester.transactions.builder import Budget, build
from forester.transactions.confirm import Confirmations, ConfirmationTimes, Fate, Outcome

STATE_TREE = Pubkey.from_string("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU")


@pytest.fixture
def net() -> Iterator[Localnet]:
    with running_localnet() as localnet:
        yield localnet


async def test_v2_batch__with_a_proof_of_another_root__is_refused_by_the_inner_program(
    net: Localnet, tmp_path: Path
) -> None:
    async with forester_on(net, tmp_path) as kit:
        await kit.register()
        net.call("localnet_seed", {"compress": 10, "spend": 10})
        me = registry.Forester.registered(kit.pubkey, kit.pubkey, EPOCH)
        work = registry.batch_nullify(me, STATE_TREE, bytes(160))
        outcome = await kit.moving(kit.sender.send([work], purpose="test", subject=b"", within_s=120))
    assert outcome.fate is Fate.REFUSED
    assert isinstance(outcome.error, TransactionRefused)
    assert outcome.error.program == "compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq"
    assert outcome.error.code == 13006


async def test_transactions__dropped_by_the_network__land_anyway(net: Localnet, tmp_path: Path) -> None:
    net.call("localnet_faults", {"dropEvery": 2})
    payer = SigningKey(net.keys["forester"])
    async with forester_on(net, tmp_path) as kit, Confirmations(kit.rpc, pace=ConfirmationTimes(0.05, 0.1)) as flight:
        blockhash = await kit.rpc.latest_blockhash()
        built = [build([transfer(payer, lamports)], payer, blockhash.hash, Budget(10_000)) for lamports in range(1, 7)]
        last = blockhash.last_valid_block_height
        outcomes = await kit.moving(together(*(flight.send(item, last, within_s=60) for item in built)))
        assert {outcome.fate for outcome in outcomes} == {Fate.CONFIRMED}


async def together(*sends: Coroutine[Any, Any, Outcome]) -> list[Outcome]:
    return await asyncio.gather(*sends)


def transfer(payer: SigningKey, lamports: int) -> Instruction:
    return system_transfer(
        TransferParams(from_pubkey=payer.pubkey, to_pubkey=Pubkey(bytes([9]) * 32), lamports=10**9 + lamports)
    )
