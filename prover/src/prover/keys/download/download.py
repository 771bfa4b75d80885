"""Download of published keys into a folder: several at once, resumable, published atomically."""

import asyncio
import os
import ssl
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from yarl import URL

from prover.errors import Cancelled, KeyDownloadFailed, KeyListUnavailable, KeyMissing
from prover.kernel.cancellation import CancelFlag
from prover.keys.catalogue.published_digests import (
    CHECKSUM_LIST,
    Expectations,
    ExpectedFile,
    parse_checksum_list,
    published_keys,
    read_pinned_manifest,
)
from prover.keys.download.checksum_list import fetch_list, restore_line, store_list
from prover.keys.download.partial_file import PartialFile, PartialFileSuperseded
from prover.keys.download.source import DownloadSource, DownloadWatcher
from prover.keys.download.transfer import (
    TransferFailed,
    TransferInterrupted,
    WrongContent,
    announced_bytes,
    explained_disk,
    keeps_encryption,
    largest_bytes,
    no_room,
    require_proxies,
    transfer,
)
from prover.keys.files.key_folder import find_key
from prover.loopback import is_loopback
from prover.versions import VERSION
from shared.process.logs import get_logger
from shared.process.retries import Backoff, jittered
from shared.requests.circuit_id import CircuitId

_log = get_logger(__name__)

Result = TypeVar("Result")

_CONNECT_S = 30.0
_HEAD_S = 15.0
_LONGEST_BACKOFF_S = 60.0
_LOCK_POLL_S = 0.2
_MAX_WRONG_CONTENTS = 3
_MAX_SUPERSEDED = 5
_NOTABLE_PROGRESS_BYTES = 2**24
"""Bytes beyond the largest part so far after which failed attempts are counted from one again."""
_LATER = "try again later, or check --download-url and the network"
_UNENCRYPTED = "over http:// an attacker in the network can change a key together with its digest in the CHECKSUM list"
_UNENCRYPTED_REMEDY = "use https://, or pin the digests with --manifest"


