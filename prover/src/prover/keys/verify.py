"""Verification of key files: published size and digest, structure, and on demand a proof."""

import enum
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

from prover.errors import KeyUnavailable, ProverError, SettingsInvalid, UnsupportedKey
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey
from prover.keys.catalogue.published_digests import (
    CHECKSUM_LIST,
    Expectations,
    ExpectedFile,
    published_keys,
    read_checksum_list,
    read_pinned_manifest,
)
from prover.keys.files.key_folder import check_name
from prover.keys.files.provenance import read_manifest, recorded_digest, sha256_of_file
from prover.keys.prepared import prepared_keys
from shared.process.logs import get_logger
from shared.requests.circuit_id import CircuitId

_log = get_logger(__name__)

TrialProof = Callable[[LoadedKey, CircuitId, CancelFlag], None]
"""Function that makes and verifies a proof with a key; raises ProverError."""


class Verdict(enum.StrEnum):
    """Result of the verification of a key."""

    GOOD = "good"
    UNLISTED = "unlisted"
    """Well-formed, but no list has its size and digest."""
    MISSING = "missing"
    WRONG_SIZE = "wrong size"
    WRONG_CHECKSUM = "wrong checksum"
    UNUSABLE = "unusable"
    WRONG_PROOF = "wrong proof"
    PREPARED_DAMAGED = "bad prepared"

    @property
    def is_bad(self) -> bool:
        """True if the key must be replaced."""
        return self not in (Verdict.GOOD, Verdict.UNLISTED)


class KeyReport(Struct, frozen=True):
    """The verdict on one key; ``detail`` names the fault, or the checks that passed."""

    circuit: CircuitId
    file: str
    verdict: Verdict
    detail: str


def known_files(folder: Path, manifest: Path | None) -> Expectations:
    """Return the expected files of a folder: of a pinned manifest, or of the folder's lists and the built-in one.

    The manifest.json of locally made keys precedes the CHECKSUM list, which precedes the built-in list.
    Raises SettingsInvalid for a list that cannot be read.
    """
    if manifest is not None:
        return read_pinned_manifest(manifest)
    return {**published_keys(), **_checksum_list(folder), **_local_keys(folder)}


def accepted_digests(folder: Path, manifest: Path | None) -> Callable[[Path], prepared_keys.Digests]:
    """Return a function that gives the accepted digests of a key file; none, if no list names the file, accept any.

    A pinned manifest excludes all other lists; while it cannot be read, its last readable content is used, and without
    one the function raises KeyUnavailable. Otherwise each list of ``known_files`` may accept the file, as a list may be
    older than the file. An unreadable list is skipped with a warning; the others count.
    """
    return _listed_digests(folder) if manifest is None else _pinned_digests(manifest)


def _listed_digests(folder: Path) -> Callable[[Path], prepared_keys.Digests]:
    def look_up(path: Path) -> prepared_keys.Digests:
        lists = [_local_keys(folder), published_keys()]
        try:
            lists.append(_checksum_list(folder))
        except SettingsInvalid as error:
            _warn_once(error.detail, "remove the list, or download it again")
        listed = frozenset(digest for known in lists for digest in _digests_in(known, path))
        own = recorded_digest(path) if listed else None
        return listed if own is None else listed | {own}

    return look_up


def _pinned_digests(manifest: Path) -> Callable[[Path], prepared_keys.Digests]:
    known: Expectations | None = None
    with suppress(SettingsInvalid):  # the start of a server reports it
        known = read_pinned_manifest(manifest)

    def look_up(path: Path) -> prepared_keys.Digests:
        nonlocal known
        try:
            known = read_pinned_manifest(manifest)
        except SettingsInvalid as error:
            if known is None:
                raise KeyUnavailable(f"the manifest of keys {manifest.name} cannot be read; restore it") from error
            _warn_once(error.detail, "restore the manifest; until then its last readable content is used")
        return _digests_in(known, path)

    return look_up


