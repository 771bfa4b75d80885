"""Published keys from their server into a folder: several at once, continued after a stop, whole or not at all."""

import asyncio
import os
import random
import ssl
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import aiohttp
from yarl import URL

from prover.errors import Cancelled, KeyDownloadFailed, KeyMissing, KeyUnavailable, SettingsInvalid
from prover.kernel.cancellation import CancelFlag
from prover.keys.catalogue.published_digests import (
    CHECKSUM_LIST,
    Expectations,
    ExpectedFile,
    parse_checksum_list,
    published_keys,
    read_checksum_list,
    read_pinned_manifest,
)
from prover.keys.download.partial_file import PartialFile, PartialFileDisplaced
from prover.keys.download.transfer import (
    TransferFailed,
    TransferInterrupted,
    WrongContent,
    explained_network,
    keeps_encryption,
    no_room,
    require_proxies,
    require_status,
    transfer,
)
from prover.keys.files.atomic_file import atomic_file
from prover.keys.files.key_folder import Fingerprint, find_key, fingerprint_of
from prover.keys.files.provenance import sha256_of_file
from prover.loopback import is_loopback
from prover.versions import own_version
from shared.circuit_id import CircuitId
from shared.logs import get_logger

_log = get_logger(__name__)

Result = TypeVar("Result")

_CONNECT_S = 30.0
_HEAD_S = 15.0
_LONGEST_BACKOFF_S = 60.0
_LOCK_POLL_S = 0.2
_MOST_WRONG_CONTENTS = 3
_MOST_DISPLACEMENTS = 5
_NOTABLE_PROGRESS_BYTES = 2**24
"""An attempt that brought as much is not counted as failed."""
_LONGEST_LIST_BYTES = 2**20
_UNENCRYPTED = "over http:// the CHECKSUM list is only as good as the network: a key can be changed with its digest"
_UNENCRYPTED_REMEDY = "use https://, or pin the digests with --manifest"


@dataclass(frozen=True)
class DownloadSource:
    """Where keys come from, and how hard to try."""

    url: str
    """Folder of the key files and of their CHECKSUM list."""
    attempts: int = 10
    """Per file."""
    parallel: int = 4
    """Files at once."""
    manifest: Path | None = None
    """Pinned names, sizes and digests, in place of the CHECKSUM list and of those shipped for a server without one."""
    silence_s: float = 60.0
    """How long the server may send nothing."""
    backoff_s: float = 1.0
    """First pause between attempts; each next one is twice as long, up to a minute."""

    def base(self) -> URL:
        """The address as a URL; raises SettingsInvalid."""
        try:
            url = URL(self.url)
        except ValueError as error:
            raise SettingsInvalid(f"--download-url: {error}") from error
        if url.scheme not in ("http", "https") or not url.host:
            raise SettingsInvalid(f"--download-url: {self.url!r} is not an address such as https://host/folder")
        return url


class DownloadWatcher(Protocol):
    """Who wants to know how far a download is. Called by the thread that downloads."""

    def planned(self, files: int, size: int | None) -> None:
        """So many files are missing; ``size`` is None where the server does not tell all sizes."""

    def advanced(self, name: str, done: int, total: int | None) -> None:
        """So many bytes of a file are here."""

    def finished(self, name: str) -> None:
        """A file is complete, checked and in place."""


class Unwatched:
    """Nobody wants to know."""

    def planned(self, files: int, size: int | None) -> None:
        """Do nothing."""

    def advanced(self, name: str, done: int, total: int | None) -> None:
        """Do nothing."""

    def finished(self, name: str) -> None:
        """Do nothing."""


def missing_keys(folder: Path, circuits: Iterable[CircuitId]) -> list[CircuitId]:
    """The circuits of which a folder has no key under either name."""
    missing = []
    for circuit in circuits:
        try:
            find_key(folder, circuit)
        except KeyMissing:
            missing.append(circuit)
    return missing


def download_keys(
    folder: Path,
    circuits: Sequence[CircuitId],
    source: DownloadSource,
    cancel: CancelFlag,
    watcher: DownloadWatcher | None = None,
) -> int:
    """Bring the missing keys of circuits into a folder and return how many came; those present need no network.

    Every key is checked against the digest that was published before it gets its name. Blocks; call it from a thread
    without an event loop. Raises KeyDownloadFailed that names every file, SettingsInvalid, and Cancelled when
    ``cancel`` is raised; what came of unfinished files is kept for the next time.
    """
    missing = missing_keys(folder, circuits)
    if not missing:
        return 0
    base = source.base()
    pinned = read_pinned_manifest(source.manifest) if source.manifest else None
    _make_writable(folder, missing)
    run = _Download(folder, source, base, watcher or Unwatched(), cancel)
    _interruptible(run.bring(missing, pinned), cancel)
    return len(missing)


