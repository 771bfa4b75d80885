"""The times of rounds of compressible accounts, and the pauses after them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from dispatch_setting import ALONE

from forester.chain.programs.addresses import COMPRESSED_TOKEN, REGISTRY
from forester.daemon import compression
from forester.daemon.compression import CompressionDispatcher
from forester.daemon.rounds import RoundParts
from forester.daemon.supervisor import Supervisor
from forester.errors import EndpointUnreachable, ForesterError, TransactionRefused, failure_of
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult


class Pauses:
    """A dispatcher that ends after some rounds, and the pauses after them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, results: Sequence[ProcessingResult], poll_s: float) -> None:
        self.results = list(results)
        self.seconds: list[float] = []
        self.refusals: list[TransactionRefused] = []
        self.stopping = asyncio.Event()
        self.supervisor = Supervisor()
        self.shares = SimpleNamespace(at=lambda _: ALONE, refused=lambda _, error: self.refusals.append(error))
        self.until: list[int] = []
        """Slots that end a pause early."""
        monkeypatch.setattr(compression, "first_of", self.first_of)
        parts: dict[str, Any] = {
            "clock": SimpleNamespace(slot=lambda: ALONE.phases.active.first, reach=self.reach),
            "shares": self.shares,
            "funds": SimpleNamespace(available=True, notice=lambda: None),
            "defect": partial(self.supervisor.count_failure, "compressible"),
        }
        rounds: Any = self
        claims: Any = SimpleNamespace(work=self.claim)
        self.dispatcher = CompressionDispatcher(
            rounds, claims, RoundParts(stopping=self.stopping, poll_s=poll_s, **parts)
        )

    async def first_of(self, *waits: Any, timeout_s: float) -> None:
        for wait in waits:
            wait.close()
        self.seconds.append(timeout_s)
        if not self.results:
            self.stopping.set()

    def reach(self, slot: int) -> Any:
        self.until.append(slot)
        return asyncio.sleep(0)

    async def work(self, window: EligibilityWindow) -> ProcessingResult:
        self.window = window.window
        return self.results.pop(0)

    async def claim(self, _: EligibilityWindow) -> ProcessingResult:
        return ProcessingResult()


@pytest.mark.parametrize("failure", [TransactionRefused, EndpointUnreachable])
async def test_dispatcher__rounds_fail__pauses_grow_to_the_poll_interval_until_one_does_not_fail(
    monkeypatch: pytest.MonkeyPatch, failure: type[ForesterError]
) -> None:
    failed = [ProcessingResult(failure=failure()) for _ in range(21)]
    pauses = Pauses(monkeypatch, [*failed[:20], ProcessingResult(), failed[20]], poll_s=1.0)
    await pauses.dispatcher.run()
    longest = [0.2, 0.4, 0.8, *[1.0] * 18, 0.2]
    for seconds, most in zip(pauses.seconds, longest, strict=True):
        assert most / 2 <= seconds <= most


@pytest.mark.parametrize(("program", "reported"), [(None, 1), (str(REGISTRY), 1), (str(COMPRESSED_TOKEN), 0)])
async def test_dispatcher__round_is_refused__reports_refusals_that_may_be_of_the_share(
    monkeypatch: pytest.MonkeyPatch, program: str | None, reported: int
) -> None:
    refused = ProcessingResult(failure=TransactionRefused("refused", program=program, code=6004))
    pauses = Pauses(monkeypatch, [refused], poll_s=1.0)
    await pauses.dispatcher.run()
    assert len(pauses.refusals) == reported


async def test_dispatcher__rounds_meet_defects__counts_each_like_a_restart_and_one_that_is_repeated_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    defects = [ProcessingResult(failure=failure_of(KeyError("a bug"))) for _ in range(3)]
    away = ProcessingResult(failure=EndpointUnreachable())
    pauses = Pauses(monkeypatch, [*defects, defects[2], away], poll_s=60.0)
    await pauses.dispatcher.run()
    assert pauses.supervisor.restarts.labels("compressible")._value.get() == 3
    longest = [0.2, 0.4, 0.8, 1.0, 1.6]
    for seconds, most in zip(pauses.seconds, longest, strict=True):
        assert most / 2 <= seconds <= most
    assert pauses.seconds[3] == 1.0


async def test_dispatcher__nothing_is_due__looks_again_when_the_window_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses = Pauses(monkeypatch, [ProcessingResult()], poll_s=600.0)
    await pauses.dispatcher.run()
    assert (pauses.seconds, pauses.until) == ([600.0], [pauses.window.last + 1])


async def test_dispatcher__without_a_share__looks_for_one_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = Pauses(monkeypatch, [], poll_s=600.0)
    monkeypatch.setattr(pauses.shares, "at", lambda _: None)
    await pauses.dispatcher.run()
    assert pauses.seconds == [5.0]
