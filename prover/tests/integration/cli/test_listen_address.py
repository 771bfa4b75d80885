"""The check of an address to listen on, with real sockets."""

from __future__ import annotations

import socket

from prover.cli.checks.machine import check_address
from prover.cli.checks.result import Status


def test_address__that_is_in_use__is_a_failure_that_names_the_option() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        found = check_address("API address", address, "--prover-address")
        optional = check_address("metrics address", address, "--metrics-address", must_be_free=False)
    assert optional.status is Status.WARNING
    assert "--metrics-address" in optional.hint
    assert found.status is Status.FAILURE
    assert address in found.detail
    assert "--prover-address" in found.hint
    assert check_address("API address", "127.0.0.1:0", "--prover-address").status is Status.OK
