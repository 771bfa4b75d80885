"""Whether key files are what was published: size and digest, structure, and on demand a proof."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
from shared.circuit_id import CircuitId
from shared.logs import get_logger

_log = get_logger(__name__)

TrialProof = Callable[[LoadedKey, CircuitId, CancelFlag], None]
"""Proves something with a key and verifies it; raises ProverError."""


class Verdict(enum.StrEnum):
    """What became of a key."""

    GOOD = "good"
    UNLISTED = "unlisted"
    """Well-formed, but nobody said which size and digest it should have."""
    MISSING = "missing"
    WRONG_SIZE = "wrong size"
    WRONG_CHECKSUM = "wrong checksum"
    UNUSABLE = "unusable"
    WRONG_PROOF = "wrong proof"
    PREPARED_DAMAGED = "bad prepared"

    @property
    def is_bad(self) -> bool:
        """Whether the key must be replaced."""
        return self not in (Verdict.GOOD, Verdict.UNLISTED)


@dataclass(frozen=True)
class KeyReport:
    """One key: ``detail`` says what is wrong, or what was checked."""

    circuit: CircuitId
    file: str
    verdict: Verdict
    detail: str


def known_files(folder: Path, manifest: Path | None) -> Expectations:
    """What the files of a folder must be: by a pinned manifest, or by the lists beside them and the one shipped here.

    Of those, manifest.json of keys made here counts before the CHECKSUM list, and that before the shipped one.
    Raises SettingsInvalid for a list that cannot be read.
    """
    if manifest is not None:
        return read_pinned_manifest(manifest)
    made_here = {
        record.name: ExpectedFile(record.name, record.sha256, record.size)
        for record in read_manifest(folder, lenient=True).values()
    }
    return {**published_keys(), **_checksum_list(folder), **made_here}


def accepted_digests(folder: Path, manifest: Path | None) -> Callable[[Path], prepared_keys.Digests]:
    """Tell what a key file of a folder may be when it is loaded; nothing is refused that no list names.

    With a pinned manifest that alone counts, else the lists that ``known_files`` looks into, whichever names the file:
    they may be older than it. Lists that cannot be read are left out, with a warning.
    """

    def look_up(path: Path) -> prepared_keys.Digests:
        try:
            lists = [known_files(folder, manifest)]
            if manifest is None:
                lists += [published_keys(), _checksum_list(folder)]
        except SettingsInvalid as error:
            _warn_once(error.detail)
            return frozenset()
        listed = frozenset(bytes.fromhex(known[path.name].sha256) for known in lists if path.name in known)
        own = recorded_digest(path) if listed and manifest is None else None
        return listed if own is None else listed | {own}

    return look_up


def verify_key(
    engine: Engine,
    circuit: CircuitId,
    path: Path,
    known: Expectations,
    cancel: CancelFlag,
    trial_proof: TrialProof | None = None,
    prepared_folder: Path | None = None,
) -> KeyReport:
    """Check a key file: size and SHA-256, every byte's place in its format, ``trial_proof``, its prepared forms.

    Raises Cancelled, and what the machine cannot do (OutOfMemory).
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
        forms = prepared_keys.forms_of(path, prepared_folder) if prepared_folder is not None else []
        problem, notes = _verify_forms(forms, path, origin.sha256, cancel)
        if problem is not None:
            return report(Verdict.PREPARED_DAMAGED, problem)
    except KeyUnavailable as error:
        return report(Verdict.UNUSABLE, error.detail)
    except OSError as error:
        return report(Verdict.UNUSABLE, f"the file cannot be read: {error.strerror}")
    checked = "structure" if trial_proof is None else "structure, a proof"
    if len(forms) > len(notes):
        checked += ", its prepared form"
    checked += "".join(f"; {note}" for note in notes)
    if expected is None:
        return report(Verdict.UNLISTED, f"{checked}; no checksum is known for this file")
    return report(Verdict.GOOD, f"SHA-256, {checked}")


def _checksum_list(folder: Path) -> Expectations:
    listed = folder / CHECKSUM_LIST
    return read_checksum_list(listed) if listed.exists() else {}


def _verify_forms(forms: list[Path], source: Path, sha256: bytes, cancel: CancelFlag) -> tuple[str | None, list[str]]:
    """What is wrong with one of them, and a note on each of another version: those are left to that one."""
    notes: list[str] = []
    for form in forms:
        try:
            prepared_keys.verify(form, source, sha256, cancel)
        except UnsupportedKey:
            notes.append(f"{form.name} is of another version, and not checked")
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


@cache  # looked at for every load, and for every request for a key that failed
def _warn_once(detail: str) -> None:
    _log.warning("checksums_unreadable", error=detail, remedy="remove the list, or get it again")
