"""Commands of several subjects, each a module with ``add_options(parser)``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from types import ModuleType


def add_subjects(parser: argparse.ArgumentParser, modules: Mapping[str, ModuleType]) -> list[argparse.ArgumentParser]:
    """Add a subcommand for each module, with its options and its docstring as the help; return their parsers."""
    subjects = parser.add_subparsers(dest="subject", metavar="SUBJECT", required=True)
    parsers = []
    for name, module in modules.items():
        text = module.__doc__ or ""
        summary = text.splitlines()[0]
        own = subjects.add_parser(
            name, help=summary, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_options(own)
        parsers.append(own)
    return parsers
