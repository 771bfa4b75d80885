"""Check of the registration for the latest epoch."""

from solders.pubkey import Pubkey

from forester.chain.programs.addresses import forester_epoch_address
from forester.chain.registry_accounts import decode_forester_epoch, read_protocol_config
from forester.chain.rpc_client import RpcClient
from forester.checks.result import NOT_REGISTERED, CheckFailed, passed
from forester.epoch.phases import BeforeGenesis
from forester.network_status.epochs import protocol_times
from forester.network_status.fitness import judge_registration


async def check_registration(client: RpcClient, derivation: Pubkey) -> str:
    """Return epoch and weight; CheckFailed if there is no registration for the latest epoch."""
    times = protocol_times((await read_protocol_config(client)).config)
    try:
        epoch = times.registering_epoch(await client.slot())
    except BeforeGenesis as error:
        raise CheckFailed(f"no epoch has begun: {error}", code=NOT_REGISTERED) from None
    earlier = [epoch - 1] if epoch > 0 else []
    addresses = [forester_epoch_address(derivation, number) for number in (epoch, *earlier)]
    accounts = await client.accounts(addresses)
    current, previous, *_ = [*(None if item is None else decode_forester_epoch(item.data) for item in accounts), None]
    return passed(judge_registration(epoch, current, previous, derivation), NOT_REGISTERED)
