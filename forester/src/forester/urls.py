"""Addresses of services, whose query may hold a key, and faults of connections to them."""

from yarl import URL

from shared.process import connection_faults


def under(base: URL | str, path: str) -> URL:
    """Return a path below a base URL, whose query follows it."""
    url = URL(base)
    return url.with_path(url.path.rstrip("/") + "/" + path).with_query(url.query)


def shown(url: URL | str) -> str:
    """Return an address without credentials, query and fragment, for messages."""
    return str(URL(url).with_user(None).with_query(None).with_fragment(None))


def connection_fault(error: BaseException) -> str:
    """Return why a service cannot be reached, without the host where the system names the reason."""
    return connection_faults.connection_fault(error) or str(error) or type(error).__name__
