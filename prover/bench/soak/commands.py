"""Soaks of the prover: faults and hostile clients over time. SUBJECT --help lists the options of each."""

from __future__ import annotations

import argparse

from soak import cluster, fleet, hostile, http, queue
from subjects import add_subjects

SUBJECTS = {
    "http": http,
    "hostile": hostile,
    "queue": queue,
    "cluster": cluster,
    "fleet": fleet,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the subjects and their options."""
    add_subjects(parser, SUBJECTS)


def main(options: argparse.Namespace) -> int:
    """Run a soak and print what it found; return 0 if every bound was kept."""
    report = SUBJECTS[options.subject].run(options)
    report.write(as_json=False)
    return 0 if report.passed else 1
