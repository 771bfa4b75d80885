"""Why elements of a V1 queue could not be moved.

ForesterError
└── ProofsUnusable   what the indexer gives does not fit the chain
"""

from forester.errors import ForesterError


class ProofsUnusable(ForesterError):
    """The indexer's proofs do not fit the tree on the chain. No fee was paid; later proofs may fit."""

    exit_code = 69
    retryable = True
