"""Addresses that no other machine reaches."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether a host, by name or number, is this machine alone."""
    host = host.strip("[]").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
