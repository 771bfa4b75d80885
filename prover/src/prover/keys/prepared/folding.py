"""Choice of the prepared keys that are folded: all, none, or by default those that are cheap to fold.

Folding makes later proofs faster, and its cost follows from the shape of a key. So small keys and batches of 10 are
folded by default; larger batches would take minutes to hours that the user did not request. The unfolded key is written
first: a prover that starts during folding maps it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prover.errors import DiskFull, OutOfMemory, UnsupportedKey
from prover.kernel.cancellation import CancelFlag, Progress
from prover.kernel.engine import Engine, KeyInfo, LoadedKey
from prover.keys.prepared import prepared_keys
from prover.keys.prepared.table_room import room_for_tables

CHEAP_MULTIPLICATIONS = 32_000_000
"""Multiplications of points by scalars: batches of 10 take up to 26 million, those of 50 at least 48 million."""

_SECONDS_OF_LANES = {"ifma": 7e-6, "avx512": 20e-6, "avx2": 20e-6}
_SECONDS_OF_SCALAR_CODE = 75e-6
"""Time of one multiplication on one thread of an older CPU (prover/docs/explanation/folded-keys.md, "Cost")."""
_MILLION = 10**6
_MINUTE_S = 60
_HOUR_S = 3600
_STEPS = 32
"""Points of the quotient are a multiple of the domain's size over this."""


@dataclass(frozen=True)
class PreparationOutcome:
    """Outcome of a preparation: True if the key was written, and the reason if the default left it unfolded."""

    was_made: bool
    unfolded_reason: str | None = None


def prepare(
    engine: Engine,
    source: Path,
    folder: Path,
    *,
    fold: bool | None,
    check: Callable[[LoadedKey], None] = lambda _: None,
    table_bytes: int | None = 0,
    force: bool = False,
    progress: Progress | None = None,
    cancel: CancelFlag | None = None,
) -> PreparationOutcome:
    """Write the prepared key of a key file unless it exists, folded as ``fold`` says. See prepared_keys.prepare.

    With None, a key is folded if that takes at most CHEAP_MULTIPLICATIONS. It stays unfolded if it cannot be folded, or
    if memory or disk have no room. A folded one stays folded, except with ``fold`` False and ``force``. A key that gets
    folded keeps the room for tables that it had, unless ``force`` is given.
    """
    make = partial(prepared_keys.prepare, engine, source, folder, check=check, cancel=cancel)
    if fold is False:
        return PreparationOutcome(make(table_bytes=table_bytes, force=force, progress=progress))
    existing = _info_of_prepared_key(engine, source, folder, cancel) if force else None
    is_new = existing is None and make()
    force = existing is not None
    if existing is None:
        with prepared_keys.load(engine, source, folder, cancel) as key:
            existing = key.info
        table_bytes = max(room_for_tables(existing, table_bytes), existing.table_bytes)
    is_folded = existing.fold_bytes > 0
    reason = None if fold or is_folded else _expense_reason(engine, existing)
    make = partial(make, table_bytes=table_bytes, force=force, progress=progress)
    try:
        return PreparationOutcome(make(fold=reason is None) or is_new, reason)
    except (OutOfMemory, UnsupportedKey, DiskFull) as error:
        if fold or is_folded:
            raise
        return PreparationOutcome(make() or is_new, error.detail)


def multiplications(info: KeyInfo) -> int:
    """Return the approximate number of multiplications of points in folding; the kernel's progress has the same unit.

    A domain that is full but for a sixteenth takes two transforms of points; others take three and those of parts.
    """
    n = info.domain_size
    log2 = n.bit_length() - 1
    transform = n // 2 * log2
    step = max(n // _STEPS, 1)
    points = max(-(-(info.constraints - 1) // step) * step, n // 2)
    if points == 0 or points > n - n // 16:
        return 2 * transform + 2 * n
    parts = [bit for bit in range(log2 + 1) if points >> bit & 1]
    return 3 * transform + 2 * n + sum((bit + 1 + len(parts) << bit) + n for bit in parts)


def _info_of_prepared_key(engine: Engine, source: Path, folder: Path, cancel: CancelFlag | None) -> KeyInfo | None:
    key = prepared_keys.open_existing(engine, source, folder, cancel)
    if key is None:
        return None
    with key:
        return key.info


def _expense_reason(engine: Engine, info: KeyInfo) -> str | None:
    """Return the cost of folding a key and the option that requests it; None if the cost is low."""
    count = multiplications(info)
    if count <= CHEAP_MULTIPLICATIONS:
        return None
    threads = engine.threads
    each = _SECONDS_OF_LANES.get(engine.backend, _SECONDS_OF_SCALAR_CODE)
    digits = 0 if count >= 10 * _MILLION else 1
    return (
        f"folding takes {count / _MILLION:.{digits}f} million multiplications of points, "
        f"{_duration(count * each / threads)} on {threads} {'thread' if threads == 1 else 'threads'} of this machine: "
        "--fold does it"
    )


def _duration(seconds: float) -> str:
    if seconds < 2 * _HOUR_S:
        return f"about {max(round(seconds / _MINUTE_S), 1)} min"
    return f"about {seconds / _HOUR_S:.0f} h"
