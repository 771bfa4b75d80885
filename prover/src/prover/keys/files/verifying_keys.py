"""Verifying keys without their proving keys: from key files, files of their own, or the published ones."""

import os
import threading
from pathlib import Path
from typing import Final

from prover.errors import KeyMissing, KeyUnavailable, MalformedKey
from prover.kernel.engine import Engine, VerifyingKey
from prover.keys.catalogue.published_verifying_keys import published_verifying_keys
from prover.keys.files.key_description import (
    PRELUDE_BYTES,
    WORD_BYTES,
    header_of,
    is_gnark_08_proving_key,
    looks_like_proving_key,
)
from prover.keys.files.key_folder import FileIdentity, file_identity, find_key
from shared.process.logs import get_logger
from shared.requests.circuit_id import CircuitId

_log = get_logger(__name__)

SUFFIX: Final = ".vkey"
"""Suffix of a separate verifying key, as ``prover setup`` and ``prover export-vk`` write it."""

_LONGEST_FILE_BYTES: Final = 2**20
_MAX_PUBLIC_INPUTS: Final = 4096
_COUNT_BYTES: Final = 4
_G1_BYTES: Final = 32
_G2_BYTES: Final = 64
_MAP_BYTES: Final = 3 * 8
_FIXED_BYTES: Final = 3 * _G1_BYTES + 3 * _G2_BYTES
_LATER_COUNTS_BYTES: Final = 2 * _COUNT_BYTES
"""Two counts of commitments, both 0, at the end of a verifying key of gnark 0.14."""
_COMPRESSED: Final = 0xC0
"""A compressed point has one of these bits."""


class VerifyingKeys:
    """The verifying keys of a folder, and the published ones of circuits without a file there.

    Each is read once until its file changes. Several threads may call all methods.
    """

    def __init__(self, directory: Path, engine: Engine) -> None:
        self._directory = directory
        self._engine = engine
        self._lock = threading.Lock()
        self._known: dict[CircuitId, tuple[FileIdentity | None, tuple[VerifyingKey, ...]]] = {}

    def find(self, circuit: CircuitId) -> tuple[VerifyingKey, ...]:
        """Return the verifying keys one of which must accept a proof of a circuit; none if none is known.

        They are that of its key file, or else of its ``.vkey`` file, or else the published ones of all releases. A file
        without a usable one is logged once; the published ones do not replace it. One that cannot be read is logged
        and read again by the next call.
        """
        try:
            path: Path | None = self._path_of(circuit)
            identity = file_identity(path) if path else None
        except KeyUnavailable:
            return ()
        with self._lock:
            known = self._known.get(circuit)
            if known is None or known[0] != identity:
                try:
                    keys = self._read(circuit, path) if path else self._published(circuit)
                except OSError as error:  # may be transient, for example too many open files
                    _log.warning("verifying_key_unreadable", path=str(path), circuit=circuit.name, error=str(error))
                    return ()
                known = self._known[circuit] = identity, keys
            return known[1]

    def _path_of(self, circuit: CircuitId) -> Path | None:
        """Return the file to read, None if there is none."""
        try:
            return find_key(self._directory, circuit)
        except KeyMissing:
            for name in circuit.key_files:
                path = (self._directory / name).with_suffix(SUFFIX)
                if path.is_file():
                    return path
            return None

    def _read(self, circuit: CircuitId, path: Path) -> tuple[VerifyingKey, ...]:
        """Return the verifying key of a file, none if it holds none. Raises OSError."""
        try:
            if path.suffix == SUFFIX:
                return (load_verifying_key(self._engine, path),)
            return (self._engine.load_verifying_key(verifying_key_bytes(path, circuit)),)
        except KeyUnavailable as error:
            _log.warning("verifying_key_unusable", path=str(path), circuit=circuit.name, error=str(error))
            return ()

    def _published(self, circuit: CircuitId) -> tuple[VerifyingKey, ...]:
        return tuple(map(self._engine.load_verifying_key, published_verifying_keys(circuit)))


