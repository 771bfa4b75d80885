"""The rent that a node asks for: the formula of the public clusters bounds it, and a setting for dearer ones."""

from __future__ import annotations

import pytest
from scripted_node import ScriptedNode, result, serving

from forester.chain.rent import ExcessiveRent, maximum_rent
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.errors import EndpointError, MalformedAnswer

BYTES = 20_488
HONEST = (128 + BYTES) * 3480 * 2


async def asked(answer: int, lamports_per_byte_year: int = 3480) -> int:
    node = ScriptedNode(usual=result(answer))
    async with serving(node), RpcPool([node.url]) as pool:
        return await RpcClient(pool, rent_lamports_per_byte_year=lamports_per_byte_year).minimum_balance(BYTES)


def test_maximum_rent__of_known_accounts__is_what_the_public_clusters_ask_for() -> None:
    assert maximum_rent(0) == 890_880
    assert maximum_rent(165) == 2_039_280
    assert maximum_rent(BYTES) == HONEST


@pytest.mark.parametrize("answer", [0, 1, HONEST])
async def test_minimum_balance__up_to_the_formula__is_accepted(answer: int) -> None:
    assert await asked(answer) == answer


@pytest.mark.parametrize("answer", [HONEST + 1, 5_400 * 10**9, 2**64])
async def test_minimum_balance__above_the_formula__is_refused_with_answer_bound_and_setting(answer: int) -> None:
    with pytest.raises(ExcessiveRent) as refused:
        await asked(answer)
    assert isinstance(refused.value, EndpointError)
    assert not refused.value.retryable
    for part in (str(answer), str(HONEST), "--rent-lamports-per-byte-year"):
        assert part in refused.value.detail


async def test_minimum_balance__below_zero__is_refused() -> None:
    with pytest.raises(MalformedAnswer, match="-1 lamports"):
        await asked(-1)


async def test_minimum_balance__of_a_dearer_cluster__is_accepted_up_to_the_setting() -> None:
    assert await asked(2 * HONEST, 6960) == 2 * HONEST
    with pytest.raises(ExcessiveRent):
        await asked(2 * HONEST + 1, 6960)
