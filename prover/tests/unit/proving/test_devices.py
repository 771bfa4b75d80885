"""Duration for which the failure of a device is a problem."""

from __future__ import annotations

import pytest
from fake_gpu import prove_tiny, tiny_key
from prometheus_client import CollectorRegistry

from prover.errors import DeviceUnavailable, WitnessRejected
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.observability.metrics import Metrics
from prover.proving.devices import Devices


def failed(engine: Engine) -> Devices:
    """Return the CPU after a proof for which the system gave no random bytes, and after an invalid request."""
    devices = Devices(Metrics(CollectorRegistry()))
    with tiny_key(engine) as key:
        for error in (DeviceUnavailable("no random bytes"), WitnessRejected("constraint #1 is not satisfied")):
            with pytest.raises(type(error)), devices.target(key, CancelFlag()):
                raise error
    return devices


def test_failure__of_a_proof__is_a_problem_until_a_proof_succeeds(engine: Engine) -> None:
    devices = failed(engine)
    assert devices.problem() == "no random bytes"
    with tiny_key(engine) as key:
        prove_tiny(devices, key)
    assert devices.problem() is None


def test_failure__without_further_proofs__is_forgotten_after_a_minute(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("prover.proving.devices.time.monotonic", lambda: now)
    devices = failed(engine)
    now += 59
    assert devices.problem() is not None
    now += 2
    assert devices.problem() is None
