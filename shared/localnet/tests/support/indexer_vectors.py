"""The recorded events, flows and answers of an indexer, and their instructions."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from localnet.base58 import decode
from localnet.indexer.decoding.source import Group, Instruction, Transaction

INDEXER_VECTORS = Path(__file__).resolve().parents[3] / "tests" / "vectors" / "indexer"

Recorded = dict[str, Any]


@cache
def indexer_vectors(name: str) -> Recorded:
    """Return one file of the vectors, without its suffix; methods are ``methods/<name>``."""
    content: Recorded = json.loads((INDEXER_VECTORS / f"{name}.json").read_text())
    return content


def recorded_group(case: Recorded) -> Group:
    """Return the instructions of a case of events_v2.json; their depths were not recorded."""
    keys = [decode(key) for key in case["group"]["keys"]]
    return tuple(
        Instruction(keys[one["program"]], tuple(keys[i] for i in one["accounts"]), bytes.fromhex(one["dataHex"]))
        for one in case["group"]["instructions"]
    )


def recorded_transaction(case: Recorded) -> Transaction:
    """Return a transaction of the one group of a case."""
    return Transaction(decode(case["signature"]) if "signature" in case else bytes(64), (recorded_group(case),))
