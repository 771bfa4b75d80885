"""The published JavaScript clients, unmodified, on the network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from clients import DEADLINE, LIBRARIES, Network, installed, proofs_of, run_script, urls

SCRIPTS = Path(__file__).with_name("javascript")
NOT_FOUND = -32601
OF_NODES_WITH_A_FLAG = {"blockSubscribe", "voteSubscribe"}
REMOVED_FROM_NODES = re.compile(
    r"getConfirmed|getRecentBlockhash|getFees|getFeeCalculator|getFeeRateGovernor|getSnapshotSlot|getStakeActivation"
)
"""Methods that web3.js still names, and that Agave 2.0 removed."""


@pytest.fixture(scope="module")
def modules() -> Path:
    return installed(LIBRARIES, "libraries")


@pytest.mark.timeout(2 * DEADLINE)
def test_stateless_js__life_of_lamports__is_what_the_client_expects(
    modules: Path, network: Network, tmp_path: Path
) -> None:
    seen = run_script(SCRIPTS / "stateless.mjs", modules, tmp_path, *urls(network))
    if network["proofs"] != "simulated":
        assert proofs_of(network) >= 3
    assert seen["health"] == "ok"
    assert seen["slot"] >= network["slot"]
    for version, proved, path in (("v1", True, 26), ("v2", False, 32)):
        life = seen[version]
        assert life["compressed"] == life["byHash"] == "1000000000"
        assert (life["received"], life["left"]) == ("300000000", "500000000")
        assert (life["several"], life["paths"], life["opened"], life["tokens"]) == (1, 1, 1, 0)
        assert (life["path"], life["proved"], life["created"]) == (path, proved, True)
        assert life["transactions"] == 3
    assert seen["newAddress"] == 26
    assert seen["latest"] >= 6
    assert seen["all"] >= 8


@pytest.mark.timeout(2 * DEADLINE)
def test_compressed_token__life_of_tokens__is_what_the_client_expects(
    modules: Path, network: Network, tmp_path: Path
) -> None:
    seen = run_script(SCRIPTS / "compressed_token.mjs", modules, tmp_path, *urls(network))
    assert (seen["minted"], seen["accounts"], seen["merged"]) == ("1500000", 2, 1)
    assert (seen["transferred"], seen["approved"], seen["spentByDelegate"]) == ("300000", ["200000"], "450000")
    assert seen["revoked"] == 0
    # 0.4 in a token account and 0.65 compressed; then 0.1 of the former goes to the friend, compressed.
    assert (seen["decompressed"], seen["unified"]) == ("0.4", "1050000")
    assert seen["compressed"] == ["300000", "550000"]
    assert seen["emptied"] == ["0", "950000"]
    assert seen["supply"] == seen["pool"] == "1500000"
    assert seen["holders"] == ["950000", "550000"]
    assert seen["balances"] == ["300000", "0"]


@pytest.mark.timeout(DEADLINE)
@pytest.mark.parametrize("network", ["simulated"], indirect=True)
def test_kit__payment_and_subscriptions__are_what_the_client_expects(
    modules: Path, network: Network, tmp_path: Path
) -> None:
    seen = run_script(SCRIPTS / "kit.mjs", modules, tmp_path, network["rpcUrl"], network["wsUrl"])
    assert seen["events"] == ["account", "logs", "program", "root", "slot"]
    assert seen["simulated"] == [None, True]
    assert (seen["received"], seen["parsed"], seen["space"]) == ("1500000000", "transfer", "0")
    assert (seen["supply"], seen["schedule"], seen["production"], seen["certificate"]) == (True, 1, 1, None)


@pytest.mark.timeout(DEADLINE)
@pytest.mark.parametrize("network", ["simulated"], indirect=True)
def test_web3_js__nonce_and_lookup_table__are_what_the_client_expects(
    modules: Path, network: Network, tmp_path: Path
) -> None:
    seen = run_script(SCRIPTS / "web3.mjs", modules, tmp_path, network["rpcUrl"], network["wsUrl"])
    assert (seen["nonceSent"], seen["nonceAdvanced"], seen["nonceOnce"]) == ("string", True, "refused")
    assert seen["table"] == ["lookupTable", 2]
    assert seen["received"] == 2 * 10**9
    assert seen["sources"] == ["transaction", "transaction", "lookupTable"]
    assert seen["rentEpoch"]
    assert seen["updates"]


def kit_methods(modules: Path) -> set[str]:
    """Return the methods that the interface of kit declares, a file each."""
    http = {file.name.removesuffix(".d.ts") for file in (modules / "@solana/rpc-api/dist/types").glob("*.d.ts")}
    topics = (modules / "@solana/rpc-subscriptions-api/dist/types").glob("*-notifications.d.ts")
    words = [file.name.removesuffix("-notifications.d.ts").split("-") for file in topics]
    subscriptions = {first + "".join(map(str.title, rest)) + "Subscribe" for first, *rest in words}
    return {name for name in http - {"index"} if name.isalpha()} | subscriptions


def web3_methods(modules: Path) -> set[str]:
    """Return the methods that web3.js calls."""
    source = (modules / "@solana/web3.js/lib/index.cjs.js").read_text()
    found = re.findall(r"_rpcRequest\('([A-Za-z]+)'|method: '([a-zA-Z]+Subscribe)'", source)
    names = {request or subscription for request, subscription in found}
    return {method for method in names if not REMOVED_FROM_NODES.match(method)}


async def answer(network: Network, method: str) -> Any:

    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": []}
    async with aiohttp.ClientSession() as http:
        if method.endswith("Subscribe"):
            async with http.ws_connect(network["wsUrl"]) as socket:
                await socket.send_json(request)
                return await socket.receive_json()
        async with http.post(network["rpcUrl"], json=request) as response:
            return await response.json()


@pytest.mark.parametrize("network", ["simulated"], indirect=True)
@pytest.mark.parametrize(("methods", "least"), [(kit_methods, 60), (web3_methods, 40)])
async def test_methods__list_of_a_client__are_found_as_on_a_node(
    modules: Path, network: Network, methods: Any, least: int
) -> None:
    found = methods(modules)
    assert len(found) >= least
    missing = {name for name in found if (await answer(network, name)).get("error", {}).get("code") == NOT_FOUND}
    assert missing == OF_NODES_WITH_A_FLAG & found
