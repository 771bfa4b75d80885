"""Keys and discriminators of the on-chain programs (forester/docs/reference/programs.md, "Programs")."""

from enum import IntEnum

from localnet.base58 import decode

ACCOUNT_COMPRESSION = decode("compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq")
LIGHT_SYSTEM = decode("SySTEM1eSU2p4BGQfQpimFEWWSC1XDFeun3Nqzz3rT7")
COMPRESSED_TOKEN = decode("cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m")
NOOP = decode("noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV")
SOLANA_SYSTEM = bytes(32)
VOTE = decode("Vote111111111111111111111111111111111111111")
LIGHT_SYSTEM_REGISTERED = decode("35hkDgaAKwMCaxRz2ocSZ6NaUrtKkyNqU6c4RV3tYJRh")
"""Registered-program account of the Light system program: marks its calls of account compression."""

TREE_OWNER_GROUP = decode("24rt4RgeyjUCWGS2eF7L7gyNMuz6JWdqYpAvb1KRoHxs")
"""Owner of all trees of the protocol; others are ignored."""

DEFAULT_ADDRESS_TREE_V1 = decode("amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2")

INSERT_INTO_QUEUES = bytes.fromhex("b48f9f99232ef8a3")
MIGRATE_STATE = bytes.fromhex("22bde2deda9c13d5")


class TreeType(IntEnum):
    """Kind of a tree, with the numbers of accounts and wire."""

    STATE_V1 = 1
    ADDRESS_V1 = 2
    STATE_V2 = 3
    ADDRESS_V2 = 4


class QueueType(IntEnum):
    """Kind of a queue, as accounts and the wire number it."""

    NULLIFIER_V1 = 1
    ADDRESS_V1 = 2
    INPUT_STATE_V2 = 3
    ADDRESS_V2 = 4
    OUTPUT_STATE_V2 = 5


HEIGHTS = {TreeType.STATE_V1: 26, TreeType.ADDRESS_V1: 26, TreeType.STATE_V2: 32, TreeType.ADDRESS_V2: 40}
ROOT_CAPACITIES = {TreeType.STATE_V1: 2400, TreeType.ADDRESS_V1: 2400, TreeType.STATE_V2: 200, TreeType.ADDRESS_V2: 120}
"""Length of the root history where the tree account does not contain it."""
