"""The golden vectors as tests use them: requests with what is known about their proofs.

Public inputs are read here from the raw JSON, independently of the code under test.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
SHARED_VECTORS = VECTORS.parents[2] / "shared" / "tests" / "vectors"
"""Vectors that the tests of several members read: circuits, indexer and onchain."""
SCALAR_MODULUS = 21888242871839275222246405745257275088548364400416034343698204186575808495617


@dataclass(frozen=True)
class RequestVector:
    """One provable request. Digests are None where the vector file has none.

    ``witness_sha256`` covers all wires, ``inputs_sha256`` the public and secret inputs.
    """

    name: str
    circuit: str
    body: bytes
    public_inputs: tuple[int, ...]
    witness_sha256: str | None = None
    inputs_sha256: str | None = None
    a_sha256: str | None = None
    b_sha256: str | None = None
    c_sha256: str | None = None

    @property
    def request(self) -> dict[str, Any]:
        """The request as plain JSON values."""
        request: dict[str, Any] = json.loads(self.body)
        return request

    @property
    def is_batch(self) -> bool:
        """True if the circuit proves a batch."""
        return self.circuit.startswith("batch_")


def load(name: str) -> Any:
    """Return a vector file, our own or shared, as JSON values."""
    own = VECTORS / name
    return json.loads((own if own.exists() else SHARED_VECTORS / name).read_text())


UNBLINDED = ((1).to_bytes(32, "big"), bytes(32))
"""rho and sigma with which a proof stays as it is before blinding."""


def proof_points(proof: dict[str, Any]) -> bytes:
    """Return a proof of a vector as the kernel's bytes."""
    numbers = [*proof["ar"], *proof["bs"][0], *proof["bs"][1], *proof["krs"]]
    return b"".join(int(text, 16).to_bytes(32, "big") for text in numbers)


def number(text: str) -> int:
    """Return a wire number modulo r."""
    return int(text, 16) % SCALAR_MODULUS


def circuit_name(request: dict[str, Any]) -> str:
    """Return the name of the circuit of a valid request, by the table of the service specification."""
    kind = request["circuitType"]
    accounts = request.get("inputCompressedAccounts", [])
    addresses = request.get("newAddresses", [])
    if kind == "inclusion":
        height = request["stateTreeHeight"]
        return f"v{2 if height == 32 else 1}_inclusion_{height}_{len(accounts)}"
    if kind == "non-inclusion":
        height = request["addressTreeHeight"]
        return f"v{2 if height == 40 else 1}_non-inclusion_{height}_{len(addresses)}"
    if kind == "combined":
        heights = f"{request['stateTreeHeight']}_{request['addressTreeHeight']}"
        version = 2 if request["addressTreeHeight"] == 40 else 1
        return f"v{version}_combined_{heights}_{len(accounts)}_{len(addresses)}"
    height = request["treeHeight"] if kind == "address-append" else request["height"]
    return f"batch_{kind}_{height}_{request['batchSize']}"


def public_inputs(request: dict[str, Any]) -> tuple[int, ...]:
    """Return the public inputs of a valid request."""
    if not circuit_name(request).startswith("v1_"):
        return (number(request["publicInputHash"]),)
    accounts = request.get("inputCompressedAccounts", [])
    addresses = request.get("newAddresses", [])
    texts = [account["root"] for account in accounts] + [account["leaf"] for account in accounts]
    texts += [address["root"] for address in addresses] + [address["value"] for address in addresses]
    return tuple(number(text) for text in texts)


def _vector(name: str, request: dict[str, Any], **digests: str | None) -> RequestVector:
    body = json.dumps(request).encode()
    return RequestVector(name, circuit_name(request), body, public_inputs(request), **digests)


@cache
def request_vectors() -> tuple[RequestVector, ...]:
    """Return every provable request of the vector files."""
    vectors = []
    for path in sorted((VECTORS / "prover").glob("*.json")):
        request = json.loads(path.read_text())
        if "circuitType" in request and path.stem != "gen-test-params_26_1":
            vectors.append(_vector(f"prover/{path.stem}", request))
    for path in sorted((SHARED_VECTORS / "circuits").glob("request*.json")):
        vectors += [
            _vector(f"circuits/{entry['name']}", entry["request"], witness_sha256=entry["witnessSha256"])
            for entry in json.loads(path.read_text())
        ]
    for name in ("inclusion_32_1", "mainnet_inclusion_26_1", "non-inclusion_40_1"):
        entry = load(f"gnark/{name}.json")
        vectors.append(
            _vector(
                f"gnark/{name}",
                entry["request"],
                witness_sha256=entry["witness"]["sha256"],
                a_sha256=entry["a"]["sha256"],
                b_sha256=entry["b"]["sha256"],
                c_sha256=entry["c"]["sha256"],
            )
        )
    for entry in load("gnark/circuits.json")["circuits"]:
        if "request" in entry:
            digests = ("witness_sha256", "inputs_sha256", "a_sha256", "b_sha256", "c_sha256")
            vectors.append(
                _vector(f"gnark/{entry['name']}", entry["request"], **{digest: entry[digest] for digest in digests})
            )
    return tuple(vectors)


def provable_with(circuits: frozenset[str]) -> tuple[RequestVector, ...]:
    """Return the vectors of the given circuits."""
    return tuple(vector for vector in request_vectors() if vector.circuit in circuits)


PUBLISHED = frozenset(
    {f"v1_inclusion_26_{n}" for n in range(1, 5)}
    | {f"v2_inclusion_32_{n}" for n in range(1, 5)}
    | {f"{stem}_{n}" for stem in ("v1_non-inclusion_26", "v2_non-inclusion_40") for n in (1, 2)}
    | {f"{stem}_{n}" for stem in ("v1_combined_26_26", "v2_combined_32_40") for n in ("1_1", "1_2", "2_1")}
)
"""Circuits of the 18 published keys."""

BATCH = frozenset({"batch_append_32_10", "batch_update_32_10", "batch_address-append_40_10"})
"""Circuits of the three size-10 keys that the reference's setup makes."""


def vector_named(name: str) -> RequestVector:
    """Return the request vector of a name."""
    return next(vector for vector in request_vectors() if vector.name == name)
