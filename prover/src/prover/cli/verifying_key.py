"""The verifying key of a file that is either a proving key or a verifying key alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prover.cli.work import load_key
from prover.errors import MalformedKey
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, VerifyingKey
from prover.keys.gnark_format import looks_like_proving_key

# No verifying key is longer: 300 bytes and 32 or 64 per public input.
_LONGEST_VERIFYING_KEY = 2**20
_HEAD = 64


@contextmanager
def open_verifying_key(path: Path, cancel: CancelFlag) -> Iterator[VerifyingKey]:
    """Open the verifying key of a file, told apart by content; raises MalformedKey."""
    with Engine() as engine:
        if is_proving_key(path):
            with load_key(engine, path, cancel) as key:
                yield key.verifying_key
        else:
            with load_verifying_key(engine, path) as verifying_key:
                yield verifying_key


def load_verifying_key(engine: Engine, path: Path) -> VerifyingKey:
    """Load a verifying key that is a file of its own, binary or as text; raises MalformedKey."""
    if path.stat().st_size > _LONGEST_VERIFYING_KEY:
        raise MalformedKey(f"{path.name} is neither a proving key nor a verifying key")
    data = path.read_bytes()
    return engine.load_verifying_key(_from_text(data, path) if data.startswith(b"[") else data)


def _from_text(text: bytes, path: Path) -> bytes:
    """Read the text form of `prover setup`: bytes in decimal, between brackets. "[" begins no binary key."""
    try:
        return bytes(map(int, text.strip().removeprefix(b"[").removesuffix(b"]").split()))
    except ValueError:
        raise MalformedKey(f"{path.name} begins like a verifying key as text and is none") from None


def is_proving_key(path: Path) -> bool:
    """Tell whether a file starts like a proving key."""
    with path.open("rb") as file:
        return looks_like_proving_key(file.read(_HEAD))
