"""What is remembered of a device's failures."""

import pytest

from prover.proving.device_health import DeviceHealth


def test_failure__is_remembered_until_a_success() -> None:
    health = DeviceHealth()
    assert health.problem() is None
    health.note_failure("a proof did not verify")
    assert health.problem() == "a proof did not verify"
    health.note_success()
    assert health.problem() is None


def test_failure__without_further_proofs__is_forgotten_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("prover.proving.device_health.time.monotonic", lambda: now)
    health = DeviceHealth()
    health.note_failure("a proof did not verify")
    now += 59
    assert health.problem() is not None
    now += 2
    assert health.problem() is None