def missing_keys(folder: Path, circuits: Iterable[CircuitId]) -> list[CircuitId]:
    """Return the circuits without a key in a folder under either name."""
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
    """Download the missing keys of circuits into a folder and return their number; present keys need no network.

    Every key is verified against its published digest before it gets its name. Blocks; call it from a thread without
    an event loop. Raises KeyDownloadFailed that names every file, SettingsInvalid, and Cancelled when ``cancel`` is
    raised; the bytes of unfinished files are kept for the next call.
    """
    missing = missing_keys(folder, circuits)
    if not missing:
        return 0
    base = source.base()
    pinned = read_pinned_manifest(source.manifest) if source.manifest else None
    _make_writable(folder, missing)
    run = _Download(folder, source, base, watcher or DownloadWatcher(), cancel)
    _interruptible(run.run(missing, pinned), cancel)
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
        self._transfer_slots = asyncio.Semaphore(source.parallel)
        self._missing = ""
        self._list_failure: KeyDownloadFailed | None = None
        self._interruption = ""
        self._pauses = Backoff(source.backoff_s, _LONGEST_BACKOFF_S)

    async def run(self, circuits: Sequence[CircuitId], pinned: Expectations | None) -> None:
        first = circuits[0].key_file
        self._missing = first if len(circuits) == 1 else f"{first} and {len(circuits) - 1} more"
        try:
            require_proxies()
        except TransferFailed as error:
            raise KeyDownloadFailed(self._explained(error)) from error
        timeout = aiohttp.ClientTimeout(sock_connect=_CONNECT_S, sock_read=self._source.silence_s, total=None)
        headers = {"Accept-Encoding": "identity", "User-Agent": f"zkc-prover/{VERSION}"}
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
        """Return the server's list; if it has none but may have keys with built-in digests, return those digests."""
        try:
            return await self._checksum_list(session)
        except KeyDownloadFailed as failure:
            built_in = published_keys()
            refused = isinstance(failure.__cause__, TransferFailed)
            if not refused or all(_listed(circuit, built_in) is None for circuit in circuits):
                raise
            _log.warning("checksum_list_missing", error=str(failure.__cause__), detail="the built-in digests are used")
            self._list_failure = failure
            return built_in

    def _explained(self, failure: TransferFailed) -> str:
        return f"proving key file not found: {self._missing}; {failure}: {failure.remedy}"

    async def _checksum_list(self, session: aiohttp.ClientSession) -> Expectations:
        try:
            async with asyncio.timeout(self._source.list_within_s):
                text = await self._retry(CHECKSUM_LIST, lambda: fetch_list(session, self._base))
        except TimeoutError:
            reason = self._interruption or f"no answer within {self._source.list_within_s:g} s"
            raise self._failed(CHECKSUM_LIST, reason, _LATER) from None
        try:
            known = parse_checksum_list(text)
        except ValueError as error:
            raise self._failed(CHECKSUM_LIST, str(error), "check --download-url, or pass --manifest") from error
        await asyncio.to_thread(store_list, self._folder, text, known, self._shown, self._cancel)
        return known

    def _unlisted(self, name: str) -> KeyDownloadFailed:
        remedy = "check --manifest" if self._source.manifest else "check --download-url, or pass --manifest"
        return self._failed(name, f"no checksum found for {name}", remedy)

    async def _require_space(self, session: aiohttp.ClientSession, files: list[ExpectedFile]) -> None:
        """Compare the known sizes with the free space before the first write."""
        sizes = await asyncio.gather(*(self._size(session, file) for file in files))
        known = [size for size in sizes if size is not None]
        self._watcher.planned(len(files), sum(known) if len(known) == len(files) else None)
        try:
            with explained_disk():
                present = sum(PartialFile(self._folder, file).left_over_bytes() for file in files)
                free = self._free_bytes()
            if sum(known) - present > free:
                raise no_room(sum(known) - present, free)
        except TransferFailed as error:
            raise KeyDownloadFailed(self._explained(error)) from error

    async def _size(self, session: aiohttp.ClientSession, file: ExpectedFile) -> int | None:
        if file.size is not None:
            return file.size
        async with self._transfer_slots:
            with suppress(aiohttp.ClientError, TimeoutError, TransferFailed):
                async with (
                    asyncio.timeout(_HEAD_S),
                    session.head(self._base / file.name, allow_redirects=True) as response,
                ):
                    size = announced_bytes(response) if response.status == 200 else None
                    return size if size is not None and size <= largest_bytes(file) else None
        return None

    async def _file(self, session: aiohttp.ClientSession, expected: ExpectedFile) -> None:
        name = expected.name
        async with self._transfer_slots:
            for _ in range(_MAX_SUPERSEDED):
                try:
                    with explained_disk():
                        if await self._fetch(session, expected):
                            break
                except TransferFailed as error:
                    raise self._failed(name, str(error), error.remedy) from error
                _log.info("download_superseded", file=name, detail="another process replaced the partial file")
            else:
                reason = "other processes, which the locks of its file system do not exclude, replaced the partial file"
                raise self._failed(name, reason, "download by one process at a time")
        self._watcher.finished(name)

    async def _fetch(self, session: aiohttp.ClientSession, expected: ExpectedFile) -> bool:
        """Download a file; False when another process interfered, which may have published it. Raises OSError."""
        partial = PartialFile(self._folder, expected)
        try:
            await self._lock(partial)
            if not partial.target.is_file():  # else another process was faster
                await _in_thread(partial.resume, partial)
                await self._retry(expected.name, lambda: self._attempt(session, expected, partial), partial)
                if self._source.manifest is None:
                    restore_line(self._folder, expected)
                await _in_thread(partial.publish, partial)
                _log.debug("key_downloaded", file=expected.name, bytes=partial.size, sha256=expected.sha256)
        except PartialFileSuperseded:
            return False
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
            self._free_bytes,
            lambda done, total: self._watcher.advanced(expected.name, done, total),
            self._source.silence_s,
        )

    async def _lock(self, partial: PartialFile) -> None:
        if not partial.acquire():
            _log.info("download_waiting", file=partial.target.name, detail="another process is downloading it")
            while not partial.acquire():  # noqa: ASYNC110 - no event reports that another process releases its lock
                await asyncio.sleep(_LOCK_POLL_S)
        if not partial.is_kept:
            detail = "the file system has no locks: other processes may download it too, and no part of it is kept"
            _log.info("download_unlocked", file=partial.target.name, detail=detail)

    async def _retry(
        self,
        name: str,
        attempt: Callable[[], Coroutine[Any, Any, Result]],
        partial: PartialFile | None = None,
    ) -> Result:
        """Retry until an attempt succeeds, with growing pauses; raises KeyDownloadFailed."""
        failed = wrong = 0
        largest = partial.size if partial else 0
        while True:
            try:
                return await attempt()
            except TransferFailed as error:
                raise self._failed(name, str(error), error.remedy) from error
            except TransferInterrupted as error:
                reason, wait_s = str(error), error.wait_s
                self._interruption = reason
                wrong += isinstance(error, WrongContent)
                # A restart receives the same bytes again: they are no progress.
                if partial and partial.size - largest >= _NOTABLE_PROGRESS_BYTES:
                    failed, largest = 1, partial.size
                else:
                    failed += 1
                if failed >= self._source.attempts or wrong >= _MAX_WRONG_CONTENTS:
                    tries = "1 attempt" if failed == 1 else f"{failed} attempts"
                    remedy = _LATER
                    if partial is None or partial.is_kept:
                        remedy += "; received bytes are kept"
                    raise self._failed(name, f"{reason} ({tries})", remedy) from error
            pause_s = wait_s + jittered(self._pauses, failed)
            _log.warning("download_interrupted", file=name, error=reason, attempt=failed, again_in_s=round(pause_s, 2))
            await asyncio.sleep(pause_s)

    def _free_bytes(self) -> int:
        stat = os.statvfs(self._folder)
        return stat.f_bavail * stat.f_frsize

    def _failed(self, name: str, reason: str, remedy: str) -> KeyDownloadFailed:
        failure = f"from {self._shown} failed: {reason}: {remedy}"
        if name == CHECKSUM_LIST:
            return KeyListUnavailable(self._missing, f"downloading {CHECKSUM_LIST} {failure}")
        return KeyDownloadFailed(f"proving key file not found: {name}; downloading it {failure}")


def _listed(circuit: CircuitId, known: Expectations) -> ExpectedFile | None:
    """Return the listed file of a circuit, under its current name or else its earlier one."""
    return next((known[name] for name in circuit.key_files if name in known), None)


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
    """Run blocking work in a thread; a cancelled task waits for its end, so that the file is not closed before."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        partial.interrupt()
        with suppress(PartialFileSuperseded):
            await running
        raise


def _interruptible(work: Coroutine[Any, Any, None], cancel: CancelFlag) -> None:
    """Run a coroutine in a new event loop; raises Cancelled when the flag is raised."""

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
