"""Limits of unit tests."""

import pytest
from pytest_socket import disable_socket


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse sockets, except the Unix ones that event loops need: integration tests use them."""
    disable_socket(allow_unix_socket=True)
