"""Errors of rollovers."""

from forester.errors import ForesterError


class RolloverImpossible(ForesterError, exit_code=1):
    """A full tree has no successor."""


class RolloverNotFunded(RolloverImpossible):
    """There are too few lamports for a rollover."""


class RolloverTooExpensive(RolloverImpossible):
    """A rollover would spend more than one rollover may."""


class RolloverUnsettled(RolloverImpossible, retryable=True):
    """A rollover was sent and may have landed; the next read of the tree shows it."""
