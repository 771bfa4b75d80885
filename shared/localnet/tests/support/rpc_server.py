"""A network behind real sockets, its clock moved by the tests."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from chains import funded, simulated_artefacts

from localnet.chain.network import Network
from localnet.rpc.saved_states import SavedStates
from localnet.rpc.server import METHODS, make_app, serving


@dataclass(frozen=True)
class Served:
    network: Network
    url: str
    http: aiohttp.ClientSession
    states: Path

    @property
    def websocket_url(self) -> str:
        return self.url.replace("http", "ws")

    async def call(self, method: str, *params: Any) -> Any:
        """Return result of a call; an error answer fails the test."""
        answer = await self.raw(method, *params)
        assert "error" not in answer, answer
        return answer["result"]

    async def error(self, method: str, *params: Any) -> dict[str, Any]:
        answer = await self.raw(method, *params)
        error: dict[str, Any] = answer["error"]
        return error

    async def raw(self, method: str, *params: Any) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": "a", "method": method, "params": list(params)}
        async with self.http.post(self.url, json=request) as response:
            answer: dict[str, Any] = await response.json()
        assert answer["id"] == "a"
        return answer


@contextlib.asynccontextmanager
async def served(network: Network | None = None) -> AsyncIterator[Served]:
    chosen = network or funded(simulated_artefacts())
    app = make_app(chosen)
    async with serving(app, "127.0.0.1", 0) as [port], aiohttp.ClientSession() as http:
        with tempfile.TemporaryDirectory() as folder:
            app[METHODS].update(SavedStates(Path(folder)).methods())
            yield Served(chosen, f"http://127.0.0.1:{port}", http, Path(folder))
