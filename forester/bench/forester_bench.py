"""Measurements and soaks of the forester, on a localnet. COMMAND --help has the options of each."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

FORESTER_ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "scale": ("scale", "planning and staging at 10^8 leaves, RPC calls per light slot"),
    "shared": ("three_foresters", "foresters that share a network under traffic, kills and faults"),
    "faults": ("fault_runs", "one fault after another in the services of a forester"),
    "lies": ("lying_node", "cost of a node that lies about fees, rent, expiry and heights"),
    "day": ("long_run", "24 simulated hours: memory, threads, files, journal"),
}
"""Module and summary of each command. A module has ``add_options(parser)`` and ``main(options)``, an exit status."""


def main() -> int:
    """Run the command that the command line names."""
    summaries = "\n".join(f"  {name:7} {summary}" for name, (_, summary) in COMMANDS.items())
    front = argparse.ArgumentParser(
        description=__doc__, epilog=f"commands:\n{summaries}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    front.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of those below")
    front.add_argument("options", nargs=argparse.REMAINDER, metavar="...", help="options of the command")
    chosen = front.parse_args()
    sys.path.insert(1, str(FORESTER_ROOT / "tests"))
    command: Any = importlib.import_module(COMMANDS[chosen.command][0])
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
