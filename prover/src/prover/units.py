"""Sizes as people read them."""

GIB = 2**30


def gibibytes(count: float) -> str:
    """Return a number of bytes as text: ``1.5 GiB``, ``12 MiB``."""
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / 2**20:.1f} MiB"
