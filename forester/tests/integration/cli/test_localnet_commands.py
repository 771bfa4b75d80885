"""Instructions, decoders, `forester health` and `forester status` against the published programs in localnet."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import aiohttp
import pytest
from click.testing import CliRunner
from localnet_process import Localnet, running_localnet
from solders.compute_budget import set_compute_unit_limit
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.transaction import Transaction
from status_lines import check_queue_blocks

from forester.chain import subscriptions
from forester.chain.programs import registry
from forester.chain.programs.addresses import forester_epoch_address
from forester.chain.registry_accounts import decode_forester_epoch
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.chain.subscriptions import AccountChanged, Event, NotificationsLost, SlotSeen
from forester.cli.main import cli
from forester.errors import TransactionRefused

EPOCH = 2
STATE_TREE = "bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU"


@pytest.fixture(scope="module")
def net() -> Iterator[Localnet]:
    with running_localnet() as localnet:
        localnet.call("localnet_seed", {"compress": 20, "spend": 5, "addresses": 3, "v1_compress": 4, "v1_spend": 1})
        yield localnet


def run(net: Localnet, *words: str, **environment: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, words, env=net.environment | environment)
    return result.exit_code, result.output


async def _send(net: Localnet, instruction: Instruction) -> None:
    key = net.keys["forester"]
    async with RpcPool([net.url]) as pool:
        client = RpcClient(pool)
        blockhash = await client.latest_blockhash()
        transaction = Transaction.new_signed_with_payer(
            [set_compute_unit_limit(200_000), instruction], key.pubkey(), [key], blockhash.hash
        )
        signature = await client.send_transaction(bytes(transaction))
        net.call("localnet_advance", 1)
        (status,) = (await client.signature_statuses([signature])).found
        assert status is not None
        assert status.err is None


def warp_to_phase(net: Localnet, slot: int) -> None:
    if net.call("getSlot") < slot:
        net.call("localnet_warp", slot)


def test_epoch__registered_finalised_and_reported__is_seen_by_health_and_status(net: Localnet) -> None:
    me = net.keys["forester"].pubkey()
    code, text = run(net, "health", "--check-registration")
    assert code == 1
    assert f"not registered for epoch {EPOCH}" in text

    asyncio.run(_send(net, registry.register_forester_epoch(me, me, me, EPOCH)))
    code, text = run(net, "health")
    assert code == 0, text
    assert re.search(r"^✓ balance \[\d+ ms\] OK: \d+\.\d{4} SOL, minimum 0\.0100 SOL$", text, flags=re.MULTILINE)
    assert f"registered for epoch {EPOCH} with weight 1, not finalised yet" in text
    assert text.endswith("\n\nAll checks passed\n")

    code, text = run(net, "health", "--check-registration", "--exit-code-by-cause", PAYER=str(Keypair()))
    assert code == 4, text
    assert f"the forester registered with the key {me}, which alone may act in this epoch" in text

    with pytest.raises(TransactionRefused) as refused:
        asyncio.run(_send(net, registry.finalize_registration(me, me, EPOCH)))
    assert (refused.value.code, refused.value.detail) == (
        6009,
        "registry refused instruction 1: error 6009 (InvalidEpoch)",
    )

    warp_to_phase(net, 505)
    asyncio.run(_send(net, registry.finalize_registration(me, me, EPOCH)))
    code, text = run(net, "status", "--full")
    assert code == 0, text
    assert f"Current active epoch: {EPOCH}" in text
    assert f"  0: {me} (weight 1)" in text
    assert "Foresters registered for the active epoch: yes (1)" in text
    assert "light slots without owner: 0 of 20" in text
    assert f"Compressed tokens: OK: 0 accounts of 0 mints of {me}, balances agree" in text
    assert re.search(rf"StateV2   {STATE_TREE}  {me}", text)

    warp_to_phase(net, 705)
    asyncio.run(_send(net, registry.report_work(me, me, EPOCH)))
    registration = asyncio.run(_registration(net))
    assert registration.has_reported_work
    assert registration.total_epoch_weight == 1
    code, text = run(net, "health", "--check-registration", "--output", "json")
    assert code == 1
    assert json.loads(text)["checks"][0]["message"].startswith("not registered for epoch 3, but for epoch 2")
    assert json.loads(text)["registration"]["code"] == "not_registered"
    assert run(net, "health", "--exit-code-by-cause")[0] == 4


async def _registration(net: Localnet):  # type: ignore[no-untyped-def]
    async with RpcPool([net.url]) as pool:
        address = forester_epoch_address(net.keys["forester"].pubkey(), EPOCH)
        account = await RpcClient(pool).existing_account(address, "the registration")
    return decode_forester_epoch(account.data)


def test_status__with_traffic__prints_every_counter_and_closing_line(net: Localnet) -> None:
    code, text = run(net, "status")
    assert code == 0, text
    assert check_queue_blocks(net, text) == {"APPEND": 0, "NULLIFY": 0, "ADDRESS": 0}
    blocks = re.findall(r"^(\w+V\d) \w{32,44}$", text, flags=re.MULTILINE)
    assert Counter(blocks) == {"StateV1": 2, "AddressV1": 1, "StateV2": 5, "AddressV2": 2}
    block = re.search(rf"^StateV2 {STATE_TREE}\n((?:  .*\n)+)", text, flags=re.MULTILINE)
    assert block is not None
    append, nullify = block[1].split("  NULLIFY\n")
    assert re.search(r"SUMMARY: 2\d items added, 0 items processed, 2\d items pending\n$", append)
    assert nullify.endswith("    SUMMARY: 5 items added, 0 items processed, 5 items pending\n")
    assert "  Total pending ADDRESS operations: 3\n" in text
    v1 = re.findall(r"^StateV1 \w+\n  next_index: (\d+)\n  total_unprocessed_items: (\d+)\n", text, flags=re.MULTILINE)
    assert sorted(int(waiting) for _, waiting in v1) == [0, 1]


def test_status__as_json__has_the_documented_shape_and_the_same_numbers(net: Localnet) -> None:
    code, text = run(net, "status", "--output", "json")
    assert code == 0, text
    answer = json.loads(text)
    documented = {
        *("slot", "current_active_epoch", "current_registration_epoch", "active_epoch_progress", "active_phase_length"),
        *("active_epoch_progress_percentage", "hours_until_next_epoch", "registration_is_open"),
        *("slots_until_next_registration", "hours_until_next_registration", "active_epoch_foresters"),
        *("registration_epoch_foresters", "trees", "current_light_slot", "light_slot_length"),
        *("slots_until_next_light_slot", "total_light_slots", "total_trees", "active_trees", "rolled_over_trees"),
        *("total_pending_batches", "total_pending_items", "aggregate_queue_stats"),
    }
    assert set(answer) == documented | {"protocol_config"}
    assert answer["total_trees"] == answer["active_trees"] == 10
    assert answer["total_light_slots"] == 20
    totals = answer["aggregate_queue_stats"]
    assert (totals["state_v2_input_pending"], totals["address_v2_input_pending"]) == (5, 3)
    assert totals["state_v1_total_pending"] == 1
    assert totals["state_v2_output_pending_batches"] == 2
    (tree,) = [item for item in answer["trees"] if item["merkle_tree"] == STATE_TREE]
    assert tree["v2_queue_info"]["output_pending_batches"] == 2
    assert tree["v2_queue_info"]["input_items_in_current_zkp_batch"] == 5
    assert len(tree["schedule"]) == 20


@pytest.mark.parametrize(
    ("words", "present", "absent"),
    [
        (("--queue", "address"), ("AddressV2",), ("StateV2", "AddressV1", "Trees:")),
        (("--queue=nullify",), ("NULLIFY",), ("APPEND", "AddressV2", "Protocol config:")),
        (("--queue", "append", "--queue", "v1"), ("APPEND", "StateV1", "AddressV1"), ("NULLIFY", "AddressV2")),
        (("--protocol-config",), ("Protocol config:", "  slot_length: 10"), ("StateV2", "Trees:")),
        (("--protocol-config", "--queue"), ("Protocol config:", "NULLIFY", "AddressV2"), ("Trees:",)),
    ],
)
def test_status__selectors__print_only_what_they_name(
    net: Localnet, words: tuple[str, ...], present: tuple[str, ...], absent: tuple[str, ...]
) -> None:
    code, text = run(net, "status", *words)
    assert code == 0, text
    assert all(word in text for word in present)
    assert not [word for word in absent if word in text]


def test_health__balance_under_the_minimum__fails_unless_disabled(net: Localnet) -> None:
    code, text = run(net, "health", "--check-balance", "--min-balance", "1000000", "--output", "json")
    assert code == 1
    answer = json.loads(text)
    assert answer["success"] is answer["balance"]["healthy"] is False
    assert set(answer["checks"][0]) == {"name", "success", "code", "message", "duration_ms"}
    assert answer["balance"] == {"healthy": False, "code": "insufficient_funds"}
    assert "insufficient funds" in answer["checks"][0]["message"]
    code, _ = run(net, "health", "--check-balance", "--min-balance", "1000000", "--exit-on-failure", "false")
    assert code == 0
    code, _ = run(net, "health", "--check-balance", "--min-balance", "1000000", "--exit-on-failure")
    assert code == 1
    code, _ = run(net, "health", "--check-balance", "--min-balance", "1000000", "--exit-code-by-cause")
    assert code == 3


def test_check__whole_network__passes_and_names_what_is_there(net: Localnet) -> None:
    code, text = run(net, "check", FALLBACK_RPC_URL=net.url)
    assert code == 0, text
    assert "trees [" in text
    assert "1 AddressV1, 2 AddressV2, 2 StateV1, 5 StateV2" in text
    assert "admitted with weight 1" in text
    assert "active phases of 200 slots, light slots of 10" in text


def test_check__wrong_payer_tree_and_prover__each_fails_with_its_remedy(net: Localnet) -> None:
    stranger = json.dumps(list(bytes(net.keys["user"])))
    code, text = run(
        *(net, "check", "--output", "json", "--tree-id", str(net.keys["user"].pubkey())),
        PAYER=stranger,
        PROVER_APPEND_URL="http://127.0.0.1:1/?api-key=s3cr3tkey",
    )
    assert code == 1
    found = {item["name"]: item for item in json.loads(text)["checks"]}
    failed = {name: item["message"] for name, item in found.items() if not item["success"]}
    assert set(failed) == {"admission", "trees", "prover"}
    assert "correct PAYER" in failed["admission"]
    assert "correct --tree-id" in failed["trees"]
    assert "the prover http://127.0.0.1:1/?api-key=*** cannot be reached" in failed["prover"]
    assert "s3cr3tkey" not in text


def test_status__with_a_push_gateway__pushes_the_gauges_of_every_queue(net: Localnet) -> None:
    got: list[bytes] = []

    class Gateway(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(202)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/metrics/job/forester"
        code, text = run(net, "status", "--protocol-config", PUSH_GATEWAY_URL=url)
    assert code == 0, text
    lines = got[0].decode()
    assert f'queue_length{{tree_pubkey="{STATE_TREE}",tree_type="StateV2.Nullify"}} 5.0' in lines
    assert f'queue_capacity{{tree_pubkey="{STATE_TREE}",tree_type="StateV2.Append"}} 100.0' in lines
    assert 'tree_type="AddressV1"' in lines
    families = {line.split()[2] for line in lines.splitlines() if line.startswith("# TYPE")}
    assert families <= {"queue_length", "queue_capacity", "forester_sol_balance", "registered_foresters"}, (
        "zeros would replace what the daemon has pushed"
    )


def test_subscriptions__slots_and_an_account__report_what_the_network_does(net: Localnet) -> None:
    seen = asyncio.run(asyncio.wait_for(_first_change(net), timeout=120))
    assert isinstance(seen[0], NotificationsLost)
    assert any(isinstance(event, SlotSeen) for event in seen)
    assert isinstance(seen[-1], AccountChanged)
    assert seen[-1].account.lamports == 10**9


async def _first_change(net: Localnet) -> list[Event]:
    address = Keypair().pubkey()
    found: list[Event] = []
    async with (
        aiohttp.ClientSession() as session,
        contextlib.aclosing(
            subscriptions.events(
                session, net.environment["WS_RPC_URL"], [subscriptions.slots(), subscriptions.account(address)]
            )
        ) as stream,
    ):
        async for event in stream:
            found.append(event)
            if isinstance(event, NotificationsLost):
                await asyncio.to_thread(net.call, "localnet_advance", 1)
                await asyncio.to_thread(net.call, "requestAirdrop", str(address), 10**9)
                await asyncio.to_thread(net.call, "localnet_advance", 1)
            if isinstance(event, AccountChanged):
                break
    return found
