"""Widths that circuits and the checks before a proof share. Imports nothing: servers need no arrays for it."""

from typing import Final

ADDRESS_BITS: Final = 248
"""Addresses are hashes with the first byte cleared."""
