"""Options of ``prover start``: the words of launchers, and what settings they make."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from in_process_service import circuit

from prover.cli.main import cli
from prover.cli.serving.server import digests_of, fetch_of, required_circuits, selection_of
from prover.errors import KeyDownloadFailed, SettingsInvalid
from prover.kernel.cancellation import CancelFlag
from prover.keys.catalogue.selection import CircuitSelection
from prover.keys.files.memory_budget import key_budget_bytes
from prover.settings import KeySettings, Settings, load_settings

pytestmark = pytest.mark.usefixtures("no_variables")


def start(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["start", *words])
    return result.exit_code, result.output


def test_start__as_the_launcher_calls_it__loses_no_option(started: list[Settings]) -> None:
    code, output = start(
        "--keys-dir", "D/", "--auto-download", "true", "--prover-address", "0.0.0.0:3007", "--threads", "3"
    )  # fmt: skip
    assert code == 0, output
    assert str(started[0].keys.directory) == "D"
    assert started[0].http.address == "0.0.0.0:3007"
    assert started[0].proving.threads == 3


@pytest.mark.parametrize(
    ("option", "variable"),
    [
        ("--key-memory-gb", "PROVER_KEYS__MEMORY_GIB"),
        ("--cuda-memory-gb", "PROVER_CUDA_MEMORY_GIB"),
        ("--rate-limit", "PROVER_HTTP__RATE_LIMIT_PER_S"),
        ("--drain-delay", "PROVER_HTTP__DRAIN_DELAY_S"),
        ("--drain-deadline", "PROVER_HTTP__DRAIN_DEADLINE_S"),
    ],
)
@pytest.mark.parametrize("value", ["inf", "nan"])
def test_start__with_a_number_that_is_not_finite__exits_2_for_the_option_and_78_for_the_variable(
    option: str, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, output = start(option, value)
    assert code == 2
    assert re.search(f"Error: {option}: expected (finite number|float [<>])", output)
    monkeypatch.setenv(variable, value)
    code, output = start()
    assert code == 78
    assert re.search(f"error: {variable}: expected (finite number|float [<>])", output)


@pytest.mark.parametrize(
    ("option", "variable", "value"),
    [
        ("--threads", "PROVER_PROVING__THREADS", "many"),
        ("--preload-keys", "PROVER_KEYS__PRELOAD", "some"),
        ("--run-mode", "PROVER_KEYS__RUN_MODE", "nothing"),
        ("--circuit", "PROVER_KEYS__CIRCUITS", "squares"),
        ("--device", "PROVER_DEVICE", "quantum"),
        ("--prover-address", "PROVER_HTTP__ADDRESS", "3001"),
    ],
)
def test_start__with_one_mistake__exits_2_for_the_option_and_78_for_the_variable(
    option: str, variable: str, value: str, started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, output = start(option, value)
    assert (code, option in output) == (2, True), output
    monkeypatch.setenv(variable, value)
    code, output = start()
    assert (code, variable in output) == (78, True), output
    assert not started


@pytest.mark.parametrize(
    "words",
    [
        ("--auto-download",),
        ("--auto-download=true",),
        ("--auto-download=false",),
        ("--auto-download", "false"),
        ("--server-only", "true", "--json-logging", "true"),
        ("--server-only", "--auto-download", "true"),
        ("--json-logging=TRUE", "--server-only=1"),
        ("--preload-keys", "none"),
        ("--server-only", "--redis-url", "redis://localhost"),
    ],
)
def test_start__with_words_after_flags__accepts_them(started: list[Settings], words: tuple[str, ...]) -> None:
    code, output = start(*words, "--threads", "5")
    assert code == 0, output
    assert started[0].proving.threads == 5


@pytest.mark.parametrize("word", ["yes", "--nonsense", "true"])
def test_start__with_a_stray_word__is_wrong_usage(started: list[Settings], word: str) -> None:
    code, _ = start("--threads", "1", word)
    assert code == 2
    assert not started


def test_start__with_a_bad_setting__names_it(started: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_PROVING__BATCH_DEADLINE_S", "soon")
    code, output = start()
    assert code == 78
    assert "PROVER_PROVING__BATCH_DEADLINE_S" in output


def test_start__with_every_flag_of_the_reference__takes_them_all(started: list[Settings], tmp_path: Path) -> None:
    code, output = start(
        "--json-logging", "--prover-address", "127.0.0.1:1", "--metrics-address", "127.0.0.1:2",
        "--keys-dir", f"{tmp_path}/", "--circuit", "update,append", "--circuit", "address-append-test",
        "--preload-keys", "forester", "--preload-circuits", "v1_inclusion_26_1", "--preload-circuits", "append",
        "--redis-url", "redis://host:6379", "--server-only", "--auto-download",
        "--download-url", "http://host/keys", "--download-max-retries", "3",
    )  # fmt: skip
    assert code == 0, output
    keys = started[0].keys
    assert keys.directory == tmp_path
    assert keys.circuits == "update,append,address-append-test"
    assert (keys.preload, keys.preload_circuits) == ("forester", "v1_inclusion_26_1,append")
    assert (keys.auto_download, keys.download_url, keys.download_max_retries) == (True, "http://host/keys", 3)
    assert not keys.run_mode


def test_start__without_options__restricts_preloads_and_downloads_nothing(started: list[Settings]) -> None:
    assert start()[0] == 0
    keys = started[0].keys
    assert (keys.run_mode, keys.circuits, keys.preload, keys.preload_circuits) == (None, "", "none", "")
    assert not keys.auto_download
    assert selection_of(keys) == CircuitSelection.everything()
    assert required_circuits(keys, CircuitSelection.everything()) == []


def test_start__with_variables_of_the_reference__heeds_them(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVER_TOTAL_MEMORY_GB", "64")
    monkeypatch.setenv("PROVER_MAX_CONCURRENCY", "5")
    monkeypatch.setenv("REDIS_URL", "redis://host")
    code, output = start("--server-only")
    assert code == 0, output
    settings = started[0]
    assert settings.proving.permits == 5
    assert key_budget_bytes(settings.keys.memory_gib, settings.keys.total_memory_gib) == 32 * 2**30
    assert key_budget_bytes(3, settings.keys.total_memory_gib) == 3 * 2**30


@pytest.mark.parametrize("value", ["0", "-1", "much", "1.5"])
def test_start__with_a_bad_total_of_memory__names_the_variable(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("PROVER_TOTAL_MEMORY_GB", value)
    code, output = start()
    assert code == 78
    assert "PROVER_TOTAL_MEMORY_GB" in output
    assert not started


def test_start__with_our_variables__takes_them_for_the_flags(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"RUN_MODE": "rpc", "CIRCUITS": "update,append", "PRELOAD": "all", "PRELOAD_CIRCUITS": "update-test"}
    for name, value in (variables | {"AUTO_DOWNLOAD": "true", "MEMORY_GIB": "1.5", "KEY_SET": "reference"}).items():
        monkeypatch.setenv(f"PROVER_KEYS__{name}", value)
    code, output = start()
    assert code == 0, output
    keys = started[0].keys
    assert (keys.run_mode, keys.circuits, keys.preload) == ("rpc", "update,append", "all")
    assert (keys.preload_circuits, keys.auto_download, keys.memory_gib) == ("update-test", True, 1.5)
    assert keys.key_set == "reference"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--circuit", "updates"), "unknown circuit 'updates'"),
        (("--run-mode", "all"), "--run-mode"),
        (("--preload-keys", "some"), "--preload-keys"),
        (("--preload-circuits", "v9_inclusion_1_1"), "v9_inclusion_1_1"),
        (("--set", "ours"), "--set"),
        (("--download-max-retries", "0"), "--download-max-retries"),
        (("--manifest", "/nonexistent"), "--manifest"),
    ],
)
def test_start__with_a_wrong_word_about_keys__is_wrong_usage(
    started: list[Settings], words: tuple[str, ...], named: str
) -> None:
    code, output = start(*words)
    assert code == 2
    assert named in output
    assert not started


@pytest.mark.parametrize("by_variable", [True, False])
def test_start__with_a_file_for_the_keys_folder__is_refused_by_name(
    started: list[Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    file = tmp_path / "keys"
    file.write_text("")
    if by_variable:
        monkeypatch.setenv("PROVER_KEYS__DIRECTORY", str(file))
    code, output = start(*(() if by_variable else ("--keys-dir", str(file))))
    assert code == (78 if by_variable else 2)
    assert ("PROVER_KEYS__DIRECTORY" if by_variable else "--keys-dir") in output
    assert "is a file" in output
    assert not started


def test_selection__of_mode_and_circuits__restricts_what_is_proved_and_preloaded() -> None:
    keys = KeySettings(run_mode="forester-test", circuits="v2_inclusion_32_1", preload="full-test")
    selection = selection_of(keys)
    names = ["v2_inclusion_32_1", "batch_address-append_40_10", "batch_append_32_10", "batch_update_32_10"]
    assert [circuit.name for circuit in selection.published()] == names
    assert [circuit.name for circuit in required_circuits(keys, selection)] == names


def test_download_settings__that_cannot_work__are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="--download-url"):
        fetch_of(KeySettings(auto_download=True, download_url="nowhere"))
    with pytest.raises(SettingsInvalid, match=r"absent\.json"):
        digests_of(KeySettings(manifest=tmp_path / "absent.json"))
    assert fetch_of(KeySettings(download_url="nowhere")) is None


def test_fetch__whose_manifest_cannot_be_read_any_more__fails_as_a_download(tmp_path: Path) -> None:
    fetch = fetch_of(KeySettings(directory=tmp_path, auto_download=True, manifest=tmp_path / "absent.json"))
    assert fetch is not None
    wanted = circuit("v2_inclusion_32_1")
    with pytest.raises(KeyDownloadFailed, match=rf"not found: {wanted.key_file}; .*absent\.json cannot be used"):
        fetch([wanted], CancelFlag())


@pytest.mark.parametrize("name", ["circuits", "preload_circuits"])
def test_settings__with_an_unknown_circuit__name_their_variable(name: str) -> None:
    keys = load_settings({"keys": {name: "update,updates"}}).keys
    with pytest.raises(SettingsInvalid, match=f"PROVER_KEYS__{name.upper()}: unknown circuit 'updates'"):
        required_circuits(keys, selection_of(keys))


def test_preload__of_everything__is_the_catalogue_with_the_small_keys_first() -> None:
    required = required_circuits(KeySettings(preload="all"), CircuitSelection.everything())
    assert len(required) == 89
    assert not required[0].kind.is_batch
    assert required[-1].kind.is_batch
    wider = required_circuits(KeySettings(preload="forester", key_set="reference"), CircuitSelection.everything())
    assert len(wider) == 62


def test_arguments__beyond_the_options__are_refused_without_their_text() -> None:
    result = CliRunner().invoke(cli, ["start", "86d081884c7d659a"])
    assert result.exit_code == 2
    assert "unexpected arguments: 1" in result.output
    assert "86d081" not in result.output
