"""Checks of `forester start` before it begins."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any

import pytest
from pydantic import SecretStr
from scripted_node import ScriptedNode, serving, status
from solders.keypair import Keypair
from start_options import Network, Pauses

from forester.chain.programs.addresses import ACCOUNT_COMPRESSION, REGISTRY
from forester.chain.programs.compression import CONFIG
from forester.cli.checks import run
from forester.cli.checks.start import is_hopeless, run_start_checks
from forester.settings import Settings, SigningKey

ANSWERS = {"getHealth": "ok", "getGenesisHash": "1" * 32, "getAccountInfo": {"context": {"slot": 1}, "value": None}}
KEY = SigningKey(Keypair.from_seed(bytes([4]) * 32))


def settings_of(first: ScriptedNode, second: ScriptedNode, rate_limit: int | None = 1) -> Settings:
    return Settings(
        rpc_url=SecretStr(first.url),
        fallback_rpc_url=SecretStr(second.url),
        rpc_rate_limit=rate_limit,
        indexer_url=SecretStr("http://127.0.0.1:1"),
        prover_url=SecretStr("http://127.0.0.1:1"),
        payer=KEY,
        derivation=KEY.pubkey,
    )


async def test_checks__of_two_nodes__keep_the_limit_of_reads_together(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = Pauses.kept(monkeypatch)
    first, second = Network(answers=ANSWERS), Network(answers=ANSWERS)
    async with serving(first, second):
        found = {item.name: item for item in await run_start_checks(settings_of(first, second))}
    assert found["fallback_rpc"].success
    assert second.asked
    assert max(pauses.slept) > len(first.asked), "the last call waits for those of both nodes"


async def test_checks__first_node_out_of_order__are_not_passed_by_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    Pauses.kept(monkeypatch)
    first, second = ScriptedNode(usual=status(500)), Network(answers=ANSWERS)
    async with serving(first, second):
        found = {item.name: item for item in await run_start_checks(settings_of(first, second, rate_limit=None))}
    assert found["protocol"].code == "configuration", "the fallback has answered the others"
    assert not found["rpc"].success
    assert not found["fallback_rpc"].success
    assert not is_hopeless(found["fallback_rpc"])


async def test_checks__one_of_them_crashes__it_alone_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def crash(*_: object) -> str:
        raise ValueError("of a library")

    Pauses.kept(monkeypatch)
    monkeypatch.setattr(run, "check_balance", crash)
    first, second = Network(answers=ANSWERS), Network(answers=ANSWERS)
    async with serving(first, second):
        found = {item.name: item for item in await run_start_checks(settings_of(first, second))}
    assert not found["balance"].success
    assert not is_hopeless(found["balance"])
    assert found["balance"].message.startswith("unexpected ValueError: of a library")
    assert found["rpc"].success


ACTIVE = "b404e71adc9037a8010001"
"""The first bytes of the published compressible config: discriminator, version 1, state 1."""


def account(content: str, owner: object = REGISTRY) -> dict[str, Any]:
    data = [b64encode(bytes.fromhex(content)).decode(), "base64"]
    return {"data": data, "executable": False, "lamports": 1, "owner": str(owner), "rentEpoch": 0, "space": 310}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (account(ACTIVE), None),
        (account(ACTIVE[:-2] + "02"), None),
        (None, f"the compressible config does not exist at {CONFIG}"),
        (
            account(ACTIVE[:-2] + "00"),
            "has the state 0, neither active .* leave out --enable-compressible",
        ),
        (account(ACTIVE[:-2] + "03"), "has the state 3"),
        (account(ACTIVE, ACCOUNT_COMPRESSION), "is not the compressible config of the registry"),
        (account("42e02e02a789786b010001"), "is not the compressible config of the registry"),
        (account(ACTIVE[:-2]), "is not the compressible config of the registry"),
    ],
    ids=["active", "deprecated", "missing", "inactive", "unknown", "wrong owner", "wrong discriminator", "cut"],
)
async def test_checks__compressible_accounts_enabled__need_the_active_config(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any] | None, words: str | None
) -> None:
    Pauses.kept(monkeypatch)

    def accounts(addresses: list[str], _: object) -> object:
        return {"value": [found if address == str(CONFIG) else None for address in addresses]}

    node = Network(answers=ANSWERS | {"getMultipleAccounts": accounts})
    async with serving(node):
        settings = settings_of(node, node, rate_limit=None)
        enabled = settings.model_copy(update={"enable_compressible": True})
        assert "compressible" not in {item.name for item in await run_start_checks(settings)}
        checked = {item.name: item for item in await run_start_checks(enabled)}["compressible"]
    assert checked.success is (words is None), checked.message
    assert is_hopeless(checked) is (words is not None)
    assert re.search(words or "the compressible config is ", checked.message)
