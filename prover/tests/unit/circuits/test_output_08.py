"""Constraint systems in the format of gnark 0.8."""

from __future__ import annotations

import gnark_conversion
import numpy as np
import pytest
from cbor_columns import heads, numbers
from gnark_014_system import constraint_system_bytes as later_constraint_system_bytes
from gnark_08_system import GNARK_08, HintUsedLate, constraint_system_bytes
from golden_vectors import load
from hypothesis import given
from hypothesis import strategies as st
from small_systems import INVERSE_OR_ZERO

from prover.circuits.catalogue import compile_circuit
from prover.circuits.frontend.compiled import CompiledCircuit
from prover.circuits.frontend.gnark_release import GNARK_014
from prover.circuits.frontend.system import ConstraintSystem
from prover.circuits.gadgets.choice import is_zero
from shared.requests.circuit_id import CircuitId, CircuitKind


@given(st.lists(st.integers(0, 32).flatmap(lambda bits: st.integers(0, (1 << bits) - 1)), max_size=60))
def test_numbers__random_values__are_encoded_as_independently(values: list[int]) -> None:
    encoded = numbers(np.array(values, np.int64)).tobytes()
    assert encoded == b"".join(map(gnark_conversion.encode_cbor, values))


def test_heads__of_several_kinds__follow_their_prefixes() -> None:
    encoded = heads([b"abcde", b""], np.array([0, 1, 0]), [0, 4], np.array([23, 24, 65536])).tobytes()
    assert encoded == b"abcde\x17" + b"\x98\x18" + b"abcde\x1a\x00\x01\x00\x00"


@pytest.mark.parametrize(
    "circuit",
    [
        CircuitId(CircuitKind.COMBINED, 2, (4, 5), (2, 1)),
        CircuitId(CircuitKind.BATCH_UPDATE, 2, (3,), (2,)),
        CircuitId(CircuitKind.BATCH_ADDRESS_APPEND, 2, (3,), (2,)),
    ],
    ids=str,
)
@pytest.mark.sampled(1)
def test_constraint_system__converted_to_0_14__equals_what_that_release_compiles(circuit: CircuitId) -> None:
    earlier = constraint_system_bytes(compile_circuit(circuit, GNARK_08))
    assert gnark_conversion.convert_constraint_system(earlier) == later_constraint_system_bytes(
        compile_circuit(circuit, GNARK_014)
    )


def test_constraint_system__with_is_zero__has_its_hint_called_a_level_early() -> None:
    system = ConstraintSystem(GNARK_08)
    a = system.declare(system.secret_names, "A")
    system.assert_equal(is_zero(a), a * a)
    decoded, _ = gnark_conversion.decode_cbor(constraint_system_bytes(CompiledCircuit.of(system)))
    # Row 0 finds the wire of is_zero by calling the hint, row 2 is the square, rows 1 and 3 only check.
    assert decoded["Levels"] == [[0, 2], [1, 3]]
    assert decoded["MHints"] == {3: {"ID": INVERSE_OR_ZERO, "Wires": [3], "Inputs": [[{"CID": 1, "VID": 1}]]}}


def test_constraint_system__map_of_the_tiny_key__has_the_same_members() -> None:
    key = bytes.fromhex(load("gnark/tiny.json")["key_v0_8_hex"])
    golden, _ = gnark_conversion.decode_cbor(key, gnark_conversion.key_sections(key).verifying_key_end)
    system = ConstraintSystem(GNARK_08)
    system.assert_equal(is_zero(system.declare(system.secret_names, "A")), system.constant(1))
    ours, _ = gnark_conversion.decode_cbor(constraint_system_bytes(CompiledCircuit.of(system)))
    assert list(ours) == list(golden)
    same = ("Logs", "MDebug", "DebugInfo", "ScalarField", "SymbolTable", "GnarkVersion", "CommitmentInfo")
    assert {key: ours[key] for key in same} == {key: golden[key] for key in same}


def test_constraint_system__hint_that_is_not_used_at_once__is_refused() -> None:
    system = ConstraintSystem(GNARK_08)
    a = system.declare(system.secret_names, "A")
    (inverse,) = system.hint(system.release.inverse_or_zero, [a], 1)
    _ = a * a
    _ = inverse * a
    with pytest.raises(HintUsedLate):
        constraint_system_bytes(CompiledCircuit.of(system))


def test_constraint_system__of_another_format_version__is_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.14\.0 has another form"):
        constraint_system_bytes(CompiledCircuit.of(ConstraintSystem(GNARK_014)))
