"""The API of a Kubernetes cluster, as far as tests need it: objects by their paths."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

_MERGE = "application/merge-patch+json"
_PLURALS = {
    "Job": "jobs",
    "Namespace": "namespaces",
    "Node": "nodes",
    "PersistentVolume": "persistentvolumes",
    "Secret": "secrets",
    "Service": "services",
    "EndpointSlice": "endpointslices",
    "APIService": "apiservices",
    "CustomResourceDefinition": "customresourcedefinitions",
}


class ApiError(Exception):
    """The server refused a request; ``status`` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class KubernetesApi:
    """A client of one server with a token."""

    def __init__(self, server: str, token: str) -> None:
        """Use ``server``, https://HOST:PORT, whose certificate is not verified."""
        self._server = server
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self._token}"},
            connector=aiohttp.TCPConnector(ssl=trust),
            timeout=aiohttp.ClientTimeout(total=30),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **parameters: str
    ) -> dict[str, Any]:
        """Return the JSON of an answer. Raises ApiError."""
        assert self._session is not None
        headers = {"Content-Type": _MERGE if method == "PATCH" else "application/json"}
        data = None if body is None else json.dumps(body)
        async with self._session.request(
            method, self._server + path, data=data, headers=headers, params=parameters
        ) as response:
            text = await response.text()
            if response.status >= 400:
                raise ApiError(response.status, text[:500])
            found: dict[str, Any] = json.loads(text) if text.startswith("{") else {"text": text}
            return found

    async def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """Return an object or a list."""
        return await self.call("GET", path, None, **parameters)

    async def items(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        """Return the objects of a list."""
        found: list[dict[str, Any]] = (await self.get(path, **parameters))["items"]
        return found

    async def create(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object of a kind that ``_PLURALS`` has."""
        group, metadata = str(made["apiVersion"]), made["metadata"]
        place = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        return await self.call("POST", f"{root}{place}/{_PLURALS[made['kind']]}", made)

    async def patch(self, path: str, change: Mapping[str, Any]) -> dict[str, Any]:
        """Merge a change into an object."""
        return await self.call("PATCH", path, change)
