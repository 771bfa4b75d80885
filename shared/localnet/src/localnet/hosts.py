"""Names of this machine."""

_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not chosen


def reachable(host: str) -> str:
    """Return the address at which a client of this machine reaches a server that listens on ``host``."""
    return "127.0.0.1" if host in _ANY else host
