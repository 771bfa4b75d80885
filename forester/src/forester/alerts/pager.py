"""Reports problems and their ends to an incident service, without delaying any other task.

One entry per condition holds the state that the service must learn, not the history: a problem that returns or ends
replaces the entry that waits. So there are at most as many entries as conditions, however long the service is
unreachable.
"""

import asyncio
from collections import OrderedDict

import aiohttp

from forester.alerts.events import EVENTS_URL, Origin, resolve, trigger
from forester.errors import EndpointError, EndpointTimedOut, EndpointUnreachable, RateLimited, RequestRefused
from forester.observability.health import HealthBoard, Problem
from forester.urls import connection_fault
from forester.waiting import occurs_within
from shared.process.logs import get_logger
from shared.process.retries import Backoff, jittered, read_retry_after

_log = get_logger(__name__)

MAXIMUM_WAITING = 64
TIMEOUT_S = 10.0
RETRIES = Backoff(1.0, 60.0)

_ACCEPTED = (200, 202)
_ANSWER_BYTES = 512


class Pager:
    """Sender of events in one task, ``run``; ``report`` returns at once.

    ``url`` receives the events; ``retries`` sets the pauses after failures, of which at least half is waited. An event
    that the service refuses for good is dropped with a log line.
    """

    def __init__(self, routing_key: str, origin: Origin, *, url: str = EVENTS_URL, retries: Backoff = RETRIES) -> None:
        self._routing_key = routing_key
        self._origin = origin
        self._url = url
        self._retries = retries
        self._waiting: OrderedDict[str, Problem | None] = OrderedDict()
        self._open: set[str] = set()
        self._reported: set[str] = set()
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def follow(self, board: HealthBoard) -> None:
        """Report the problems of a board, including those that it already has."""
        for problem in board.problems:
            self.report(problem.condition, problem)
        board.subscribe(self.report)

    def report(self, condition: str, problem: Problem | None) -> None:
        """Report that a condition holds, or with None that it does not.

        An end is sent for each reported problem, and once for each other condition, as an earlier process may have
        reported it.
        """
        if problem is None and condition not in self._open and condition in self._reported:
            self._waiting.pop(condition, None)
            self._settled()
            return
        if condition not in self._waiting and len(self._waiting) >= MAXIMUM_WAITING:
            dropped, _ = self._waiting.popitem(last=False)
            _log.warning("alert_dropped", condition=dropped, reason="too many alerts wait to be sent")
        self._waiting[condition] = problem
        self._idle.clear()
        self._work.set()

    async def run(self) -> None:
        """Send what waits, until cancelled."""
        failures = 0
        async with aiohttp.ClientSession() as session:
            while True:
                await self._work.wait()
                try:
                    await self._send_next(session)
                except EndpointError as error:
                    failures += 1
                    if failures == 1:
                        _log.warning("alerts_failed", error=error.detail, waiting=len(self._waiting))
                    await asyncio.sleep(self._pause_s(failures, error))
                else:
                    if failures:
                        _log.info("alerts_recovered", failures=failures)
                    failures = 0

    async def drain(self, within_s: float) -> bool:
        """Return whether all events were sent within ``within_s`` seconds; ``run`` must continue meanwhile."""
        return await occurs_within(self._idle, within_s)

    def _settled(self) -> None:
        if not self._waiting:
            self._work.clear()
            self._idle.set()

    async def _send_next(self, session: aiohttp.ClientSession) -> None:
        """Send the oldest entry and forget it, unless it was replaced meanwhile. Raises EndpointError to try again."""
        condition, problem = next(iter(self._waiting.items()))
        if problem is None:
            event = resolve(self._routing_key, self._origin, condition)
        else:
            event = trigger(self._routing_key, self._origin, problem)
            # Before the answer: an event that the service accepted may seem to have failed, and must be resolved later.
            self._open.add(condition)
        try:
            await self._post(session, event)
        except RequestRefused as error:
            _log.error("alert_refused", condition=condition, error=error.detail)
            self._open.discard(condition)
        else:
            _log.info("alert_sent", condition=condition, action=event["event_action"])
        if problem is None:
            self._open.discard(condition)
        if len(self._reported) < MAXIMUM_WAITING:
            self._reported.add(condition)
        if condition in self._waiting and self._waiting[condition] is problem:
            del self._waiting[condition]
        self._settled()

    async def _post(self, session: aiohttp.ClientSession, event: dict[str, object]) -> None:
        """Post one event. Raises RequestRefused if sending it again is useless, another EndpointError if it is not."""
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                session.post(self._url, json=event, allow_redirects=False) as response,
            ):
                status = response.status
                answer = (await response.content.read(_ANSWER_BYTES)).decode(errors="replace")
                retry_after = response.headers.get("Retry-After")
        except TimeoutError:
            raise EndpointTimedOut(f"the incident service did not answer within {TIMEOUT_S:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise EndpointUnreachable(f"the incident service cannot be reached: {connection_fault(error)}") from None
        if status in _ACCEPTED:
            return
        answer = answer.replace(self._routing_key, "***")
        if status == 429:
            wanted = read_retry_after(retry_after)
            raise RateLimited("the incident service: 429 Too Many Requests", retry_after_s=wanted)
        if status >= 500:
            raise EndpointUnreachable(f"the incident service answered {status}: {answer}")
        raise RequestRefused(f"the incident service answered {status}: {answer}; see the routing key", code=status)

    def _pause_s(self, failures: int, error: EndpointError) -> float:
        return jittered(self._retries, failures, error.retry_after_s if isinstance(error, RateLimited) else None)
