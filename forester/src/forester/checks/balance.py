"""Whether the payer can pay."""

from solders.pubkey import Pubkey

from forester.chain.rpc_client import RpcClient
from forester.checks.result import CheckFailed
from forester.units import sol


async def check_balance(client: RpcClient, payer: Pubkey, least_sol: float) -> str:
    """Return the balance; CheckFailed if it is under ``least_sol``."""
    balance = sol(await client.balance(payer))
    if balance < least_sol:
        raise CheckFailed(
            f"insufficient funds: {payer} has {balance:.4f} SOL, less than the minimum {least_sol:.4f} SOL; top it up"
        )
    return f"{balance:.4f} SOL, minimum {least_sol:.4f} SOL"
