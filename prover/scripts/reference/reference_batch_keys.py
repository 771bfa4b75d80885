"""Batch keys of size 10, made by the reference prover's own `setup`. For tests only: their trapdoor was in memory.

They are written to <cache>/batch/ next to the published artefacts (see reference_fixtures), under the names that the
reference gives them, each with its text verifying key (.vkey). Making all three takes a few minutes and about
2 GB of memory; a finished key is never made again.

The gate uses a sample (--sample) in <cache>/batch-sample/: the three by our own setup, which is several times as fast,
in the format version that the reference writes and under the same names, and a key for batches of two by the reference.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import reference_fixtures
from reference_fixtures import ReferenceUnavailable, say, telling


@dataclass(frozen=True)
class BatchKey:
    """One key: its file stem, the arguments of `setup`, and the size of the reference's key (constant)."""

    stem: str
    circuit: str
    flag: str
    tree_height: int
    batch_size: int
    size_bytes: int | None
    """None for keys of the sample: keys of our setup have another size."""

    @property
    def arguments(self) -> list[str]:
        """Circuit-specific arguments of the reference's `setup`."""
        return [f"--circuit={self.circuit}", *self._sizes]

    @property
    def our_name(self) -> str:
        """Stem of the key's file as our prover names it."""
        return f"batch_{self.flag}_{self.tree_height}_{self.batch_size}"

    @property
    def _sizes(self) -> list[str]:
        return [
            f"--{self.flag}-tree-height={self.tree_height}",
            f"--{self.flag}-batch-size={self.batch_size}",
        ]


BATCH_KEYS = (
    BatchKey("update_32_10", "update", "update", 32, 10, 98_826_394),
    BatchKey("append-with-proofs_32_10", "append-with-proofs", "append", 32, 10, 97_383_436),
    BatchKey("address-append_40_10", "address-append", "address-append", 40, 10, 263_951_861),
)


BY_THE_REFERENCE = BatchKey("update_32_2", "update", "update", 32, 2, None)
BY_OURSELVES = [replace(key, size_bytes=None) for key in BATCH_KEYS]
"""Who makes what in the sample."""
OUR_SETUP = Path(__file__).resolve().parents[2] / "tests/support/keys/gnark_08_key.py"


def _is_complete(key: BatchKey, folder: Path) -> bool:
    path = folder / f"{key.stem}.key"
    return _is_whole(key, path) and path.with_suffix(".vkey").exists()


def _is_whole(key: BatchKey, path: Path) -> bool:
    return path.exists() and key.size_bytes in (None, path.stat().st_size)


def _run_setup(key: BatchKey, setup: list[str], folder: Path) -> None:
    """Run a `setup` into a scratch folder and move both files to their target, the key last."""
    scratch = folder / f".incoming-{key.stem}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    key_path, vkey_path = scratch / f"{key.stem}.key", scratch / f"{key.stem}.vkey"
    command = [*setup, f"--output={key_path}", f"--output-vkey={vkey_path}"]
    started = time.monotonic()
    say(f"Making {key.stem}.key: {' '.join(setup)}")
    with telling(10, lambda: f"{key.stem}: {time.monotonic() - started:.0f} s"):
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0 or not _is_whole(key, key_path):
        last = (answer.stderr.strip() or answer.stdout.strip()).splitlines()[-1:]
        shutil.rmtree(scratch)
        raise ReferenceUnavailable(f"the setup of {key.stem} failed: {' '.join(last)}")
    vkey_path.replace(folder / vkey_path.name)
    key_path.replace(folder / key_path.name)
    shutil.rmtree(scratch)
    say(f"  {key.stem}: done in {time.monotonic() - started:.0f} s")


def batch_keys_dir() -> Path:
    """Return the folder with the three batch keys, made if missing.

    Raises ReferenceUnavailable when the reference prover cannot be obtained or its setup fails.
    """
    folder = reference_fixtures.cache_root() / "batch"
    if all(_is_complete(key, folder) for key in BATCH_KEYS):
        return folder
    _make(BATCH_KEYS, folder)
    return folder


def _make(keys: Iterable[BatchKey], folder: Path) -> None:
    prover = reference_fixtures.prover_binary()
    with reference_fixtures.exclusive(folder):
        for key in keys:
            if not _is_complete(key, folder):
                _run_setup(key, [str(prover), "setup", *key.arguments], folder)


def sample_dir() -> Path:
    """Return the folder with the sample's three batch keys, made if missing; raise as batch_keys_dir."""
    sample = _sample_root()
    with reference_fixtures.exclusive(sample):
        for key in BY_OURSELVES:
            if not _is_complete(key, sample):
                _run_setup(key, [sys.executable, str(OUR_SETUP), key.our_name], sample)
    return sample


def small_key() -> Path:
    """Return the reference's key for batches of two, next to its text verifying key; raise as batch_keys_dir."""
    _make([BY_THE_REFERENCE], _sample_root() / "small")
    return _sample_root() / "small" / f"{BY_THE_REFERENCE.stem}.key"


def _sample_root() -> Path:
    return reference_fixtures.cache_root() / "batch-sample"


def tested_keys_dir() -> Path:
    """Return the folder of the tests' batch keys: the reference's with ZKC_FULL=1 or if they exist, else the sample."""
    folder = reference_fixtures.cache_root() / "batch"
    whole = os.environ.get("ZKC_FULL") == "1" or all(_is_complete(key, folder) for key in BATCH_KEYS)
    return batch_keys_dir() if whole else sample_dir()


def main() -> int:
    """Make missing keys; return the exit status."""
    try:
        small_key()
        print(tested_keys_dir() if "--sample" in sys.argv[1:] else batch_keys_dir())
    except ReferenceUnavailable as error:
        say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
