"""Identities of clients: the network of an address, and the names that budgets and Idempotency-Keys belong to."""

import ipaddress

from aiohttp import web

from prover.http.request_fields import API_KEY_NAME

_V6_HOST_BITS = 64
_UNKNOWN = ""


def peer_network(peer: object) -> str:
    """Return the unit of limits per address: an IPv4 address, or the /64 network of an IPv6 address.

    ``peer`` is the peer name of a socket. One host may use every address of its /64 network.
    """
    if not isinstance(peer, tuple) or not peer:
        return _UNKNOWN
    return network_of(str(peer[0]))


def network_of(address: str) -> str:
    """Return the unit of limits per address for an address; see ``peer_network``."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{ipaddress.IPv6Address(int(parsed) >> _V6_HOST_BITS << _V6_HOST_BITS)}/{_V6_HOST_BITS}"


def client_name(request: web.Request) -> str:
    """Return the name of a client in limits of memory: that of its API key, or its network."""
    return request.get(API_KEY_NAME) or network_of(request.remote or _UNKNOWN)


def idempotency_scope(request: web.Request) -> str:
    """Return the name in which an ``Idempotency-Key`` is unique: that of the API key, or the client's address."""
    return request.get(API_KEY_NAME) or request.remote or _UNKNOWN
