"""A folder with the tiny key and its prepared key: what is in it, other processes that use it, and changes by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from golden_vectors import load as vectors

from prover.kernel.engine import Engine
from prover.keys.prepared import prepared_keys
from prover.keys.prepared.preparation import PreparedKeys

KEY = bytes.fromhex(vectors("gnark/tiny.json")["key_v0_14_hex"])
OTHER = KEY[:3] + b"\x07" + KEY[4:]
"""Another key of the same size: the first word of its wrapper differs."""
DEADLINE_S = 60

IN_ANOTHER_PROCESS = """
import os, signal, sys
from pathlib import Path
from prover.kernel.engine import Backend, Engine
from prover.keys.prepared import prepared_keys

def say_and_wait(_):
    print("in", flush=True)
    sys.stdin.readline()

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

engine, source, folder = Engine(threads=1, backend=Backend.PORTABLE), Path(sys.argv[2]), Path(sys.argv[3])
if sys.argv[1] == "wait":
    print(prepared_keys.prepare(engine, source, folder, check=say_and_wait), flush=True)
elif sys.argv[1] == "die":
    prepared_keys.verify_prepared = die
    prepared_keys.prepare(engine, source, folder)
else:
    key = prepared_keys.load(engine, source, folder)
    key.verifying_key.write()
    say_and_wait(key)
"""


def another_process(mode: str, source: Path, folder: Path) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    words = [sys.executable, "-c", IN_ANOTHER_PROCESS, mode, str(source), str(folder)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def header_word(engine: Engine, source: Path, folder: Path) -> tuple[bool, int]:
    """Return whether the key was loaded from its prepared key, and the word in which KEY and OTHER differ."""
    with prepared_keys.load(engine, source, folder) as key:
        return key.info.mapped_bytes > 0, key.info.header[0]


def has(engine: Engine, source: Path, folder: Path) -> bool:
    return prepared_keys.path_of(engine, source, folder).exists()


def replace(path: Path, data: bytes, mtime_ns: int | None = None) -> None:
    """Put a new file in the place of another, in one step."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    if mtime_ns is not None:
        os.utime(new, ns=(mtime_ns, mtime_ns))
    new.replace(path)


PLAIN = int.from_bytes(KEY[:4], "big")


def prepare_in_background(engine: Engine, source: Path, folder: Path) -> None:
    """Load a key from its source as a running prover does, and wait until its preparation has ended, well or not."""
    keys = PreparedKeys(folder)
    prepare_after_load(keys, engine, source)
    keys.close()


def prepare_after_load(
    keys: PreparedKeys, engine: Engine, source: Path, on_end: Callable[[], None] = lambda: None
) -> None:
    """Prepare the key as the prepared keys of a prover do."""
    key, origin = prepared_keys.load_with_origin(engine, source)
    with key:
        keys.prepare_later(engine, key, origin, source, on_end)
        wait_until(lambda: keys._worker is None)


def prepared_key(engine: Engine, source: Path, folder: Path) -> Path:
    """Prepare a key; return the path of its prepared key."""
    prepared_keys.prepare(engine, source, folder)
    return prepared_keys.path_of(engine, source, folder)


def left_of_killed(engine: Engine, source: Path, folder: Path) -> Path:
    """Return what a process that was killed while it prepared the key left in the folder."""
    folder.mkdir()
    left = folder / f".{prepared_keys.path_of(engine, source, folder).name}.0123.partial"
    left.write_bytes(b"x")
    return left


def another_of_the_name(source: Path, content: bytes) -> Path:
    """Return a key file of the same name in a folder of its own."""
    other = source.parent / "other" / source.name
    other.parent.mkdir()
    other.write_bytes(content)
    return other
