"""The command as a process: starts, prints its addresses, obeys, stops; and reports faults."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from click.testing import CliRunner
from command_line import DEADLINE, FREE, call, invoke, post, start
from recorded import recorded
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from localnet.chain import addresses
from localnet.chain.simulated_proofs import simulate_proof, simulated_key
from localnet.chain.snapshots import load_state
from localnet.cli.control import phase_start
from localnet.cli.main import cli
from shared.requests.proof_wire import ProofJson


@pytest.fixture(scope="module")
def running() -> Iterator[dict[str, Any]]:
    process = start(*FREE)
    assert process.stdout is not None
    report = json.loads(process.stdout.readline())
    # Ready in less than five seconds, of which other processes may take their share.
    usage = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    assert (int(usage[11]) + int(usage[12])) / os.sysconf("SC_CLK_TCK") < 5
    yield report
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, rest) == (0, "")
    assert "Traceback" not in errors


def test_up__ready__reports_addresses_keys_and_environment(running: dict[str, Any]) -> None:
    assert call(running, "getHealth") == "ok"
    assert call(running, "getGenesisHash") == running["genesisHash"]
    environment = running["environment"]
    assert environment["RPC_URL"] == running["rpcUrl"]
    forester = Keypair.from_bytes(bytes(json.loads(environment["PAYER"])))
    assert json.loads(environment["DERIVATION_PUBKEY"]) == list(bytes(forester.pubkey()))
    account = call(running, "getAccountInfo", str(addresses.forester(forester.pubkey())), {"encoding": "base64"})
    assert account["value"]["owner"] == str(addresses.REGISTRY)
    assert call(running, "getBalance", str(forester.pubkey()))["value"] == 1000 * 10**9


@pytest.mark.parametrize("name", ["batch_append_tx", "batch_nullify_tx", "batch_update_address_tree_tx"])
def test_prover__recorded_request__answers_with_a_proof_for_its_input(running: dict[str, Any], name: str) -> None:
    request = recorded(name)["prover_request"]
    request["circuitType"] = request["circuitType"].removesuffix("-with-proofs")
    answer = post(running["proverUrl"] + "/prove", request)
    assert msgspec.convert(answer, ProofJson) == simulate_proof([int(request["publicInputHash"], 16)])


def test_indexer__next_to_the_chain__is_at_its_slot(running: dict[str, Any]) -> None:
    question = {"jsonrpc": "2.0", "id": "test-account", "method": "getIndexerSlot"}
    deadline = time.monotonic() + DEADLINE
    while post(running["indexerUrl"], question)["result"] < call(running, "getSlot", {"commitment": "processed"}):
        assert time.monotonic() < deadline
    health = post(running["indexerUrl"], {"jsonrpc": "2.0", "id": "test-account", "method": "getIndexerHealth"})
    assert health == {"jsonrpc": "2.0", "result": "ok", "id": "test-account"}


def test_prover__malformed_request__is_refused(running: dict[str, Any]) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400"):
        post(running["proverUrl"] + "/prove", {"circuitType": "nothing"})


def test_commands__running_network__move_save_and_restore(running: dict[str, Any], tmp_path: Path) -> None:
    url = ("--url", running["rpcUrl"])
    slot = int(invoke("advance", *url))
    assert int(invoke("warp", "--by", "5", *url)) == slot + 5
    assert int(invoke("warp", str(slot + 50), *url)) == slot + 50
    target = Keypair().pubkey()
    path = tmp_path / "state"
    assert invoke("save", str(path), *url) == f"slot {slot + 50}"
    invoke("airdrop", str(target), "2.5", *url)
    assert call(running, "getBalance", str(target))["value"] == 2_500_000_000
    assert invoke("restore", str(path), *url) == f"slot {slot + 51}"
    assert call(running, "getBalance", str(target))["value"] == 0
    assert load_state(path).slot == slot + 50
    assert list(Path(call(running, "localnet_statesFolder")).iterdir()) == []
    started = invoke("epoch", "active", *url)
    assert started.endswith(
        f"active phase of epoch {(call(running, 'getSlot', {'commitment': 'processed'}) - 100) // 200}"
    )


def test_seed__every_kind__is_indexed(running: dict[str, Any]) -> None:
    user = Keypair.from_bytes(bytes(running["keys"]["user"]))
    question = {
        "jsonrpc": "2.0",
        "id": "test-account",
        "method": "getCompressedBalanceByOwner",
        "params": {"owner": str(user.pubkey())},
    }
    before = post(running["indexerUrl"], question)["result"]["value"]
    url = ("--url", running["rpcUrl"])
    v2_options = ("--compress", "12", "--spend", "3", "--addresses", "2")
    v1_options = ("--v1", "2", "--v1-spend", "1", "--v1-addresses", "1")
    made = json.loads(invoke("seed", *v2_options, *v1_options, *url))
    v1 = {"v1_compress": 2, "v1_spend": 1, "v1_addresses": 1}
    assert made == {"compress": 12, "spend": 3, "addresses": 2, **v1}
    assert post(running["indexerUrl"], question)["result"]["value"] == before + 14_000_000


NO_FAULTS = {
    "indexerLag": 0,
    "indexerTooManyRequests": False,
    "dropEvery": 0,
    "proverDown": False,
    "proverCut": False,
    "proverDelayMs": 0,
}


def test_seed__at_a_rate__continues_until_ctrl_c(running: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("localnet.cli.control.time.sleep", wait)
    done = CliRunner().invoke(cli, ["seed", "--v1", "1", "--every", "0.5", "--url", running["rpcUrl"]])
    assert (waits, done.exit_code) == ([0.5] * 3, 1)
    made = {"compress": 0, "spend": 0, "addresses": 0, "v1_compress": 1, "v1_spend": 0, "v1_addresses": 0}
    assert list(map(json.loads, done.output.splitlines()[:3])) == [made] * 3
    assert "Aborted" in done.output


def test_faults__each__shows_and_ends(running: dict[str, Any]) -> None:
    url = ("--url", running["rpcUrl"])
    chosen = ("--prover-down", "--indexer-429", "--drop-every", "1", "--indexer-lag", "3", "--prover-delay-ms", "1")
    state = json.loads(invoke("faults", *chosen, *url))
    assert state == {
        "indexerLag": 3,
        "indexerTooManyRequests": True,
        "dropEvery": 1,
        "proverDown": True,
        "proverCut": False,
        "proverDelayMs": 1,
    }
    health = {"jsonrpc": "2.0", "id": 1, "method": "getIndexerHealth"}
    for place, code in (("proverUrl", "503"), ("indexerUrl", "429")):
        with pytest.raises(urllib.error.HTTPError, match=code):
            post(running[place] + "/prove", health)
    transaction = base64.b64encode(bytes(payment(running))).decode()
    lost = call(running, "sendTransaction", transaction, {"encoding": "base64"})
    assert call(running, "getSignatureStatuses", [lost])["value"] == [None]
    assert json.loads(invoke("faults", "--none", *url)) == json.loads(invoke("faults", *url)) == NO_FAULTS
    assert call(running, "sendTransaction", transaction, {"encoding": "base64"}) == lost
    [status] = call(running, "getSignatureStatuses", [lost])["value"]
    assert status["err"] is None


def test_faults__unknown_one__is_refused(running: dict[str, Any]) -> None:
    question = {"jsonrpc": "2.0", "id": 1, "method": "localnet_faults", "params": [{"proverUp": True}]}
    assert post(running["rpcUrl"], question)["error"] == {
        "code": -32602,
        "message": "Invalid params: unknown fault proverUp.",
    }


class Echo(BaseHTTPRequestHandler):
    """A prover that answers every request with nothing but a proof's braces."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Slow(Echo):
    """A network that takes its time."""

    def do_POST(self) -> None:
        time.sleep(0.5)
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"jsonrpc": "2.0", "id": 1, "result": {"compress": 20}}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_command__that_takes_longer_than_usual_calls__waits_for_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiohttp.client.DEFAULT_TIMEOUT", aiohttp.ClientTimeout(total=0.1))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        assert json.loads(invoke("seed", "--compress", "20", "--url", url)) == {"compress": 20}
    finally:
        server.shutdown()
        server.server_close()


