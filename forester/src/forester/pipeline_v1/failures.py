"""Errors of V1 work."""

from forester.errors import ForesterError


class ProofsUnusable(ForesterError, exit_code=69, retryable=True):
    """The indexer's proofs do not fit the tree on the chain. No fee was paid; later proofs may fit."""
