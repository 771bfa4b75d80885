"""Kept answers: replayed for the same body, refused for another, forgotten after failures and in time."""

import pytest

from prover.errors import IdempotencyKeyReused, MalformedRequest
from prover.http.requests import idempotency
from prover.http.requests.idempotency import IdempotentAnswers, read_key

NAME = ("forester", "key-1")


def test_answer__kept__is_replayed_for_the_same_body_only() -> None:
    answers = IdempotentAnswers(3600)
    with answers.claim(NAME, b"body") as claim:
        assert claim.answer is None
        claim.keep(b"proof")
    with answers.claim(NAME, b"body") as claim:
        assert claim.answer == b"proof"
    with pytest.raises(IdempotencyKeyReused), answers.claim(NAME, b"other"):
        pass
    with answers.claim(("photon", "key-1"), b"other") as claim:
        assert claim.answer is None


def test_key__of_a_failed_request__is_free_again() -> None:
    answers = IdempotentAnswers(3600)
    with pytest.raises(ValueError, match="boom"), answers.claim(NAME, b"body"):
        raise ValueError("boom")
    with answers.claim(NAME, b"other") as claim:
        assert claim.answer is None


def test_key__in_progress__is_refused_to_another_body() -> None:
    answers = IdempotentAnswers(3600)
    with answers.claim(NAME, b"body"):
        with pytest.raises(IdempotencyKeyReused), answers.claim(NAME, b"other"):
            pass
        with answers.claim(NAME, b"body") as second:
            assert second.answer is None
        with pytest.raises(IdempotencyKeyReused), answers.claim(NAME, b"other"):
            pass


def test_answer__after_its_time__is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("prover.http.requests.idempotency.time.monotonic", lambda: now)
    answers = IdempotentAnswers(10)
    with answers.claim(NAME, b"body") as claim:
        claim.keep(b"proof")
    now += 11
    with answers.claim(NAME, b"other") as claim:
        assert claim.answer is None


def test_answers__beyond_the_capacity__push_out_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "_CAPACITY", 3)
    answers = IdempotentAnswers(3600)
    for number in range(10):
        with answers.claim(("", str(number)), b"body") as claim:
            claim.keep(b"proof")
    assert list(answers._entries) == [("", "7"), ("", "8"), ("", "9")]


def test_request__without_a_key__is_not_kept() -> None:
    answers = IdempotentAnswers(3600)
    with answers.claim(None, b"body") as claim:
        claim.keep(b"proof")
        assert claim.answer is None
    assert not answers._entries


@pytest.mark.parametrize("value", ["", " ", "a b", "é", "x" * 256])
def test_header__malformed__is_refused(value: str) -> None:
    with pytest.raises(MalformedRequest, match="Idempotency-Key"):
        read_key(value)


def test_header__absent_or_good__is_read() -> None:
    assert read_key(None) is None
    assert read_key('"8e03978e-40d5"') == '"8e03978e-40d5"'
