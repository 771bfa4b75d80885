"""Distinct types of quantities that are easily confused."""

from typing import NewType

Slot = NewType("Slot", int)
"""A slot of the chain, 400 ms by design."""

Epoch = NewType("Epoch", int)
"""A cycle of registration, active phase and report; epochs overlap."""

LightSlot = NewType("LightSlot", int)
"""Window of ``slot_length`` slots inside an active phase, counted from its start; the unit of rotation."""

BatchIndex = NewType("BatchIndex", int)
"""Position of a batch in its queue: 0 or 1."""

Lamports = NewType("Lamports", int)
"""10^-9 SOL."""

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
