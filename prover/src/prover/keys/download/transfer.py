"""One attempt to download a file over HTTP, resumed where the last one ended and checked against its digest."""

import asyncio
import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from urllib.request import getproxies

import aiohttp
from yarl import URL

from prover.keys.catalogue.key_estimates import file_bytes
from prover.keys.catalogue.published_digests import ExpectedFile
from prover.keys.download.partial_file import PartialFile
from prover.units import gibibytes
from shared.process.connection_faults import connection_fault
from shared.process.retries import read_retry_after
from shared.requests.circuit_id import CircuitId

_LARGEST_BYTES = 2**33
"""Maximum size of a file of unknown size whose name is not that of a key; published keys have less than half of it."""
_MIN_BYTES = 2**16
"""Bytes that must arrive within the maximum time of silence: a few bytes in time would hold a slot for ever."""
_TRANSIENT = frozenset({408, 425, 429})
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/(?:([0-9]{1,18})|\*)", re.ASCII)
_MAX_RETRY_AFTER_S = 300.0


class TransferFailed(Exception):
    """A permanent failure of an attempt; ``remedy`` says what the operator can do."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.remedy = remedy


class TransferInterrupted(Exception):
    """A temporary failure of an attempt; ``wait_s`` is the pause that the server requests."""

    def __init__(self, reason: str, wait_s: float = 0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class WrongContent(TransferInterrupted):
    """The received bytes are not the published ones."""


FreeBytes = Callable[[], int]
Progress = Callable[[int, int | None], None]
"""Function that gets the bytes present and the total, None if unknown."""


async def transfer(
    session: aiohttp.ClientSession,
    url: str,
    expected: ExpectedFile,
    partial: PartialFile,
    free_bytes: FreeBytes,
    progress: Progress,
    silence_s: float,
) -> None:
    """Fill a partial file until it is complete.

    ``free_bytes`` returns the free bytes of the disk. The attempt ends if less than 64 KiB arrive within ``silence_s``
    seconds. Raises TransferFailed or TransferInterrupted; received bytes are kept for the next attempt, unless they are
    wrong, or have no announced size and fill the disk.
    """
    if not partial.matches_published_digest:
        with explained_network():
            await _request(session, url, expected, partial, free_bytes, progress, silence_s)
    if not partial.matches_published_digest:
        got, size = partial.sha256, partial.size
        partial.restart()
        raise WrongContent(f"checksum mismatch: SHA-256 of the {size} bytes is {got}, expected {expected.sha256}")


def require_status(response: aiohttp.ClientResponse, *accepted: int) -> None:
    """Raise TransferFailed or TransferInterrupted unless the status is an accepted one."""
    status = response.status
    if status in accepted:
        return
    answer = f"the server answers {status} {_phrase_of(status)}".rstrip()
    if status in _TRANSIENT or status >= 500:
        raise TransferInterrupted(
            answer, read_retry_after(response.headers.get("Retry-After"), longest_s=_MAX_RETRY_AFTER_S) or 0
        )
    if status in (404, 410):
        raise TransferFailed(answer, "check --download-url, and whether the key is published there")
    if status in (401, 403, 407):
        raise TransferFailed(answer, "check --download-url, the credentials and the proxy")
    raise TransferFailed(answer, "check --download-url")


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]


def _phrase_of(status: int) -> str:
    """Return the standard phrase of a status, empty for others: the server's own may have control characters."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def announced_bytes(response: aiohttp.ClientResponse) -> int | None:
    """Return the size that an answer announces, None if there is none or it cannot be read."""
    with suppress(ValueError):  # thousands of digits
        return response.content_length
    return None


def keeps_encryption() -> aiohttp.TraceConfig:
    """Return a hook of a session that raises TransferFailed for a redirect from https to another scheme."""

    async def refuse(_: object, __: object, redirect: aiohttp.TraceRequestRedirectParams) -> None:
        response = redirect.response
        target = response.headers.get("Location", response.headers.get("URI", ""))
        try:
            is_kept = response.url.scheme != "https" or response.url.join(URL(target)).scheme == "https"
        except ValueError:
            is_kept = False
        if not is_kept:
            response.close()
            raise TransferFailed(
                "the server redirects from https to an unencrypted address",
                "check --download-url; give the unencrypted address itself if you trust the network",
            )

    tracing = aiohttp.TraceConfig()
    tracing.on_request_redirect.append(refuse)
    return tracing


