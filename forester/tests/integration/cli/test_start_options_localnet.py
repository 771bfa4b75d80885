"""Options of the commands that choose a network, an identity and trees, on the published programs; nothing is sent."""

from __future__ import annotations

import base64
import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from click.testing import CliRunner
from localnet_process import Localnet, running_localnet
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import REGISTERED_PROGRAM
from forester.cli.main import cli

STATE_TREES = ("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU", "bmt2UxoBxB9xWev4BkLvkGdapsz6sZGkzViPNph7VFi")
ADDRESS_TREE = "amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx"
STRANGER = Pubkey(bytes([77]) * 32)
NOWHERE = "http://127.0.0.1:1"
NAMES = ("RPC_URL", "WS_RPC_URL", "INDEXER_URL", "PROVER_URL", "PAYER", "DERIVATION_PUBKEY")


@pytest.fixture(scope="module")
def net() -> Iterator[Localnet]:
    with running_localnet() as localnet:
        yield localnet


def run(net: Localnet, *words: str, **environment: str | None) -> tuple[int, str]:
    result = CliRunner().invoke(cli, words, env=net.environment | environment)
    return result.exit_code, result.output


def planned(net: Localnet, *words: str, **environment: str | None) -> dict[str, Any]:
    """Return the plan of `forester start`; log lines come before."""
    _, text = run(net, "start", "--dry-run", "--output", "json", *words, **environment)
    plan: dict[str, Any] = json.loads(text[text.index("{\n") :])
    return plan


def group_of(net: Localnet) -> str:
    """Return the group that the registry is in, bytes 40 to 71 of its account."""
    account = net.call("getAccountInfo", str(REGISTERED_PROGRAM), {"encoding": "base64"})["value"]
    return str(Pubkey(base64.b64decode(account["data"][0])[40:72]))


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ((), {"StateV1": 2, "AddressV1": 1, "StateV2": 5, "AddressV2": 2}),
        (("--processor-mode", "v1"), {"StateV1": 2, "AddressV1": 1}),
        (("--processor-mode", "v2"), {"StateV2": 5, "AddressV2": 2}),
        (("--tree-id", STATE_TREES[0]), {"StateV2": 1}),
        (("--tree-id", STATE_TREES[0], "--tree-id", ADDRESS_TREE), {"StateV2": 1, "AddressV2": 1}),
        (("--tree-id", ",".join(STATE_TREES), "--processor-mode", "v1"), {}),
        (("--group-authority", str(STRANGER)), {}),
    ],
)
def test_filters__of_trees__choose_those_that_are_worked_on(
    net: Localnet, words: tuple[str, ...], kinds: dict[str, int]
) -> None:
    plan = planned(net, *words)
    assert Counter(item["kind"] for item in plan["trees"]) == kinds
    trees = {check["name"]: check["success"] for check in plan["checks"]}["trees"]
    assert trees is bool(kinds), "no tree at all is a failed check"


def test_group_authority__that_of_the_registry__is_what_holds_without_it(net: Localnet) -> None:
    assert len(planned(net, "--group-authority", group_of(net))["trees"]) == 10


def test_enable_compressible__published_config__is_found_active(net: Localnet) -> None:
    checks = {check["name"]: check for check in planned(net, "--enable-compressible")["checks"]}
    assert checks["compressible"]["success"], checks
    assert "the compressible config is active" in run(net, "check", ENABLE_COMPRESSIBLE="true")[1]


def test_payer_and_derivation__of_the_command_line__are_whom_the_plan_is_for(net: Localnet) -> None:
    user = net.keys["user"]
    plan = planned(net, "--payer", str(user), "--derivation", str(STRANGER))
    assert (plan["payer"], plan["derivation"]) == (str(user.pubkey()), str(STRANGER))
    failed = {check["name"]: check["message"] for check in plan["checks"] if not check["success"]}
    assert f"no forester is known by the derivation key {STRANGER}" in failed["admission"]


def test_urls__of_the_command_line__are_asked_instead_of_those_of_the_environment(net: Localnet) -> None:
    options = ("--rpc-url", "--ws-rpc-url", "--indexer-url", "--prover-url")
    own = [word for option, name in zip(options, NAMES, strict=False) for word in (option, net.environment[name])]
    wrong = dict.fromkeys(NAMES[:4], NOWHERE) | {"WS_RPC_URL": "ws://127.0.0.1:1"}
    plan = planned(net, *own, **wrong)
    assert all(check["success"] for check in plan["checks"]), plan["checks"]
    failed = planned(net, "--rpc-url", net.url, **wrong)
    names = {check["name"] for check in failed["checks"] if not check["success"]}
    assert names == {"indexer", "prover", "websocket"}


@pytest.mark.parametrize("words", [("--rpc-url",), ("--RPC_URL",)])
def test_status__rpc_url_in_both_spellings__is_the_node_that_is_read(net: Localnet, words: tuple[str, ...]) -> None:
    code, text = run(net, "status", "--protocol-config", *words, net.url, RPC_URL=NOWHERE)
    assert code == 0, text
    assert "Protocol config:" in text


