"""The maximum that one rollover may spend; no I/O.

Sizes come from accounts that a node returns, so they are bounded by what the public trees cost.
"""

from forester.chain.tree_metadata import TreeKind, TreeMetadata
from forester.rollover.failures import RolloverTooExpensive
from forester.rollover.readiness import Rents
from forester.rollover.successor import Sizes
from forester.units import LAMPORTS_PER_BYTE_YEAR, LAMPORTS_PER_SOL, sol

MAX_CPI_CONTEXT_BYTES = 65_536
"""The public networks use 14,020 and 20,488 bytes."""

DEFAULT_CAPS = {
    TreeKind.STATE_V1: 20 * LAMPORTS_PER_SOL,
    TreeKind.ADDRESS_V1: 26 * LAMPORTS_PER_SOL,
    TreeKind.STATE_V2: 23 * LAMPORTS_PER_SOL // 2,
    TreeKind.ADDRESS_V2: 17 * LAMPORTS_PER_SOL // 2,
}
"""Lamports at the rent of the public clusters, where the public trees cost 19.27, 24.97, 10.88 and 8.10 SOL."""


def cap_of(kind: TreeKind, configured: int | None, lamports_per_byte_year: int) -> int:
    """Return the cap in lamports: the configured one, else the default at the cluster's rent."""
    if configured is not None:
        return configured
    return DEFAULT_CAPS[kind] * max(lamports_per_byte_year, LAMPORTS_PER_BYTE_YEAR) // LAMPORTS_PER_BYTE_YEAR


def require_sizes(sizes: Sizes) -> None:
    """Raise RolloverTooExpensive for a CPI context that no deployment has."""
    if sizes.cpi_context is not None and sizes.cpi_context > MAX_CPI_CONTEXT_BYTES:
        raise RolloverTooExpensive(
            f"cpi_context_size of the protocol configuration is {sizes.cpi_context} bytes, the maximum is "
            f"{MAX_CPI_CONTEXT_BYTES}; the node or its cluster is wrong, use another node"
        )


def require_within(cap: int, sizes: Sizes, rents: Rents, tree: TreeMetadata) -> None:
    """Raise RolloverTooExpensive if the rent of all new accounts exceeds ``cap`` lamports."""
    if rents.laid_out > cap:
        raise RolloverTooExpensive(
            f"the rollover of {tree.address} ({tree.kind.label}) spends {sol(rents.laid_out):g} SOL, the maximum is "
            f"{sol(cap):g} SOL: the node has a tree of {sizes.tree} bytes, a queue of {sizes.queue or 0}, and a CPI "
            f"context of {sizes.cpi_context or 0}; compare them with another node, or raise --rollover-max-sol"
        )
