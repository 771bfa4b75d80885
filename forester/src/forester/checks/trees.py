"""Check that there are trees to work on, including all chosen ones."""

from collections import Counter
from collections.abc import Collection, Mapping

from solders.pubkey import Pubkey

from forester.chain.tree_metadata import TreeMetadata
from forester.checks.result import CheckFailed


def check_trees(found: Mapping[Pubkey, TreeMetadata], chosen: Collection[Pubkey]) -> str:
    """Return the number of trees by kind; CheckFailed if none is ``found``, or one of ``chosen`` is not.

    ``found`` are the trees that the settings select, ``chosen`` those that they name.
    """
    missing = [str(tree) for tree in chosen if tree not in found]
    if missing:
        other = "--group-authority or --processor-mode"
        raise CheckFailed(f"no such trees, or left out by {other}: {', '.join(missing)}; correct --tree-id")
    if not found:
        raise CheckFailed("no trees exist, or none of --group-authority and --processor-mode; correct them")
    kinds = Counter(tree.kind.label for tree in found.values())
    return ", ".join(f"{count} {label}" for label, count in sorted(kinds.items()))
