"""Imports that a server without a queue omits at its start, to start sooner and be smaller."""

import os
import subprocess
import sys

LEFT_OUT = (
    "numpy",
    "pydantic",
    "redis",
    "arq",
    "rich",
    "prover.keys.download.download",
    "prover.http.description.openapi",
    "prover.circuits.catalogue",
    "prover.proving.gpu.selection",
    "importlib.metadata",
    "importlib.resources",
)
MAX_MODULES = 530
"""Of the 520 that are imported, 114 are of the prover, 22 shared with the forester, and 54 of aiohttp."""


def run(code: str) -> list[str]:
    """Import the command as its users do, then run ``code``; the words that it prints."""
    start = "import os, sys; from prover.cli.main import cli; cli.get_command(None, 'start'); "
    environment = os.environ | {"SSL_CERT_FILE": "/given"}
    answer = subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, env=environment)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.split()


def test_standalone_server__imported__leaves_out_what_only_others_need() -> None:
    assert run(f"print(*(name for name in {LEFT_OUT!r} if name in sys.modules))") == []


def test_standalone_server__imported__has_no_more_modules_than_it_had() -> None:
    (modules,) = run("print(len(sys.modules))")
    assert int(modules) <= MAX_MODULES


def test_standalone_server__imported__has_defined_no_dataclass() -> None:
    """A frozen dataclass takes half a millisecond to define, a structure of msgspec a hundredth."""
    ours = "[module for name, module in sys.modules.items() if name.partition('.')[0] in ('prover', 'shared')]"
    assert run(f"print(*(n for m in {ours} for n, v in vars(m).items() if hasattr(v, '__dataclass_fields__')))") == []


def test_command__imported__has_read_no_certificates_and_kept_what_it_made_from_the_collector() -> None:
    asked = "import gc; from aiohttp import connector; print(gc.get_freeze_count() > 10_000, "
    assert run(asked + "connector._SSL_CONTEXT_VERIFIED.get_ca_certs())") == ["True", "[]"]


def test_command__imported__leaves_collector_and_variable_as_they_were() -> None:
    assert run("import gc; print(gc.isenabled(), os.environ['SSL_CERT_FILE'])") == ["True", "/given"]
