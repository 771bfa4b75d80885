"""Addresses of compressed accounts in V2 address trees.

Source: forester/docs/reference/programs.md, "Compressed addresses".
"""

from Crypto.Hash import keccak
from solders.pubkey import Pubkey


def compressed_address(seed: Pubkey, tree: Pubkey, program: Pubkey) -> bytes:
    """Return the address of a program's compressed account in an address tree, 32 bytes.

    ``seed`` is the address of the account that was compressed or will be.
    """
    content = bytes(seed) + bytes(tree) + bytes(program) + b"\xff"
    return b"\0" + keccak.new(digest_bits=256, data=content).digest()[1:]
