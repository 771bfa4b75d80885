"""Default room for tables of precomputed bases: keys of small circuits have some, larger ones none.

The kernel makes the best tables that fit into the room, or none where its backend would not be faster with them.
See prover/docs/explanation/measurements.md, "Tables".
"""

from prover.kernel.engine import KeyInfo

MOST_CONSTRAINTS = 18_959
"""Constraints of combined 32/40 with one leaf and one address, the largest circuit with tables by default."""
TABLE_BYTES = 11 * 2**20
"""Room for the tables of one key."""


def room_for_tables(info: KeyInfo, requested: int | None) -> int:
    """Return the requested bytes; without a request, the default for the size of the circuit."""
    if requested is not None:
        return requested
    return TABLE_BYTES if info.constraints <= MOST_CONSTRAINTS else 0
