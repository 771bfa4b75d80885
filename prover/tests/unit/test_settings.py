"""Settings: order of sources, limits, and variables that mean nothing."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from prover.errors import SettingsInvalid
from prover.settings import Group, Settings, load_settings, settings_of, unknown_variables

pytestmark = pytest.mark.usefixtures("no_variables")


def test_settings__without_sources__have_the_documented_defaults() -> None:
    settings = load_settings()
    assert settings.http.address == "0.0.0.0:3001"
    assert settings.http.metrics_address == "0.0.0.0:9998"
    assert settings.http.body_limit_bytes == 16 * 1024 * 1024
    assert settings.keys.directory == Path("proving-keys")
    assert (settings.proving.merkle_deadline_s, settings.proving.batch_deadline_s) == (10, 60)
    assert settings.proving.permits >= 2


def test_settings__drain_delay__is_for_load_balancers_of_kubernetes_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert load_settings().http.serving_after_stop_s == 0
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert load_settings().http.serving_after_stop_s == 5
    assert load_settings({"http": {"drain_delay_s": 0}}).http.serving_after_stop_s == 0


def test_settings__from_command_line__win_over_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_HTTP__ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("PROVER_PROVING__MAX_CONCURRENCY", "7")
    settings = load_settings({"http": {"address": "127.0.0.1:2"}})
    assert settings.http.address == "127.0.0.1:2"
    assert settings.proving.permits == 7


def test_settings__with_several_faults__lists_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_PROVING__THREADS", "-1")
    monkeypatch.setenv("PROVER_LOG__LEVEL", "loud")
    with pytest.raises(SettingsInvalid) as caught:
        load_settings()
    assert "PROVER_PROVING__THREADS" in caught.value.detail
    assert "PROVER_LOG__LEVEL" in caught.value.detail


def test_settings__memory_for_bodies_below_one_body__is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_HTTP__BODY_MEMORY_BYTES", "2000000")
    with pytest.raises(SettingsInvalid, match="must be at least body_limit_bytes") as caught:
        load_settings()
    assert caught.value.names == ("PROVER_HTTP__BODY_MEMORY_BYTES",)
    monkeypatch.setenv("PROVER_HTTP__BODY_LIMIT_BYTES", "2000000")
    assert load_settings().http.body_memory_bytes == 2_000_000


def fractions(model: type[Group], prefix: str = "PROVER_") -> Iterator[str]:
    """Yield the variable of every setting that takes fractions."""
    for name, field in settings_of(model).items():
        if isinstance(field.default, Group):
            yield from fractions(type(field.default), f"{prefix}{name.upper()}__")
        elif "float" in str(field.type):
            yield f"{prefix}{name.upper()}"


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e999"])
@pytest.mark.parametrize("name", list(fractions(Settings)))
def test_number__that_is_not_finite__is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsInvalid, match=f"{name}: (expected (finite number|float [<>])|Number out of range)"):
        load_settings()


def variables(model: type[Group], prefix: str = "PROVER_") -> Iterator[str]:
    """Yield the variable of every setting."""
    for name, field in settings_of(model).items():
        if isinstance(field.default, Group):
            yield from variables(type(field.default), f"{prefix}{name.upper()}__")
        else:
            yield f"{prefix}{name.upper()}"


def test_variables__that_are_not_utf_8__are_all_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    names = list(variables(Settings))
    for name in names:
        monkeypatch.setenv(name, os.fsdecode(b"\xff:3001"))
    with pytest.raises(SettingsInvalid) as refused:
        load_settings()
    assert set(refused.value.names) == set(names)
    assert "PROVER_HTTP__ADDRESS: is not UTF-8 text; write it again in UTF-8; " in refused.value.detail


def test_option__that_is_not_utf_8__is_refused() -> None:
    with pytest.raises(SettingsInvalid, match="PROVER_HTTP__CORS_ORIGINS: is not UTF-8 text"):
        load_settings({"http": {"cors_origins": ("https://good.example", os.fsdecode(b"\xff"))}})


@pytest.mark.parametrize("address", ["", "3001", "host", "host:", "host:70000", "host:-1", "host:\u0661"])
def test_address__of_no_listener__is_refused(address: str) -> None:
    for name in ("address", "metrics_address"):
        with pytest.raises(SettingsInvalid, match=rf"^PROVER_HTTP__{name.upper()}: .* is not an address; write host"):
            load_settings({"http": {name: address}})


def test_memory__beyond_all_machines__is_refused() -> None:
    with pytest.raises(SettingsInvalid, match=r"PROVER_KEYS__MEMORY_GIB: expected float <= 1073741824.0"):
        load_settings({"keys": {"memory_gib": 1e308}})


@pytest.mark.parametrize("name", ["wait_limit_s", "result_age_s", "lease_s"])
def test_time__longer_than_redis_can_count__is_refused(name: str) -> None:
    with pytest.raises(SettingsInvalid, match=rf"PROVER_QUEUE__{name.upper()}: expected float <= 1000000000.0"):
        load_settings({"queue": {name: 1e30}})


def test_settings__once_made__are_frozen() -> None:
    settings = load_settings()
    with pytest.raises(AttributeError):
        settings.http.address = "x"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        settings.http = settings.http  # type: ignore[misc]


def test_unknown_variable__with_our_prefix__names_the_nearest_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_KEYS_DIRECTORY", "x")
    monkeypatch.setenv("PROVER_KEYS__DIRECTORY", "y")
    monkeypatch.setenv("PROVER_MAX_CONCURRENCY", "3")
    assert load_settings().keys.directory == Path("y")
    assert unknown_variables() == [
        "PROVER_KEYS_DIRECTORY is not a setting of the prover; did you mean PROVER_KEYS__DIRECTORY?"
    ]


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("PROVER_HTTP__API_KEY_FILE", "did you mean PROVER_HTTP__API_KEYS_FILE?"),
        ("prover_keys__directry", "did you mean PROVER_KEYS__DIRECTORY?"),
        ("PROVER_HTTP__COLOUR", "is not a setting of the prover; correct or remove it"),
        ("PROVER_QUEUE__SLOTS__UPDATE", "is not a setting of the prover"),
        ("PROVER_KEYS", "its settings are PROVER_KEYS__<NAME>; correct or remove it"),
    ],
)
def test_unknown_variable__of_a_group__is_refused(monkeypatch: pytest.MonkeyPatch, name: str, reported: str) -> None:
    """What was to restrict access, or to choose keys, is not to be ignored for a letter."""
    monkeypatch.setenv(name, '{"directory": "x"}')
    with pytest.raises(SettingsInvalid, match=re.escape(reported)) as raised:
        load_settings()
    assert raised.value.detail.startswith(f"{name} is not a setting of the prover")


def test_unknown_name__of_the_program_itself__is_refused() -> None:
    with pytest.raises(SettingsInvalid, match="PROVER_KEYS__DIRECTRY"):
        load_settings({"keys": {"directry": "x"}})


@pytest.mark.parametrize("name", ["PROVER_NONSENSE", "PROVER_PROVE"])
def test_unknown_variable__like_no_setting__is_reported_without_a_guess(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "x")
    assert unknown_variables() == [f"{name} is not a setting of the prover"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PROVER_URL", "http://prover:3001"),
        ("PROVER_ADDRESS_APPEND_URL", "http://prover:3001"),
        ("PROVER_POLLING_INTERVAL_MS", "100"),
        ("PROVER_SERVICE_HOST", "10.0.0.1"),
        ("PROVER_SERVICE_PORT", "3001"),
        ("PROVER_SERVICE_PORT_API", "3001"),
        ("PROVER_PORT", "tcp://10.0.0.1:3001"),
        ("PROVER_PORT_3001_TCP", "tcp://10.0.0.1:3001"),
        ("PROVER_PORT_3001_TCP_ADDR", "10.0.0.1"),
        ("PROVER_METRICS_SERVICE_HOST", "10.0.0.1"),
        ("PROVER_METRICS_PORT", "tcp://10.0.0.1:9998"),
    ],
)
def test_variable__of_a_forester_or_of_kubernetes__is_ignored(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert unknown_variables() == []


def test_port__that_somebody_chose__is_reported_with_the_setting_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_PORT", "3001")
    assert unknown_variables() == [
        "PROVER_PORT is not a setting of the prover; set PROVER_HTTP__ADDRESS=HOST:PORT, or --prover-address, instead"
    ]


def test_settings__with_a_list_that_is_not_json__name_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_HTTP__CORS_ORIGINS", "word")
    with pytest.raises(SettingsInvalid, match=r"PROVER_HTTP.*not JSON"):
        load_settings()


@pytest.mark.parametrize("value", ["true", "True", "1", "yes", "Y", "on", "t"])
def test_boolean__in_any_spelling__is_read(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    opposite = {"true": "false", "True": "False", "1": "0", "yes": "no", "Y": "N", "on": "off", "t": "f"}[value]
    monkeypatch.setenv("PROVER_KEYS__AUTO_DOWNLOAD", value)
    monkeypatch.setenv("PROVER_LOG__JSON_LINES", opposite)
    assert (load_settings().keys.auto_download, load_settings().log.json_lines) == (True, False)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("PROVER_KEYS__PREPARE", "perhaps", "expected bool"),
        ("PROVER_LOG__JSON_LINES", "null", "null is no value"),
        ("PROVER_PROVING__THREADS", "many", "expected int"),
        ("PROVER_PROVING__THREADS", "", "expected int"),
        ("PROVER_QUEUE__SLOTS", "101", "expected int <= 100"),
        ("PROVER_HTTP__DRAIN_DELAY_S", "soon", "expected float"),
        ("PROVER_HTTP__CORS_ORIGINS", "[1]", "expected str"),
        ("PROVER_LOG__LEVEL", "loud", "expected one of debug, info, warning, error"),
        ("PROVER_KEYS__PRELOAD", "some", "expected one of none, all, local-rpc"),
        ("PROVER_KEYS__RUN_MODE", "", "expected one of local-rpc"),
        ("PROVER_DEVICE", "gpu", "'gpu' is not cpu, cuda, cuda:N or auto"),
    ],
)
def test_variable__with_a_malformed_value__is_named_with_what_is_expected(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsInvalid, match=f"^{re.escape(f'{name}: {expected}')}") as caught:
        load_settings()
    assert caught.value.names == (name,)


def test_settings__that_exclude_each_other__name_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_QUEUE__HEARTBEAT_S", "6")
    with pytest.raises(SettingsInvalid, match=r"^PROVER_QUEUE: heartbeat_s must be at most half of lease_s$"):
        load_settings()


def test_variable__in_small_letters__counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("prover_http__cors_origins", '["https://a", "https://b"]')
    assert load_settings().http.cors_origins == ("https://a", "https://b")


def test_variable__without_a_group__is_unset_if_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROVER_DEVICE", "PROVER_CUDA_LIBRARY", "PROVER_CUDA_BATCH"):
        monkeypatch.setenv(name, "")
    settings = load_settings()
    assert (settings.policy, settings.cuda_library, settings.cuda_batch) == ("cpu", None, 64)


def test_secret__is_in_no_representation() -> None:
    settings = load_settings({"http": {"api_key": "the-key"}, "queue": {"url": "redis://:the-key@host"}})
    assert settings.http.api_key.reveal() == "the-key"
    assert "the-key" not in f"{settings} {settings!r} {settings.http.api_key} {settings.queue.url!r}"
