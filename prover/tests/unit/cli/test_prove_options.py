"""The reference's options of `prove` and `verify`: spellings, key folders, flags that repeat a request."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from golden_vectors import vector_named

from prover.cli.main import cli
from prover.cli.options.files import is_named
from prover.keys.catalogue.circuits import CIRCUIT_GROUPS
from shared.requests.circuit_id import CircuitId, CircuitKind

pytestmark = pytest.mark.usefixtures("no_variables")

MISSING_KEY = 69
WRONG_USAGE = 2


def prove(folder: Path, name: str, *words: str) -> Result:
    """Prove with a folder without keys: 69 and the name of the key file say that everything before agreed."""
    body = vector_named(f"prover/{name}").body
    return CliRunner().invoke(cli, ["prove", "--keys-dir", str(folder), *words], input=body)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("v2_inclusion_32_1", ()),
        ("v2_inclusion_32_1", ("--inclusion",)),
        ("v2_inclusion_32_1", ("--inclusion=true", "--run-mode", "rpc")),
        ("v1_non-inclusion_26_1", ("--inclusion", "--non-inclusion")),
        ("v1_non-inclusion_26_1", ("--inclusion=false", "--non-inclusion")),
        ("v1_combined_26_26_1_1", ("--inclusion", "--non-inclusion", "--circuit", "combined")),
        ("batch_append_32_10", ("--append", "--circuit", "append,append-test")),
        ("batch_append_32_10", ("--circuit", "append-with-proofs-test")),
        ("batch_update_32_10", ("--update", "--circuit", "batch_update_32_10")),
        ("batch_update_32_10", ("--circuit", "inclusion", "--run-mode", "forester-test")),
        ("batch_address-append_40_10", ("--address-append",)),
        ("batch_address-append_40_10", ("--addressAppend",)),
    ],
)
def test_prove__with_options_that_agree__looks_for_the_key_of_the_request(
    tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    answer = prove(tmp_path, name, *words)
    assert answer.exit_code == MISSING_KEY, answer.output
    assert f"proving key file not found: {name}.key" in answer.stderr


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--append",), "--append"),
        (("--non-inclusion", "--update"), "--non-inclusion --update"),
        (("--circuit", "update,v2_inclusion_32_2"), "--circuit update,v2_inclusion_32_2"),
        (("--inclusion", "--circuit", "combined"), "--circuit combined"),
    ],
)
def test_prove__with_options_that_disagree__names_both(tmp_path: Path, words: tuple[str, ...], shown: str) -> None:
    answer = prove(tmp_path, "v2_inclusion_32_1", *words)
    assert answer.exit_code == WRONG_USAGE
    assert f"the request is for v2_inclusion_32_1, which {shown} excludes" in answer.stderr


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--run-mode", "rpc"), "--run-mode rpc"),
        (("--circuit", "append", "--run-mode", "forester"), "--circuit append --run-mode forester"),
    ],
)
def test_prove__with_a_run_mode_of_other_circuits__names_both(
    tmp_path: Path, words: tuple[str, ...], shown: str
) -> None:
    answer = prove(tmp_path, "batch_update_32_10", *words)
    assert answer.exit_code == WRONG_USAGE
    assert f"the request is for batch_update_32_10, which {shown} excludes" in answer.stderr


@pytest.mark.parametrize("both", [True, False])
def test_prove__with_both_or_no_source_of_the_key__is_wrong_usage(tmp_path: Path, both: bool) -> None:
    file = tmp_path / "a.key"
    file.write_bytes(b"")
    answer = CliRunner().invoke(cli, ["prove", *(["-k", str(file), "--keys-dir", str(tmp_path)] if both else [])])
    assert answer.exit_code == WRONG_USAGE
    fault = "two sources of the proving key" if both else "no proving key"
    assert f"Error: {fault}; pass either --key FILE or --keys-dir DIR" in answer.stderr


@pytest.mark.parametrize("command", ["prove", "verify"])
def test_circuit__of_no_such_name__is_wrong_usage(tmp_path: Path, command: str) -> None:
    answer = CliRunner().invoke(cli, [command, "--circuit", "exclusion"])
    assert answer.exit_code == WRONG_USAGE
    assert "unknown circuit 'exclusion'" in answer.stderr


@pytest.mark.parametrize("command", ["prove", "verify", "export-vk"])
@pytest.mark.parametrize("spelling", ["-k", "--keys-file", "--key"])
def test_key__in_every_spelling__is_opened(tmp_path: Path, command: str, spelling: str) -> None:
    file = tmp_path / "a.key"
    file.write_bytes(b"nonsense")
    rest = {"prove": (), "verify": ("--public-input", "1"), "export-vk": ("--output", str(tmp_path / "b"))}[command]
    body = vector_named("prover/v2_inclusion_32_1").body
    answer = CliRunner().invoke(cli, [command, spelling, str(file), *rest], input=body)
    assert answer.exit_code == 65
    assert answer.stderr.startswith("error: ")


def test_is_named__of_a_group__takes_its_published_sizes_and_those_of_nobody() -> None:
    sizes = {10: {"update-test"}, 500: {"update"}, 4: {"update", "update-test"}}
    for size, groups in sizes.items():
        circuit = CircuitId(CircuitKind.BATCH_UPDATE, 2, (32,), (size,))
        assert {name for name in CIRCUIT_GROUPS if is_named(circuit, name)} == groups
        assert is_named(circuit, f"batch_update_32_{size}.key")
