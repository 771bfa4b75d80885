"""The check of the registration that ``forester health`` makes, on a recorded registration for epoch 2."""

from __future__ import annotations

from typing import cast

import pytest
from network_states import CONFIG, key
from onchain_vectors import recorded
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import REGISTRY, forester_epoch_address
from forester.chain.registry_accounts import ProtocolConfigAccount
from forester.chain.rpc_client import Account, RpcClient
from forester.checks import registration
from forester.checks.registration import check_registration
from forester.checks.result import NOT_REGISTERED, CheckFailed

ENTRY = recorded("registry_epoch_txs")["finalize_registration"]["forester_epoch_pda"]
REGISTERED = Pubkey.from_string(ENTRY["decoded"]["authority"])
DERIVATION, OTHER = key(50), key(51)
EPOCH = 2


class Node:
    """A node at a slot in which epoch 2 is the latest."""

    async def slot(self) -> int:
        return CONFIG.active_phase_length * EPOCH + 1

    async def accounts(self, addresses: list[Pubkey]) -> list[Account | None]:
        assert addresses == [forester_epoch_address(DERIVATION, number) for number in (EPOCH, EPOCH - 1)]
        return [Account(addresses[0], REGISTRY, 1, bytes.fromhex(ENTRY["data"])), None]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> RpcClient:
    async def config(_: RpcClient) -> ProtocolConfigAccount:
        return ProtocolConfigAccount(key(99), CONFIG)

    monkeypatch.setattr(registration, "read_protocol_config", config)
    return cast("RpcClient", Node())


@pytest.mark.parametrize("payer", [REGISTERED, None])
async def test_check_registration__by_the_payer_or_without_one__passes(client: RpcClient, payer: Pubkey | None) -> None:
    assert await check_registration(client, DERIVATION, payer) == "registered for epoch 2 with weight 1"


async def test_check_registration__by_another_key__is_none_and_names_the_key(client: RpcClient) -> None:
    with pytest.raises(CheckFailed) as failed:
        await check_registration(client, DERIVATION, OTHER)
    assert failed.value.code == NOT_REGISTERED
    assert failed.value.detail == (
        f"not registered for epoch 2 with the payer {OTHER}: the forester registered with the key {REGISTERED}, "
        "which alone may act in this epoch; run a forester with that key until the report, or wait for the next epoch"
    )
