"""Ids of jobs, each bound to the statement that is proved.

Clients see a random UUID. Its 122 bits are a digest of a random nonce and of the statement; both are stored in the
record of the job. A process that writes to Redis can change the record, but finds no other statement with the same
digest: an instance that gets the id from a client knows which statement the proof must prove.
"""

import hashlib
import re
import secrets
import uuid
from typing import Final

from prover.proving.statement import Statement

NONCE_BYTES: Final = 16

_PURPOSE: Final = b"zkc-prover job id 1\0"
_STATUS: Final = re.compile("50[023]")


def new_job_id(statement: Statement) -> tuple[bytes, str]:
    """Return a random nonce, which makes an id unguessable, and the id of a job.

    The Rust client quotes the id of a failed job, and submits again whatever has the text 500, 502 or 503.
    """
    while True:
        nonce = secrets.token_bytes(NONCE_BYTES)
        job_id = job_id_of(nonce, statement)
        if not _STATUS.search(job_id):
            return nonce, job_id


def job_id_of(nonce: bytes, statement: Statement) -> str:
    """Return the id of a job, in lower case with dashes. The name of the circuit has no NUL."""
    digest = hashlib.sha256(_PURPOSE + nonce + statement.circuit.encode() + b"\0" + statement.public_inputs).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))
