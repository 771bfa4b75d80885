"""Keys prepared for a measurement as `prover keys prepare` does by default: folded, without tables."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench_server import OURS

from prover.kernel.engine import Engine
from prover.keys.files.key_folder import find_key
from prover.keys.prepared import prepared_keys as prepared
from shared.circuit_id import CircuitId


def key_of(folder: Path, name: str) -> Path:
    """Return a circuit's key under the first of its file names that exists. Raises KeyUnavailable."""
    circuit = CircuitId.from_key_file(f"{name}.key")
    if circuit is None:
        raise ValueError(f"no circuit is called {name}")
    return find_key(folder, circuit)


def prepare(names: Iterable[str], keys_dir: Path, folder: Path, *options: str) -> None:
    """Prepare the keys of the named circuits."""
    prepare_all(keys_dir, folder, *(word for name in names for word in ("--circuit", name)), *options)


def prepare_all(keys_dir: Path, folder: Path, *options: str) -> None:
    """Prepare all keys of a folder, or those that the options name."""
    command = [OURS, "keys", "prepare", "--keys-dir", str(keys_dir), "--prepared-dir", str(folder), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def mapped_bytes(folder: Path) -> int:
    """Return the size of a folder's prepared keys in bytes."""
    return sum(path.stat().st_size for path in folder.glob(f"*{prepared.SUFFIX}"))


def add_preparation(parser: argparse.ArgumentParser) -> None:
    """Add the options of `prover keys prepare` and the folder of prepared keys."""
    parser.add_argument("--table-memory", type=int, default=0, metavar="MIB", help="as of `prover keys prepare`")
    parser.add_argument("--no-fold", action="store_true", help="as of `prover keys prepare`: fold no key")
    parser.add_argument(
        "--prepared-dir",
        type=Path,
        metavar="DIR",
        help="folder that keeps prepared keys for the next run (default: a temporary one); on two CPUs the published "
        "keys take about 3 minutes, the batches of 10 about 8 more",
    )


@contextlib.contextmanager
def prepared_folders(options: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """Yield folders for prepared keys of small circuits and of batches, in --prepared-dir or a temporary folder."""
    with contextlib.ExitStack() as stack:
        folder = options.prepared_dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield folder / "small", folder / "batch"


def preparation(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the options for `prover keys prepare`."""
    return ("--table-memory", str(options.table_memory), *(["--no-fold"] if options.no_fold else []))


def folded_keys(keys_dir: Path, folder: Path) -> dict[str, bool]:
    """Return which keys have a prepared file, and for each whether it is folded."""
    found = {}
    with Engine(threads=1) as engine:
        for key in sorted(keys_dir.glob("*.key")):
            form = prepared.open_existing(engine, key, folder)
            if form is not None:
                with form:
                    found[key.stem] = form.info.fold_bytes > 0
    return found


def description(folded: dict[str, bool], words: Sequence[str]) -> str:
    """Return a sentence that says how keys were prepared and which are folded."""
    plain = [name for name, is_folded in folded.items() if not is_folded]
    ways = (
        f"keys prepared by `prover keys prepare {' '.join(words)}`: {len(folded) - len(plain)} of {len(folded)} folded"
    )
    return ways + (f", plain {', '.join(plain)}" if plain else "")
