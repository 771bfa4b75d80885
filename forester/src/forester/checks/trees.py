"""Whether there are trees to work on, and those that were chosen among them."""

from collections import Counter

from solders.pubkey import Pubkey

from forester.chain.rpc_client import RpcClient
from forester.chain.tree_metadata import decode_tree_metadata
from forester.checks.result import CheckFailed
from forester.network_status.reader import find_trees


async def check_trees(client: RpcClient, chosen: tuple[Pubkey, ...]) -> str:
    """Return the number of trees by kind; CheckFailed if there is none, or a chosen one is not there."""
    accounts = await find_trees(client)
    found = {item.address: decode_tree_metadata(item.address, item.data) for item in accounts}
    missing = [str(address) for address in chosen if address not in found]
    if missing:
        raise CheckFailed(f"no such trees: {', '.join(missing)}; correct --tree-id")
    if not found:
        raise CheckFailed("there are no trees; is this the right cluster?")
    kinds = Counter(tree.kind.label for address, tree in found.items() if not chosen or address in chosen)
    return ", ".join(f"{count} {label}" for label, count in sorted(kinds.items()))
