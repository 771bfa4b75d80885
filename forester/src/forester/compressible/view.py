"""The compressible accounts of this forester, as ``/compressible``, ``/status`` and the metrics report them.

Source: forester/docs/reference/behaviour.md, "HTTP API".
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from forester.journal.compressible import ASSOCIATED_TOKEN, LABELS, MINT, TOKEN, TrackedCounts, program_kind
from forester.observability.metrics import Metrics, total
from forester.settings import LightProgram

REFRESH_EVERY_S = 5


class CompressibleView:
    """The latest counts; without any, compressible accounts are not tracked."""

    def __init__(self, metrics: Metrics, programs: Sequence[LightProgram] = ()) -> None:
        self._metrics = metrics
        self._programs = tuple(programs)
        self._latest: tuple[int, Mapping[int, TrackedCounts], float] | None = None

    def show(self, slot: int, counts: Mapping[int, TrackedCounts]) -> None:
        """Publish the counts of each kind at a slot."""
        self._latest = slot, counts, time.time()
        # The reference counts associated accounts as token accounts too; metrics, which are added up, do not.
        numbers = {name: counts.get(kind, TrackedCounts()) for kind, name in LABELS.items()}
        if self._programs:
            numbers["pda"] = self._of_programs(counts)
        for kind, found in numbers.items():
            self._metrics.compressible_tracked.labels(kind).set(found.tracked)
            self._metrics.compressible_ready.labels(kind).set(found.ready)

    def as_object(self) -> dict[str, Any]:
        """Return the answer of ``/compressible`` in the reference's format."""
        if self._latest is None:
            return {"enabled": False, "source": "none", "cached_at": int(time.time())}
        slot, counts, at = self._latest
        associated = counts.get(ASSOCIATED_TOKEN, TrackedCounts())
        tokens = counts.get(TOKEN, TrackedCounts()) + associated
        mints, programs = counts.get(MINT, TrackedCounts()), self._of_programs(counts)
        together = tokens + mints + programs
        done = self._metrics.accounts_compressed_count
        content: dict[str, Any] = {
            "enabled": True,
            "ctoken_count": tokens.tracked,
            "ata_count": associated.tracked,
            "mint_count": mints.tracked,
            "current_slot": slot,
            "total_tracked": together.tracked,
            "total_ready": together.ready,
            "total_waiting": together.waiting,
            "ctoken": numbers_of(tokens) | {"compressed": done("ctoken", "ata")},
            "ata": numbers_of(associated) | {"compressed": done("ata")},
            "mint": numbers_of(mints) | {"compressed": done("mint")},
        }
        if self._programs:
            content["pda_count"] = programs.tracked
            content["pda"] = numbers_of(programs) | {"compressed": done("pda")}
            content["pda_programs"] = [
                {"program_id": str(program), **numbers_of(_sum(self._of_program(program, counts)))}
                for program in sorted({item.program for item in self._programs}, key=str)
            ]
        return content | {"refresh_interval_secs": REFRESH_EVERY_S, "source": "tracker", "cached_at": int(at)}

    def summary(self) -> dict[str, Any] | None:
        """Return the member ``compressible`` of ``/status``; None if compressible accounts are not tracked."""
        if self._latest is None:
            return None
        content = self.as_object()
        metrics = self._metrics
        return {
            "tracked": content["total_tracked"],
            "ready": content["total_ready"],
            "compressed": total(metrics.accounts_compressed),
            "lamports_received": total(metrics.compression_lamports),
            "lamports_recovered": total(metrics.rent_recovered),
            "lamports_claimed": total(metrics.rent_claimed),
        }

    def _of_programs(self, counts: Mapping[int, TrackedCounts]) -> TrackedCounts:
        return _sum([self._counts(item, counts) for item in self._programs])

    def _of_program(self, program: object, counts: Mapping[int, TrackedCounts]) -> list[TrackedCounts]:
        return [self._counts(item, counts) for item in self._programs if item.program == program]

    @staticmethod
    def _counts(named: LightProgram, counts: Mapping[int, TrackedCounts]) -> TrackedCounts:
        return counts.get(program_kind(bytes(named.program), named.discriminator), TrackedCounts())


def _sum(parts: Sequence[TrackedCounts]) -> TrackedCounts:
    return sum(parts, TrackedCounts())


def numbers_of(counts: TrackedCounts) -> dict[str, int]:
    """Return counts as ``/compressible`` spells them."""
    numbers = {"tracked": counts.tracked, "ready": counts.ready, "waiting": counts.waiting}
    if counts.next_ready_slot is not None:
        numbers["next_ready_slot"] = counts.next_ready_slot
    return numbers