class _Download:
    def __init__(
        self, folder: Path, source: DownloadSource, base: URL, watcher: DownloadWatcher, cancel: CancelFlag
    ) -> None:
        self._folder = folder
        self._source = source
        self._base = base
        self._shown = str(base.with_user(None).with_query(None))
        self._watcher = watcher
        self._cancel = cancel
        self._turns = asyncio.Semaphore(source.parallel)
        self._missing = ""
        self._list_failure: KeyDownloadFailed | None = None

    async def bring(self, circuits: Sequence[CircuitId], pinned: Expectations | None) -> None:
        first = circuits[0].key_file
        self._missing = first if len(circuits) == 1 else f"{first} and {len(circuits) - 1} more"
        try:
            require_proxies()
        except TransferFailed as error:
            raise KeyDownloadFailed(self._explained(error)) from error
        timeout = aiohttp.ClientTimeout(sock_connect=_CONNECT_S, sock_read=self._source.silence_s, total=None)
        headers = {"Accept-Encoding": "identity", "User-Agent": f"zkc-prover/{own_version()}"}
        # aiohttp's own context may be without certificates (prover.cli.command).
        connector = aiohttp.TCPConnector(ssl=await asyncio.to_thread(ssl.create_default_context))
        if pinned is None and self._base.scheme == "http" and not is_loopback(self._base.host or ""):
            _log.warning("download_unencrypted", source=self._shown, detail=_UNENCRYPTED, remedy=_UNENCRYPTED_REMEDY)
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            headers=headers,
            trust_env=True,
            auto_decompress=False,
            trace_configs=[keeps_encryption()],
        ) as session:
            known = await self._published(session, circuits) if pinned is None else pinned
            files = [file for circuit in circuits if (file := _listed(circuit, known)) is not None]
            await self._require_space(session, files)
            outcomes = await asyncio.gather(*(self._file(session, file) for file in files), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        failures += [self._unlisted(circuit.key_file) for circuit in circuits if _listed(circuit, known) is None]
        for failure in failures:
            if not isinstance(failure, KeyDownloadFailed):
                raise failure
        if failures and len(failures) == len(circuits) and self._list_failure is not None:
            raise self._list_failure
        if failures:
            raise KeyDownloadFailed("\n".join(str(failure) for failure in failures))

    async def _published(self, session: aiohttp.ClientSession, circuits: Sequence[CircuitId]) -> Expectations:
        """What the server lists, or the digests shipped here where it has no list but may have their keys."""
        try:
            return await self._checksum_list(session)
        except KeyDownloadFailed as failure:
            shipped = published_keys()
            refused = isinstance(failure.__cause__, TransferFailed)
            if not refused or all(_listed(circuit, shipped) is None for circuit in circuits):
                raise
            _log.warning("checksum_list_missing", error=str(failure.__cause__), detail="the pinned digests count")
            self._list_failure = failure
            return shipped

    def _explained(self, failure: TransferFailed) -> str:
        return f"proving key file not found: {self._missing}; {failure}: {failure.remedy}"

    async def _checksum_list(self, session: aiohttp.ClientSession) -> Expectations:
        async def fetch() -> str:
            with explained_network():
                return await fetch_text()

        async def fetch_text() -> str:
            async with session.get(self._base / CHECKSUM_LIST) as response:
                require_status(response, 200)
                content = await response.content.read(_LONGEST_LIST_BYTES + 1)
                while len(content) <= _LONGEST_LIST_BYTES and (more := await response.content.readany()):
                    content += more
            if len(content) > _LONGEST_LIST_BYTES:
                raise TransferFailed("the CHECKSUM list is implausibly long", "check --download-url")
            return content.decode("ascii", "replace")

        text = await self._insist(CHECKSUM_LIST, fetch)
        try:
            known = parse_checksum_list(text)
        except ValueError as error:
            raise self._failed(CHECKSUM_LIST, str(error), "check --download-url, or give --manifest") from error
        await asyncio.to_thread(self._leave_list, text, known)
        return known

    def _leave_list(self, text: str, known: Expectations) -> None:
        """Write the list into the folder, by which `prover keys verify` and a start work without the network.

        Keys that came by an earlier list and are there keep its lines, else a start would refuse good ones of another
        edition, or take bad ones that only the earlier list names.
        """
        kept = _lines_to_keep(self._folder, known, self._cancel)
        _write_list(self._folder, _with_lines(text, kept))
        others = sorted(name for name in kept if name in known)
        if others:
            _log.warning(
                "keys_of_another_edition",
                files=", ".join(others),
                detail=f"the list of {self._shown} has other digests for them; they stay as they are",
                remedy="to have its edition, remove them and run `prover download` again",
            )

    def _correct_list(self, brought: ExpectedFile) -> None:
        """Give a key its line back: a process that downloads another edition may have replaced the list meanwhile."""
        if self._source.manifest is not None:
            return
        with suppress(SettingsInvalid, OSError, UnicodeError):
            path = self._folder / CHECKSUM_LIST
            if read_checksum_list(path).get(brought.name, brought).sha256 != brought.sha256:
                _write_list(self._folder, _with_lines(path.read_text(encoding="ascii"), {brought.name: brought}))

    def _unlisted(self, name: str) -> KeyDownloadFailed:
        remedy = "check --manifest" if self._source.manifest else "check --download-url, or give --manifest"
        return self._failed(name, f"no checksum found for {name}", remedy)

    async def _require_space(self, session: aiohttp.ClientSession, files: list[ExpectedFile]) -> None:
        """Compare the sizes that are known with the free space before anything is written."""
        sizes = await asyncio.gather(*(self._size(session, file) for file in files))
        known = [size for size in sizes if size is not None]
        self._watcher.planned(len(files), sum(known) if len(known) == len(files) else None)
        there = sum(PartialFile(self._folder, file).left_over_bytes() for file in files)
        free = self._room()
        if sum(known) - there > free:
            failure = no_room(sum(known) - there, free)
            raise KeyDownloadFailed(self._explained(failure))

    async def _size(self, session: aiohttp.ClientSession, file: ExpectedFile) -> int | None:
        if file.size is not None:
            return file.size
        async with self._turns:
            with suppress(aiohttp.ClientError, TimeoutError, TransferFailed):
                async with (
                    asyncio.timeout(_HEAD_S),
                    session.head(self._base / file.name, allow_redirects=True) as response,
                ):
                    return response.content_length if response.status == 200 else None
        return None

    async def _file(self, session: aiohttp.ClientSession, expected: ExpectedFile) -> None:
        async with self._turns:
            for _ in range(_MOST_DISPLACEMENTS):
                if await self._fetch(session, expected):
                    break
                _log.info("download_superseded", file=expected.name, detail="another process replaced the partial file")
            else:
                reason = "other processes, which its file system does not keep apart, replaced the partial file"
                raise self._failed(expected.name, reason, "download by one process at a time")
        self._watcher.finished(expected.name)

    async def _fetch(self, session: aiohttp.ClientSession, expected: ExpectedFile) -> bool:
        """Bring a file; False when another process got in the way, whose result may be there now."""
        partial = PartialFile(self._folder, expected)
        try:
            await self._lock(partial)
            if not partial.target.is_file():  # else another process was faster
                await _in_thread(partial.resume, partial)
                await self._insist(expected.name, lambda: self._attempt(session, expected, partial), partial)
                self._correct_list(expected)
                await _in_thread(partial.publish, partial)
                _log.debug("key_downloaded", file=expected.name, bytes=partial.size, sha256=expected.sha256)
        except PartialFileDisplaced:
            return False
        except OSError as error:
            reason = f"the file cannot be written: {error.strerror}"
            remedy = "check disk space and permissions of the keys directory"
            raise self._failed(expected.name, reason, remedy) from error
        finally:
            partial.close()
        return True

    async def _attempt(self, session: aiohttp.ClientSession, expected: ExpectedFile, partial: PartialFile) -> None:
        url = str(self._base / expected.name)
        await transfer(
            session,
            url,
            expected,
            partial,
            self._room,
            lambda done, total: self._watcher.advanced(expected.name, done, total),
        )

    async def _lock(self, partial: PartialFile) -> None:
        if not partial.acquire():
            _log.info("download_waiting", file=partial.target.name, detail="another process is downloading it")
            while not partial.acquire():  # noqa: ASYNC110 - no event tells what another process does
                await asyncio.sleep(_LOCK_POLL_S)
        if not partial.is_kept:
            detail = "the file system has no locks: other processes may download it too, and no part of it is kept"
            _log.info("download_unlocked", file=partial.target.name, detail=detail)

    async def _insist(
        self,
        name: str,
        attempt: Callable[[], Coroutine[Any, Any, Result]],
        partial: PartialFile | None = None,
    ) -> Result:
        """Attempt until it works, with growing pauses; raises KeyDownloadFailed."""
        failed = wrong = 0
        while True:
            before = partial.size if partial else 0
            try:
                return await attempt()
            except TransferFailed as error:
                raise self._failed(name, str(error), error.remedy) from error
            except TransferInterrupted as error:
                reason, wait_s = str(error), error.wait_s
                wrong += isinstance(error, WrongContent)
                came = partial.size - before if partial else 0
                failed = 1 if came >= _NOTABLE_PROGRESS_BYTES else failed + 1
                if failed >= self._source.attempts or wrong >= _MOST_WRONG_CONTENTS:
                    tries = "1 attempt" if failed == 1 else f"{failed} attempts"
                    remedy = "try again later, or check --download-url and the network"
                    if partial is None or partial.is_kept:
                        remedy += "; what came is kept"
                    raise self._failed(name, f"{reason} ({tries})", remedy) from error
            pause_s = max(wait_s, min(self._source.backoff_s * 2 ** (failed - 1), _LONGEST_BACKOFF_S))
            pause_s *= random.uniform(1.0, 1.25) if wait_s else random.uniform(0.5, 1.0)  # noqa: S311 - spreads clients
            _log.warning("download_interrupted", file=name, error=reason, attempt=failed, pause_s=round(pause_s, 2))
            await asyncio.sleep(pause_s)

    def _room(self) -> int:
        stat = os.statvfs(self._folder)
        return stat.f_bavail * stat.f_frsize

    def _failed(self, name: str, reason: str, remedy: str) -> KeyDownloadFailed:
        what = f"downloading {name if name == CHECKSUM_LIST else 'it'} from {self._shown} failed"
        missing = self._missing if name == CHECKSUM_LIST else name
        return KeyDownloadFailed(f"proving key file not found: {missing}; {what}: {reason}: {remedy}")


def _listed(circuit: CircuitId, known: Expectations) -> ExpectedFile | None:
    """The file of a circuit that a list has, under its current name or else its earlier one."""
    return next((known[name] for name in circuit.key_files if name in known), None)


def _lines_to_keep(folder: Path, known: Expectations, cancel: CancelFlag) -> dict[str, ExpectedFile]:
    """What the list in a folder says of keys that are there, where it is not what the new list says.

    Where both name a key, the earlier line stays only while the key agrees with it: one that was replaced by hand, or
    damaged, is the new list's. Raises Cancelled.
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
        and os.path.isfile(folder / name)  # noqa: PTH113 - a Path's raises where it cannot look
        and (name not in known or _may_be(folder / name, file, cancel))
    }


def _may_be(path: Path, expected: ExpectedFile, cancel: CancelFlag) -> bool:
    """Whether a file has the digest that is expected, or cannot be read."""
    try:
        return _digest_of(path, cancel) == expected.sha256
    except (KeyUnavailable, OSError):
        return True


_digests: dict[tuple[Path, Fingerprint], str] = {}
"""Of keys that were read once: a server with --auto-download gets a list for each key that it misses."""


def _digest_of(path: Path, cancel: CancelFlag) -> str:
    state = path, fingerprint_of(path)
    if state not in _digests:
        _digests[state] = sha256_of_file(path, cancel.check)
    return _digests[state]


def _with_lines(text: str, lines: Expectations) -> str:
    """Return a CHECKSUM list with other lines for some files; the same bytes if there are none."""
    if not lines:
        return text
    others = [line for line in text.splitlines() if not parse_checksum_list(line).keys() & lines.keys()]
    return "\n".join([*others, *(f"{file.sha256}  {file.name}" for file in lines.values())]) + "\n"


def _write_list(folder: Path, text: str) -> None:
    with suppress(SettingsInvalid, OSError), atomic_file(folder / CHECKSUM_LIST, force=True) as file:
        file.write(text.encode())


def _make_writable(folder: Path, missing: Sequence[CircuitId]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        problem = "" if os.access(folder, os.W_OK | os.X_OK) else "permission denied"
    except OSError as error:
        problem = error.strerror or "unknown failure"
    if problem:
        raise KeyDownloadFailed(
            f"proving key file not found: {missing[0].key_file}; it cannot be downloaded, since the keys directory "
            f"cannot be written: {problem}: check its permissions or choose another --keys-dir"
        )


async def _in_thread(work: Callable[[], None], partial: PartialFile) -> None:
    """Run blocking work; when this task is cancelled, the work has ended before the file is closed."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        partial.interrupt()
        with suppress(PartialFileDisplaced):
            await running
        raise


def _interruptible(work: Coroutine[Any, Any, None], cancel: CancelFlag) -> None:
    """Run a coroutine in an event loop of its own; raises Cancelled when the flag is raised."""

    async def watched() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop() -> None:
            with suppress(RuntimeError):  # the loop may have ended
                loop.call_soon_threadsafe(task.cancel if task else loop.stop)

        with cancel.watch(stop):
            await work

    try:
        asyncio.run(watched())
    except asyncio.CancelledError as error:
        raise Cancelled from error
