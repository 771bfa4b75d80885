"""Creation of key files from a compiled constraint system.

A person who runs a setup could keep its secrets and forge proofs with them: these keys are for development, tests and
closed networks. A record next to each key states that (see provenance.py); the key itself has the format of gnark.
"""

import contextlib
import hashlib
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from prover.errors import MalformedKey, MisnamedKey, SettingsInvalid, UnsupportedKey
from prover.kernel.cancellation import CancelFlag, Progress
from prover.kernel.engine import Encoding, Engine, KeyInfo, LoadedKey, Readable, VerifyingKey
from prover.kernel.setup import SetupSecrets, TrustedSetup
from prover.keys.files.atomic_file import atomic_file, explained, mapped, require_free
from prover.keys.files.key_description import circuit_of, header_of
from prover.keys.files.provenance import KeyRecord, forget_record, record_path, require_free_record, sha256_of
from shared.requests.circuit_id import CircuitId
from shared.trees.field import SCALAR_MODULUS

INSECURE = "INSECURE"
"""Part of the name of every key whose secrets are derived from a seed."""


@dataclass(frozen=True)
class Outputs:
    """Paths of a key and, optionally, of its verifying key as text; ``force`` replaces existing files."""

    key: Path
    text_verifying_key: Path | None = None
    force: bool = False

    def require_free(self) -> None:
        """Raise SettingsInvalid unless all files can be written."""
        require_free(self.key, force=self.force)
        if self.text_verifying_key is not None:
            require_free(self.text_verifying_key, force=self.force)
            if self.text_verifying_key.resolve() in (self.key.resolve(), record_path(self.key).resolve()):
                raise SettingsInvalid(f"{self.text_verifying_key}: the verifying key needs a separate file")


def make_key(
    engine: Engine,
    circuit: CircuitId,
    system: Readable,
    outputs: Outputs,
    *,
    seed: str | None = None,
    progress: Progress | None = None,
    cancel: CancelFlag | None = None,
) -> KeyRecord:
    """Run a setup for ``system``, the constraint system of ``circuit`` as gnark 0.14 encodes it.

    Secrets come from the operating system; a ``seed`` derives them instead, for tests, and the name of the key must
    then contain INSECURE. All files appear together at the end. Raises SettingsInvalid, MalformedKey, UnsupportedKey,
    OutOfMemory or Cancelled.
    """
    require_name_for_seed(outputs.key, seed)
    outputs.require_free()
    require_free_record(outputs.key, force=outputs.force)
    secrets = None if seed is None else secrets_from_seed(seed)
    with TrustedSetup(engine, system, header_of(circuit), cancel) as setup, atomic_files(outputs) as files:
        size = setup.key_bytes
        with files.key_bytes(size) as data:
            setup.run(data, secrets, progress, cancel)
            verifying_key = data[setup.verifying_key_offset : size - len(system)]
            digest = _sha256(data, cancel)
        with engine.load_verifying_key(verifying_key) as key:
            files.write_text(key)
        record = KeyRecord(
            name=outputs.key.name,
            size=size,
            sha256=digest,
            circuit=circuit.name,
            development=True,
            seeded=seed is not None,
        )
        files.write_record(record)
        files.finish(cancel)
    return record


def assemble_key(
    engine: Engine,
    circuit: CircuitId,
    parts: Sequence[Readable],
    outputs: Outputs,
    cancel: CancelFlag | None = None,
) -> KeyInfo:
    """Join the proving key, verifying key and constraint system of a ceremony into a key file.

    The result is loaded and checked as a whole before it gets its name. Raises SettingsInvalid, MalformedKey,
    UnsupportedKey, MisnamedKey when the parts belong to another circuit, OutOfMemory or Cancelled.
    """
    outputs.require_free()
    header = b"".join(word.to_bytes(4, "big") for word in header_of(circuit))
    with atomic_files(outputs) as files, files.key_bytes(len(header) + sum(map(len, parts))) as data:
        data.write(header)
        for part in parts:
            data.write(part)
        with _loaded(engine, data, outputs.key, cancel) as key:
            _require_parts(key.info, len(header), parts)
            _require_circuit(circuit, key.info)
            files.write_text(key.verifying_key)
            info = key.info
        files.finish(cancel)
    forget_record(outputs.key)
    return info


