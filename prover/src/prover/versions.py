"""Versions: of the interface that this program offers, and of itself."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version

INTERFACE_VERSION = "2.0.7"
"""The reference release whose interface this is; launchers compare the first number printed with theirs."""


def own_version() -> str:
    """Return the version of this distribution."""
    try:
        return distribution_version("zkc-prover")
    except PackageNotFoundError:
        return "unknown"
