"""The preloader against errors that nobody expects: each is reported, and the other keys are loaded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import pytest
from in_process_service import circuit
from structlog.testing import capture_logs

from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import LoadedKey
from prover.keys.store.key_store import KeyStore
from prover.keys.store.preload import Preloader
from shared.requests.circuit_id import CircuitId

FIRST, SECOND = circuit("v2_inclusion_32_1"), circuit("v2_inclusion_32_2")


class Key:
    def release_pages(self) -> None:
        pass


class Store:
    """A store whose loads fail with ``errors``, one each, and then succeed."""

    def __init__(self, errors: dict[CircuitId, list[Exception]]) -> None:
        self.errors = errors

    def get(self, wanted: CircuitId, _: CancelFlag) -> None:
        if self.errors.get(wanted):
            raise self.errors[wanted].pop()

    @contextmanager
    def lease(self, _: CircuitId, __: CancelFlag) -> Iterator[Key]:
        yield Key()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("error", [MemoryError("no memory"), OSError(116, "Stale file handle"), ValueError("odd")])
def test_preloader__unexpected_error__is_the_key_s_reason_while_the_others_are_loaded(error: Exception) -> None:
    preloader = Preloader(cast(KeyStore, Store({FIRST: [error]})), [FIRST, SECOND], retry_s=3600)
    with capture_logs() as lines:
        preloader.start()
        until(lambda: preloader.missing_required() == [f"{FIRST}: {type(error).__name__}: {error}"])
    logged = [line for line in lines if line["event"] == "key_not_preloaded"]
    assert [line.get("exc_info") for line in logged] == [True]
    preloader.close()


def test_preloader__unexpected_error_that_passes__loads_the_key_later_and_logs_it_once() -> None:
    preloader = Preloader(cast(KeyStore, Store({FIRST: [MemoryError()] * 3})), [FIRST], retry_s=0.01)
    with capture_logs() as lines:
        preloader.start()
        until(lambda: not preloader.missing_required())
    assert [line["event"] for line in lines].count("key_not_preloaded") == 1


def test_preloader__gpu_copy_fails_unexpectedly__is_tried_again() -> None:
    errors = [RuntimeError("driver")]

    def copy(_: LoadedKey) -> None:
        if errors:
            raise errors.pop()

    preloader = Preloader(cast(KeyStore, Store({})), [FIRST], retry_s=0.01, on_loaded=copy)
    preloader.start()
    until(lambda: not preloader.missing_required())


def test_preloader__download_fails_unexpectedly__loads_the_keys_that_are_installed() -> None:
    def fetch(_: Sequence[CircuitId], __: CancelFlag) -> None:
        raise OSError(116, "Stale file handle")

    preloader = Preloader(cast(KeyStore, Store({})), [FIRST, SECOND], fetch, retry_s=3600)
    with capture_logs() as lines:
        preloader.start()
        until(lambda: not preloader.missing_required())
        until(lambda: not any(thread.name == "preload" for thread in threading.enumerate()))
    assert [line["event"] for line in lines] == ["keys_download_failed", "keys_preloaded"]
