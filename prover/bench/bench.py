"""Measurements of the prover. Run them on an otherwise idle machine; COMMAND --help has the options of each."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

PROVER_ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "compare": ("compare", "latency, throughput, start, memory and setup, alternately with the reference"),
    "service": ("service_load", "throughput and latency of 1 to 8 clients, alternately with the reference"),
    "load": ("key_load", "loading of keys, from their source and prepared, alternately with the reference"),
    "kernel": ("kernel", "products, additions, multi-scalar multiplications and transforms on one thread"),
    "circuits": ("circuits", "each circuit alone: witness, latency by threads, throughput, loading, memory"),
    "backends": ("backends", "one proof on one thread by each backend of the kernel"),
    "growth": ("growth", "time and memory of a proof by batch size and CPUs"),
    "queue": ("queue_load", "submissions and polls of the job queue with thousands of waiting jobs"),
    "soak-http": ("soak_http", "memory under thousands of good, bad, abandoned and broken requests"),
    "soak-hostile": ("soak_hostile", "honest clients and probes while hostile clients are connected"),
    "soak-queue": ("soak_queue", "jobs through a queue whose processes and connections fail"),
}
"""Module and summary of each command. A module has ``add_options(parser)`` and ``run(options)``, an exit status."""


def main() -> int:
    """Run the command that the command line names."""
    summaries = "\n".join(f"  {name:13} {summary}" for name, (_, summary) in COMMANDS.items())
    front = argparse.ArgumentParser(
        description=__doc__, epilog=f"commands:\n{summaries}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    front.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of those below")
    front.add_argument("options", nargs=argparse.REMAINDER, metavar="...", help="options of the command")
    chosen = front.parse_args()
    sys.path[1:1] = [str(PROVER_ROOT / "scripts"), str(PROVER_ROOT / "tests")]
    command: Any = importlib.import_module(COMMANDS[chosen.command][0])
    parser = argparse.ArgumentParser(
        prog=f"{front.prog} {chosen.command}",
        description=command.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_options(parser)
    status: int = command.run(parser.parse_args(chosen.options))
    return status


if __name__ == "__main__":
    sys.exit(main())
