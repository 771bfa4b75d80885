"""Conversion of proof points between the kernel's bytes and the JSON of the interface.

Both put the imaginary part of a G2 coordinate first, so the order of the eight coordinates is the same.
Proofs are not negated on the wire.
"""

from prover.errors import MalformedProof
from prover.kernel.engine import PROOF_BYTES
from shared.requests.proof_wire import ProofJson, WireError, decode_proof
from shared.trees.field import FIELD_BYTES, InvalidNumber, format_number, parse_coordinate


def to_json(points: bytes) -> ProofJson:
    """Return PROOF_BYTES of points as padded lower-case hexadecimal coordinates."""
    if len(points) != PROOF_BYTES:
        raise ValueError(f"a proof has {PROOF_BYTES} bytes")
    coordinates = [format_number(points[at : at + FIELD_BYTES]) for at in range(0, PROOF_BYTES, FIELD_BYTES)]
    ar_x, ar_y, bs_x1, bs_x0, bs_y1, bs_y0, krs_x, krs_y = coordinates
    return ProofJson(ar=(ar_x, ar_y), bs=((bs_x1, bs_x0), (bs_y1, bs_y0)), krs=(krs_x, krs_y))


def to_points(proof: ProofJson) -> bytes:
    """Return the points of a proof; accepts digits without padding and prefix. Raises MalformedProof."""
    named = {
        "$.ar[0]": proof.ar[0],
        "$.ar[1]": proof.ar[1],
        "$.bs[0][0]": proof.bs[0][0],
        "$.bs[0][1]": proof.bs[0][1],
        "$.bs[1][0]": proof.bs[1][0],
        "$.bs[1][1]": proof.bs[1][1],
        "$.krs[0]": proof.krs[0],
        "$.krs[1]": proof.krs[1],
    }
    parts = []
    for path, text in named.items():
        try:
            parts.append(parse_coordinate(text))
        except InvalidNumber as error:
            raise MalformedProof(f"{error} at {path}", path=path) from error
    return b"".join(parts)


def read_proof(body: bytes) -> bytes:
    """Return the points of a proof in JSON; raises MalformedProof."""
    try:
        proof = decode_proof(body)
    except WireError as error:
        raise MalformedProof(str(error), path=error.path) from error
    return to_points(proof)
