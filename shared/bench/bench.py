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
    "kernel": ("prover", "kernel", "products, additions, multi-scalar multiplications and transforms on one thread"),
    "circuits": (
        "prover",
        "circuits",
        "each circuit alone: time and memory by CPUs, backend and size; loading of keys",
    ),
    "queue": ("prover", "queue_load", "submissions and polls of the job queue with thousands of waiting jobs"),
    "soak": ("prover", "soak.commands", "requests, hostile clients, a failing queue: SUBJECT --help"),
    "gpu": ("prover", "gpu.commands", "steps of prover/bench/gpu.sh: SUBJECT --help"),
    "forester": ("forester", "forester_subjects", "load, faults, lies, kills and a day of foresters: SUBJECT --help"),
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
    home = WORKSPACE / service
    shared = WORKSPACE / "shared"
    folders = [home / "bench", home / "scripts/reference", *sorted((home / "tests/support").glob("[a-z]*/"))]
    folders += [shared / "scripts", shared / "tests/support", shared / "tests/support/cluster"]
    sys.path[1:1] = map(str, folders)
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
