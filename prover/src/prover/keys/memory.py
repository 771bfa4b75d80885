"""How much memory loaded keys may take."""

from prover.observability.memory import memory_limit_bytes

GIB = 2**30

_KEY_SHARE = 0.5
"""Of the memory of this process; the other half is for proofs in progress."""


def key_budget_bytes(budget_gib: float, total_gib: float = 0) -> int:
    """Bytes that loaded keys may take: ``budget_gib``, or where that is 0 half of ``total_gib`` or of the machine."""
    if budget_gib:
        return int(budget_gib * GIB)
    return int((total_gib * GIB or memory_limit_bytes()) * _KEY_SHARE)


def gibibytes(count: float) -> str:
    """Bytes for a sentence: ``1.5 GiB``, ``12 MiB``."""
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / 2**20:.1f} MiB"
