"""The images as a container engine runs them, confined as in compose.yaml; `make test-images` builds them before."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from golden_vectors import vector_named

PROVER, FORESTER, CUDA = "zkc-prover", "zkc-forester", "zkc-prover-cuda"
CONFINED = ("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges")
PATIENCE_S = 90


def docker(*words: str, status: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Return the output of the engine's client; ``status`` is its required exit status, None for any."""
    answer = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=PATIENCE_S * 2)
    assert status is None or answer.returncode == status, (
        f"{words}: {answer.returncode}\n{answer.stdout}{answer.stderr}"
    )
    return answer


def run(image: str, *command: str, options: Sequence[str] = (), status: int | None = 0) -> str:
    """Return the output of a container of an image until its end."""
    answer = docker("run", "--rm", *CONFINED, *options, image, *command, status=status)
    return answer.stdout + answer.stderr


@pytest.fixture(params=[PROVER, FORESTER, CUDA])
def image(request: pytest.FixtureRequest) -> str:
    """Each of our images."""
    return built(request.param)


@pytest.fixture
def prover_image() -> str:
    """The image of the prover."""
    return built(PROVER)


@pytest.fixture
def forester_image() -> str:
    """The image of the forester."""
    return built(FORESTER)


@pytest.fixture
def cuda_image() -> str:
    """The image of the prover for GPUs."""
    return built(CUDA)


def built(name: str) -> str:
    """Return an image by its name; skips where it, or an engine, is not."""
    if shutil.which("docker") is None or docker("version", status=None).returncode != 0:
        pytest.skip("no container engine answers here")
    if docker("image", "inspect", name, status=None).returncode != 0:
        pytest.skip(f"{name} is not built here: make {'image-cuda' if name == CUDA else 'images'}")
    return name


class Container:
    """One that runs detached."""

    def __init__(self, identity: str) -> None:
        self.identity = identity

    def state(self) -> dict[str, Any]:
        """Return the engine's description of it."""
        state: dict[str, Any] = json.loads(docker("inspect", "--format={{json .State}}", self.identity).stdout)
        return state

    def log(self) -> str:
        """Return its output."""
        answer = docker("logs", self.identity)
        return answer.stdout + answer.stderr

    def become_healthy(self) -> None:
        """Wait for the image's own health check."""
        deadline = time.monotonic() + PATIENCE_S
        while (state := self.state())["Health"]["Status"] != "healthy":
            assert state["Running"], self.log()
            assert time.monotonic() < deadline, f"{state['Health']}\n{self.log()}"
            time.sleep(0.2)

    def stop(self) -> int:
        """Send SIGTERM and wait; the exit status, 137 for one that did not heed it."""
        docker("stop", "-t", "60", self.identity)
        status: int = self.state()["ExitCode"]
        return status


@contextlib.contextmanager
def detached(image: str, *command: str, options: Sequence[str] = ()) -> Iterator[Container]:
    identity = docker("run", "--detach", *CONFINED, *options, image, *command).stdout.strip()
    try:
        yield Container(identity)
    finally:
        docker("rm", "--force", "--volumes", identity)


def serving(keys_dir: Path) -> tuple[str, ...]:
    """Return options of a prover with keys and a port of this machine."""
    return (f"--volume={keys_dir.resolve()}:/keys:ro", "--publish=127.0.0.1::3001")


def prove(container: Container) -> dict[str, Any]:
    """Return the answer to a request by the published port."""
    address = docker("port", container.identity, "3001/tcp").stdout.split()[0]
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("POST", "/prove", vector_named("prover/v2_inclusion_32_1").body)
        answer: dict[str, Any] = json.load(connection.getresponse())
        return answer


def test_image__inside__has_no_root_no_compiler_and_no_sources(image: str) -> None:
    script = "id -u; which gcc cc g++ clang nvcc cmake; ls -d /workspace /wheels /build; touch /root-is-read-only; true"
    said = run(image, "-c", script, options=["--entrypoint=sh"])
    assert said.splitlines()[0] == "10001"
    assert not [line for line in said.splitlines() if line.startswith("/")]
    assert "Read-only file system" in said


def test_image__fresh_volume__belongs_to_its_user(image: str) -> None:
    [folder] = json.loads(docker("inspect", "--format={{json .Config.Volumes}}", image).stdout)
    run(image, folder + "/file", options=["--entrypoint=touch", f"--volume={folder}"])


def test_prover_image__confined__becomes_healthy_proves_and_drains(prover_image: str, reference_keys_dir: Path) -> None:
    with detached(prover_image, options=serving(reference_keys_dir)) as container:
        container.become_healthy()
        assert set(prove(container)) >= {"ar", "bs", "krs"}
        assert container.stop() == 0, container.log()
        assert "draining" in container.log()


def test_prover_image__stopped_before_it_serves__ends_by_the_signal(prover_image: str) -> None:
    with detached(prover_image) as container:
        started = time.monotonic()
        assert container.stop() in (0, 143), container.log()
        assert time.monotonic() - started < 10


def test_forester_image__version_and_commands__answer(forester_image: str) -> None:
    assert run(forester_image, "--version").startswith("forester ")
    assert "rpc_url" in run(forester_image, status=78)
    unreachable = ["--env=RPC_URL=http://127.0.0.1:1", "--env=PAYER=", "--env=DERIVATION_PUBKEY="]
    assert "127.0.0.1:1" in run(forester_image, "status", options=unreachable, status=69)


def test_cuda_image__without_a_driver__refuses_cuda_and_uses_the_cpu_by_auto(
    cuda_image: str, reference_keys_dir: Path
) -> None:
    if docker("run", "--rm", "--gpus=all", "--entrypoint=true", cuda_image, status=None).returncode == 0:
        pytest.skip("this engine has GPUs")
    said = run(cuda_image, status=78)
    assert "driver" in said
    options = (*serving(reference_keys_dir), "--env=PROVER_DEVICE=auto")
    with detached(cuda_image, options=options) as container:
        container.become_healthy()
        assert set(prove(container)) >= {"ar", "bs", "krs"}
        assert container.stop() == 0, container.log()
