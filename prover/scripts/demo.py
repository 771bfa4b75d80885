"""Proofs end to end: published proving keys, recorded requests, proofs that a verifier accepts.

Fetches the published keys, proves and verifies on the command line, starts the service on free ports, proves over
HTTP, verifies those answers too, and shows that a wrong public input is refused. Exit status 0 only when every proof
was verified.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import reference_fixtures
from bench_report import Report
from prover_server import OURS, ask, running

REQUESTS = Path(__file__).resolve().parents[1] / "tests" / "vectors" / "prover"
EXAMPLES = {
    "inclusion, height 32, 1 account": ("v2_inclusion_32_1.json", "inclusion_32_1.key"),
    "non-inclusion, height 40, 1 address": ("v2_non-inclusion_40_1.json", "non-inclusion_40_1.key"),
    "combined, heights 32/40, 1 and 1": ("v2_combined_32_40_1_1.json", "combined_32_40_1_1.key"),
}
"""Request and published key by title."""


class DemoFailed(Exception):
    """A step did not do what it must; the message says which."""


def run_prover(*arguments: str, stdin: bytes, accepted: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[bytes]:
    """Run the `prover` command to its end. Raise DemoFailed for another exit status."""
    answer = subprocess.run([OURS, *arguments], input=stdin, capture_output=True, check=False)
    if answer.returncode not in accepted:
        raise DemoFailed(f"`prover {arguments[0]}` ended with {answer.returncode}: {answer.stderr.decode().strip()}")
    return answer


def require_verified(title: str, key: str, body: bytes, proof: bytes) -> None:
    """Raise DemoFailed unless the proof verifies for its public input and for no other."""
    public_input = str(json.loads(body)["publicInputHash"])
    other = f"0x{int(public_input, 16) ^ 1:064x}"
    for value, status in ((public_input, 0), (other, 1)):
        words = ("verify", "--key", key, "--public-input", value)
        if run_prover(*words, stdin=proof, accepted=(0, 1)).returncode != status:
            raise DemoFailed(f"the proof of {title} was {'accepted for a wrong input' if status else 'rejected'}")


def demo() -> list[dict[str, Any]]:
    """Run all steps; return a row for each verified proof. Raise DemoFailed or ReferenceUnavailable."""
    rows = list[dict[str, Any]]()

    def add(way: str, port: int | None) -> None:
        for title, (request, name) in EXAMPLES.items():
            body, key, started = (REQUESTS / request).read_bytes(), str(keys_dir / name), time.monotonic()
            if port is None:
                proof = run_prover("prove", "--key", key, stdin=body).stdout
            else:
                proof = ask(port, "POST", "/prove", body)
            seconds = time.monotonic() - started
            require_verified(title, key, body, proof)
            rows.append({"way": way, "circuit": title, "ms": round(seconds * 1000)})
            print(f"   verified  {seconds * 1000:7.0f} ms  {title}", file=sys.stderr)

    print("1. Published proving keys (151 MB the first time)", file=sys.stderr)
    keys_dir = reference_fixtures.proving_keys_dir()
    print("2. Command line: prover prove | prover verify", file=sys.stderr)
    add("command line, whole process", None)
    print("3. Service: prover start, POST /prove", file=sys.stderr)
    with running(OURS, keys_dir) as server:
        add("HTTP, first: loads the key", server.port)
        add("HTTP, warm", server.port)
        if b"prover_" not in ask(server.metrics_port, "GET", "/metrics"):
            raise DemoFailed("GET /metrics answered without the prover's metrics")
    return rows


def main() -> int:
    """Run the demo; return 0 if every proof was verified."""
    try:
        rows = demo()
    except (DemoFailed, reference_fixtures.ReferenceUnavailable) as error:
        print(f"\nDemo failed: {error}", file=sys.stderr)
        return 1
    Report({f"{len(rows)} proofs made on published Light Protocol keys, each verified": [*rows]}).write(as_json=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
