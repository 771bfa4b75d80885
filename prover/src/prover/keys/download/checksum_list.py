"""The CHECKSUM list of a server of keys, and its copy next to the keys."""

import os
from contextlib import suppress
from pathlib import Path

import aiohttp
from yarl import URL

from prover.errors import KeyUnavailable, SettingsInvalid
from prover.kernel.cancellation import CancelFlag
from prover.keys.catalogue.list_file import read_list
from prover.keys.catalogue.published_digests import (
    CHECKSUM_LIST,
    Expectations,
    ExpectedFile,
    parse_checksum_list,
    read_checksum_list,
)
from prover.keys.download.transfer import TransferFailed, explained_network, require_status
from prover.keys.files.atomic_file import atomic_file
from prover.keys.files.key_folder import FileIdentity, file_identity
from prover.keys.files.provenance import sha256_of_file
from shared.process.logs import get_logger
from shared.requests.circuit_id import CircuitId

_log = get_logger(__name__)

_LONGEST_LIST_BYTES = 2**20


async def fetch_list(session: aiohttp.ClientSession, base: URL) -> str:
    """Return the text of a server's list in one attempt. Raises TransferFailed or TransferInterrupted."""
    with explained_network():
        async with session.get(base / CHECKSUM_LIST) as response:
            require_status(response, 200)
            content = await response.content.read(_LONGEST_LIST_BYTES + 1)
            while len(content) <= _LONGEST_LIST_BYTES and (more := await response.content.readany()):
                content += more
    if len(content) > _LONGEST_LIST_BYTES:
        raise TransferFailed("the CHECKSUM list is implausibly long", "check --download-url")
    return content.decode("ascii", "replace")


def store_list(folder: Path, text: str, known: Expectations, source: str, cancel: CancelFlag) -> None:
    """Write the list into the folder, where `prover keys verify` and a start use it without the network.

    ``known`` are the files of ``text``, ``source`` is the server's name in the log. Present keys of an earlier list
    keep their lines. Otherwise a start would refuse good keys from another release, or accept bad ones that only the
    earlier list names. Raises Cancelled.
    """
    kept = _lines_to_keep(folder, known, cancel)
    _write_list(folder, _with_lines(text, kept))
    others = sorted(name for name in kept if name in known)
    if others:
        _log.warning(
            "keys_of_another_release",
            files=", ".join(others),
            detail=f"the list of {source} has other digests for them; they stay as they are",
            remedy="to replace them with its release, remove them and run `prover download` again",
        )


def restore_line(folder: Path, downloaded: ExpectedFile) -> None:
    """Restore the line of a key: a process that downloads another release may have replaced the list meanwhile."""
    with suppress(OSError, ValueError):
        text = read_list(folder / CHECKSUM_LIST).decode("ascii")
        if parse_checksum_list(text).get(downloaded.name, downloaded).sha256 != downloaded.sha256:
            _write_list(folder, _with_lines(text, {downloaded.name: downloaded}))


def _lines_to_keep(folder: Path, known: Expectations, cancel: CancelFlag) -> dict[str, ExpectedFile]:
    """Return the lines of a folder's list for present keys that differ from the new list.

    If both name a key, the earlier line stays only while the key agrees with it: a key that was replaced by hand or
    damaged gets the new line. Raises Cancelled.
    """
    try:
        earlier = read_checksum_list(folder / CHECKSUM_LIST)
    except SettingsInvalid:
        return {}
    return {
        name: file
        for name, file in earlier.items()
        if (name not in known or known[name].sha256 != file.sha256)
        and CircuitId.from_key_file(name) is not None
        and os.path.isfile(folder / name)  # noqa: PTH113 - that of a Path raises for a path that it cannot read
        and (name not in known or _may_match(folder / name, file, cancel))
    }


def _may_match(path: Path, expected: ExpectedFile, cancel: CancelFlag) -> bool:
    """Return whether a file has the expected digest, or cannot be read."""
    try:
        return _digest_of(path, cancel) == expected.sha256
    except (KeyUnavailable, OSError):
        return True


_digests: dict[tuple[Path, FileIdentity], str] = {}
"""Digests of keys that were read once: a server with --auto-download gets a list for each missing key."""


def _digest_of(path: Path, cancel: CancelFlag) -> str:
    version = path, file_identity(path)
    if version not in _digests:
        _digests[version] = sha256_of_file(path, cancel.check)
    return _digests[version]


def _with_lines(text: str, lines: Expectations) -> str:
    """Return a CHECKSUM list with other lines for some files; the same bytes if there are none."""
    if not lines:
        return text
    others = [line for line in text.splitlines() if not parse_checksum_list(line).keys() & lines.keys()]
    return "\n".join([*others, *(f"{file.sha256}  {file.name}" for file in lines.values())]) + "\n"


def _write_list(folder: Path, text: str) -> None:
    with suppress(SettingsInvalid, OSError), atomic_file(folder / CHECKSUM_LIST, force=True) as file:
        file.write(text.encode())