def require_name_for_seed(key: Path, seed: str | None) -> None:
    """Raise SettingsInvalid unless the name of a key made from a seed contains INSECURE."""
    if seed is not None and INSECURE not in key.name:
        raise SettingsInvalid(f"--seed makes an insecure key: put {INSECURE} into the name of --output, not {key.name}")


def secrets_from_seed(seed: str) -> SetupSecrets:
    """Derive secrets that are known to all who know the seed: SHA-512 of name and seed, reduced to 1 .. r-1."""

    def derive(name: str) -> int:
        digest = hashlib.sha512(f"zkc-prover insecure setup\0{name}\0{seed}".encode()).digest()
        return 1 + int.from_bytes(digest, "big") % (SCALAR_MODULUS - 1)

    return SetupSecrets(*map(derive, ("tau", "alpha", "beta", "gamma", "delta")))


def verifying_key_text(verifying_key: VerifyingKey) -> str:
    """Return the uncompressed verifying key as decimal bytes in brackets, which on-chain code generators read."""
    return f"[{' '.join(map(str, verifying_key.write(Encoding.RAW)))}]"


class _Files:
    """The files of one key while they are written."""

    def __init__(self, outputs: Outputs, stack: contextlib.ExitStack) -> None:
        self._outputs = outputs
        self._stack = stack
        self._open: list[BinaryIO] = []

    @contextlib.contextmanager
    def key_bytes(self, size: int) -> Iterator[mmap.mmap]:
        """Yield the bytes of the key file, all of which must be written."""
        file = self._create(self._outputs.key, force=self._outputs.force)
        with explained(self._outputs.key), mapped(file, size) as data:
            yield data

    def write_text(self, verifying_key: VerifyingKey) -> None:
        """Write the verifying key as text, if a path for it is set."""
        path = self._outputs.text_verifying_key
        if path is not None:
            self._write(path, verifying_key_text(verifying_key), force=self._outputs.force)

    def write_record(self, record: KeyRecord) -> None:
        """Write the record next to the key."""
        self._write(record_path(self._outputs.key), record.to_json(), force=True)

    def finish(self, cancel: CancelFlag | None) -> None:
        """Sync all files to the disk, the last long step; raises Cancelled if a stop was requested before its end."""
        with explained(self._outputs.key):
            for file in self._open:
                file.flush()
                os.fsync(file.fileno())
        if cancel is not None:
            cancel.check()

    def _write(self, path: Path, text: str, *, force: bool) -> None:
        file = self._create(path, force=force)
        with explained(path):
            file.write(text.encode())

    def _create(self, path: Path, *, force: bool) -> BinaryIO:
        file = self._stack.enter_context(atomic_file(path, force=force))
        self._open.append(file)
        return file


@contextlib.contextmanager
def atomic_files(outputs: Outputs) -> Iterator[_Files]:
    """Yield the files of a key, which get their names when the block ends without an error, the key last."""
    with contextlib.ExitStack() as stack:
        yield _Files(outputs, stack)


@contextlib.contextmanager
def _loaded(engine: Engine, data: mmap.mmap, path: Path, cancel: CancelFlag | None) -> Iterator[LoadedKey]:
    try:
        key = engine.load_key(data, cancel)
    except MalformedKey as error:
        raise MalformedKey(f"the parts do not make {path.name}: {error.detail}", offset=error.offset) from error
    except UnsupportedKey as error:
        raise UnsupportedKey(f"the parts do not make {path.name}: {error.detail}") from error
    with key:
        yield key


def _require_parts(info: KeyInfo, start: int, parts: Sequence[Readable]) -> None:
    """Raise MalformedKey unless the kernel finds each part at its offset."""
    expected = (start, start + len(parts[0]), start + len(parts[0]) + len(parts[1]))
    found = (info.proving_key_offset, info.verifying_key_offset, info.constraint_system_offset)
    if found != expected:
        raise MalformedKey("the proving key, the verifying key or the constraint system has too many or too few bytes")


def _require_circuit(circuit: CircuitId, info: KeyInfo) -> None:
    held = circuit_of(info)
    if held != circuit:
        name = "another circuit" if held is None else held.name
        raise MisnamedKey(f"these parts are of {name}, not of {circuit.name}; check --circuit and the sizes")


def _sha256(data: mmap.mmap, cancel: CancelFlag | None) -> str:
    step = 2**24
    with memoryview(data) as view:
        pieces = (view[start : start + step] for start in range(0, len(view), step))
        return sha256_of(pieces, None if cancel is None else cancel.check)
