"""The life of an epoch as the machine decides it, against the published registry; restarted before every step."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from localnet_process import Localnet, running_localnet
from solders.compute_budget import set_compute_unit_limit
from solders.transaction import Transaction

from forester.chain.registry_accounts import read_protocol_config
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.epoch.decisions import DONE, Action, ActionResult, EpochState, Progress, after, decide
from forester.epoch.phases import ProtocolTimes
from forester.epoch.registration import instruction_of, outcome_of, read_epoch
from forester.errors import TransactionRefused
from forester.network_status.epochs import protocol_times
from forester.scheduling.tree_schedule import Share, TreeSchedule

EPOCH = 2


@pytest.fixture
def net() -> Iterator[Localnet]:
    with running_localnet() as localnet:
        yield localnet


async def attempt(net: Localnet, rpc: RpcClient, action: Action, epoch: int) -> ActionResult:
    """Send what an action needs."""
    key = net.keys["forester"]
    instruction = instruction_of(action, key.pubkey(), key.pubkey(), epoch)
    blockhash = await rpc.latest_blockhash()
    instructions = [set_compute_unit_limit(200_000), instruction]
    transaction = Transaction.new_signed_with_payer(instructions, key.pubkey(), [key], blockhash.hash)
    try:
        signature = await rpc.send_transaction(bytes(transaction))
    except TransactionRefused as error:
        return outcome_of(action, error)
    await asyncio.to_thread(net.call, "localnet_advance", 1)
    (status,) = (await rpc.signature_statuses([signature])).found
    assert status is not None
    assert status.err is None
    return DONE


async def warp(net: Localnet, rpc: RpcClient, slot: int) -> None:
    """Go on until a slot is confirmed."""
    if await rpc.slot("processed") < slot:
        await asyncio.to_thread(net.call, "localnet_warp", slot)
    while await rpc.slot() < slot:
        await asyncio.to_thread(net.call, "localnet_advance", 1)


async def times_of(rpc: RpcClient) -> ProtocolTimes:
    return protocol_times((await read_protocol_config(rpc)).config)


async def test_epoch__real_registry_and_a_restart_before_each_step__goes_from_registration_to_report(
    net: Localnet,
) -> None:
    me = net.keys["forester"].pubkey()
    done: list[tuple[EpochState, Action]] = []
    async with RpcPool([net.url]) as pool:
        rpc = RpcClient(pool)
        times = await times_of(rpc)
        phases = times.phases(EPOCH)
        assert EPOCH in times.live_epochs(await rpc.slot())
        for _ in range(20):
            progress = Progress()  # what a restart leaves
            seen = await read_epoch(rpc, me, EPOCH, await rpc.slot(), authority=me)
            decision = decide(phases, progress, seen)
            done.append((decision.state, decision.action))
            if decision.state.is_over:
                break
            if decision.action in (Action.WAIT, Action.WORK):
                assert decision.until_slot is not None
                await warp(net, rpc, decision.until_slot + 1)
            else:
                assert await attempt(net, rpc, decision.action, EPOCH) == DONE
            if decision.action is Action.WORK:
                assert seen.registration is not None
                own = seen.registration
                share = Share(own.forester_index, own.weight, own.total_epoch_weight or 0)
                owned = TreeSchedule.make(phases, bytes(32), share, seen.slot).owned
                assert owned[-1] == phases.light_slots - 1, "alone, we own all that is left"
    assert done == [
        (EpochState.REGISTERING, Action.REGISTER),
        (EpochState.REGISTERED, Action.WAIT),
        (EpochState.FINALIZING, Action.FINALIZE),
        (EpochState.ACTIVE, Action.WORK),
        (EpochState.REPORTING, Action.REPORT),
        (EpochState.DONE, Action.WAIT),
    ]


async def test_actions__at_the_wrong_time_or_twice__are_refused_with_codes_that_the_machine_knows(
    net: Localnet,
) -> None:
    me = net.keys["forester"].pubkey()
    async with RpcPool([net.url]) as pool:
        rpc = RpcClient(pool)
        times = await times_of(rpc)
        phases, progress = times.phases(EPOCH), Progress()
        assert await attempt(net, rpc, Action.REGISTER, EPOCH) == DONE
        # As a forester that has just been restarted on a node that lags.
        again = await attempt(net, rpc, Action.REGISTER, EPOCH)
        assert not again.done
        assert after(phases, progress, Action.REGISTER, again, await rpc.slot()).failures == 0
        early = await attempt(net, rpc, Action.FINALIZE, EPOCH)
        assert early.code == 6009
        await warp(net, rpc, phases.active.first)
        assert await attempt(net, rpc, Action.FINALIZE, EPOCH) == DONE
        early = await attempt(net, rpc, Action.REPORT, EPOCH)
        assert early.code == 6011
        await warp(net, rpc, phases.report_work.first)
        assert await attempt(net, rpc, Action.REPORT, EPOCH) == DONE
        twice = await attempt(net, rpc, Action.REPORT, EPOCH)
        assert twice.code == 6012
        seen = await read_epoch(rpc, me, EPOCH, await rpc.slot(), authority=me)
        assert decide(phases, progress, seen).state is EpochState.DONE
