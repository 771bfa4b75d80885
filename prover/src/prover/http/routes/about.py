"""Answers about this instance: ``/version``, ``/openapi.json``, ``/docs`` and ``/admin/``."""

import asyncio
import sys
from collections.abc import Callable

import msgspec
from aiohttp import web

from prover.http.state import STATE, ServerState
from prover.kernel.engine import kernel_version
from prover.proving.devices import Devices
from prover.versions import INTERFACE_VERSION, VERSION

OPENAPI_DOCUMENT: web.AppKey[Callable[[], bytes]] = web.AppKey("openapi_document")
"""Returns the body of ``/openapi.json``. It is composed from the routes, so the application sets it."""

DOCS_PAGE: web.AppKey[Callable[[], web.Response]] = web.AppKey("docs_page")
"""Returns the answer of ``/docs``, which is composed from the same."""


class GpuState(msgspec.Struct, frozen=True):
    """A GPU. ``driver`` is the CUDA version of its driver, ``problem`` the reason why it is not used now, if any."""

    device: str
    model: str
    driver: str
    memory_bytes: int
    budget_bytes: int
    key_bytes: int
    keys: int
    problem: str | None


class DeviceState(msgspec.Struct, frozen=True):
    """The requested device policy (cpu, cuda, auto), the device that makes proofs (cpu, cuda), and the reason."""

    requested: str
    selected: str
    reason: str
    gpus: list[GpuState]


class Version(msgspec.Struct, frozen=True):
    """Versions of the HTTP interface, this program, its kernel and Python, and the devices that make proofs."""

    interface: str
    prover: str
    kernel: str
    python: str
    device: DeviceState


class KeyState(msgspec.Struct, frozen=True):
    """An installed proving key. A disabled circuit is answered 503."""

    circuit: str
    file: str
    loaded: bool
    enabled: bool


class KeyStates(msgspec.Struct, frozen=True):
    """The installed proving keys."""

    keys: list[KeyState]


class Reloaded(msgspec.Struct, frozen=True):
    """Outcome of a reload; false if the API key file is invalid, which leaves the earlier keys in use."""

    reloaded: bool


async def version(request: web.Request) -> web.Response:
    """Answer with versions and devices."""
    python = ".".join(map(str, sys.version_info[:3]))
    device = await asyncio.to_thread(_device_state, request.app[STATE].devices)  # waits for a lock of each GPU
    return _json(Version(INTERFACE_VERSION, VERSION, kernel_version(), python, device))


def _device_state(devices: Devices) -> DeviceState:
    choice, gpus = devices.choice, msgspec.convert(devices.describe(), list[GpuState], from_attributes=True)
    return DeviceState(choice.requested, choice.selected, choice.reason, gpus)


async def openapi(request: web.Request) -> web.Response:
    """Answer with the OpenAPI document."""
    return web.Response(body=request.app[OPENAPI_DOCUMENT](), content_type="application/json")


async def docs(request: web.Request) -> web.Response:
    """Answer with the page that describes the interface."""
    return request.app[DOCS_PAGE]()


async def keys(request: web.Request) -> web.Response:
    """Answer with the installed keys."""
    return _json(await asyncio.to_thread(_key_states, request.app[STATE]))  # the folder may be on a network


def _key_states(state: ServerState) -> KeyStates:
    return KeyStates(
        [
            KeyState(circuit.name, path.name, state.keys.is_loaded(circuit), state.selection.includes(circuit))
            for circuit, path in sorted(state.keys.installed().items())
        ]
    )


async def reload(request: web.Request) -> web.Response:
    """Read the API key file again."""
    return _json(Reloaded(request.app[STATE].api_keys.reload()))


def _json(answer: msgspec.Struct) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")
