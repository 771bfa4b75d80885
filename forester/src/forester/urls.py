"""Addresses of services, whose query may hold a key."""

from yarl import URL


def under(base: URL | str, path: str) -> URL:
    """Return a path below a base URL, whose query follows it."""
    url = URL(base)
    return url.with_path(url.path.rstrip("/") + "/" + path).with_query(url.query)


def shown(url: URL | str) -> str:
    """Return an address without credentials, query and fragment, for messages."""
    return str(URL(url).with_user(None).with_query(None).with_fragment(None))
