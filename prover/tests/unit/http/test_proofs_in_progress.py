"""The bound of requests that wait for keys: which of them it counts."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from prover.errors import KeyLoading
from prover.http.requests.proofs_in_progress import ProofsInProgress
from prover.kernel.cancellation import CancelFlag
from prover.proving.proof_making import Proof
from prover.proving.service import OnPhase, Phase


class Threads:
    """Proofs of eight threads that stay in a phase until the end of the block."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.proofs = ProofsInProgress(ThreadPoolExecutor(8), 8)

    def begin(self, count: int, phase: Phase, *, is_key_ready: bool) -> None:
        for number in range(count):
            reported = threading.Event()

            def work(_: CancelFlag, on_phase: OnPhase, reported: threading.Event = reported) -> Proof:
                on_phase(phase)
                reported.set()
                self.end.wait(60)
                raise KeyLoading("ended")

            self.proofs.begin(bytes([number, is_key_ready]), work, is_key_ready=is_key_ready)
            assert reported.wait(60)

    async def __aenter__(self) -> Threads:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end.set()
        await self.proofs.drain(60)


@pytest.mark.parametrize("phase", [Phase.CHECKING, Phase.WAITING, Phase.PROVING])
async def test_begin__others_are_checked_or_proved_with_keys_that_are_ready__takes_a_request_whose_key_is_not(
    phase: Phase,
) -> None:
    async with Threads() as threads:
        threads.begin(7, phase, is_key_ready=True)
        threads.begin(1, Phase.LOADING, is_key_ready=False)


@pytest.mark.parametrize("phase", [Phase.CHECKING, Phase.LOADING])
async def test_begin__seven_of_eight_need_their_keys__refuses_another_one_and_takes_one_whose_key_is_ready(
    phase: Phase,
) -> None:
    async with Threads() as threads:
        threads.begin(7, phase, is_key_ready=False)
        with pytest.raises(KeyLoading, match="7 requests wait"):
            threads.begin(8, phase, is_key_ready=False)
        threads.begin(1, Phase.PROVING, is_key_ready=True)
