"""The commands that measure: each has its module and its target in the Makefile."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parents[3]
FRONT = WORKSPACE / "shared" / "bench" / "bench.py"


def commands() -> dict[str, tuple[str, str, str]]:
    """Return service, module and summary of each command."""
    table = next(
        node.value
        for node in ast.parse(FRONT.read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMMANDS"
    )
    found: dict[str, tuple[str, str, str]] = ast.literal_eval(table)
    return found


def test_commands__of_the_makefile_and_the_script_for_gpus__are_all_that_exist() -> None:
    users = (WORKSPACE / "Makefile", WORKSPACE / "prover" / "bench" / "gpu.sh")
    used = [name for user in users for name in re.findall(r"shared/bench/bench\.py (\S+)", user.read_text())]
    assert set(used) == commands().keys()


def test_commands__modules__have_options_and_a_main_function() -> None:
    for name, (service, module, _) in commands().items():
        body = ast.parse((WORKSPACE / service / "bench" / f"{module.replace('.', '/')}.py").read_text()).body
        functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        assert {"add_options", "main"} <= functions, name


def test_front__help__lists_every_command_and_an_unknown_one_is_refused() -> None:
    helped = subprocess.run([sys.executable, FRONT, "--help"], capture_output=True, text=True, check=True)
    assert [name for name in commands() if f"\n  {name} " not in helped.stdout] == []
    refused = subprocess.run([sys.executable, FRONT, "placement"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "placement" in refused.stderr
