"""Keys prepared for a measurement as `prover keys prepare` does by default: folded, small circuits with tables."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prover_server import OURS

from prover.kernel.engine import Engine
from prover.keys.files.key_folder import find_key
from prover.keys.prepared import prepared_keys
from shared.requests.circuit_id import CircuitId


def key_of(folder: Path, name: str) -> Path:
    """Return a circuit's key under the first of its file names that exists. Raises KeyUnavailable."""
    circuit = CircuitId.from_key_file(f"{name}.key")
    if circuit is None:
        raise ValueError(f"no circuit is called {name}")
    return find_key(folder, circuit)


def add_preparation(parser: argparse.ArgumentParser) -> None:
    """Add the options of `prover keys prepare` and the folder of prepared keys."""
    parser.add_argument("--table-memory", type=int, metavar="MIB", help="as of `prover keys prepare`")
    parser.add_argument("--no-fold", action="store_true", help="as of `prover keys prepare`: fold no key")
    parser.add_argument(
        "--prepared-dir",
        type=Path,
        metavar="DIR",
        help="folder that keeps prepared keys for the next run (default: a temporary one); on two CPUs the published "
        "keys take about 3 minutes, the batches of 10 about 8 more",
    )


@dataclass
class Preparation:
    """Prepared keys below a folder; ``folded`` says of each whether it is folded."""

    folder: Path
    words: tuple[str, ...]
    folded: dict[str, bool] = field(default_factory=dict)

    def prepare_one(self, key: Path, folder: Path) -> None:
        """Prepare one key into a folder, folded whatever it takes unless --no-fold is given."""
        words = self.words if "--no-fold" in self.words else ("--fold", *self.words)
        command = [OURS, "keys", "prepare", "--prepared-dir", str(folder), *words, str(key)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def prepare(self, keys_dir: Path, names: Iterable[str] = ()) -> Path:
        """Prepare the named keys of a folder, all without names; return the folder of the prepared keys."""
        folder = self.folder / keys_dir.name
        chosen = (word for name in names for word in ("--circuit", name))
        places = ("--keys-dir", str(keys_dir), "--prepared-dir", str(folder))
        subprocess.run([OURS, "keys", "prepare", *places, *chosen, *self.words], check=True, stdout=subprocess.DEVNULL)
        with Engine(threads=1) as engine:
            for key in sorted(keys_dir.glob("*.key")):
                prepared = prepared_keys.open_existing(engine, key, folder)
                if prepared is not None:
                    with prepared:
                        self.folded[key.stem] = prepared.info.fold_bytes > 0
        return folder


@contextlib.contextmanager
def preparing(options: argparse.Namespace) -> Iterator[Preparation]:
    """Yield a preparation in --prepared-dir or in a temporary folder."""
    words = ["--no-fold"] if options.no_fold else []
    if options.table_memory is not None:
        words += ["--table-memory", str(options.table_memory)]
    with contextlib.ExitStack() as stack:
        folder = options.prepared_dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield Preparation(folder, tuple(words))


def mapped_bytes(folder: Path) -> int:
    """Return the size of a folder's prepared keys in bytes."""
    return sum(path.stat().st_size for path in folder.glob(f"*{prepared_keys.SUFFIX}"))
