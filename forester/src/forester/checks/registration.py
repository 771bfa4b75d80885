"""Check of the registration for the latest epoch."""

from solders.pubkey import Pubkey

from forester.chain.programs.addresses import forester_epoch_address
from forester.chain.registry_accounts import decode_forester_epoch, read_protocol_config
from forester.chain.rpc_client import RpcClient
from forester.checks.result import NOT_REGISTERED, CheckFailed, passed
from forester.epoch.decisions import OTHER_AUTHORITY
from forester.epoch.phases import BeforeGenesis
from forester.network_status.epochs import protocol_times
from forester.network_status.fitness import judge_registration


async def check_registration(client: RpcClient, derivation: Pubkey, authority: Pubkey | None) -> str:
    """Return epoch and weight; CheckFailed if there is no registration for the latest epoch.

    Only the key of a registration may act in its epoch, so that one by another key than ``authority`` is none; with
    None any key is accepted.
    """
    times = protocol_times((await read_protocol_config(client)).config)
    try:
        epoch = times.registering_epoch(await client.slot())
    except BeforeGenesis as error:
        raise CheckFailed(f"no epoch has begun: {error}", code=NOT_REGISTERED) from None
    earlier = [epoch - 1] if epoch > 0 else []
    addresses = [forester_epoch_address(derivation, number) for number in (epoch, *earlier)]
    accounts = await client.accounts(addresses)
    current, previous, *_ = [*(None if item is None else decode_forester_epoch(item.data) for item in accounts), None]
    if current is not None and authority not in (None, current.authority):
        reason = OTHER_AUTHORITY.format(current.authority)
        raise CheckFailed(f"not registered for epoch {epoch} with the payer {authority}: {reason}", code=NOT_REGISTERED)
    return passed(judge_registration(epoch, current, previous, derivation), NOT_REGISTERED)
