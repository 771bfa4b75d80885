"""Limits of the values in accounts, which a dishonest RPC node chooses; every decoder refuses values beyond them.

A value that decides how often something is repeated, how much memory it takes, or how far a number is shifted has a
limit. The public trees stay below every one of them, and so do local networks with short epochs and small trees. The
programs accept more for some: anybody may create a tree with a larger history of roots, which is skipped.
Weights, indices of rollovers and thresholds of closing are free: they are compared and shown only.
"""

from forester.errors import MalformedAccount

LARGEST_COUNT = 2**48
"""Slots, epochs, sequence numbers, elements: a chain with five slots a second reaches it in two million years."""

LARGEST_LAMPORTS = 10**18
"""More lamports than exist: 600 million SOL are 6 * 10^17."""

LARGEST_ACCOUNT_BYTES = 10 * 2**20
"""Solana's limit for the data of an account."""

LONGEST_PHASE_SLOTS = 2**24
"""Slots of a phase, 78 days; the reference's configuration of mainnet has 432,000 slots, two days."""

MAXIMUM_LIGHT_SLOTS = 2**15
"""Light slots of an active phase, each hashed for every tree; the reference's configuration of mainnet has 8,640."""

MAXIMUM_TREES = 1000
"""Trees that are served or shown; each gets a task and a schedule. Clusters have some ten."""

MAXIMUM_OVERLAPPING_EPOCHS = 16
"""Active phases that registration and report of an epoch span, so that 18 epochs are live at once; on mainnet, one."""

LARGEST_RING = 2**16
"""Entries of a root history or a changelog; published trees have up to 2,400, and instructions name one in 16 bits."""

LARGEST_V1_QUEUE = 2**16
"""Cells of a V1 queue, which instructions name in 16 bits; published queues have 28,807."""

LARGEST_BATCH = LARGEST_ACCOUNT_BYTES // 64
"""Elements of a batch: an account holds the 32 bytes of each, twice; published queues have up to 30,000."""

LARGEST_ZKP_BATCH = 1000
"""Elements of a zkp batch: no circuit accepts more."""

MAXIMUM_BLOOM_ITERATIONS = 64
"""Hashes of a bloom filter; published trees have 10."""

LARGEST_BLOOM_BITS = LARGEST_ACCOUNT_BYTES * 8
"""Bits of a bloom filter, which is part of an account."""

NEVER = 2**64 - 1
"""A slot that has not come, or a threshold that is never reached."""

_REMEDY = (
    "no deployed program writes this: the RPC node is faulty, dishonest, or on another network; "
    "correct --rpc-url or --fallback-rpc-url"
)


def check(account: str, field: str, value: int, maximum: int, *, minimum: int = 0) -> None:
    """Raise MalformedAccount, with the field and the value, unless ``minimum`` <= ``value`` <= ``maximum``."""
    if not minimum <= value <= maximum:
        raise refusal(account, f"{field} is {value}, expected {minimum} to {maximum}")


def check_all(account: str, maximum: int, **fields: int) -> None:
    """Raise MalformedAccount for the first field that is not between 0 and ``maximum``."""
    for field, value in fields.items():
        check(account, field, value, maximum)


def refusal(account: str, fault: str) -> MalformedAccount:
    """Return the error for an account whose values no deployed program writes."""
    return MalformedAccount(f"{account}: {fault}; {_REMEDY}")
