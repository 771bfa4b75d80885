"""Foresters that other processes run, as the dashboard shows them; no I/O."""

from collections.abc import Sequence

from forester.api.merging import unfitness
from forester.api.upstreams import UpstreamView
from forester.dashboard.view import ForesterView


def merged_foresters(views: Sequence[UpstreamView]) -> list[ForesterView]:
    """Return the foresters; of one without ``/activity`` only its health is known."""
    return [
        ForesterView(
            view.base_url,
            view.activity,
            view.error,
            reasons=unfitness(view) if view.is_ok and view.activity is None else (),
        )
        for view in views
    ]
