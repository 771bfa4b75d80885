"""The whole way from a request to a verified proof over the CUDA library, whose GPU is software; and its failures."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from golden_vectors import vector_named
from in_process_service import Client, Serve, VerifyingKeyOf, open_store, sample, state_of, until
from independent_groth16 import holds
from service_process import environment, running_service

from prover.cli.main import cli
from prover.cli.random_requests import RandomRequests
from prover.http.routes.probes import probes, unmet_conditions
from prover.http.state import ServerState
from prover.kernel.cancellation import CancelFlag
from prover.kernel.device import Device, DeviceKey
from prover.kernel.engine import Engine, LoadedKey
from prover.keys.store.key_store import KeyStore
from prover.proving.devices import Devices
from prover.proving.gpu.devices import GpuDevices
from prover.proving.gpu.gpu import Gpu
from prover.settings import DeviceSettings
from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.proof_wire import encode_request

PROVER = Path(sys.executable).with_name("prover")
SMALL = vector_named("prover/v2_inclusion_32_1")
LITTLE = CircuitId(CircuitKind.INCLUSION, 2, (2,), (1,))
"""A circuit that nobody publishes: a GPU in software takes seconds for those that are."""
NEXT = CircuitId(CircuitKind.INCLUSION, 2, (2,), (2,))
BODIES = [encode_request(RandomRequests(f"gpu {number}").make(LITTLE)) for number in range(4)]
BODY = BODIES[0]
FAULTS, COUNT = "GROTH16_CUDA_HOST_FAULTS", "GROTH16_CUDA_HOST_DEVICES"
TWO_GPUS = {COUNT: "2"}
FAULT_CASES = [
    ("prove=lost@1", "lost", "device_lost"),
    ("prove=out_of_memory@1", "out_of_memory", "device_out_of_memory"),
    ("prove=wrong@1", "wrong_proof", "device_lost"),
    ("key_load=lost@1", "lost", "device_lost"),
    ("key_load=out_of_memory", "out_of_memory", "device_out_of_memory"),
]
FAULT_NAMES = [fault for fault, _, _ in FAULT_CASES]


def on(policy: str, library: Path, **values: Any) -> DeviceSettings:
    return DeviceSettings(device=policy, cuda_library=library, **values)


@pytest.fixture(scope="module")
def little_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a key of the little circuit."""
    folder = tmp_path_factory.mktemp("little")
    make_key(folder / LITTLE.key_file, accounts=1)
    return folder


def make_key(key: Path, *, accounts: int) -> None:
    outputs = ("--output", str(key), "--output-vkey", str(key.with_suffix(".vkey")))
    answer = run("setup", "--circuit", "inclusion", "--inclusion-tree-height", "2",
                 "--inclusion-compressed-accounts", str(accounts), *outputs)  # fmt: skip
    assert answer.returncode == 0, answer.stderr


@pytest.fixture
def little_keys(little_folder: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyStore]:
    """The key store of a server that knows the little circuit."""
    monkeypatch.setattr("prover.http.routes.prove.PUBLISHED_CIRCUITS", frozenset({LITTLE}))
    store = open_store(little_folder, engine)
    yield store
    store.close()


async def prove(client: Client, body: bytes = BODY) -> tuple[int, Any]:
    response = await client.post("/prove", data=body)
    return response.status, await response.json()


def gpus_of(state: ServerState) -> tuple[Gpu, ...]:
    assert isinstance(state.devices, GpuDevices)
    return state.devices.gpus


async def test_request__to_a_prover_with_a_gpu__is_proved_there(
    serve: Serve, published_keys: KeyStore, verifying_key_of: VerifyingKeyOf, cuda_library: Path
) -> None:
    client = await serve(published_keys, device=on("cuda", cuda_library))
    state = state_of(client)
    status, proof = await prove(client, SMALL.body)
    assert status == 200
    assert holds(verifying_key_of(published_keys, SMALL.circuit), proof, SMALL.public_inputs)
    assert sample(state, "prover_device_proofs_total", device="cuda:0") == 1
    assert sample(state, "prover_device_proofs_total", device="cpu") == 0


