"""Inputs of the dashboard's view: one forester on the made-up network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from network_states import FORESTERS, network

from forester.dashboard.activity import ActivityDocument, MoneyFacts, ServiceFacts
from forester.dashboard.explorer import Explorer
from forester.dashboard.view import ForesterView, Inputs
from forester.network_status.flows import QueueFlows
from forester.network_status.pace import SlotPace
from forester.network_status.snapshot import Snapshot
from forester.network_status.state import NetworkState
from forester.observability.progress import TreeProgress
from forester.observability.work_records import BatchRecord

NOW = 1_700_000_000.0
PAYER = str(FORESTERS[0])


def batch(**changes: Any) -> BatchRecord:
    known: dict[str, Any] = {
        "tree": "tree",
        "circuit": "append",
        "sequence": 7,
        "elements": 10,
        "state": "confirmed",
        "times": {"staged": NOW - 9, "proving": NOW - 8, "proved": NOW - 5, "sent": NOW - 4, "confirmed": NOW - 3},
        "signature": "5igNature",
        "slot": 540,
    }
    return BatchRecord(**{**known, **changes})


def activity(**changes: Any) -> ActivityDocument:
    known: dict[str, Any] = {
        "payer": PAYER,
        "release": "0.1.0",
        "began": NOW - 3600,
        "waiting_for": [],
        "draining": False,
        "problems": [],
        "trees": [TreeProgress(str(item.tree.address), 0, 0.0) for item in network().trees],
        "batches": [batch()],
        "transactions": [],
        "money": MoneyFacts(10**9, 15_000, 60 * 10**9, {"v2_batches": 10_000, "register": 5000}, {}),
        "services": [ServiceFacts("node", "127.0.0.1:8899", False, True, 0, 1.5, NOW - 1)],
    }
    return ActivityDocument(**{**known, **changes})


def inputs(state: NetworkState | None = None, *, activities: Sequence[ActivityDocument] | None = None) -> Inputs:
    """Return inputs at NOW, when the state was read."""
    found = state or network()
    pace, flows = SlotPace(clock=lambda: NOW), QueueFlows(clock=lambda: 0.0)
    pace.observe(found)
    flows.observe(found)
    read = {str(item.tree.address): flows.of(str(item.tree.address)) for item in found.trees}
    return Inputs(
        now=NOW,
        snapshot=Snapshot(found, NOW, b"{}"),
        snapshot_error=None,
        flows={tree: flow for tree, flow in read.items() if flow is not None},
        pace=pace,
        foresters=[ForesterView("", item) for item in ([activity()] if activities is None else activities)],
        compressible={"enabled": False},
        explorer=Explorer("devnet", "?cluster=devnet"),
    )