def load_verifying_key(engine: Engine, path: Path) -> VerifyingKey:
    """Load a separate verifying key, binary or as text; raises MalformedKey and OSError."""
    with path.open("rb") as file:
        data = file.read(_LONGEST_FILE_BYTES + 1)  # a size that was read before may be exceeded
    if len(data) > _LONGEST_FILE_BYTES:
        raise _no_key(path, f"it has more than {_LONGEST_FILE_BYTES} bytes")
    try:
        return engine.load_verifying_key(_from_text(data) if data.startswith(b"[") else data)
    except MalformedKey as error:
        raise _no_key(path, error.detail.removeprefix("verifying key: "), error.offset) from error


def verifying_key_bytes(path: Path, circuit: CircuitId) -> bytes:
    """Return the verifying key in the key file of a circuit; reads only that and the counts before it.

    Raises MalformedKey for a file without the layout of key files, and OSError.
    """
    with path.open("rb") as file:
        return _KeyFile(file.fileno(), path, circuit).verifying_key()


class _KeyFile:
    """A key file whose parts are skipped by their counts. All its points are compressed, as gnark writes them."""

    def __init__(self, descriptor: int, path: Path, circuit: CircuitId) -> None:
        self._descriptor = descriptor
        self._path = path
        self._words = header_of(circuit)
        self._at = 0

    def verifying_key(self) -> bytes:
        wrapper = b"".join(word.to_bytes(WORD_BYTES, "big") for word in self._words)
        head = self._take(len(wrapper) + PRELUDE_BYTES)
        if not (head.startswith(wrapper) and looks_like_proving_key(head)):
            raise self._malformed("it is not the key of the circuit in its name")
        is_gnark_08 = is_gnark_08_proving_key(head[len(wrapper) :])
        self._at -= is_gnark_08
        alpha_beta_delta = self._take(3 * _G1_BYTES)
        for _ in range(4):  # A, B, Z, K
            self._skip_points(_G1_BYTES)
        self._skip(2 * _G2_BYTES)
        self._skip_points(_G2_BYTES)
        wires = int.from_bytes(self._take(_MAP_BYTES)[:8], "big")
        self._skip(2 * wires + (0 if is_gnark_08 else _COUNT_BYTES))
        start = self._at
        fixed = self._take(_FIXED_BYTES)
        points = self._count()
        if fixed[: 2 * _G1_BYTES] != alpha_beta_delta[: 2 * _G1_BYTES] or not 0 < points <= _MAX_PUBLIC_INPUTS:
            raise self._malformed("its proving key is not followed by a verifying key")
        size = _FIXED_BYTES + _COUNT_BYTES + points * _G1_BYTES + (0 if is_gnark_08 else _LATER_COUNTS_BYTES)
        self._at = start
        return self._take(size)

    def _skip_points(self, size: int) -> None:
        count = self._count()
        if count:
            first = self._take(1)[0]
            self._at -= 1
            if not first & _COMPRESSED:
                raise self._malformed("its points are not compressed")
        self._skip(count * size)

    def _count(self) -> int:
        return int.from_bytes(self._take(_COUNT_BYTES), "big")

    def _skip(self, size: int) -> None:
        self._at += size

    def _take(self, size: int) -> bytes:
        data = os.pread(self._descriptor, size, self._at) if self._at < 2**62 else b""
        if len(data) != size:
            raise self._malformed("it ends before the end of its verifying key")
        self._at += size
        return data

    def _malformed(self, reason: str) -> MalformedKey:
        return MalformedKey(f"the verifying key cannot be read from key file {self._path.name}: {reason}")


def _no_key(path: Path, reason: str, offset: int = 0) -> MalformedKey:
    return MalformedKey(
        f"{path.name} is neither a proving key nor a verifying key; pass a key as `prover download` or `prover setup` "
        f"writes it, or a verifying key as `prover export-vk` writes it. Read as a verifying key: {reason}",
        offset=offset,
    )


def _from_text(text: bytes) -> bytes:
    """Read the text format of `prover setup`: bytes in decimal, between brackets. No binary key begins with "["."""
    try:
        return bytes(map(int, text.strip().removeprefix(b"[").removesuffix(b"]").split()))
    except ValueError:
        raise MalformedKey("it begins with [, but is not a list of bytes in decimal") from None
