"""``prover inspect``: the description of a key file."""

import hashlib
import json
from pathlib import Path
from typing import Any

import click

from prover.cli.options.files import EXISTING_FILE, output_option, threads_option
from prover.cli.verifying_key import is_proving_key
from prover.cli.work import load_key, run_cancellable
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.files.key_description import describe
from prover.keys.files.provenance import record_of
from prover.keys.files.verifying_keys import load_verifying_key
from prover.keys.setup.trusted_setup import INSECURE
from shared.process.command_line import Command

_WARNINGS = {
    True: "INSECURE: made from a seed; anyone who knows the seed can forge proofs",
    False: "for development only: the maker of this key could forge proofs",
}


@click.command(
    cls=Command,
    examples=(
        "prover inspect v2_inclusion_32_1.key",
        "prover inspect --output json v2_inclusion_32_1.key | jq -r .verifying_key_sha256",
    ),
)
@click.argument("file", type=EXISTING_FILE)
@output_option
@threads_option
def inspect(file: Path, output: str, threads: int) -> None:
    """Describe a proving or verifying key FILE after checking every byte of it.

    The content decides what the file is, not its name. The digest is the SHA-256 of the verifying key as export-vk
    writes it. Keys that `prover setup` or `prover keys dev` made are marked as development keys.
    """

    def work(cancel: CancelFlag) -> dict[str, Any]:
        with Engine(threads) as engine:
            if not is_proving_key(file):
                return _verifying_key_facts(engine, file)
            with load_key(engine, file, cancel) as key:
                return {"file": "proving key", **describe(key).as_json(), **_origin(file)}

    facts = run_cancellable(work)
    if output == "json":
        click.echo(json.dumps(facts, indent=2))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        click.echo(f"{name.replace('_', ' '):<{width}}  {_shown(value)}")


def _origin(path: Path) -> dict[str, Any]:
    """Return the known facts on who could forge proofs; None for a file without a record."""
    record = record_of(path)
    seeded = INSECURE in path.name or (record is not None and record.seeded)
    return {
        "development": True if seeded else record.development if record else None,
        "seeded": True if seeded else record.seeded if record else None,
        "warning": _WARNINGS[seeded] if seeded or (record is not None and record.development) else None,
    }


def _verifying_key_facts(engine: Engine, path: Path) -> dict[str, Any]:
    with load_verifying_key(engine, path) as key:
        return {
            "file": "verifying key",
            "public_inputs": key.public_inputs,
            "verifying_key_sha256": hashlib.sha256(key.write()).hexdigest(),
        }


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "-" if value is None else str(value)
