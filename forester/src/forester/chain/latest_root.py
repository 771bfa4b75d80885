"""The root that a tree of any kind has now."""

from forester.chain import batched_accounts, concurrent_accounts
from forester.chain.tree_metadata import TreeKind
from forester.units import Root


def latest_root(kind: TreeKind, data: bytes) -> Root:
    """Return the latest root in the whole account of a tree; raises MalformedAccount."""
    if kind.is_batched:
        return batched_accounts.latest_root(batched_accounts.decode_batched_tree(data), data)
    return concurrent_accounts.latest_root(concurrent_accounts.decode_tree(data), data)
