"""Check that compressible accounts can be compressed: the config that the programs read must be active.

Source: forester/docs/reference/accounts.md, "Compressible config".
"""

from forester.chain.programs.addresses import REGISTRY
from forester.chain.programs.compression import CONFIG
from forester.chain.rpc_client import RpcClient
from forester.checks.result import CheckFailed
from forester.errors import MalformedAccount

_DISCRIMINATOR = bytes.fromhex("b404e71adc9037a8")
_STATE_OFFSET, _ACTIVE = 10, 1


async def check_compressible(client: RpcClient) -> str:
    """Return that the config is active; CheckFailed if it is not, because every compression would be refused."""
    account = await client.existing_account(CONFIG, "the compressible config", length=_STATE_OFFSET + 1)
    if account.owner != REGISTRY or account.data[:8] != _DISCRIMINATOR or len(account.data) <= _STATE_OFFSET:
        raise MalformedAccount(f"{CONFIG} is not the compressible config of the registry")
    state = account.data[_STATE_OFFSET]
    if state != _ACTIVE:
        raise CheckFailed(
            f"the compressible config {CONFIG} has the state {state} where {_ACTIVE} is active; "
            "leave out --enable-compressible and --light-pda-program"
        )
    return "the compressible config is active"
