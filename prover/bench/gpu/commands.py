"""Steps of prover/bench/gpu.sh: keys and inputs, a server on a GPU, and another program next to ours."""

from __future__ import annotations

import argparse

import gpu_keys
import gpu_peer
import gpu_service
from subjects import add_subjects

SUBJECTS = {"keys": gpu_keys, "service": gpu_service, "peer": gpu_peer}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the steps and their options."""
    add_subjects(parser, SUBJECTS)


def main(options: argparse.Namespace) -> int:
    """Run a step; return its exit status."""
    status: int = SUBJECTS[options.subject].run(options)
    return status
