"""``prover download`` and ``prover keys list|verify`` as processes: words, messages, exit codes, what they leave."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import Certificates
from faulty_key_server import KeyServer, running, silent, status, truncated
from in_process_service import circuit

from prover.cli.commands.keys.verify import verify_selection
from prover.keys.catalogue.selection import CircuitSelection
from prover.keys.verify import Verdict

PROVER = Path(sys.executable).with_name("prover")
SMALL = circuit("v1_inclusion_26_1")
OTHER = circuit("v2_inclusion_32_1")
BOTH = f"{SMALL.name},{OTHER.name}"


@pytest.fixture
def environment() -> dict[str, str]:
    """The variables of this process without settings and proxies."""
    foreign = ("PROVER_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    return {name: value for name, value in os.environ.items() if not name.upper().startswith(foreign)}


@pytest.fixture
def server(reference_keys_dir: Path) -> Iterator[KeyServer]:
    """Two published keys under their current names."""
    files = {wanted.key_file: (reference_keys_dir / wanted.earlier_key_file).read_bytes() for wanted in (SMALL, OTHER)}
    with running(KeyServer(files)) as started:
        yield started


class Prover:
    """Runs commands; ``keys`` is their folder."""

    def __init__(self, keys: Path, environment: dict[str, str]) -> None:
        self.keys = keys
        self._environment = environment

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(PROVER), *words, "--keys-dir", str(self.keys)]
        return subprocess.run(command, capture_output=True, env=self._environment, timeout=240, text=True)

    def names(self) -> set[str]:
        return {path.name for path in self.keys.iterdir()}


@pytest.fixture
def prover(tmp_path: Path, environment: dict[str, str]) -> Prover:
    return Prover(tmp_path / "keys", environment)


def test_download__then_verify__finds_published_keys_good(prover: Prover, server: KeyServer) -> None:
    answer = prover("download", "--circuit", BOTH, "--download-url", server.url)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("2 keys downloaded, 0 already present")
    assert prover.names() == {SMALL.key_file, OTHER.key_file, "CHECKSUM"}
    again = prover("keys", "download", "--circuit", BOTH, "--download-url", "http://127.0.0.1:1/nowhere")
    assert again.stdout.startswith("0 keys downloaded, 2 already present")
    checked = prover("keys", "verify", "--deep", "--output", "json")
    assert checked.returncode == 0, checked.stderr
    found = json.loads(checked.stdout)
    assert found["ok"] is True
    assert [(key["circuit"], key["verdict"]) for key in found["keys"]] == [(SMALL.name, "good"), (OTHER.name, "good")]
    assert found["keys"][0]["detail"] == "SHA-256, structure, a proof"


def test_download__over_tls__takes_keys_from_servers_that_the_certificates_of_the_system_vouch_for(
    prover: Prover, server: KeyServer, environment: dict[str, str], tmp_path: Path
) -> None:
    certificates = Certificates.make(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.certificate, certificates.key)
    with running(KeyServer(server.files), tls) as secure:
        words = ("download", "--circuit", SMALL.name, "--download-url", secure.url, "--max-retries", "1")
        refused = prover(*words)
        assert refused.returncode == 69
        assert "the certificate is not accepted: " in refused.stderr
        environment["SSL_CERT_FILE"] = str(certificates.authority)
        answer = prover(*words)
        assert answer.returncode == 0, answer.stderr
    assert prover.names() == {SMALL.key_file, "CHECKSUM"}


@pytest.mark.parametrize("command", [("download",), ("keys", "download")])
def test_download__of_nothing__is_wrong_usage(prover: Prover, command: tuple[str, ...]) -> None:
    answer = prover(*command)
    assert answer.returncode == 2
    assert "--run-mode or --circuit" in answer.stderr


@pytest.mark.parametrize("words", [("--circuit", "updates"), ("--run-mode", "all"), ("--max-retries", "0")])
def test_download__of_what_does_not_exist__is_wrong_usage(prover: Prover, words: tuple[str, ...]) -> None:
    assert prover("download", *words).returncode == 2


def test_download__of_a_run_mode_with_absent_keys__names_each_and_brings_the_others(
    prover: Prover, server: KeyServer
) -> None:
    server.checksums += f"{'0' * 64}  batch_update_32_10.key\n"
    answer = prover("download", "--circuit", f"{SMALL.name},update-test", "--download-url", server.url)
    assert answer.returncode == 69
    expected = f"proving key file not found: batch_update_32_10.key; downloading it from {server.url} failed: "
    assert expected + "the server answers 404 Not Found" in answer.stderr
    assert SMALL.key_file in prover.names()


def test_download__killed__continues_where_it_was(
    prover: Prover, server: KeyServer, environment: dict[str, str]
) -> None:
    server.faults[OTHER.key_file] = [silent(100_000)]
    command = [str(PROVER), "download", "--circuit", OTHER.name, "--keys-dir", str(prover.keys)]
    command += ["--download-url", server.url]
    unmeasured = {name: value for name, value in environment.items() if not name.startswith("COVERAGE")}
    with subprocess.Popen(command, env=unmeasured, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not any(path.stat().st_size == 100_000 for path in prover.keys.glob(".*.partial")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
    assert OTHER.key_file not in prover.names()
    answer = prover("download", "--circuit", OTHER.name, "--download-url", server.url)
    assert answer.returncode == 0, answer.stderr
    assert server.ranges == ["bytes=100000-"]
    assert (prover.keys / OTHER.key_file).read_bytes() == server.files[OTHER.key_file]


def test_download__interrupted_by_a_signal__exits_as_shells_expect(
    prover: Prover, server: KeyServer, environment: dict[str, str]
) -> None:
    server.faults[OTHER.key_file] = [silent(100_000)]
    command = [str(PROVER), "download", "--circuit", OTHER.name, "--keys-dir", str(prover.keys)]
    with subprocess.Popen([*command, "--download-url", server.url], env=environment) as process:
        deadline = time.monotonic() + 60
        while not server.gets[OTHER.key_file]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


def test_download__with_a_few_faults__succeeds(prover: Prover, server: KeyServer) -> None:
    server.faults[SMALL.key_file] = [truncated(5000), status(500)]
    answer = prover("download", "--circuit", SMALL.name, "--download-url", server.url)
    assert answer.returncode == 0, answer.stderr
    events = [json.loads(line) for line in answer.stderr.splitlines()]
    assert [event["event"] for event in events].count("download_interrupted") == 2
    assert events[-1]["event"] == "key_downloaded"


def verify(prover: Prover, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    answer = prover("keys", "verify", "--output", "json", *words)
    return answer.returncode, {key["file"]: key for key in json.loads(answer.stdout)["keys"]}


@pytest.fixture
def installed(prover: Prover, reference_keys_dir: Path) -> Prover:
    """A folder with two published keys and nothing that lists them."""
    prover.keys.mkdir()
    for wanted in (SMALL, OTHER):
        shutil.copy(reference_keys_dir / wanted.earlier_key_file, prover.keys / wanted.key_file)
    return prover


def test_verify__of_unlisted_keys__checks_their_structure(installed: Prover) -> None:
    code, keys = verify(installed)
    assert code == 0
    assert {key["verdict"] for key in keys.values()} == {"unlisted"}
    (installed.keys / SMALL.key_file).write_bytes(b"no key")
    (installed.keys / OTHER.key_file).rename(installed.keys / "v2_inclusion_32_2.key")
    code, keys = verify(installed)
    assert code == 1
    assert keys[SMALL.key_file]["verdict"] == "unusable"
    assert "holds v2_inclusion_32_1; rename it" in keys["v2_inclusion_32_2.key"]["detail"]


def test_verify__with_an_entry_that_is_no_file__reports_it_and_checks_the_others(installed: Prover) -> None:
    broken = installed.keys / "v1_inclusion_26_2.key"
    broken.symlink_to("absent")
    code, keys = verify(installed)
    assert code == 1
    assert {name: key["verdict"] for name, key in keys.items()} == {
        SMALL.key_file: "unlisted",
        OTHER.key_file: "unlisted",
        broken.name: "unusable",
    }
    assert keys[broken.name]["detail"].startswith("it is a link to a missing file; remove it, or replace")


def verdict(folder: Path) -> Verdict:
    (report,) = verify_selection(folder, CircuitSelection.everything(), None)
    return report.verdict


def test_verify__of_a_published_key_that_no_list_names__knows_its_digest(
    tmp_path: Path, reference_keys_dir: Path
) -> None:
    path = tmp_path / SMALL.earlier_key_file
    shutil.copy(reference_keys_dir / path.name, path)
    assert verdict(tmp_path) is Verdict.GOOD
    data = bytearray(path.read_bytes())
    data[1000] ^= 1  # another valid point
    path.write_bytes(data)
    assert verdict(tmp_path) is Verdict.WRONG_CHECKSUM
    # What an operator says of a file counts before that.
    (tmp_path / "CHECKSUM").write_text(f"{hashlib.sha256(data).hexdigest()}  {path.name}\n")
    assert verdict(tmp_path) is Verdict.GOOD


def test_verify__of_a_folder_without_keys__is_no_success(prover: Prover) -> None:
    for fault in (f"{prover.keys} does not exist", f"no proving keys in {prover.keys}"):
        answer = prover("keys", "verify")
        assert answer.returncode == 78
        assert answer.stderr.startswith(f"error: --keys-dir: {fault}; ")
        assert "`prover download`" in answer.stderr
        prover.keys.mkdir(exist_ok=True)


def test_verify__against_lists__reports_wrong_sizes_digests_and_missing_keys(installed: Prover, tmp_path: Path) -> None:
    data = (installed.keys / SMALL.key_file).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    (installed.keys / "CHECKSUM").write_text(f"{digest}  {SMALL.key_file}\n{'1' * 64}  {OTHER.key_file}\n")
    code, keys = verify(installed, "--circuit", f"{BOTH},v2_inclusion_32_3")
    assert code == 1
    assert keys[SMALL.key_file]["verdict"] == "good"
    assert keys[OTHER.key_file]["verdict"] == "wrong checksum"
    assert keys["v2_inclusion_32_3.key"]["detail"].startswith("proving key file not found: v2_inclusion_32_3.key; run")
    manifest = tmp_path / "pins.json"
    manifest.write_text(json.dumps({"keys": [{"name": SMALL.key_file, "size": 7, "sha256": digest}]}))
    code, keys = verify(installed, "--manifest", str(manifest), "--circuit", SMALL.name)
    assert code == 1
    assert keys[SMALL.key_file]["verdict"] == "wrong size"
    assert keys[SMALL.key_file]["detail"] == f"it has {len(data)} bytes, expected 7"


def test_verify__deep_of_a_key_with_another_point__finds_the_wrong_proof(installed: Prover) -> None:
    """Byte 1000 is inside a point; changed, it is another valid point, which only a proof detects."""
    path = installed.keys / SMALL.key_file
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    code, keys = verify(installed, "--circuit", SMALL.name)
    assert (code, keys[SMALL.key_file]["verdict"]) == (0, "unlisted")
    code, keys = verify(installed, "--circuit", SMALL.name, "--deep")
    assert (code, keys[SMALL.key_file]["verdict"]) == (1, "wrong proof")


def test_download__to_verify_only__downloads_nothing(installed: Prover) -> None:
    words = ("download", "--verify-only", "--circuit", f"{SMALL.name},v2_inclusion_32_4")
    answer = installed(*words, "--download-url", "http://127.0.0.1:1/nowhere")
    assert answer.returncode == 1
    assert "proving key file not found: v2_inclusion_32_4.key" in answer.stdout
    assert "1 of 2 keys are usable" in answer.stdout


def test_list__of_everything__knows_the_catalogue_and_what_is_here(installed: Prover) -> None:
    answer = installed("keys", "list", "--output", "json")
    assert answer.returncode == 0, answer.stderr
    keys = {key["circuit"]: key for key in json.loads(answer.stdout)["keys"]}
    assert len(keys) == 89
    assert {name for name, key in keys.items() if key["file"]} == {SMALL.name, OTHER.name}
    assert keys["batch_update_32_500"]["run_modes"] == ["forester", "full", "full-test"]
    wider = installed("keys", "list", "--output", "json", "--run-mode", "forester", "--set", "reference")
    assert len(json.loads(wider.stdout)["keys"]) == 62
    assert installed("keys", "list", "--run-mode", "forester").stdout.endswith(
        f"0 of 3 keys are installed in {installed.keys}\n"
    )


def test_list__of_a_missing_folder__says_that_it_is_missing(prover: Prover) -> None:
    assert prover("keys", "list").stdout.endswith(
        f"0 of 89 keys are installed in {prover.keys}, which is not a directory\n"
    )


def check(prover: Prover, *words: str) -> tuple[int, dict[str, dict[str, str]]]:
    addresses = ("--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
    answer = prover("check", "--output", "json", *addresses, *words)
    found = json.loads(answer.stdout)
    assert found["ok"] is (answer.returncode == 0)
    return answer.returncode, {entry["name"]: entry for entry in found["checks"]}


def test_check__of_usable_keys__has_no_failure(installed: Prover) -> None:
    code, found = check(installed)
    assert code == 0, found
    assert found["keys"]["detail"] == "2 of 2 are installed"
    assert found["memory for keys"]["status"] == "ok"


def test_check__with_a_missing_key__fails_with_a_hint(installed: Prover) -> None:
    code, found = check(installed, "--circuit", f"{SMALL.name},v2_inclusion_32_4")
    assert code == 1
    assert "proving key file not found: v2_inclusion_32_4.key" in found["keys"]["detail"]
    assert "prover download" in found["keys"]["hint"]
    assert check(installed, "--circuit", "v2_inclusion_32_4", "--auto-download")[0] == 0


def test_check__with_words_that_make_no_sense__exits_as_documented(installed: Prover) -> None:
    assert installed("check", "--run-mode", "all").returncode == 2
    answer = installed("check", "--prover-address", "nowhere")
    assert answer.returncode == 2
    assert "--prover-address" in answer.stderr
    text = installed("check", "--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
    assert text.stdout.splitlines()[-1].startswith("0 failures, ")
