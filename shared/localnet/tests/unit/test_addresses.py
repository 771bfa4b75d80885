"""Derived addresses against the recorded ones."""

from __future__ import annotations

import pytest
from recorded import recorded
from solders.pubkey import Pubkey

from localnet.chain import addresses

NAMES = {
    "protocol_config": "PROTOCOL_CONFIG",
    "registry_cpi_authority": "REGISTRY_CPI_AUTHORITY",
    "registered_registry_program": "REGISTERED_REGISTRY",
    "registered_system_program": "REGISTERED_LIGHT_SYSTEM",
    "light_system_cpi_authority": "LIGHT_SYSTEM_CPI_AUTHORITY",
    "sol_pool": "SOL_POOL",
    "token_cpi_authority": "TOKEN_CPI_AUTHORITY",
}


@pytest.mark.parametrize("name", NAMES)
def test_constants__recorded_address__are_equal(name: str) -> None:
    assert str(getattr(addresses, NAMES[name])) == recorded("pdas")[name]["pubkey"]


def test_derived__forester_and_epochs__equal_the_recorded_addresses() -> None:
    pdas = recorded("pdas")
    derivation = Pubkey.from_string(pdas["forester_example"]["derivation"])
    assert str(addresses.forester(derivation)) == pdas["forester_example"]["pubkey"]
    assert str(addresses.forester_epoch(derivation, 0)) == pdas["forester_epoch_example"]["pubkey"]
    for number, facts in pdas["epoch_example"].items():
        assert str(addresses.epoch(int(number))) == facts["pubkey"]
