"""The verifying key of a file with a proving key or a verifying key."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prover.cli.work import load_key
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, VerifyingKey
from prover.keys.files.key_description import looks_like_proving_key
from prover.keys.files.verifying_keys import load_verifying_key

_HEAD = 64


@contextmanager
def open_verifying_key(path: Path, cancel: CancelFlag) -> Iterator[VerifyingKey]:
    """Yield the verifying key of a file of either kind, distinguished by content; raises MalformedKey."""
    with Engine() as engine:
        if is_proving_key(path):
            with load_key(engine, path, cancel) as key:
                yield key.verifying_key
        else:
            with load_verifying_key(engine, path) as verifying_key:
                yield verifying_key


def is_proving_key(path: Path) -> bool:
    """Return whether a file starts like a proving key."""
    with path.open("rb") as file:
        return looks_like_proving_key(file.read(_HEAD))
