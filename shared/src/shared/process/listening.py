"""Sockets that servers listen on."""

import socket

EVERYWHERE = frozenset({"", "::"})
"""Hosts that mean all interfaces, of IPv6 and IPv4; 0.0.0.0 means those of IPv4."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port of one host, or of all interfaces; raises OSError.

    Where the system has no IPv6, all interfaces are those of IPv4. Otherwise IPv4 clients have mapped addresses.
    """
    if host in EVERYWHERE:
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        return socket.create_server(("", port), family=family, dualstack_ipv6=both)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def shown_address(host: str, port: int) -> str:
    """Return an address as it is written in URLs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
