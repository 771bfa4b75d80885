"""API keys: read from every source, compared by digest, read again when their file changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prover.errors import RateLimited, SettingsInvalid
from prover.http.access import api_keys as module
from prover.http.access.api_keys import ApiKeys, Role, parse_keys
from prover.http.access.rate_limit import RateLimiter
from prover.settings import HttpSettings
from prover.variables import Secret


@pytest.fixture
def checked_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHECK_EVERY_S", 0.0)


def key_file(folder: Path, text: str) -> Path:
    path = folder / "api-keys"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_keys__from_no_source__are_not_required() -> None:
    assert not ApiKeys(HttpSettings()).required


def test_keys__from_all_sources__are_found_by_their_text(tmp_path: Path) -> None:
    path = key_file(tmp_path, "# who may prove\n\nphoton = from-the-file\nops:admin=operators-key\n")
    keys = ApiKeys(
        HttpSettings(
            api_key=Secret("sekret"),
            api_keys=Secret("forester=first-key,indexer:prove=second=key"),
            api_keys_file=path,
        )
    )
    assert keys.required
    found = {text: keys.find(text) for text in ("sekret", "first-key", "second=key", "from-the-file", "operators-key")}
    assert {text: (key.name, key.role) for text, key in found.items() if key} == {
        "sekret": ("default", Role.ADMIN),
        "first-key": ("forester", Role.PROVE),
        "second=key": ("indexer", Role.PROVE),
        "from-the-file": ("photon", Role.PROVE),
        "operators-key": ("ops", Role.ADMIN),
    }
    for wrong in ("", "sekre", "sekret ", "Sekret", "first-key,", "\udc80"):
        assert keys.find(wrong) is None


def test_keys__in_memory__are_digests_only() -> None:
    keys = ApiKeys(HttpSettings(api_keys=Secret("forester=first-key")))
    assert "first-key" not in repr(vars(keys))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("forester", "line 1"),
        ("forester=short", "8 characters"),
        ("a=first-key\nb:boss=second-key", "line 2"),
        ("a b=first-key", "NAME=KEY"),
        ("a=with a space", "NAME=KEY"),
        ("=first-key", "NAME=KEY"),
    ],
)
def test_entry__malformed__is_refused_by_place_without_its_key(text: str, named: str) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        parse_keys(text, "somewhere")
    assert "somewhere" in caught.value.detail
    assert named in caught.value.detail
    assert "first-key" not in caught.value.detail
    assert "second-key" not in caught.value.detail


def test_names__given_twice__are_refused(tmp_path: Path) -> None:
    path = key_file(tmp_path, "forester=from-the-file\n")
    with pytest.raises(SettingsInvalid, match="twice: forester"):
        ApiKeys(HttpSettings(api_keys=Secret("forester=first-key"), api_keys_file=path))


@pytest.mark.parametrize("text", ["", "# none\n"])
def test_file__without_keys__is_refused_at_the_start(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsInvalid, match="contains no key"):
        ApiKeys(HttpSettings(api_keys_file=key_file(tmp_path, text)))


def test_file__absent__is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="PROVER_HTTP__API_KEYS_FILE: cannot read"):
        ApiKeys(HttpSettings(api_keys_file=tmp_path / "none"))


def test_file__that_is_the_keys_themselves__is_not_repeated() -> None:
    keys = "forester=9f/86d081884c7d659a2feaa0c55ad015"
    with pytest.raises(SettingsInvalid) as refused:
        ApiKeys(HttpSettings(api_keys_file=Path(keys)))
    assert "86d081" not in str(refused.value)


def test_file__replaced__is_read_again(tmp_path: Path, checked_always: None) -> None:
    path = key_file(tmp_path, "old=the-old-key\n")
    keys = ApiKeys(HttpSettings(api_keys_file=path))
    other = tmp_path / "new"
    other.write_text("new=the-new-key-and-longer\n")
    other.rename(path)
    assert keys.find("the-old-key") is None
    found = keys.find("the-new-key-and-longer")
    assert found is not None
    assert found.name == "new"


def test_file__replaced_by_rubbish__changes_nothing(tmp_path: Path, checked_always: None) -> None:
    path = key_file(tmp_path, "old=the-old-key\n")
    keys = ApiKeys(HttpSettings(api_keys_file=path))
    path.write_text("rubbish\n")
    assert not keys.reload()
    assert keys.find("the-old-key") is not None
    path.unlink()
    assert keys.find("the-old-key") is not None


def test_file__changed_within_a_second__is_read_again_on_request(tmp_path: Path) -> None:
    path = key_file(tmp_path, "old=the-old-key\n")
    keys = ApiKeys(HttpSettings(api_keys_file=path))
    path.write_text("new=the-new-key\n")
    os.utime(path, ns=(1, 1))
    assert keys.reload()
    assert keys.find("the-new-key") is not None


def test_rate__of_zero__lets_all_pass() -> None:
    limiter = RateLimiter(0, 1)
    for _ in range(1000):
        limiter.take("a")


def test_rate__exceeded_by_one_key__leaves_the_others_alone() -> None:
    now = 100.0
    limiter = RateLimiter(rate=0.5, burst=3, clock=lambda: now)
    for _ in range(3):
        limiter.take("a")
    with pytest.raises(RateLimited) as caught:
        limiter.take("a")
    assert caught.value.retry_after_s == 2
    assert "503" not in caught.value.detail
    limiter.take("b")
    now += 2.0
    limiter.take("a")
    with pytest.raises(RateLimited):
        limiter.take("a")
    now += 1000.0
    for _ in range(3):
        limiter.take("a")
    with pytest.raises(RateLimited):
        limiter.take("a")
