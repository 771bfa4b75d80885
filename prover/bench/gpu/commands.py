"""Steps of prover/bench/gpu.sh: keys and inputs, a server on a GPU, and another program next to ours."""

from __future__ import annotations

import argparse

from gpu import keys, peer, service
from subjects import add_subjects

SUBJECTS = {"keys": keys, "service": service, "peer": peer}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the steps and their options."""
    add_subjects(parser, SUBJECTS)


def main(options: argparse.Namespace) -> int:
    """Run a step; return its exit status."""
    status: int = SUBJECTS[options.subject].run(options)
    return status
