"""Distinct types of quantities that are easily confused."""

from typing import NewType

Root = NewType("Root", bytes)
"""Root of a Merkle tree: 32 bytes, big-endian."""

LAMPORTS_PER_SOL = 10**9
LAMPORTS_PER_BYTE_YEAR = 3480
"""Rent of the public clusters."""
SLOT_SECONDS = 0.4
"""Length of a slot by design; the reference assumes it everywhere."""


def lamports_of(sol: float) -> int:
    """Return an amount of SOL in lamports."""
    return round(sol * LAMPORTS_PER_SOL)


def sol(lamports: int) -> float:
    """Return an amount of lamports in SOL."""
    return lamports / LAMPORTS_PER_SOL
