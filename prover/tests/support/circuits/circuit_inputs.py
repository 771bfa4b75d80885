"""Input vectors of requests as integers, for tests of the kernel and of compiled circuits."""

from __future__ import annotations

import json
from typing import Any, Final

from prover.proving.assignment import read_numbers
from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_wire import split_body
from shared.trees.field import FIELD_BYTES

KEY_FILES: Final = {
    **{f"v1_inclusion_26_{n}": f"mainnet_inclusion_26_{n}.key" for n in range(1, 5)},
    **{f"v2_inclusion_32_{n}": f"inclusion_32_{n}.key" for n in range(1, 5)},
    **{f"v1_non-inclusion_26_{n}": f"non-inclusion_26_{n}.key" for n in (1, 2)},
    **{f"v2_non-inclusion_40_{n}": f"non-inclusion_40_{n}.key" for n in (1, 2)},
    **{f"v1_combined_26_26_{n}": f"combined_26_{n}.key" for n in ("1_1", "1_2", "2_1")},
    **{f"v2_combined_32_40_{n}": f"combined_32_40_{n}.key" for n in ("1_1", "1_2", "2_1")},
}
"""Published key file of a circuit."""


def circuit_inputs(request: dict[str, Any]) -> list[int]:
    """Return public, then secret inputs, without the constant one. A request without a hash is of version 1."""
    kind = CircuitKind(request["circuitType"])
    version = 2 if "publicInputHash" in request else 1
    members = split_body(json.dumps(request).encode())
    _, numbers = read_numbers(members, kind, version)
    data = b"".join(column.data for column in numbers.columns)
    return [int.from_bytes(data[start : start + FIELD_BYTES], "big") for start in range(0, len(data), FIELD_BYTES)]
