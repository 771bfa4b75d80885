"""Ids of jobs, each bound to the statement that is proved.

Clients see a random UUID. Its 122 bits are a digest of a random nonce and of the statement; both are stored in the
record of the job. A process that writes to Redis can change the record, but finds no other statement with the same
digest: an instance that gets the id from a client knows which statement the proof must prove.
"""

import hashlib
import secrets
import uuid
from typing import Final

from prover.proving.statement import Statement

NONCE_BYTES: Final = 16

_PURPOSE: Final = b"zkc-prover job id 1\0"


def new_nonce() -> bytes:
    """Return the random part of an id, which makes the id unguessable."""
    return secrets.token_bytes(NONCE_BYTES)


def job_id_of(nonce: bytes, statement: Statement) -> str:
    """Return the id of a job, in lower case with dashes. The name of the circuit has no NUL."""
    digest = hashlib.sha256(_PURPOSE + nonce + statement.circuit.encode() + b"\0" + statement.public_inputs).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))
