"""Measurements of a forester: load, faults, lies, kills, a day.

All but `scale` run whole `forester start` processes on a local network with the published programs, judge bounds, and
end with status 1 if one is missed. SUBJECT --help lists the bounds and the options of a subject.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import bootstrap
import compressible_run
import fault_runs
import long_run
import lying_node
import scale
import structlog
import three_foresters
from bench_report import Report
from subjects import add_subjects

SUBJECTS = {
    "scale": scale,
    "bootstrap": bootstrap,
    "shared": three_foresters,
    "faults": fault_runs,
    "lies": lying_node,
    "day": long_run,
    "compressible": compressible_run,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the subjects and their options."""
    for subject in add_subjects(parser, SUBJECTS):
        subject.add_argument("--logs", type=Path, help="folder that keeps logs and journals (default: a temporary one)")
        subject.add_argument("--json", action="store_true", help="print one JSON object, no tables")


def main(options: argparse.Namespace) -> int:
    """Run a subject; return 0 if every bound was kept."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # standard output is the report
    with tempfile.TemporaryDirectory(prefix="forester-") as temporary:
        folder: Path = options.logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        report: Report = asyncio.run(SUBJECTS[options.subject].run(options, folder.resolve()))
    report.write(as_json=options.json)
    return 0 if report.passed else 1
