"""Which prepared keys are folded: all, none, or, where nobody says, those for which that is cheap.

Folding makes every proof after it faster and its cost is known from the shape of a key, so small keys and batches of
10 are folded unless asked not to; larger batches would keep somebody waiting for most of an hour who did not ask. The
plain form is written first: a prover that starts while a key is folded maps that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prover.errors import DiskFull, OutOfMemory, UnsupportedKey
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, KeyInfo, LoadedKey
from prover.kernel.prepared import WriteProgress
from prover.keys.prepared import prepared_keys

CHEAP_MULTIPLICATIONS = 32_000_000
"""Of points by scalars: batches of 10 take up to 26 million, those of 50 at least 48 million."""

_SECONDS_IN_LANES = 25e-6
_SECONDS_OF_SCALAR_CODE = 75e-6
"""Time of one multiplication on one thread (prover/docs/explanation/folded-keys.md, "Cost")."""
_SCALAR_BACKENDS = ("portable", "adx")
_MILLION = 10**6
_MINUTE_S = 60
_HOUR_S = 3600
_STEPS = 32
"""Points of the quotient are a multiple of the domain's size over this."""


@dataclass(frozen=True)
class Outcome:
    """Whether a prepared form was made, and why it is not folded where that was left to the prover."""

    made: bool
    plain_because: str | None = None


def prepare(
    engine: Engine,
    source: Path,
    folder: Path,
    *,
    fold: bool | None,
    check: Callable[[LoadedKey], None] = lambda _: None,
    table_bytes: int = 0,
    force: bool = False,
    progress: WriteProgress | None = None,
    cancel: CancelFlag | None = None,
) -> Outcome:
    """Make the prepared form of a key unless it is there, folded or not as ``fold`` says; the rest as prepared.prepare.

    Without ``fold`` (None) a key is folded if that takes CHEAP_MULTIPLICATIONS at most, and one that cannot be, or for
    which memory or disk have no room, is left plain. A form that is folded stays so, unless ``force`` is given with
    False. One that gets folded keeps as much room for tables as it had, unless ``force`` is given.
    """
    make = partial(prepared_keys.prepare, engine, source, folder, check=check, cancel=cancel)
    if fold is False:
        return Outcome(make(table_bytes=table_bytes, force=force, progress=progress))
    there = _info_of_form(engine, source, folder, cancel) if force else None
    is_new = there is None and make()
    force = there is not None
    if there is None:
        with prepared_keys.load(engine, source, folder, cancel) as key:
            there = key.info
        table_bytes = max(table_bytes, there.table_bytes)
    is_folded = there.fold_bytes > 0
    reason = None if fold or is_folded else _too_much(engine, there)
    make = partial(make, table_bytes=table_bytes, force=force, progress=progress)
    try:
        return Outcome(make(fold=reason is None) or is_new, reason)
    except (OutOfMemory, UnsupportedKey, DiskFull) as error:
        if fold or is_folded:
            raise
        return Outcome(make() or is_new, error.detail)


def multiplications(info: KeyInfo) -> int:
    """Return about how many multiplications of points folding takes; the kernel counts its progress by the same.

    A domain that is full, but for a sixteenth, takes two transforms of points, any other three and those of its parts.
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


def _info_of_form(engine: Engine, source: Path, folder: Path, cancel: CancelFlag | None) -> KeyInfo | None:
    key = prepared_keys.open_existing(engine, source, folder, cancel)
    if key is None:
        return None
    with key:
        return key.info


def _too_much(engine: Engine, info: KeyInfo) -> str | None:
    """Why a key is not folded unless somebody asks for it, and how that is done; None where it is cheap."""
    count = multiplications(info)
    if count <= CHEAP_MULTIPLICATIONS:
        return None
    threads = engine.threads
    each = _SECONDS_OF_SCALAR_CODE if engine.backend in _SCALAR_BACKENDS else _SECONDS_IN_LANES
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
