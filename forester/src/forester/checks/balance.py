"""Check of the payer's balance."""

from solders.pubkey import Pubkey

from forester.chain.rpc_client import RpcClient
from forester.checks.result import INSUFFICIENT_FUNDS, passed
from forester.network_status.fitness import judge_balance


async def check_balance(client: RpcClient, payer: Pubkey, minimum_sol: float) -> str:
    """Return the balance; CheckFailed if it is under ``minimum_sol``."""
    return passed(judge_balance(payer, await client.balance(payer), minimum_sol), INSUFFICIENT_FUNDS)
