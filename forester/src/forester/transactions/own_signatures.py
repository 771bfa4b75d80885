"""Our own signatures, which distinguish our transactions from another process's with the same key; no I/O."""

from collections import OrderedDict

from solders.signature import Signature

SIGNATURES_REMEMBERED = 8192


class OwnSignatures:
    """The newest ``maximum`` signatures of this process, and those that its journal held when it began."""

    def __init__(self, *, maximum: int = SIGNATURES_REMEMBERED) -> None:
        self.maximum = maximum
        self.count = 0
        """Number of signatures ever added."""
        self._kept: OrderedDict[Signature, None] = OrderedDict()

    def add(self, signature: Signature) -> None:
        """Record a signature, before its transaction is sent."""
        self.count += 1
        self._kept[signature] = None
        while len(self._kept) > self.maximum:
            self._kept.popitem(last=False)

    def __contains__(self, signature: Signature) -> bool:
        """Return whether a signature is known to be ours."""
        return signature in self._kept
