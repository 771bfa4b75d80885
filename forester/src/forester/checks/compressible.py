"""Check that compressible accounts can be compressed: the config that the programs read must not be inactive.

Source: forester/docs/reference/accounts.md, "Compressible config".
"""

from forester.chain.programs.addresses import REGISTRY
from forester.chain.programs.compression import CONFIG
from forester.chain.rpc_client import RpcClient
from forester.checks.result import CheckFailed
from forester.errors import MalformedAccount

_DISCRIMINATOR = bytes.fromhex("b404e71adc9037a8")
_STATE_OFFSET = 10
_USABLE = {1: "active", 2: "deprecated"}
"""States in which the programs compress accounts; a deprecated config only makes no new ones."""


async def check_compressible(client: RpcClient) -> str:
    """Return the state of the config; CheckFailed for one in which every compression would be refused."""
    account = await client.existing_account(CONFIG, "the compressible config", length=_STATE_OFFSET + 1)
    if account.owner != REGISTRY or account.data[:8] != _DISCRIMINATOR or len(account.data) <= _STATE_OFFSET:
        raise MalformedAccount(f"{CONFIG} is not the compressible config of the registry")
    state = account.data[_STATE_OFFSET]
    if state not in _USABLE:
        raise CheckFailed(
            f"the compressible config {CONFIG} has the state {state}, neither active (1) nor deprecated (2); "
            "leave out --enable-compressible and --light-pda-program"
        )
    return f"the compressible config is {_USABLE[state]}"