def require_proxies() -> None:
    """Raise TransferFailed for a malformed proxy address; it may contain a password and is not shown."""
    proxies = getproxies()
    for scheme in ("http", "https"):
        try:
            URL(proxies.get(scheme, ""))
        except ValueError:
            variable = f"{scheme.upper()}_PROXY"
            raise TransferFailed(f"{variable} is not the address of a proxy", "write http://host:port") from None


@contextmanager
def explained_network() -> Iterator[None]:
    """Turn failures of the network inside the block into TransferInterrupted."""
    try:
        yield
    except TimeoutError as error:
        raise TransferInterrupted("the server sent too little for too long") from error
    except aiohttp.ClientPayloadError as error:
        raise TransferInterrupted("the connection ended before the file did") from error
    except aiohttp.ClientError as error:
        # It may quote a redirect with control characters.
        fault = connection_fault(error) or _printable(str(error))
        raise TransferInterrupted(f"the connection failed: {fault}") from error


async def _request(
    session: aiohttp.ClientSession,
    url: str,
    expected: ExpectedFile,
    partial: PartialFile,
    free_bytes: FreeBytes,
    progress: Progress,
    silence_s: float,
) -> None:
    headers = {"Range": f"bytes={partial.size}-"} if partial.size else {}
    received = 0
    async with asyncio.timeout(silence_s) as too_slow, session.get(url, headers=headers) as response:
        if response.status == 416:
            with explained_disk():
                partial.restart()
            raise TransferInterrupted("the server has fewer bytes than are already downloaded; restarting")
        require_status(response, 200, 206)
        with explained_disk():
            total = _continue_or_restart(response, partial)
        if total is not None and expected.size is not None and total != expected.size:
            raise WrongContent(f"the server offers {total} bytes, and {expected.size} were published")
        total = expected.size if total is None else total
        largest = largest_bytes(expected)
        if total is not None and total > largest:
            raise TransferFailed(
                f"the server announces {gibibytes(total)}, and a key of this circuit has at most {gibibytes(largest)}",
                "check --download-url, or pin the size of the key with --manifest",
            )
        _require_room(total, partial, free_bytes)
        progress(partial.size, total)
        largest = largest if total is None else total
        async for piece in response.content.iter_any():
            if partial.size + len(piece) > largest:
                with explained_disk():
                    partial.restart()
                raise WrongContent(f"the server sends more bytes than {'plausible' if total is None else 'published'}")
            with explained_disk():
                _write(partial, piece, is_sized=total is not None)
            progress(partial.size, total)
            received += len(piece)
            if received >= _MIN_BYTES:
                received = 0
                too_slow.reschedule(asyncio.get_running_loop().time() + silence_s)
    if total is not None and partial.size < total:
        raise TransferInterrupted(f"the connection ended after {partial.size} of {total} bytes")


def _continue_or_restart(response: aiohttp.ClientResponse, partial: PartialFile) -> int | None:
    """Return the size of the whole file; restarts the partial file if the server does not resume it."""
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if response.status == 206 and match is not None and int(match[1]) == partial.size:
        return int(match[2]) if match[2] else None
    partial.restart()
    if response.status == 206:
        raise TransferInterrupted("the server resumes at another offset than requested; restarting")
    return announced_bytes(response)


def largest_bytes(expected: ExpectedFile) -> int:
    """Return the maximum size of a file in bytes: the published one, or twice the estimate, which is an upper bound."""
    if expected.size is not None:
        return expected.size
    circuit = CircuitId.from_key_file(expected.name)
    return _LARGEST_BYTES if circuit is None else 2 * file_bytes(circuit)


def _write(partial: PartialFile, piece: bytes, *, is_sized: bool) -> None:
    try:
        partial.write(piece)
    except OSError as error:
        if not is_sized and error.errno in (errno.ENOSPC, errno.EDQUOT):
            partial.restart()  # it may be endless, and would leave the disk full
        raise


def _require_room(total: int | None, partial: PartialFile, free_bytes: FreeBytes) -> None:
    need = (total or 0) - partial.size
    with explained_disk():
        free = free_bytes()
    if need > free:
        raise no_room(need, free)


def no_room(need: int, free: int) -> TransferFailed:
    """Return the failure of a disk that is too small for ``need`` more bytes."""
    return TransferFailed(
        f"not enough disk space: {gibibytes(need)} more are needed, and {gibibytes(free)} are free",
        "free some space or choose another --keys-dir",
    )


@contextmanager
def explained_disk() -> Iterator[None]:
    """Turn failures of the disk inside the block into TransferFailed."""
    try:
        yield
    except OSError as error:
        raise TransferFailed(
            f"the file cannot be written: {error.strerror}", "check disk space and permissions of the keys directory"
        ) from error
