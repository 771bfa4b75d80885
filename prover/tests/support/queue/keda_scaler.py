"""KEDA's reading of a ScaledObject: the counts of its redis scaler, and the replicas of its formula."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import redis

# One command, as KEDA sends it: a key may come into existence between a question for its type and one for its size.
_COUNT = """
local sizes = {list = 'LLEN', zset = 'ZCARD', set = 'SCARD', hash = 'HLEN'}
local size = sizes[redis.call('TYPE', KEYS[1]).ok]
return size and redis.call(size, KEYS[1]) or 0
"""


def counts(client: redis.Redis, spec: Mapping[str, Any]) -> dict[str, int]:
    """Return the value of each trigger of a ScaledObject; its scaler counts lists, sets and hashes since 2.0.

    KEDA pings first, and counts nothing if that fails.
    """
    client.ping()
    names = {trigger["name"]: trigger["metadata"]["listName"] for trigger in spec["triggers"]}
    found: dict[str, Any] = {trigger: client.eval(_COUNT, 1, name) for trigger, name in names.items()}
    return found


def replicas(spec: Mapping[str, Any], found: Mapping[str, int]) -> int:
    """Return the replicas that the formula asks for at the values of the triggers."""
    modifiers = spec["advanced"]["scalingModifiers"]
    assert modifiers["metricType"] == "AverageValue"
    value: float = eval(modifiers["formula"], {}, dict(found))  # noqa: S307 - a sum of counts
    return min(math.ceil(value / float(modifiers["target"])), int(spec["maxReplicaCount"]))
