"""``/metrics/json``: a few metrics in the shape of the reference.

Source: forester/docs/reference/behaviour.md, "Metrics object".
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from forester.errors import EndpointError, EndpointTimedOut, EndpointUnreachable, MalformedAnswer, RequestRefused
from forester.limits.answer_memory import AnswerMemory
from forester.limits.untrusted_json import decode_untrusted
from forester.observability.metrics import Metrics
from forester.redaction import mask
from forester.urls import connection_fault
from shared.process.logs import get_logger

_log = get_logger(__name__)

_PROCESSED = "forester_transactions_processed_total"
_RATE = "forester_transaction_rate"
_LAST_RUN = "forester_last_run_timestamp"
_BALANCE = "forester_sol_balance"
_QUEUE = "queue_length"
_NAMES = (_PROCESSED, _RATE, _LAST_RUN, _BALANCE, _QUEUE)
_QUERY = f'{{__name__=~"{"|".join(_NAMES)}"}}'

_ANSWERS = AnswerMemory(each=4 * 2**20, total=8 * 2**20)
_TIMEOUT_S = 15.0
_EVERY_S = 10.0

LARGEST = 2.0**63
"""Larger numbers count as absent, so that sums stay finite."""

Sample = tuple[str, Mapping[str, str], float]
"""Name, labels and value of a series."""


@dataclass(frozen=True)
class Values:
    """Values of the answer; ``counted`` is true once anything was processed."""

    content: dict[str, Any]
    counted: bool
    empty: bool


def values_of(samples: Iterable[Sample]) -> Values:
    """Return the answer's members. Series of several foresters are added up, except those that all of them share."""
    processed: dict[str, float] = defaultdict(float)
    rates: dict[str, float] = defaultdict(float)
    balances: dict[str, float] = {}
    queues: dict[tuple[str, str], float] = {}
    last_run = 0.0
    for name, labels, value in samples:
        if not abs(value) <= LARGEST:  # nor NaN
            continue
        if name == _PROCESSED and "epoch" in labels:
            processed[labels["epoch"]] += value
        elif name == _RATE and "epoch" in labels:
            rates[labels["epoch"]] += value
        elif name == _BALANCE and "pubkey" in labels:
            balances[labels["pubkey"]] = value
        elif name == _QUEUE and "tree_pubkey" in labels:
            queue = (labels["tree_pubkey"], labels.get("tree_type", ""))
            queues[queue] = max(value, queues.get(queue, 0.0))
        elif name == _LAST_RUN:
            last_run = max(last_run, value)
    lengths: dict[str, int] = defaultdict(int)
    for (tree, _), length in queues.items():
        lengths[tree] += int(length)
    content = {
        "transactions_processed_total": {epoch: int(count) for epoch, count in processed.items()},
        "transaction_rate": dict(rates),
        "last_run_timestamp": int(last_run),
        "forester_balances": balances,
        "queue_lengths": dict(lengths),
    }
    return Values(content, counted=any(processed.values()), empty=not any(content.values()))


def metrics_object(metrics: Metrics, prometheus: "PrometheusSource | None") -> dict[str, Any]:
    """Return the answer: of this process once it has counted something, else of Prometheus, else of the gauges."""
    own = values_of(_own_samples(metrics))
    theirs = prometheus.latest if prometheus is not None else None
    if not own.counted and prometheus is not None and theirs is not None and not theirs.empty:
        return {**theirs.content, "source": "prometheus", "cached_at": prometheus.cached_at}
    return {**own.content, "source": "none" if own.empty else "registry", "cached_at": int(time.time())}


def _own_samples(metrics: Metrics) -> Iterable[Sample]:
    for metric in (metrics.processed, metrics.rate, metrics.last_run, metrics.balance, metrics.queue_length):
        for family in metric.collect():
            for sample in family.samples:
                yield sample.name, sample.labels, sample.value


class _Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    data: _Data


_ANSWER = msgspec.json.Decoder(_Answer)


class PrometheusSource:
    """Values read from a Prometheus server in the background; ``latest`` is None before the first answer."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._url = parts._replace(path=f"{parts.path.rstrip('/')}/api/v1/query").geturl()
        self._name = f"Prometheus {mask(url)}"
        self._failed = False
        self.latest: Values | None = None
        self.cached_at = 0

    async def run(self, every_s: float = _EVERY_S) -> None:
        """Query repeatedly, until cancelled; a failure is logged when it begins and when it ends."""
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    await self.refresh(session)
                except EndpointError as error:
                    if not self._failed:
                        _log.warning("prometheus_failed", error=error.detail)
                    self._failed = True
                else:
                    if self._failed:
                        _log.info("prometheus_recovered")
                    self._failed = False
                await asyncio.sleep(every_s)

    async def refresh(self, session: aiohttp.ClientSession) -> None:
        """Query once. Raises EndpointError."""
        try:
            async with (
                asyncio.timeout(_TIMEOUT_S),
                session.get(self._url, params={"query": _QUERY}, allow_redirects=False) as response,
                _ANSWERS.body(response, self._name) as body,
            ):
                status = response.status
        except TimeoutError:
            raise EndpointTimedOut(f"{self._name} did not answer within {_TIMEOUT_S:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise EndpointUnreachable(f"{self._name} cannot be reached: {connection_fault(error)}") from None
        if status != 200:
            raise RequestRefused(f"{self._name} answered {status}", code=status)
        try:
            found = [_sample(item) for item in decode_untrusted(_ANSWER, body).data.result]
        except ValueError:
            raise MalformedAnswer(f"{self._name} answered with something that is not the result of a query") from None
        self.latest, self.cached_at = values_of(found), int(time.time())


def _sample(series: _Series) -> Sample:
    return series.metric.get("__name__", ""), series.metric, float(series.value[1])
