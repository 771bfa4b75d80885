"""Fixtures that bring the reference's artefacts and Redis, and the promise that a gate never skips them.

A test that asks for one of the `reference_*` fixtures fetches what it needs on first use (see
prover/scripts/reference/reference_fixtures.py); one that asks for a `redis_*` fixture needs redis-server. When that is
impossible the test is skipped with the reason, except under ZKC_REQUIRE_REFERENCE=1, where it fails.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import py_ecc  # noqa: F401 - see the next statement
import pytest
import redis_server
import reference_batch_keys
import reference_fixtures
from certificates import Certificates
from hypothesis import HealthCheck, settings
from kernel_library import BACKENDS
from redis_server import RedisServer, StartRedis, running_redis
from sampling import CHECKED, left_out
from skipping import skip_or_fail

from prover.cli.commands import start as start_command
from prover.settings import Settings

# Importing py_ecc raises the recursion limit of the process to 100000, deep enough for C code under test to run off
# its stack before Python stops it. Its own pairing needs fewer than 5000 frames.
sys.setrecursionlimit(5000)

# An example of a property may take as long as a loaded machine needs.
settings.register_profile(
    "patient", parent=settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

PROVER = Path(__file__).resolve().parent.parent
REFERENCE_REQUIRED = os.environ.get("ZKC_REQUIRE_REFERENCE") == "1"
unavailable: list[str] = []


def obtain(fetch: Callable[[], Path]) -> Path:
    """Return the path that `fetch` gives; skips, or fails where the reference is required."""
    if not unavailable:  # one failed download is enough for a run
        try:
            return fetch()
        except reference_fixtures.ReferenceUnavailable as error:
            unavailable.append(f"reference artefacts unavailable: {error}")
    return skip_or_fail(unavailable[0])


@pytest.fixture(scope="session")
def reference_keys_dir() -> Path:
    """Folder with the 18 published proving keys, usable as --keys-dir."""
    return obtain(reference_fixtures.proving_keys_dir)


@pytest.fixture(scope="session")
def reference_prover() -> Path:
    """The reference prover of version 0.27.0, executable here."""
    return obtain(reference_fixtures.prover_binary)


@pytest.fixture(scope="session")
def reference_programs_dir() -> Path:
    """Folder with the on-chain programs of version 0.27.0."""
    return obtain(lambda: reference_fixtures.fetch(reference_fixtures.KEYS_VERSION)) / "programs"


@pytest.fixture(scope="session")
def reference_accounts_dir() -> Path:
    """Folder with the account fixtures of version 0.27.0."""
    return obtain(lambda: reference_fixtures.fetch(reference_fixtures.KEYS_VERSION)) / "accounts"


@pytest.fixture(scope="session")
def reference_batch_keys_dir() -> Path:
    """Folder with the size-10 batch keys in the reference's form and names (minutes the first time).

    They are the reference's own with ZKC_FULL=1 or where `make reference-batch-keys` made them.
    """
    return obtain(reference_batch_keys.tested_keys_dir)


@pytest.fixture(scope="session")
def reference_small_batch_key() -> Path:
    """The reference's key for batches of two, next to its text verifying key."""
    return obtain(reference_batch_keys.small_key)


@pytest.fixture(scope="session")
def redis_needed() -> None:
    """Redis can be started here."""
    reason = redis_server.missing()
    if reason:
        skip_or_fail(reason)


