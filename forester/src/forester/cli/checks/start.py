"""Checks of ``forester start`` before it begins: a wrong setting is reported at once, with its remedy."""

import asyncio

from forester.chain.trees import TreeFilter, find_trees
from forester.checks.result import CONFIGURATION, FAILED, NOT_REGISTERED, CheckFailed, CheckResult, run_check
from forester.checks.services import prover_urls
from forester.cli.checks.network import network_checks
from forester.cli.checks.run import Check, Connections
from forester.errors import SettingsInvalid
from forester.network_status.fitness import MINIMUM_BALANCE_SOL
from forester.settings import Settings, require

LIMIT_S = 20.0
"""Maximum seconds of one check; they run concurrently."""

_NEEDED = ("rpc_url", "indexer_url", "payer", "derivation")
_HOPELESS = ("fallback_rpc", "protocol", "admission", "chosen_trees", "compressible")
_OF_FINDINGS = (FAILED, CONFIGURATION, NOT_REGISTERED)
"""Checks whose findings no wait resolves, and the codes of findings; others are of services that did not answer."""


def is_hopeless(result: CheckResult) -> bool:
    """Return whether a forester could never work with what a check found."""
    return not result.success and result.name in _HOPELESS and result.code in _OF_FINDINGS


def require_for_start(settings: Settings) -> None:
    """Raise SettingsInvalid for settings without which a forester cannot work."""
    require(settings, *_NEEDED)
    if settings.processor_mode != "v1":
        prover_urls(settings)
    if settings.compresses_accounts and settings.ws_rpc_url is None:
        option = "--enable-compressible" if settings.enable_compressible else "--light-pda-program"
        raise SettingsInvalid(
            f"missing ws_rpc_url: {option} needs a subscription to accounts; pass --ws-rpc-url or set WS_RPC_URL"
        )


async def run_start_checks(settings: Settings) -> list[CheckResult]:
    """Run all checks that apply to the settings; nothing is sent, and no failure is raised."""
    checks = _checks(settings)
    return list(await asyncio.gather(*(run_check(name, check, LIMIT_S) for name, check in checks.items())))


def _checks(settings: Settings) -> dict[str, Check]:
    connections = Connections({}, settings)

    async def chosen_check() -> str:
        async with connections.open() as (client, _):
            found = await find_trees(client, TreeFilter.from_settings(settings))
        if not found:
            raise CheckFailed("none of the trees of --tree-id exists, or is of --group-authority and --processor-mode")
        return f"{len(found)} of {len(settings.tree_ids)}"

    checks = network_checks(connections, MINIMUM_BALANCE_SOL) | {"chosen_trees": chosen_check}
    applies = dict.fromkeys(("rpc", "protocol", "balance", "admission", "trees", "indexer"), True) | {
        "fallback_rpc": settings.fallback_rpc_url is not None,
        "chosen_trees": bool(settings.tree_ids),
        "compressible": settings.compresses_accounts,
        "prover": settings.processor_mode != "v1",
        "websocket": settings.ws_rpc_url is not None,
    }
    return {name: checks[name] for name, wanted in applies.items() if wanted}
