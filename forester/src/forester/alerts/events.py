"""Incidents as events of the PagerDuty Events API v2; no I/O.

The routing key is the only secret in an event; everything else passes through ``redaction.mask``.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from forester.observability.health import Problem
from forester.redaction import mask

EVENTS_URL = "https://events.pagerduty.com/v2/enqueue"

_SUMMARY_LENGTH = 1024
_KEY_LENGTH = 255
_CLIENT = "forester"


@dataclass(frozen=True)
class Origin:
    """Sender of an incident: the forester's authority (its payer's address) and the host it runs on."""

    authority: str
    host: str


def dedup_key(origin: Origin, condition: str) -> str:
    """Return the key of an incident, which is the same for the same problem of a forester across restarts."""
    return f"{_CLIENT}/{origin.authority}/{condition}"[:_KEY_LENGTH]


def trigger(routing_key: str, origin: Origin, problem: Problem) -> dict[str, Any]:
    """Return the event that opens an incident, or repeats one that is open."""
    reason = mask(problem.reason)
    return {
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": dedup_key(origin, problem.condition),
        "client": _CLIENT,
        "payload": {
            "summary": f"Forester {origin.authority}: {reason}"[:_SUMMARY_LENGTH],
            "severity": problem.severity,
            "source": f"Forester {origin.authority}",
            "timestamp": datetime.fromtimestamp(problem.since, UTC).isoformat(timespec="milliseconds"),
            "component": _CLIENT,
            "class": problem.condition,
            "custom_details": {"authority": origin.authority, "host": mask(origin.host), "reason": reason},
        },
    }


def resolve(routing_key: str, origin: Origin, condition: str) -> dict[str, Any]:
    """Return the event that ends an incident; for one that is not open it has no effect."""
    return {"routing_key": routing_key, "event_action": "resolve", "dedup_key": dedup_key(origin, condition)}
