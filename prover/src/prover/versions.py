"""Versions: of the interface that this program offers, and of itself."""

INTERFACE_VERSION = "2.0.7"
"""The reference release whose interface this is; launchers compare the first number printed with theirs."""

VERSION = "0.1.0"
"""Version of this distribution, which a release sets: reading it from the metadata would take 6 ms of a start."""
