"""Answers about this instance do not block the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry

from prover.http.routes import about
from prover.http.state import STATE
from prover.observability.metrics import Metrics
from prover.proving.devices import DeviceReport, Devices
from shared.requests.circuit_id import CircuitId, CircuitKind

CIRCUIT = CircuitId(CircuitKind.INCLUSION, 2, (32,), (1,))


def test_version__gpu_whose_lock_is_held__is_awaited_in_another_thread() -> None:
    callers: list[int] = []

    class Gpus(Devices):
        def describe(self) -> list[DeviceReport]:
            callers.append(threading.get_ident())
            return []

    body = _answer(about.version, SimpleNamespace(devices=Gpus(Metrics(CollectorRegistry()))))
    assert body["device"]["selected"] == "cpu"
    assert callers != [threading.get_ident()]


def test_keys__folder_that_answers_slowly__is_read_in_another_thread() -> None:
    callers: list[int] = []

    def installed() -> dict[CircuitId, Path]:
        callers.append(threading.get_ident())
        return {CIRCUIT: Path(CIRCUIT.key_file)}

    keys = SimpleNamespace(installed=installed, is_loaded=lambda _: True)
    body = _answer(about.keys, SimpleNamespace(keys=keys, selection=SimpleNamespace(includes=lambda _: False)))
    assert body["keys"] == [{"circuit": CIRCUIT.name, "file": CIRCUIT.key_file, "loaded": True, "enabled": False}]
    assert callers != [threading.get_ident()]


def _answer(route: Callable[[web.Request], Awaitable[web.Response]], state: Any) -> Any:
    app = web.Application()
    app[STATE] = state
    response = asyncio.run(_awaited(route(make_mocked_request("GET", "/", app=app))))
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


async def _awaited(response: Awaitable[web.Response]) -> web.Response:
    return await response
