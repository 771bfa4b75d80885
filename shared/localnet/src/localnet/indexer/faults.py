"""Faults that can be injected into a test network's indexer."""

from dataclasses import dataclass


@dataclass(slots=True)
class Faults:
    """Present faults: ``lag`` in slots; with ``too_many_requests`` every call is answered with status 429."""

    lag: int = 0
    too_many_requests: bool = False
