"""Check that the protocol's authority admitted the forester, with the key that signs."""

from solders.pubkey import Pubkey

from forester.chain.programs.addresses import forester_address
from forester.chain.registry_accounts import decode_forester, read_protocol_config
from forester.chain.rpc_client import RpcClient
from forester.checks.result import CheckFailed


async def check_admission(client: RpcClient, derivation: Pubkey, payer: Pubkey) -> str:
    """Return the weight; CheckFailed if the forester could not register for an epoch."""
    account = await client.account(forester_address(derivation))
    if account is None:
        raise CheckFailed(f"no forester is known by the derivation key {derivation}; ask the protocol's authority")
    forester = decode_forester(account.data)
    if forester.authority != payer:
        raise CheckFailed(f"{forester.authority} signs for this forester, not the payer {payer}; correct PAYER")
    least = (await read_protocol_config(client)).config.min_weight
    if forester.active_weight < least:
        raise CheckFailed(f"the forester's weight of {forester.active_weight} is below the minimum of {least}")
    return f"admitted with weight {forester.active_weight}"
