"""Input vectors of requests, written independently of the service.

The order is in prover/docs/reference/circuits.md, "Input order".
"""

from __future__ import annotations

from typing import Any, Final

from golden_vectors import SCALAR_MODULUS

KEY_FILES: Final = {
    **{f"v1_inclusion_26_{n}": f"mainnet_inclusion_26_{n}.key" for n in range(1, 5)},
    **{f"v2_inclusion_32_{n}": f"inclusion_32_{n}.key" for n in range(1, 5)},
    **{f"v1_non-inclusion_26_{n}": f"non-inclusion_26_{n}.key" for n in (1, 2)},
    **{f"v2_non-inclusion_40_{n}": f"non-inclusion_40_{n}.key" for n in (1, 2)},
    **{f"v1_combined_26_26_{n}": f"combined_26_{n}.key" for n in ("1_1", "1_2", "2_1")},
    **{f"v2_combined_32_40_{n}": f"combined_32_40_{n}.key" for n in ("1_1", "1_2", "2_1")},
}
"""Published key file of a circuit."""

_BATCH_FIELDS: Final = {
    "append": (
        ("oldRoot", "newRoot", "leavesHashchainHash", "startIndex"),
        ("oldLeaves", "leaves", "merkleProofs"),
    ),
    "update": (
        ("oldRoot", "newRoot", "leavesHashchainHash"),
        ("txHashes", "leaves", "oldLeaves", "newMerkleProofs", "pathIndices"),
    ),
    "address-append": (
        ("oldRoot", "newRoot", "hashchainHash", "startIndex"),
        (
            "lowElementValues",
            "lowElementNextValues",
            "lowElementIndices",
            "lowElementProofs",
            "newElementValues",
            "newElementProofs",
        ),
    ),
}


def _flat(value: Any) -> list[int]:
    if isinstance(value, list):
        return [number for item in value for number in _flat(item)]
    return [(value if isinstance(value, int) else int(value, 16)) % SCALAR_MODULUS]


def _columns(items: list[dict[str, Any]], *names: str) -> list[int]:
    return [number for name in names for item in items for number in _flat(item[name])]


def _merkle_parts(request: dict[str, Any], version: int) -> list[tuple[list[int], list[int]]]:
    """Return what is public in version 1, and the rest, for the inclusion and the non-inclusion half."""
    parts = []
    if accounts := request.get("inputCompressedAccounts"):
        parts.append((_columns(accounts, "root", "leaf"), _columns(accounts, "pathIndex", "pathElements")))
    if addresses := request.get("newAddresses"):
        secret = ["leafLowerRangeValue", "leafHigherRangeValue", "pathIndex", "pathElements"]
        if version == 1:
            secret.insert(2, "nextIndex")
        parts.append((_columns(addresses, "root", "value"), _columns(addresses, *secret)))
    return parts


def circuit_inputs(request: dict[str, Any]) -> list[int]:
    """Return public, then secret inputs, without the constant one."""
    kind = request["circuitType"]
    if kind in _BATCH_FIELDS:
        scalars, arrays = _BATCH_FIELDS[kind]
        return _flat([request[name] for name in ("publicInputHash", *scalars, *arrays)])
    if "publicInputHash" in request:
        parts = _merkle_parts(request, 2)
        return _flat(request["publicInputHash"]) + [n for public, secret in parts for n in public + secret]
    parts = _merkle_parts(request, 1)
    return [n for public, _ in parts for n in public] + [n for _, secret in parts for n in secret]