def _digests_in(known: Expectations, path: Path) -> prepared_keys.Digests:
    return frozenset({bytes.fromhex(known[path.name].sha256)} if path.name in known else ())


def verify_key(
    engine: Engine,
    circuit: CircuitId,
    path: Path,
    known: Expectations,
    cancel: CancelFlag,
    trial_proof: TrialProof | None = None,
    prepared_folder: Path | None = None,
) -> KeyReport:
    """Verify a key file: size and SHA-256, the whole structure, ``trial_proof``, its prepared files.

    Raises Cancelled and OutOfMemory.
    """

    def report(verdict: Verdict, detail: str) -> KeyReport:
        return KeyReport(circuit, path.name, verdict, detail)

    expected = known.get(path.name)
    try:
        if expected is not None and (fault := _compare(path, expected, cancel)) is not None:
            return report(*fault)
        key, origin = prepared_keys.load_with_origin(engine, path, cancel)
        with key:
            check_name(key, circuit, path)
            if trial_proof is not None and (problem := _try(trial_proof, key, circuit, cancel)):
                return report(Verdict.WRONG_PROOF, problem)
        prepared_files = prepared_keys.prepared_files_of(path, prepared_folder) if prepared_folder is not None else []
        problem, notes = _verify_prepared_files(prepared_files, path, origin.sha256, cancel)
        if problem is not None:
            return report(Verdict.PREPARED_DAMAGED, problem)
    except KeyUnavailable as error:
        return report(Verdict.UNUSABLE, error.detail)
    except OSError as error:
        return report(Verdict.UNUSABLE, f"the file cannot be read: {error.strerror}")
    checked = "structure" if trial_proof is None else "structure, a proof"
    if len(prepared_files) > len(notes):
        checked += ", its prepared key"
    checked += "".join(f"; {note}" for note in notes)
    if expected is None:
        return report(Verdict.UNLISTED, f"{checked}; no checksum is known for this file")
    return report(Verdict.GOOD, f"SHA-256, {checked}")


def _local_keys(folder: Path) -> Expectations:
    return {
        record.name: ExpectedFile(record.name, record.sha256, record.size)
        for record in read_manifest(folder, lenient=True).values()
    }


def _checksum_list(folder: Path) -> Expectations:
    listed = folder / CHECKSUM_LIST
    return read_checksum_list(listed) if listed.exists() else {}


def _verify_prepared_files(
    prepared_files: list[Path], source: Path, sha256: bytes, cancel: CancelFlag
) -> tuple[str | None, list[str]]:
    """Return the first fault, and a note on each file that another version wrote, and only that version can check."""
    notes: list[str] = []
    for prepared_file in prepared_files:
        try:
            prepared_keys.verify(prepared_file, source, sha256, cancel)
        except UnsupportedKey:
            notes.append(f"{prepared_file.name} was written by another version and not checked")
        except KeyUnavailable as error:
            return f"{error.detail}; remove it, or run `prover keys prepare --force`", notes
    return None, notes


def _compare(path: Path, expected: ExpectedFile, cancel: CancelFlag) -> tuple[Verdict, str] | None:
    size = path.stat().st_size
    if expected.size is not None and size != expected.size:
        return Verdict.WRONG_SIZE, f"it has {size} bytes, expected {expected.size}"
    digest = sha256_of_file(path, cancel.check)
    if digest != expected.sha256:
        return Verdict.WRONG_CHECKSUM, f"its SHA-256 is {digest}, expected {expected.sha256}"
    return None


def _try(trial_proof: TrialProof, key: LoadedKey, circuit: CircuitId, cancel: CancelFlag) -> str | None:
    try:
        trial_proof(key, circuit, cancel)
    except ProverError as error:
        cancel.check()
        return error.detail
    return None


@cache  # called for every load, and for every request for a key that failed
def _warn_once(detail: str, remedy: str) -> None:
    _log.warning("checksums_unreadable", error=detail, remedy=remedy)