def test_health__identity_of_the_command_line__is_the_one_that_is_checked(net: Localnet) -> None:
    me, user = net.keys["forester"], net.keys["user"].pubkey()
    words = ("--rpc-url", net.url, "--payer", json.dumps(list(bytes(me))), "--output", "json")
    nothing = dict.fromkeys(NAMES, None)
    code, text = run(net, "health", *words, "--derivation", str(user), **nothing)
    answer = json.loads(text)
    assert (code, answer["balance"]["healthy"], answer["registration"]["healthy"]) == (1, True, False)
    assert f"is {user} the derivation key" in answer["checks"][1]["message"]
    code, text = run(net, "health", *words, "--check-balance", "--min-balance", "0.5", **nothing)
    assert code == 0, text
    assert "registration" not in json.loads(text)


@pytest.mark.parametrize(
    ("option", "value", "failed"),
    [
        ("--indexer-url", NOWHERE, {"indexer"}),
        ("--prover-url", NOWHERE, {"prover"}),
        ("--prover-append-url", NOWHERE, {"prover"}),
        ("--prover-update-url", NOWHERE, {"prover"}),
        ("--prover-address-append-url", NOWHERE, {"prover"}),
        ("--fallback-rpc-url", NOWHERE, {"fallback_rpc"}),
        ("--fallback-indexer-url", NOWHERE, {"fallback_indexer"}),
        ("--ws-rpc-url", "ws://127.0.0.1:1", {"websocket"}),
        ("--journal", "/dev/null/journal.sqlite", {"journal"}),
        ("--journal", "/dev", {"journal"}),
        ("--payer", str(Keypair.from_seed(bytes([8]) * 32)), {"admission", "balance"}),
        ("--derivation", str(STRANGER), {"admission"}),
        ("--min-balance", "1000000", {"balance"}),
        ("--tree-id", str(STRANGER), {"trees"}),
        ("--group-authority", str(STRANGER), {"trees"}),
    ],
)
def test_check__one_option_with_a_value_that_does_not_fit__fails_the_check_that_it_is_for(
    net: Localnet, option: str, value: str, failed: set[str]
) -> None:
    code, text = run(net, "check", option, value, "--output", "json")
    found = {check["name"]: check["success"] for check in json.loads(text)["checks"]}
    assert {name for name, success in found.items() if not success} == failed
    assert code == bool(failed)


def test_check__rpc_url_gone__fails_within_its_limit_whatever_needs_it(net: Localnet) -> None:
    code, text = run(net, "check", "--rpc-url", NOWHERE, "--timeout", "15", "--output", "json")
    found = {check["name"]: check["success"] for check in json.loads(text)["checks"]}
    assert code == 1
    assert {name for name, success in found.items() if not success} == {
        *("rpc", "protocol", "balance", "admission", "trees", "indexer")
    }


def test_check__v1_trees_only__needs_no_prover_and_counts_those(net: Localnet) -> None:
    code, text = run(net, "check", "--processor-mode", "v1", PROVER_URL=None)
    assert code == 0, text
    assert "not queried; V1 trees need none" in text
    assert "1 AddressV1, 2 StateV1\n" in text
    code, text = run(net, "check", "--processor-mode", "v2", PROVER_URL=None)
    assert code == 1
    assert "missing prover_url" in text
    assert "2 AddressV2, 5 StateV2\n" in text


def test_check__prover_api_key__is_what_the_provers_are_asked_with(net: Localnet) -> None:
    keys: list[str | None] = []

    class Prover(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers["X-API-Key"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Prover) as server:
        for key in ("first-key", "second-key"):
            threading.Thread(target=server.handle_request, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}"
            code, text = run(net, "check", "--prover-url", url, "--prover-api-key", key)
            assert code == 0, text
    assert keys == ["first-key", "second-key"]


def test_commands__first_node_gone__continue_with_the_fallback(net: Localnet) -> None:
    for words in (("health", "--check-balance"), ("status", "--protocol-config")):
        code, text = run(net, *words, "--rpc-url", NOWHERE, "--fallback-rpc-url", net.url)
        assert code == 0, text
    assert run(net, "health", "--check-balance", "--timeout", "2", "--rpc-url", NOWHERE)[0] == 1


def test_full_status__owner_and_indexer__are_whose_tokens_are_checked(net: Localnet) -> None:
    nothing = dict.fromkeys(NAMES[1:], None)
    me, user = net.keys["forester"], net.keys["user"]
    _, text = run(net, "status", "--full", **nothing)
    assert "not checked; set INDEXER_URL, and PAYER or DERIVATION_PUBKEY" in text
    indexer = ("status", "--full", "--indexer-url", net.environment["INDEXER_URL"])
    _, text = run(net, *indexer, "--payer", str(user), **nothing)
    assert f"of 0 mints of {user.pubkey()}, balances agree" in text
    _, text = run(net, *indexer, "--payer", str(user), "--derivation", str(me.pubkey()), **nothing)
    assert f"of 0 mints of {me.pubkey()}, balances agree" in text
    code, text = run(net, "status", "--full", "--indexer-url", NOWHERE, "--payer", str(user), **nothing)
    assert code == 1
    assert "Compressed tokens: FAIL" in text
