"""Accounts that a program makes on the real chain, by each of its instructions: the indexer follows them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from chains import USER, funded, send, simulated_artefacts
from forestry import inserted
from indexer_service import FakeNode, FakeProver
from invoking_program import PROGRAM
from program_accounts import Context, call, call_with_account_info, install
from solders.compute_budget import set_compute_unit_limit
from solders.instruction import Instruction

from localnet.base58 import encode
from localnet.indexer.api.service import Service
from localnet.indexer.database.store import Store
from localnet.indexer.following.follower import Follower

PAYER = USER.pubkey()
WRITE = call(PAYER, made=[None, None], context=Context.FIRST_WRITE)
EXECUTE = call(PAYER, made=[None], context=Context.EXECUTE)


@pytest.mark.parametrize(
    ("instructions", "count"),
    [
        ([call(PAYER, made=[None, None])], 2),
        ([call_with_account_info(PAYER, made=2)], 2),
        ([WRITE, EXECUTE], 3),
    ],
    ids=["with read-only", "with account info", "by a CPI context"],
)
@pytest.mark.parametrize("together", [True, False])
async def test_program__makes_accounts__they_are_indexed(
    tmp_path: Path, instructions: Sequence[Instruction], count: int, together: bool
) -> None:
    network = funded(simulated_artefacts())
    install(network)
    outcomes = []
    for transaction in [list(instructions)] if together else [[one] for one in instructions]:
        outcomes.append(send(network, [set_compute_unit_limit(1_000_000), *transaction], USER))
        assert outcomes[-1].err is None, outcomes[-1].logs
        network.advance()
    with closing(Store(tmp_path / "indexer.sqlite", durable=False)) as store:
        follower = Follower(network, store)
        await follower.catch_up()
        assert follower.stopped is None
        service = Service(store, FakeProver(), FakeNode())
        found: Any = await service.call("getCompressedAccountsByOwnerV2", {"owner": str(PROGRAM)})
    items = found["value"]["items"]
    assert [one["hash"] for one in items] == [encode(leaf) for leaf in inserted(outcomes[-1]).leaves]
    assert [one["leafIndex"] for one in items] == list(range(count))
    assert {one["data"]["data"] for one in items} == {"ZGF0YQ=="}
