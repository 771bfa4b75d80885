"""Measurements and soaks of both services. Run them on an otherwise idle machine; COMMAND --help lists the options."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

WORKSPACE = Path(__file__).resolve().parents[2]
COMMANDS = {
    "compare": ("prover", "compare", "latency, throughput, start, memory and setup, alternately with the reference"),
    "service": ("prover", "service_load", "throughput and latency of 1 to 8 clients, alternately with the reference"),
    "load": ("prover", "key_load", "loading of keys, from source and prepared, alternately with the reference"),
    "kernel": ("prover", "kernel", "products, additions, multi-scalar multiplications and transforms on one thread"),
    "circuits": ("prover", "circuits", "each circuit alone: witness, latency by threads, throughput, loading, memory"),
    "backends": ("prover", "backends", "one proof on one thread by each backend of the kernel"),
    "growth": ("prover", "growth", "time and memory of a proof by batch size and CPUs"),
    "queue": ("prover", "queue_load", "submissions and polls of the job queue with thousands of waiting jobs"),
    "soak-http": ("prover", "soak_http", "memory under thousands of good, bad, abandoned and broken requests"),
    "soak-hostile": ("prover", "soak_hostile", "honest clients and probes while hostile clients are connected"),
    "soak-queue": ("prover", "soak_queue", "jobs through a queue whose processes and connections fail"),
    "forester-scale": ("forester", "scale", "planning and staging at 10^8 leaves, RPC calls per light slot"),
    "forester-shared": (
        "forester",
        "three_foresters",
        "foresters that share a localnet under traffic, kills and faults",
    ),
    "forester-faults": ("forester", "fault_runs", "one fault after another in the services of a forester"),
    "forester-lies": ("forester", "lying_node", "cost of a node that lies about fees, rent, expiry and heights"),
    "forester-day": ("forester", "long_run", "24 simulated hours of a forester: memory, threads, files, journal"),
}
"""Service, module of its bench folder, and summary. A module has ``add_options(parser)`` and ``main(options)``."""


def main() -> int:
    """Run the command that the command line names; return its exit status."""
    summaries = "\n".join(f"  {name:16} {summary}" for name, (*_, summary) in COMMANDS.items())
    front = argparse.ArgumentParser(
        description=__doc__, epilog=f"commands:\n{summaries}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    front.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of those below")
    front.add_argument("options", nargs=argparse.REMAINDER, metavar="...", help="options of the command")
    chosen = front.parse_args()
    service, module, _ = COMMANDS[chosen.command]
    sys.path[1:1] = [str(WORKSPACE / service / folder) for folder in ("bench", "scripts", "tests/support")]
    command: Any = importlib.import_module(module)
    parser = argparse.ArgumentParser(
        prog=f"{front.prog} {chosen.command}",
        description=command.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_options(parser)
    status: int = command.main(parser.parse_args(chosen.options))
    return status


if __name__ == "__main__":
    sys.exit(main())