@pytest.fixture(scope="session")
def redis_shared(redis_needed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The server of all tests that do not harm it."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_database(redis_shared: RedisServer) -> RedisServer:
    """An empty server, for tests that leave it running and configured as it is."""
    redis_shared.flush()
    return redis_shared


@pytest.fixture
def redis_start(redis_needed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartRedis]:
    """Starts servers for this test alone, to kill, pause or configure: see RedisServer for what it takes."""
    with contextlib.ExitStack() as servers:

        def start(*options: str, **settings: Any) -> RedisServer:
            folder = tmp_path_factory.mktemp("redis")
            return servers.enter_context(running_redis(folder, *options, **settings))

        yield start


@pytest.fixture(scope="session")
def redis_certificates(redis_needed: None, tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for servers with TLS."""
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def testing_library() -> Path:
    """libgroth16_testing.so: the kernel with its test hooks; $PROVER_TESTING_LIBRARY chooses another build."""
    path = Path(os.environ.get("PROVER_TESTING_LIBRARY") or PROVER / "build/dev/libgroth16_testing.so")
    if not path.exists():
        pytest.fail(f"{path} does not exist; `make native-tests` builds it", pytrace=False)
    return path


@pytest.fixture(scope="session")
def cuda_host_library() -> Path:
    """libgroth16_cuda_host.so: the CUDA library with a GPU in software, slow and bit-exact."""
    path = PROVER / "build/dev/libgroth16_cuda_host.so"
    if not path.exists():
        pytest.fail(f"{path} does not exist; `make native-tests` builds it", pytrace=False)
    return path


@pytest.fixture(scope="session")
def cuda_library(request: pytest.FixtureRequest) -> Path:
    """The library of $PROVER_TESTING_CUDA_LIBRARY, which may be the one for GPUs; else the one that is software."""
    named = os.environ.get("PROVER_TESTING_CUDA_LIBRARY")
    path: Path = Path(named) if named else request.getfixturevalue("cuda_host_library")
    return path


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names no setting of the prover."""
    for name in list(os.environ):
        if name.startswith("PROVER_") or name in ("REDIS_URL", "QUEUE_MODE", "SERVER_MODE"):
            monkeypatch.delenv(name)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Settings of the servers that `prover start` would have started in this process."""
    settings: list[Settings] = []

    async def run(given: Settings) -> int:
        settings.append(given)
        return 0

    monkeypatch.setattr(start_command, "run_server", run)
    monkeypatch.setattr(start_command, "configure_logs", lambda **_: None)
    return settings


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only the tests of the test library when $PROVER_TESTING_LIBRARY names another build of it, and samples."""
    if CHECKED:
        keep(config, items, [item for item in items if uses_the_library(item) and not shown_by_another(item)])
    dropped = left_out(items, config.getoption("randomly_seed", None))
    keep(config, items, [item for item in items if item not in dropped])


def keep(config: pytest.Config, items: list[pytest.Item], kept: list[pytest.Item]) -> None:
    """Deselect all other tests."""
    config.hook.pytest_deselected(items=list(set(items) - set(kept)))
    items[:] = kept


def uses_the_library(item: pytest.Item) -> bool:
    """Return whether a test is one of the test library."""
    return "testing_library" in getattr(item, "fixturenames", ())


def shown_by_another(item: pytest.Item) -> bool:
    """Return whether a test covers a backend whose code the AVX-512 backend shares, and which runs here.

    All scalar code of the one with ADX; of the one with AVX2 all but the vectors, which sums and transforms show.
    """
    parameters = getattr(item, "callspec", None)
    names = [value for value in parameters.params.values() if isinstance(value, str)] if parameters else []
    shows_vectors = item.path.stem in VECTOR_TESTS
    return "avx512" in BACKENDS and ("adx" in names or ("avx2" in names and not shows_vectors))


VECTOR_TESTS = {"test_lanes", "test_msm", "test_ntt"}
NEEDS_REFERENCE = ("needs_reference", True)
PREFIXES = ("reference_", "redis_")
OTHER_PROCESSOR = "does not run on this CPU"
"""What tests of a backend say when they are skipped."""
skipped: list[str] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Mark the reports of tests that use the reference or Redis; processes exchange the mark."""
    report = yield
    if any(name.startswith(PREFIXES) for name in getattr(item, "fixturenames", ())):
        report.user_properties.append(NEEDS_REFERENCE)
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember the marked tests that were skipped, unless for lack of CPU instructions."""
    marked = any(tuple(entry) == NEEDS_REFERENCE for entry in report.user_properties)
    if report.skipped and marked and not hasattr(report, "wasxfail") and OTHER_PROCESSOR not in str(report.longrepr):
        skipped.append(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Turn a run that skipped a reference test into a failed one if the reference is required."""
    if REFERENCE_REQUIRED and skipped:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            for nodeid in skipped:
                reporter.write_line(f"skipped although the reference is required: {nodeid}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
