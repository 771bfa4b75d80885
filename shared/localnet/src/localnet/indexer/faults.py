"""Faults that a test network's indexer can be told to show."""

from dataclasses import dataclass


@dataclass(slots=True)
class Faults:
    """``lag`` keeps the indexer so many slots behind; ``too_many_requests`` answers every call with status 429."""

    lag: int = 0
    too_many_requests: bool = False