def raw_key_text(public_inputs: int) -> str:
    """Return a key of the trapdoor in the text that `prover setup` writes.

    Source: shared/localnet/docs/chain.md, "Verifying keys in programs".
    """
    key = simulated_key(public_inputs)
    main, skipped = key.main, bytes(64)
    data = main[:64] + skipped + main[64:320] + skipped + main[320:] + (public_inputs + 1).to_bytes(4, "big") + key.ic
    return f"[{' '.join(map(str, data))}]"


def test_faults__prover_of_another_process__are_shown_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "mainnet_inclusion_26_1.key").touch()
    (tmp_path / "mainnet_inclusion_26_1.vkey").write_text(raw_key_text(2))
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        own = f"http://127.0.0.1:{upstream.server_port}"
        process = start(*FREE, "--keys-dir", str(tmp_path), "--prover-url", own)
        assert process.stdout is not None
        report = json.loads(process.stdout.readline())
        try:
            url, prove = ("--url", report["rpcUrl"]), report["proverUrl"] + "/prove"
            assert report["environment"]["PROVER_URL"] == report["proverUrl"] != own
            assert post(prove, {}) == {}
            assert json.loads(invoke("faults", "--prover-down", *url))["proverDown"]
            with pytest.raises(urllib.error.HTTPError, match="503"):
                post(prove, {})
            assert json.loads(invoke("faults", "--prover-up", "--prover-cut", *url))["proverCut"]
            with pytest.raises(ConnectionError):
                post(prove, {})
            assert json.loads(invoke("faults", "--none", *url)) == NO_FAULTS
            assert post(prove, {}) == {}
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=DEADLINE)
            upstream.shutdown()
    assert process.returncode == 0


