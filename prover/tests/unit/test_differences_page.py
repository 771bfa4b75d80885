"""The page of differences names every command, option, variable, route and metric of the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/differences.md").read_text()
NAMED = set(re.findall(r"`([^`]+)`", PAGE))

OPTIONS = """
--json-logging --prover-address --metrics-address --keys-dir --circuit --preload-keys --preload-circuits --redis-url
--queue-only --server-only --auto-download --download-url --download-max-retries --run-mode --max-retries --verify-only
--output --output-vkey --legacy --pk --vk --vkey-output --r1cs --v1 --keys-file -k --inclusion --non-inclusion --append
--update --address-append --roots --leaves --values --old-sub-tree-hash-chain --new-sub-tree-hash-chain --new-root
--hashchain-hash --tree-height --compressed-accounts
"""
COMMANDS = "start download setup r1cs import-setup export-vk prove verify gen-test-params extract-circuit version"
VARIABLES = "PROVER_API_KEY REDIS_URL QUEUE_MODE SERVER_MODE PROVER_MAX_CONCURRENCY PROVER_TOTAL_MEMORY_GB"
METRICS = """
prover_proof_requests_total prover_proof_generation_duration_seconds prover_proof_generation_errors_total
prover_proof_panics_total prover_queue_wait_time_seconds prover_jobs_processed_total prover_expired_jobs_total
prover_active_jobs prover_circuit_input_size_bytes prover_circuit_proof_size_bytes prover_proof_memory_usage_bytes
prover_proof_peak_memory_bytes prover_system_memory_bytes
"""
ROUTES = ["POST /prove", "GET /prove/status", "GET /health", "POST /queue/add", "GET /queue/stats", "GET /queue/health"]


@pytest.mark.parametrize("names", [OPTIONS, COMMANDS, VARIABLES, METRICS])
def test_page__of_differences__names_all_that_the_reference_has(names: str) -> None:
    assert set(names.split()) - NAMED == set()


def test_page__of_differences__names_all_routes_of_the_reference() -> None:
    assert {*ROUTES, "POST /queue/cleanup", "/metrics"} - NAMED == set()
