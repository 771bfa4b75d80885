"""A network for published clients, with simulated proofs and with those of our prover."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from clients import Network, our_prover, running_network


@pytest.fixture(scope="session", params=["simulated", "our prover"])
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("network")
    with ExitStack() as stack:
        options = stack.enter_context(our_prover(folder)) if request.param == "our prover" else []
        yield stack.enter_context(running_network(options, folder))
