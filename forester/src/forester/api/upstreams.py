"""The monitoring APIs of other foresters, polled in the background: a reader never waits for one of them."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from forester.dashboard.activity import ActivityDocument, read_activity
from forester.errors import EndpointError, EndpointTimedOut, EndpointUnreachable, MalformedAnswer
from forester.limits.answer_memory import AnswerMemory
from forester.limits.untrusted_json import decode_untrusted
from forester.redaction import mask
from forester.urls import connection_fault
from shared.process.logs import get_logger

_log = get_logger(__name__)

EVERY_S = 5.0
_TIMEOUT_S = 6.0
_ANSWERS = AnswerMemory(each=4 * 2**20, total=32 * 2**20)
_OBJECT = msgspec.json.Decoder(dict[str, Any])
PATHS = ("/health", "/metrics/json", "/compressible")
ACTIVITY = "/activity"
"""Only our foresters have it."""


@dataclass(frozen=True)
class UpstreamView:
    """The latest answers of one forester by path; ``error`` is the reason of a failure that has not ended."""

    base_url: str
    answers: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    read_at: int = 0
    activity: ActivityDocument | None = None
    error: str | None = None

    @property
    def is_ok(self) -> bool:
        """Return whether the last poll succeeded."""
        return self.error is None


class Upstreams:
    """Foresters by the base URLs of their APIs. One task runs ``run``; ``views`` returns what it has read."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._views = {url.rstrip("/"): UpstreamView(mask(url.rstrip("/")), error="not read yet") for url in urls}

    @property
    def views(self) -> list[UpstreamView]:
        """The foresters in the order of their URLs."""
        return list(self._views.values())

    @property
    def read(self) -> bool:
        """Return whether all foresters have been polled once."""
        return all(view.error != "not read yet" for view in self._views.values())

    async def run(self) -> None:
        """Poll all foresters repeatedly, until cancelled; one that fails does not delay the others."""
        async with aiohttp.ClientSession() as session:
            await asyncio.gather(*(self._follow(session, url) for url in self._views))

    async def _follow(self, session: aiohttp.ClientSession, url: str) -> None:
        while True:
            before = self._views[url]
            try:
                answers = dict(zip(PATHS, [await _answer(session, url, path) for path in PATHS], strict=True))
                activity = await _activity(session, url)
            except EndpointError as error:
                if before.error != error.detail:
                    _log.warning("forester_api_failed", url=before.base_url, error=error.detail)
                # An answer from before the failure would hide it.
                self._views[url] = UpstreamView(before.base_url, error=error.detail)
            else:
                self._views[url] = UpstreamView(before.base_url, answers, int(time.time()), activity)
            await asyncio.sleep(EVERY_S)


async def _activity(session: aiohttp.ClientSession, url: str) -> ActivityDocument | None:
    """Return the activity document of a forester; None if it does not serve one."""
    try:
        content = await _answer(session, url, ACTIVITY)
    except _Missing:
        return None
    return await asyncio.to_thread(read_activity, content)


class _Missing(MalformedAnswer):
    """A forester does not have a path."""


async def _answer(session: aiohttp.ClientSession, url: str, path: str) -> dict[str, Any]:
    """Return an object that a forester answers, with status 503 as well: an unfit one names its reasons."""
    name = mask(url)
    try:
        async with (
            asyncio.timeout(_TIMEOUT_S),
            session.get(url + path, allow_redirects=False) as response,
            _ANSWERS.body(response, name) as body,
        ):
            status, content = response.status, body
    except TimeoutError:
        raise EndpointTimedOut(f"{name} did not answer {path} within {_TIMEOUT_S:g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise EndpointUnreachable(f"{name} cannot be reached: {connection_fault(error)}") from None
    if status == 404:
        raise _Missing(f"{name} answered {path} with 404")
    if status not in (200, 503):
        raise MalformedAnswer(f"{name} answered {path} with {status}")
    try:
        return decode_untrusted(_OBJECT, content)
    except ValueError:
        raise MalformedAnswer(f"{name} answered {path} with something that is not an object") from None
