"""Checks of Host, Origin and content type: web pages must not reach the network through a developer's browser."""

import ipaddress
import re
from dataclasses import dataclass

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

ANY_ORIGIN = "*"
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?", re.ASCII | re.IGNORECASE)
_CORS = {
    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "POST, GET, OPTIONS",
    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: "Content-Type, solana-client",
}


@dataclass(frozen=True)
class AccessRules:
    """Host names and origins that are accepted in addition to those of this machine; the origin ``*`` is any."""

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    def accept_host(self, authority: str) -> bool:
        """Return whether a Host header names this machine.

        DNS rebinding points a name at this machine. An IP address in the header is the address that the client
        connected to, so any is accepted.
        """
        host = _host_of(authority)
        return host is not None and (host.lower() in self.hosts or _is_loopback(host) or _address_of(host) is not None)

    def accept_origin(self, origin: str) -> bool:
        """Return whether pages of an origin may send requests."""
        if ANY_ORIGIN in self.origins or origin in self.origins:
            return True
        scheme, separator, authority = origin.partition("://")
        host = _host_of(authority)
        return bool(separator) and scheme in ("http", "https") and host is not None and _is_loopback(host)


LOOPBACK_ONLY = AccessRules()


def restrict(app: web.Application, rules: AccessRules, *, cors: bool = True) -> None:
    """Refuse requests by Host and Origin (403) and bodies that are not ``application/json`` (415).

    With ``cors``, answers allow the accepted origin to read them. Call it before other middlewares are added.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        return _refusal(request, rules) or await handler(request)

    async def allow_origin(request: web.Request, response: web.StreamResponse) -> None:
        origin = request.headers.get(hdrs.ORIGIN, "")
        if origin and rules.accept_origin(origin):
            shown = ANY_ORIGIN if ANY_ORIGIN in rules.origins else origin
            response.headers.update({**_CORS, hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: shown, hdrs.VARY: hdrs.ORIGIN})

    app.middlewares.insert(0, check)
    if cors:
        app.on_response_prepare.append(allow_origin)


def _refusal(request: web.Request, rules: AccessRules) -> web.Response | None:
    host, origin = request.headers.get(hdrs.HOST), request.headers.get(hdrs.ORIGIN)
    # Browsers always send Host; clients of HTTP/1.0 need not.
    if host is not None and not rules.accept_host(host):
        reason = (
            f"the Host header {host!r} does not name this machine; start localnet with --allow-host NAME to accept it"
        )
        return web.Response(status=403, text=f"{reason}\n")
    if origin is not None and not rules.accept_origin(origin):
        reason = f"the Origin header {origin!r} is not accepted; start localnet with --allow-origin ORIGIN to accept it"
        return web.Response(status=403, text=f"{reason}\n")
    # Browsers send other types to any site without asking it first.
    if request.body_exists and request.content_type != "application/json":
        return web.Response(status=415, text="the body must be JSON; send the header Content-Type: application/json\n")
    return None


def _host_of(authority: str) -> str | None:
    match = _AUTHORITY.fullmatch(authority)
    return match["host"].strip("[]") if match else None


def _is_loopback(host: str) -> bool:
    name = host.lower().removesuffix(".")
    address = _address_of(host)
    return name == "localhost" or name.endswith(".localhost") or (address is not None and address.is_loopback)


def _address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
