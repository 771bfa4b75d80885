"""Bodies that nobody honest sends: refused by a typed error, in bounded time and memory."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from request_fuzzing import judge, mutated

from prover.errors import CircuitNotPublished, MalformedRequest, RequestRejected, ShapeMismatch
from prover.proving.request import MAXIMUM_VALUES, compact
from shared.requests.circuit_id import CircuitKind

MIB = 2**20
BODY_LIMIT = 16 * MIB
DEEP = 200_000


def inclusion(leaf: str = '"0x1"', elements: str = "", accounts: int = 1) -> bytes:
    account = f'{{"root":"0x1","pathIndex":0,"leaf":{leaf},"pathElements":[{elements}]}}'
    listed = ",".join([account] * accounts)
    return f'{{"circuitType":"inclusion","stateTreeHeight":26,"inputCompressedAccounts":[{listed}]}}'.encode()


def append(leaves: bytes, proofs: bytes = b"") -> bytes:
    numbers = b'"publicInputHash":"0x1","oldRoot":"0x1","newRoot":"0x1","leavesHashchainHash":"0x1"'
    shape = b'{"circuitType":"append","height":32,"batchSize":10,' + numbers
    return shape + b',"oldLeaves":[' + leaves + b'],"leaves":[' + leaves + b'],"merkleProofs":[' + proofs + b"]}"


MALFORMED = {
    "arrays in arrays": b"[" * DEEP,
    "objects in objects": b'{"a":' * DEEP,
    "closed arrays in an unknown member": b'{"x":' + b"[" * DEEP + b"]" * DEEP + b',"circuitType":"append","height":1}',
    "arrays in an array of leaves": append(b"[" * DEEP + b"]" * DEEP),
    "arrays for a circuit type": b'{"height":1,"circuitType":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "byte order mark": b"\xef\xbb\xbf" + inclusion(),
    "UTF-16": inclusion().decode().encode("utf-16"),
    "lone surrogate": inclusion('"\\ud800"'),
    "reversed surrogates": b'{"circuitType":"\\udc00\\ud800","height":1}',
    "bytes that are no UTF-8": inclusion('"0x1').replace(b'"0x1,', b'"\xc3\x28",'),
    "NaN": b'{"circuitType":"append","height":NaN}',
    "Infinity": b'{"circuitType":"append","height":-Infinity}',
    "number beyond floats": b'{"circuitType":"append","height":1e999}',
    "integer of many digits": b'{"circuitType":"append","height":' + b"9" * 100_000 + b"}",
    "start index of many digits": append(b"")[:-1] + b',"startIndex":' + b"9" * 4000 + b"}",
    "leading zero": b'{"circuitType":"append","height":032}',
    "NUL between tokens": b'{"circuitType":\x00"append"}',
    "trailing bytes": inclusion() + b"{}",
    "single quotes": b"{'circuitType':'append'}",
    "comment": b'{/**/"circuitType":"append","height":1}',
    "trailing comma": b'{"circuitType":"append","height":1,}',
    "Arabic digits": inclusion('"\u0661\u0662"'),
    "digits with a space": inclusion('" 1"'),
    "digits with an underscore": inclusion('"1_0"'),
    "digit string that is no number": inclusion('"' + "g" * BODY_LIMIT + '"'),
    "too many values": append(b"0," * MAXIMUM_VALUES + b"0"),
    "leaf true": inclusion("true"),
    "leaf null": inclusion("null"),
    "leaf in an array": inclusion('["0x1"]'),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_body__malformed__is_refused_as_such(body: bytes) -> None:
    assert isinstance(judge(body), MalformedRequest)


def test_body__with_a_member_twice__counts_the_last() -> None:
    body = inclusion().replace(b'"stateTreeHeight":26', b'"stateTreeHeight":"x","stateTreeHeight":25')
    refusal = judge(body)
    assert isinstance(refusal, CircuitNotPublished)
    assert "inc(25,1)" in refusal.detail


@pytest.mark.parametrize("kind", CircuitKind)
def test_body__with_nothing_but_its_type_and_height__is_refused(kind: CircuitKind) -> None:
    for height in ("stateTreeHeight", "addressTreeHeight", "treeHeight", "height"):
        assert isinstance(judge(json.dumps({"circuitType": kind.value, height: 32}).encode()), RequestRejected)


HUGE = {
    "one number": inclusion('"0x' + "f" * (BODY_LIMIT - 200) + '"'),
    "values of one digit": append(b'"1",' * (MAXIMUM_VALUES // 2 - 20) + b'"1"'),
    "long paths": inclusion(elements='"1",' * (MAXIMUM_VALUES - 10) + '"1"'),
    "many paths": append(b'"1"', b'["1"],' * (MAXIMUM_VALUES - 60) + b'["1"]'),
    "many accounts": inclusion(accounts=MAXIMUM_VALUES // 5),
    "blanks": b" " * BODY_LIMIT,
    "text": b'{"circuitType":"' + b"x" * (BODY_LIMIT - 100) + b'","height":1}',
    "unknown member": b'{"x":"' + b"," * (MAXIMUM_VALUES - 1) + b"\\u0000" * 2_000_000 + b'"}',
}


JUDGE_ALL = """
import resource, sys
from request_fuzzing import judge
judge(b"{}")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
judge(sys.stdin.buffer.read())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("body", HUGE.values(), ids=HUGE)
def test_body__as_long_as_allowed__takes_bounded_memory(body: bytes) -> None:
    assert len(body) <= BODY_LIMIT
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2] / "support" / "service")
    run = subprocess.run([sys.executable, "-c", JUDGE_ALL], input=body, capture_output=True, env=environment)
    assert run.returncode == 0, run.stderr.decode()
    grown_mib = int(run.stdout.split()[-1]) // 1024
    assert grown_mib < 192


def test_body__with_a_path_too_long__is_a_wrong_shape() -> None:
    assert isinstance(judge(inclusion(elements=",".join(['"1"'] * 27))), ShapeMismatch)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_request__golden_and_mutated__is_read_or_refused(seed: int) -> None:
    judge(mutated(random.Random(seed)))


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), at=st.floats(0, 1), size=st.integers(0, 50), patch=st.binary(max_size=30))
def test_request__with_bytes_replaced__is_read_or_refused(seed: int, at: float, size: int, patch: bytes) -> None:
    body = mutated(random.Random(seed))
    start = int(at * len(body))
    judge(body[:start] + patch + body[start + size :])


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_request__compacted__is_judged_alike(seed: int) -> None:
    body = mutated(random.Random(seed))
    unknown = b'{"x":{"leaves":[{"leaf":1}],"y":"}"},' + body[1:].replace(b":", b" : ")
    expected, found = judge(body), judge(bytes(compact(unknown)))
    assert type(found) is type(expected)
    if found is not None and expected is not None:
        assert found.path == expected.path


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=300))
def test_request__of_any_bytes__is_read_or_refused(body: bytes) -> None:
    judge(body)
