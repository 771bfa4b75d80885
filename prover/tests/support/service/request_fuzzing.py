"""Requirements for any body: it is read within bounds, or refused by a typed error that can be sent.

Used by the tests and by the fuzz target (fuzz_request.py).
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

from golden_vectors import load

from prover.errors import RequestRejected
from prover.http.server.problem import encode_problem, problem
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from prover.proving.prechecks.satisfiable import first_failure
from prover.proving.request import read_envelope, read_task
from shared.requests.circuit_inputs import inputs_of
from shared.requests.proof_wire import Envelope, decode_request
from shared.trees.field import FIELD_BYTES, parse_scalar, scalar_bytes

LONGEST_DETAIL = 1000
SMALL = (
    "v1_inclusion_26_1",
    "v2_inclusion_32_1",
    "v1_non-inclusion_26_1",
    "v2_non-inclusion_40_1",
    "v1_combined_26_26_1_1",
    "v2_combined_32_40_1_1",
    "batch_append_32_10",
    "batch_update_32_10",
    "batch_address-append_40_10",
)
"""Request vectors that mutations start from."""

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**32,
    2**64,
    2**4000,
    1.0,
    32.5,
    1e308,
    "",
    "0x",
    "0X1",
    "-0x1",
    "0x-1",
    "+1",
    "zz",
    "0x" + "0" * 400 + "1",
    "f" * 5000,
    "1_0",
    "\u0661",
    "\ud800",
    "\x00",
    " 1",
    [],
    {},
    [[]],
    [None],
)


def judge(body: bytes) -> RequestRejected | None:
    """Read a body as the server does and return why it was refused; anything but such an error gets out."""
    try:
        envelope = read_envelope(body)
        task = read_task(envelope, PUBLISHED_CIRCUITS)
    except RequestRejected as refusal:
        _require_presentable(refusal)
        return refusal
    assert len(task.assignment.inputs) % FIELD_BYTES == 0
    assert task.assignment.inputs.startswith(task.assignment.public_inputs)
    if task.circuit.kind.is_batch:
        assert task.assignment.inputs == _inputs_by_decoder(envelope)
    failure = first_failure(task.circuit, task.assignment)
    assert failure is None or failure.path.startswith("$.")
    return None


def _inputs_by_decoder(envelope: Envelope) -> bytes:
    """Return the inputs of a batch by way of Python objects, which the native reader of numbers avoids."""
    request = decode_request(envelope.members, envelope.kind)

    def flat(value: Any) -> bytes:
        if isinstance(value, tuple):
            return b"".join(map(flat, value))
        return scalar_bytes(value) if isinstance(value, int) else parse_scalar(value)[0]

    return b"".join(flat(each.values_in(request)) for each in inputs_of(envelope.kind, 2))


def _require_presentable(refusal: RequestRejected) -> None:
    """Require that a refusal is short and can be sent."""
    assert refusal.status == 400
    assert 0 < len(refusal.detail) <= LONGEST_DETAIL
    assert refusal.path is None or refusal.path.startswith("$")
    members = problem(code=refusal.code, status=400, detail=refusal.detail, retryable=False, path=refusal.path)
    encode_problem(members)


def mutated(choose: random.Random) -> bytes:
    """Return a golden request with a few of its members replaced, removed, repeated, wrapped or swapped."""
    request = copy.deepcopy(load(f"prover/{choose.choice(SMALL)}.json"))
    for _ in range(choose.randint(1, 3)):
        container, key = choose.choice(_places(request))
        change = choose.choice(_CHANGES)
        try:
            change(container, key, choose)
        except (KeyError, IndexError):
            continue  # an earlier change took the place away
    body = json.dumps(request)
    if choose.random() < 0.2:  # a second member of the same name
        body = body.replace("{", '{"circuitType":"update","height":0,"publicInputHash":5,', 1)
    return body.encode()


def _replace(container: Any, key: Any, choose: random.Random) -> None:
    container[key] = copy.deepcopy(choose.choice(ODD_VALUES))


def _remove(container: Any, key: Any, _: random.Random) -> None:
    del container[key]


def _repeat(container: Any, key: Any, choose: random.Random) -> None:
    value = container[key]
    container[key] = value * choose.choice((0, 2, 100)) if isinstance(value, list | str) else [value, value]


def _wrap(container: Any, key: Any, _: random.Random) -> None:
    container[key] = [container[key]]


def _swap(container: Any, key: Any, choose: random.Random) -> None:
    other = choose.choice(list(container) if isinstance(container, dict) else range(len(container)))
    container[key], container[other] = container[other], container[key]


_CHANGES: tuple[Callable[[Any, Any, random.Random], None], ...] = (_replace, _replace, _remove, _repeat, _wrap, _swap)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a JSON tree."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    found: list[tuple[Any, Any]] = []
    for key in keys:
        found.append((value, key))
        found += _places(value[key])
    return found