def status_for(url: str, host: str) -> int:
    request = urllib.request.Request(url, headers={"Host": host})  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE) as response:  # noqa: S310
            status: int = response.status
            return status
    except urllib.error.HTTPError as refusal:
        return refusal.code


def payment(report: dict[str, Any]) -> VersionedTransaction:
    user = Keypair.from_bytes(bytes(report["keys"]["user"]))
    latest = call(report, "getLatestBlockhash", {"commitment": "processed"})["value"]["blockhash"]
    instruction = transfer(TransferParams(from_pubkey=user.pubkey(), to_pubkey=user.pubkey(), lamports=1))
    message = Message.new_with_blockhash([instruction], user.pubkey(), Hash.from_string(latest))
    return VersionedTransaction(message, [user])


@pytest.mark.parametrize(
    ("phase", "slot", "expected"),
    [
        ("registration", 0, (200, 1)),
        ("registration", 399, (400, 2)),
        ("registration", 400, (600, 3)),
        ("active", 0, (100, 0)),
        ("active", 499, (500, 2)),
        ("report", 299, (300, 0)),
        ("report", 300, (500, 1)),
    ],
)
def test_phase_start__slot__is_the_next_one_that_opens_the_phase(
    phase: str, slot: int, expected: tuple[int, int]
) -> None:
    assert phase_start({"genesis": 0, "registration": 100, "active": 200, "report": 100}, phase, slot) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["warp", "--url", "http://127.0.0.1:1"], "name a slot"),
        (["advance", "--url", "http://127.0.0.1:1"], "start one with `localnet up`"),
        (["airdrop", "abc"], "abc is not an address"),
        (["seed"], "nothing to send"),
        (["up", "--keys-dir", "."], "make some with `make keys-dev`"),
        (["up", "--restore", __file__], "is not a state"),
        (["up", "--states-dir", __file__], "is a file"),
    ],
)
def test_command__that_cannot_work__says_why(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code in (1, 2)
    assert words in done.output


def test_up__port_taken__names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(cli, ["up", *FREE, "--rpc-port", port])
    assert done.exit_code == 1
    assert port in done.output


def test_up__programs_missing__names_the_command_that_fetches_them(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["up"], env={"ZKC_REFERENCE_CACHE": str(tmp_path)})
    assert done.exit_code == 1
    assert "make reference-fixtures" in done.output


def test_up__on_every_address_with_a_running_clock__serves_and_ends_at_sigterm() -> None:
    options = ("--host", "0.0.0.0", "--allow-host", "localnet")  # noqa: S104 - those of containers
    process = start(*FREE, "--slot-ms", "1", *options)
    assert process.stdout is not None
    report = json.loads(process.stdout.readline())
    try:
        urls = (report["rpcUrl"], report["wsUrl"], report["indexerUrl"], report["proverUrl"])
        assert all("//127.0.0.1:" in url for url in urls)
        first = call(report, "getSlot", {"commitment": "processed"})
        while call(report, "getSlot", {"commitment": "processed"}) < first + 10:
            pass
        for probe in (f"{urls[0]}/health", f"{urls[2]}/liveness", f"{urls[3]}/health"):
            assert [status_for(probe, host) for host in ("localnet:8899", "evil.example")] == [200, 403]
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, errors) == (0, "")
