"""One script of requests, played to ``prover start`` and to the reference's binary, each with its own Redis."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance import Outcome, report, run
from conformance_suite.queue import steps
from redis_server import StartRedis
from reference_server import fill_up, reference_server
from rich.console import Console
from service_process import running_service

UPDATE_KEY, STAND_IN = "update_32_10.key", "inclusion_32_1.key"
COUNTS = (1, 2, 3, 4, 8)
WANTED = [f"{stem}_{count}.key" for stem in ("inclusion_32", "mainnet_inclusion_26") for count in COUNTS]
"""What the reference loads for the circuit ``inclusion``; it reads what is in the files."""


@pytest.mark.reference_batch_keys
@pytest.mark.timeout(1800)
def test_flows__next_to_the_reference__differ_where_intended(
    redis_start: StartRedis,
    reference_prover: Path,
    reference_keys_dir: Path,
    reference_batch_keys_dir: Path,
    tmp_path: Path,
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
        (folder / UPDATE_KEY).symlink_to(reference_batch_keys_dir / UPDATE_KEY)
    (ours / STAND_IN).symlink_to(reference_keys_dir / STAND_IN)
    fill_up(theirs, WANTED, reference_keys_dir / STAND_IN)
    addresses = ("--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
    circuits = ("--circuit", "inclusion", "--circuit", "update-test")
    with (
        running_service(
            tmp_path / "ours.log", "--keys-dir", str(ours), *addresses, "--redis-url", redis_start().url
        ) as service,
        reference_server(
            reference_prover, theirs, tmp_path / "theirs.log", *circuits, "--redis-url", redis_start().url
        ) as port,
    ):
        rows = run(f"http://127.0.0.1:{service.api_port}", f"http://127.0.0.1:{port}", steps())
    with (tmp_path / "report").open("w") as out:
        report(rows, Console(file=out, width=200))
    assert {row.outcome for row in rows} <= {Outcome.SAME, Outcome.INTENDED}, (tmp_path / "report").read_text()
    assert len(rows) == 2 * len(steps())
    assert sum(row.outcome is Outcome.SAME for row in rows) > len(rows) / 2
