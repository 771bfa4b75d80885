"""Key files in memory: from their prepared form where that is valid, else from gnark's."""

import mmap
from pathlib import Path

from prover.errors import KeyUnavailable, MalformedKey, UnsupportedKey
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey


def load(engine: Engine, source: Path, cancel: CancelFlag | None = None) -> LoadedKey:
    """Load a key file; errors name the file.

    Raises KeyUnavailable, MalformedKey, UnsupportedKey, OutOfMemory or Cancelled.
    """
    try:
        with source.open("rb") as file, _mapped(file.fileno()) as data:
            return engine.load_key(data, cancel)
    except (MalformedKey, UnsupportedKey) as error:
        error.detail = f"key file {source.name}: {error.detail}"
        error.args = (error.detail,)
        raise
    except OSError as error:
        raise KeyUnavailable(f"key file {source.name} cannot be read: {error.strerror}") from error


def _mapped(descriptor: int) -> mmap.mmap:
    try:
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except ValueError as error:
        raise MalformedKey("the file is empty") from error
