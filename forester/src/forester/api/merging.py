"""One answer from those of several foresters; no I/O.

Source: forester/docs/reference/behaviour.md, "HTTP API". Answers are another process's: a member of the wrong type
counts as absent.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from forester.api.metrics_json import LARGEST
from forester.api.upstreams import UpstreamView
from forester.dashboard.view import ForesterView

SOURCE = "forester-apis"
_KINDS = ("ctoken", "ata", "pda", "mint")
_COUNTS = ("tracked", "compressed", "ready", "waiting")
_TOTALS = ("total_tracked", "total_ready", "total_waiting")


def merged_health(views: Sequence[UpstreamView], own: Sequence[str] = ()) -> dict[str, Any]:
    """Return ``status`` ok if all foresters are fit; else the reasons, each with the forester's URL.

    ``own`` are reasons of this process.
    """
    foresters, reasons = [], list(own)
    for view in views:
        found = unfitness(view)
        foresters.append({"base_url": view.base_url, "ok": not found, "reasons": found})
        reasons += [f"{view.base_url}: {reason}" for reason in found]
    if not reasons:
        return {"status": "ok", "foresters": foresters}
    return {"status": "unhealthy", "reasons": reasons, "foresters": foresters}


def unfitness(view: UpstreamView) -> list[str]:
    """Return the reasons of a forester's ``/health``; none if it is fit."""
    if view.error is not None:
        return [view.error]
    health = view.answers["/health"]
    if health.get("status") == "ok":
        return []
    reasons = health.get("reasons")
    texts = [text for text in reasons if isinstance(text, str)] if isinstance(reasons, list) else []
    return texts or ["unhealthy without a reason"]


def merged_foresters(views: Sequence[UpstreamView]) -> list[ForesterView]:
    """Return the foresters as the dashboard shows them; of one without ``/activity`` only its health is known."""
    return [
        ForesterView(
            view.base_url,
            view.activity,
            view.error,
            reasons=unfitness(view) if view.is_ok and view.activity is None else (),
        )
        for view in views
    ]


def merged_metrics(views: Sequence[UpstreamView]) -> dict[str, Any]:
    """Return the metrics object of all foresters: counts and rates added up, shared facts once."""
    found = [view.answers["/metrics/json"] for view in views if view.is_ok]
    processed = _sums(_numbers(found, "transactions_processed_total"))
    return {
        "transactions_processed_total": {epoch: int(count) for epoch, count in processed.items()},
        "transaction_rate": _sums(_numbers(found, "transaction_rate")),
        "last_run_timestamp": max((int(_number(item.get("last_run_timestamp"))) for item in found), default=0),
        "forester_balances": dict(_numbers(found, "forester_balances")),
        "queue_lengths": _largest(_numbers(found, "queue_lengths")),
        "source": SOURCE if found else "none",
        "cached_at": min((view.read_at for view in views if view.is_ok), default=int(time.time())),
        "upstreams": _upstreams(views),
    }


def merged_compressible(views: Sequence[UpstreamView]) -> dict[str, Any]:
    """Return the compressible accounts of all foresters, added up: each counts those that it tracks."""
    found = [view.answers["/compressible"] for view in views if view.is_ok]
    tracking = [item for item in found if item.get("enabled") is True]
    merged: dict[str, Any] = {"enabled": bool(tracking)}
    if tracking:
        merged |= {name: sum(int(_number(item.get(name))) for item in tracking) for name in _TOTALS}
        merged["current_slot"] = max(int(_number(item.get("current_slot"))) for item in tracking)
        for kind in _KINDS:
            parts = [part for item in tracking if isinstance(part := item.get(kind), dict)]
            if parts:
                merged[kind] = _accounts(parts)
                merged[f"{kind}_count"] = merged[kind]["tracked"]
        if programs := _programs(tracking):
            merged["pda_programs"] = programs
    return merged | {
        "source": SOURCE if found else "none",
        "cached_at": min((view.read_at for view in views if view.is_ok), default=int(time.time())),
        "upstreams": _upstreams(views),
    }


def _programs(tracking: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the numbers of each program, by its address."""
    by_program: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for item in tracking:
        rows = item.get("pda_programs")
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and isinstance(row.get("program_id"), str):
                by_program[row["program_id"]].append(row)
    return [{"program_id": program, **_accounts(rows)} for program, rows in sorted(by_program.items())]


def _accounts(parts: Sequence[dict[str, Any]]) -> dict[str, int]:
    merged = {name: sum(int(_number(part.get(name))) for part in parts) for name in _COUNTS}
    following = [int(_number(part["next_ready_slot"])) for part in parts if "next_ready_slot" in part]
    return merged | ({"next_ready_slot": min(following)} if following else {})


def _upstreams(views: Sequence[UpstreamView]) -> list[dict[str, Any]]:
    return [
        {"base_url": view.base_url, "ok": True, "cached_at": view.read_at}
        if view.is_ok
        else {"base_url": view.base_url, "ok": False, "error": view.error}
        for view in views
    ]


def _numbers(found: Sequence[dict[str, Any]], member: str) -> Iterator[tuple[str, float]]:
    for item in found:
        values = item.get(member)
        if isinstance(values, dict):
            yield from ((name, _number(value)) for name, value in values.items())


def _sums(numbers: Iterator[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for name, value in numbers:
        sums[name] += value
    return dict(sums)


def _largest(numbers: Iterator[tuple[str, float]]) -> dict[str, int]:
    largest: dict[str, int] = {}
    for name, value in numbers:
        largest[name] = max(int(value), largest.get(name, 0))
    return largest


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) <= LARGEST else 0.0
