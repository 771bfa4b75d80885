"""Batch keys of size 10, made by the reference prover's own `setup`. For tests only: their trapdoor was in memory.

They go to <cache>/batch/ beside the published artefacts (see reference_fixtures), each under the name that the
reference gives it, with its text verifying key beside it (.vkey). Making all three takes a few minutes and about
2 GB of memory; a finished key is never made again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import reference_fixtures
from reference_fixtures import ReferenceUnavailable, say


@dataclass(frozen=True)
class BatchKey:
    """One key: its file stem, the arguments of `setup`, and the size that these always give."""

    stem: str
    circuit: str
    flag: str
    tree_height: int
    batch_size: int
    size_bytes: int

    @property
    def arguments(self) -> list[str]:
        """The circuit-specific arguments of the reference's `setup`."""
        return [
            f"--circuit={self.circuit}",
            f"--{self.flag}-tree-height={self.tree_height}",
            f"--{self.flag}-batch-size={self.batch_size}",
        ]


BATCH_KEYS = (
    BatchKey("update_32_10", "update", "update", 32, 10, 98_826_394),
    BatchKey("append-with-proofs_32_10", "append-with-proofs", "append", 32, 10, 97_383_436),
    BatchKey("address-append_40_10", "address-append", "address-append", 40, 10, 263_951_861),
)


def _is_complete(key: BatchKey, folder: Path) -> bool:
    path = folder / f"{key.stem}.key"
    return path.exists() and path.stat().st_size == key.size_bytes and path.with_suffix(".vkey").exists()


def _run_setup(key: BatchKey, prover: Path, folder: Path) -> None:
    """Runs `setup` into a scratch folder and moves both files into place, the key last."""
    scratch = folder / f".incoming-{key.stem}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    key_path, vkey_path = scratch / f"{key.stem}.key", scratch / f"{key.stem}.vkey"
    command = [str(prover), "setup", *key.arguments, f"--output={key_path}", f"--output-vkey={vkey_path}"]
    started = time.monotonic()
    done = threading.Event()

    def report() -> None:
        while not done.wait(10):
            say(f"  {key.stem}: {time.monotonic() - started:.0f} s")

    say(f"Making {key.stem}.key with the reference's setup")
    reporter = threading.Thread(target=report, name="setup-progress", daemon=True)
    reporter.start()
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        done.set()
        reporter.join()
    if answer.returncode != 0 or not key_path.exists() or key_path.stat().st_size != key.size_bytes:
        last = (answer.stderr.strip() or answer.stdout.strip()).splitlines()[-1:]
        shutil.rmtree(scratch)
        raise ReferenceUnavailable(f"the reference's setup of {key.stem} failed: {' '.join(last)}")
    vkey_path.replace(folder / vkey_path.name)
    key_path.replace(folder / key_path.name)
    shutil.rmtree(scratch)
    say(f"  {key.stem}: done in {time.monotonic() - started:.0f} s")


def batch_keys_dir() -> Path:
    """Folder with the three batch keys, made when absent.

    Raises ReferenceUnavailable when the reference prover cannot be obtained or its setup fails.
    """
    folder = reference_fixtures.cache_root() / "batch"
    if all(_is_complete(key, folder) for key in BATCH_KEYS):
        return folder
    prover = reference_fixtures.prover_binary()
    with reference_fixtures.exclusive(folder):
        for key in BATCH_KEYS:
            if not _is_complete(key, folder):
                _run_setup(key, prover, folder)
    return folder


def main() -> int:
    """Make what is missing; returns the exit status."""
    try:
        print(batch_keys_dir())
    except ReferenceUnavailable as error:
        say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
