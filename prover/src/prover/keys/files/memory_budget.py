"""Memory budget of loaded keys, and the additional memory that folding takes."""

from prover.errors import MemoryBudgetExceeded
from prover.kernel.engine import KeyInfo
from prover.units import GIB, gibibytes
from shared.process.cpus_and_memory import memory_limit_bytes


def half_of_memory(total_gib: float) -> int:
    """Return the bytes for keys, and those for proofs in progress: half of ``total_gib``, if 0 half of the memory."""
    return int(total_gib * GIB or memory_limit_bytes()) // 2


def key_budget_bytes(budget_gib: float, total_gib: float = 0) -> int:
    """Return the bytes for loaded keys: ``budget_gib``, if 0 half of ``total_gib``, if 0 half of the memory."""
    return int(budget_gib * GIB) if budget_gib else half_of_memory(total_gib)


def folding_bytes(info: KeyInfo) -> int:
    """Return the bytes that folding needs: five points and four scalars per domain element, one sum per wire."""
    return 448 * info.domain_size + 128 * info.wires


def require_memory_for_folding(info: KeyInfo, limit_bytes: int) -> None:
    """Raise MemoryBudgetExceeded when the loaded key and its folding do not fit in ``limit_bytes``."""
    working = folding_bytes(info)
    need = info.resident_bytes + working
    if need > limit_bytes:
        raise MemoryBudgetExceeded(
            f"folding takes {gibibytes(working)} of memory in addition to {gibibytes(info.resident_bytes)} of the key; "
            f"this process may use {gibibytes(limit_bytes)}: prepare the key with --no-fold, or fold it on a machine "
            "with more memory and copy the prepared file"
        )
