"""Queues of V1 trees as the chain has them: sets of nullifiers or addresses.

Source: forester/docs/reference/accounts.md, "V1 queue".
"""

from localnet.borsh import MalformedData, Reader

_CAPACITY = 232
_BUCKETS = 256
_BUCKET_BYTES = 48
_VALUE = 16  # after tag and sequence number
_VALUE_BYTES = 32
_PENDING = b"\0"
"""First byte of the tag of a bucket whose value waits for a forester; others are processed or empty."""


def decode_v1_queue(data: bytes) -> dict[int, bytes]:
    """Return the values that wait in a queue, by bucket number; raise MalformedData if it is cut."""
    capacity = Reader(data, _CAPACITY).u64()
    if len(data) < _BUCKETS + _BUCKET_BYTES * capacity:
        raise MalformedData(f"{len(data)} bytes do not hold {capacity} buckets")
    tags = data[_BUCKETS : _BUCKETS + _BUCKET_BYTES * capacity : _BUCKET_BYTES]
    waiting: dict[int, bytes] = {}
    bucket = tags.find(_PENDING)
    while bucket >= 0:
        start = _BUCKETS + _BUCKET_BYTES * bucket + _VALUE
        waiting[bucket] = data[start : start + _VALUE_BYTES]
        bucket = tags.find(_PENDING, bucket + 1)
    return waiting