@pytest.fixture(scope="module")
def next_folder(little_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the keys of two little circuits."""
    folder = tmp_path_factory.mktemp("next")
    (folder / LITTLE.key_file).symlink_to(little_folder / LITTLE.key_file)
    make_key(folder / NEXT.key_file, accounts=2)
    return folder


@pytest.mark.parametrize("policy", ["cuda", "auto"])
async def test_requests__waiting_for_the_copy_of_a_key__leave_threads_for_keys_that_are_on_the_gpu(
    serve: Serve,
    next_folder: Path,
    engine: Engine,
    cuda_host_library: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
) -> None:
    monkeypatch.setattr("prover.http.routes.prove.PUBLISHED_CIRCUITS", frozenset({LITTLE, NEXT}))
    store = open_store(next_folder, engine)
    others = [encode_request(RandomRequests(f"other {number}").make(NEXT)) for number in range(2)]
    little = store.get(LITTLE, CancelFlag())
    may_copy, load_key, copying = threading.Event(), Device.load_key, threading.Event()

    def slow_copy(device: Device, key: LoadedKey, *options: Any) -> DeviceKey:
        if key is little:
            copying.set()
            assert may_copy.wait(60)
        return load_key(device, key, *options)

    monkeypatch.setattr(Device, "load_key", slow_copy)
    proving = {"max_concurrency": 1, "waiting_limit": 3, "merkle_deadline_s": 120}
    client = await serve(store, device=on(policy, cuda_host_library, cuda_batch=1), proving=proving)
    assert (await prove(client, others[0]))[0] == 200, "its key is on the GPU from now on"
    running = state_of(client).proofs_in_progress.running
    asked = [asyncio.create_task(prove(client, body)) for body in BODIES[:3]]
    try:
        await until(lambda: len(running) == 3 and copying.is_set())
        status, problem = await asyncio.wait_for(prove(client, BODIES[3]), 10)
        assert (status, problem["code"], problem["retryable"]) == (503, "key_loading", True)
        assert (await prove(client, others[1]))[0] == 200
    finally:
        may_copy.set()
    assert [status for status, _ in await asyncio.gather(*asked)] == [200] * 3
    assert (await prove(client, BODIES[3]))[0] == 200
    store.close()


async def test_requests__whose_key_does_not_fit_the_gpu__do_not_wait_for_its_copy(
    serve: Serve, little_keys: KeyStore, cuda_host_library: Path
) -> None:
    client = await serve(little_keys, device=on("auto", cuda_host_library, cuda_memory_gib=2**-10))
    assert (await prove(client))[0] == 200
    assert state_of(client).service.is_ready(LITTLE)


@pytest.mark.parametrize("policy", ["cuda", "auto"])
async def test_version__of_a_prover_with_a_gpu__describes_it(
    serve: Serve, little_keys: KeyStore, cuda_host_library: Path, policy: str
) -> None:
    client = await serve(little_keys, device=on(policy, cuda_host_library))
    state = state_of(client)
    assert (await prove(client))[0] == 200
    assert sample(state, "prover_device_keys", device="cuda:0") == 1
    device = (await (await client.get("/version")).json())["device"]
    assert (device["requested"], device["selected"]) == (policy, "cuda")
    (gpu,) = device["gpus"]
    assert (gpu["device"], gpu["model"], gpu["driver"], gpu["keys"]) == ("cuda:0", "GPU in software", "12.0", 1)
    assert 0 < gpu["key_bytes"] < gpu["budget_bytes"] <= gpu["memory_bytes"]
    assert gpu["problem"] is None
    assert sample(state, "prover_device_memory_bytes", device="cuda:0", part="keys") == gpu["key_bytes"]


@pytest.mark.parametrize(("fault", "reason", "_"), FAULT_CASES, ids=FAULT_NAMES)
async def test_fault__under_auto__leads_to_a_proof_of_the_cpu(
    serve: Serve,
    little_keys: KeyStore,
    cuda_host_library: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    reason: str,
    _: str,
) -> None:
    monkeypatch.setenv(FAULTS, fault)
    client = await serve(little_keys, device=on("auto", cuda_host_library))
    state = state_of(client)
    assert (await prove(client))[0] == 200
    assert sample(state, "prover_device_faults_total", device="cuda:0", reason=reason) == 1
    assert sample(state, "prover_device_fallbacks_total", reason=reason) == 1
    assert sample(state, "prover_device_proofs_total", device="cpu") == 1
    assert not unmet_conditions(state)


@pytest.mark.parametrize(("fault", "reason", "code"), FAULT_CASES, ids=FAULT_NAMES)
async def test_fault__under_cuda__is_refused_with_its_code(
    serve: Serve,
    little_keys: KeyStore,
    cuda_host_library: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    reason: str,
    code: str,
) -> None:
    monkeypatch.setenv(FAULTS, fault)
    client = await serve(little_keys, device=on("cuda", cuda_host_library))
    state = state_of(client)
    status, problem = await prove(client)
    assert (status, problem["code"], problem["retryable"]) == (503, code, True)
    assert "503" in problem["message"]
    assert sample(state, "prover_device_faults_total", device="cuda:0", reason=reason) == 1
    assert sample(state, "prover_device_proofs_total", device="cpu") == 0


async def test_gpu__lost__is_reported_and_opened_again(
    serve: Serve, little_keys: KeyStore, cuda_host_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await serve(little_keys, device=on("cuda", cuda_host_library))
    state = state_of(client)
    with monkeypatch.context() as patched:
        patched.setenv(FAULTS, "prove=lost")
        assert (await prove(client))[0] == 503
    assert any("the device failed" in missing for missing in unmet_conditions(state))
    monkeypatch.setattr(gpus_of(state)[0], "_retry_at", 0.0)
    assert (await prove(client))[0] == 200
    assert not unmet_conditions(state)
    assert sample(state, "prover_device_up", device="cuda:0") == 1


async def proved_at_once(client: Client, requests: int) -> list[tuple[int, Any]]:
    """Return answers to requests that all got their GPU before the first is proved; the server has one permit."""
    state = state_of(client)
    with state.admission.permit(CircuitKind.INCLUSION, CancelFlag()):
        asked: list[asyncio.Task[tuple[int, Any]]] = []
        for body in BODIES[:requests]:
            asked.append(asyncio.create_task(prove(client, body)))
            await until(lambda: state.admission.waiting == len(asked))
    return await asyncio.gather(*asked)


async def test_gpus__two_of_three_by_index__divide_keys_and_proofs_and_one_that_is_lost_costs_only_its_own(
    serve: Serve, little_keys: KeyStore, cuda_host_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COUNT, "3")
    two = on("cuda", cuda_host_library, cuda_devices="0,1")
    client = await serve(little_keys, device=two, proving={"max_concurrency": 1, "merkle_deadline_s": 300})
    state = state_of(client)
    assert [status for status, _ in await proved_at_once(client, 4)] == [200] * 4
    for device, proofs, keys in (("cuda:0", 2, 1), ("cuda:1", 2, 1), ("cuda:2", None, None)):
        assert sample(state, "prover_device_proofs_total", device=device) == proofs
        assert sample(state, "prover_device_keys", device=device) == keys
    gpus = (await (await client.get("/version")).json())["device"]["gpus"]
    assert [(gpu["device"], gpu["keys"], gpu["problem"]) for gpu in gpus] == [("cuda:0", 1, None), ("cuda:1", 1, None)]
    with monkeypatch.context() as patched:
        patched.setenv(FAULTS, "1:prove=lost")
        answers = await proved_at_once(client, 2)
        assert sorted(status for status, _ in answers) == [200, 503]
        assert [problem["code"] for status, problem in answers if status == 503] == ["device_lost"]
        assert [status for status, _ in await proved_at_once(client, 3)] == [200] * 3
    assert [sample(state, "prover_device_up", device=gpu) for gpu in ("cuda:0", "cuda:1")] == [1, 0]
    assert sample(state, "prover_device_proofs_total", device="cuda:0") == 6
    assert not unmet_conditions(state)
    monkeypatch.setattr(gpus_of(state)[1], "_retry_at", 0.0)
    assert [status for status, _ in await proved_at_once(client, 2)] == [200] * 2
    assert sample(state, "prover_device_up", device="cuda:1") == 1
    assert sample(state, "prover_device_proofs_total", device="cuda:1") == 3


async def test_probes__while_a_call_never_returns__ask_for_a_restart(
    serve: Serve, little_keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_of(await serve(little_keys))
    assert probes(state)["/livez"]() == (True, "alive")
    monkeypatch.setattr(Devices, "stuck", lambda _: "cuda:0: a call has not returned")
    for probe in ("/livez", "/readyz"):
        holds_now, words = probes(state)[probe]()
        assert not holds_now
        assert "cuda:0: a call has not returned" in words


async def test_gpu__without_memory_for_a_key__is_refused_with_the_numbers(
    serve: Serve, little_keys: KeyStore, cuda_host_library: Path
) -> None:
    little = on("cuda", cuda_host_library, cuda_memory_gib=2**-10)
    status, problem = await prove(await serve(little_keys, device=little))
    assert (status, problem["code"], problem["retryable"]) == (503, "device_out_of_memory", False)
    assert "the budget of cuda:0 is 1.0 MiB" in problem["message"]
    little = on("auto", cuda_host_library, cuda_memory_gib=2**-10)
    client = await serve(little_keys, device=little)
    assert (await prove(client))[0] == 200
    assert sample(state_of(client), "prover_device_fallbacks_total", reason="too_large") == 1


def run(
    *words: str, body: bytes = b"", variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in environment().items() if not name.startswith("COVERAGE")}
    return subprocess.run(
        [str(PROVER), *words], input=body, capture_output=True, env=kept | dict(variables or {}), timeout=300
    )


def test_start__with_a_gpu_that_is_not_there__is_refused_with_the_remedy(
    tmp_path: Path, cuda_host_library: Path
) -> None:
    found = f"there is no GPU 2: GPUs have numbers from 0, and {TWO_GPUS[COUNT]} were found"
    for device, library, more, named in (
        ("cuda", str(tmp_path / "absent.so"), {}, "absent.so (--cuda-library, PROVER_CUDA_LIBRARY)"),
        ("cuda:1", str(cuda_host_library), {}, "there is no GPU 1"),
        ("cuda:2", str(cuda_host_library), TWO_GPUS, f"--device cuda:2 (PROVER_DEVICE): {found}"),
        (
            "cuda",
            str(cuda_host_library),
            {**TWO_GPUS, "PROVER_CUDA_DEVICES": "0,2"},
            f"--cuda-devices 0,2 (PROVER_CUDA_DEVICES): {found}",
        ),
    ):
        variables = {"PROVER_DEVICE": device, "PROVER_CUDA_LIBRARY": library, **more}
        answer = run("start", "--prover-address", "127.0.0.1:0", variables=variables)
        assert answer.returncode == 78, answer.stderr
        assert named in answer.stderr.decode()
        assert "--device" in answer.stderr.decode()


def test_start__left_to_choose_without_a_gpu__says_what_it_chose(
    reference_keys_dir: Path, tmp_path: Path, cuda_host_library: Path
) -> None:
    words = (
        "--keys-dir",
        str(reference_keys_dir),
        "--prover-address",
        "127.0.0.1:0",
        "--metrics-address",
        "127.0.0.1:0",
    )
    variables = {
        "PROVER_DEVICE": "auto",
        "PROVER_CUDA_LIBRARY": str(cuda_host_library),
        "GROTH16_CUDA_HOST_DEVICES": "0",
        "PROVER_KEYS__PREPARE": "false",
    }
    with running_service(tmp_path / "log", *words, "--json-logging", **variables) as service:
        _, metrics = service.ask("GET", "/metrics", port=service.metrics_port)
        device = json.loads(service.ask("GET", "/version")[1])["device"]
    assert (device["requested"], device["selected"], device["gpus"]) == ("auto", "cpu", [])
    assert "lists no GPU" in device["reason"]
    assert b'prover_device_info{cause="no_gpu",requested="auto",selected="cpu"} 1.0' in metrics
    (line,) = [line for line in service.lines() if line["event"] == "device_selected"]
    assert (line["selected"], line["level"]) == ("cpu", "warning")
    assert "lists no GPU" in str(line["reason"])


def test_prove_command__on_a_gpu__writes_a_proof_and_says_where_it_was_made(
    little_folder: Path, cuda_host_library: Path
) -> None:
    words = ("prove", "--key", str(little_folder / LITTLE.key_file), "--cuda-library", str(cuda_host_library))
    answer = run(*words, "--device", "cuda", body=BODY)
    assert answer.returncode == 0, answer.stderr
    assert b"cuda:0" in answer.stderr
    public_input = json.loads(BODY)["publicInputHash"]
    checked = run("verify", "--key", str(little_folder / LITTLE.key_file), "--public-input", public_input,
                  body=answer.stdout)  # fmt: skip
    assert checked.returncode == 0, checked.stderr
    refused = run(*words, "--device", "cuda", body=BODY, variables={FAULTS: "prove=lost"})
    assert (refused.returncode, refused.stdout) == (75, b"")
    assert b"error: " in refused.stderr
    retried = run(*words, "--device", "auto", body=BODY, variables={FAULTS: "prove=wrong"})
    assert retried.returncode == 0, retried.stderr
    assert b"self_verification_failed" in retried.stderr


def test_check_command__says_whether_the_gpu_can_be_used(tmp_path: Path, cuda_host_library: Path) -> None:
    def gpu(*words: str, **variables: str) -> dict[str, str]:
        options = ("--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0", "--output", "json")
        answer = CliRunner().invoke(cli, ["check", "--keys-dir", str(tmp_path), *options, *words], env=variables)
        (found,) = [item for item in json.loads(answer.stdout)["checks"] if item["name"] == "GPU"]
        result: dict[str, str] = found
        return result

    library = {"PROVER_CUDA_LIBRARY": str(cuda_host_library)}
    assert gpu()["status"] == "info"
    usable = gpu("--device", "cuda", **library)
    assert (usable["status"], "cuda:0 is GPU in software" in usable["detail"]) == ("ok", True)
    assert gpu("--device", "auto", GROTH16_CUDA_HOST_DEVICES="0", **library)["status"] == "warning"
    absent = gpu("--device", "cuda", "--cuda-library", str(tmp_path / "absent.so"))
    assert (absent["status"], "absent.so" in absent["detail"]) == ("failure", True)
