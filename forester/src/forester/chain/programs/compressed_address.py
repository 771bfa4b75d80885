"""Addresses of compressed accounts in V2 address trees.

Source: forester/docs/reference/programs.md, "Compressed addresses".
"""

from Crypto.Hash import keccak
from solders.pubkey import Pubkey


def compressed_address(seed: Pubkey, tree: Pubkey, program: Pubkey) -> bytes:
    """Return the 32 bytes that a program's account has as its address in an address tree."""
    content = bytes(seed) + bytes(tree) + bytes(program) + b"\xff"
    return b"\0" + keccak.new(digest_bits=256, data=content).digest()[1:]
