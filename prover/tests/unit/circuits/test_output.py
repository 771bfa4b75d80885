"""Constraint systems in the bytes of gnark 0.14, against golden bytes and encoders written independently."""

from __future__ import annotations

import io
import struct

import gnark_conversion
import numpy as np
import pytest
from gnark_014_system import constraint_system_bytes
from gnark_08_system import GNARK_08
from golden_vectors import SCALAR_MODULUS, load
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.circuits.catalogue import compile_circuit
from prover.circuits.frontend.compiled import CompiledCircuit
from prover.circuits.frontend.gnark_release import GNARK_014
from prover.circuits.frontend.system import ConstraintSystem
from prover.circuits.output import cbor
from prover.circuits.output.gnark_014 import write_constraint_system
from prover.circuits.output.integer_columns import encoded_column, varint_bytes, varints
from shared.requests.circuit_id import CircuitId, CircuitKind

MINUS_ONE = 3
"""Coefficient id of -1."""


def as_array(values: list[int], width: int) -> np.typing.NDArray[np.unsignedinteger]:
    return np.array(values, np.uint32 if width == 32 else np.uint64)


def tiny_circuit() -> CompiledCircuit:
    """Return the hand-made circuit of the golden key: its author numbered wires and sorted terms in ways of their own.

    Wires: 1 Y (public), 2 X, 3 Z, 4 X², 5..8 bits of X, 9 inverse of Z, 10 whether Z is 0, 11 and 12 quotients.
    """
    system = ConstraintSystem()
    system.declare(system.public_names, "Y")
    system.declare(system.secret_names, "X")
    system.declare(system.secret_names, "Z")
    instructions = system.instructions
    three, five, four, eight, seven = map(system.coefficients.id_of, (3, 5, 4, 8, 7))

    instructions.new_wires()
    instructions.row([(1, 2)], [(1, 2)], [(1, 4)])
    instructions.new_wires(4)
    instructions.hint(GNARK_014.bits.id, [[(1, 2)]], range(5, 9))
    for bit in range(5, 9):
        instructions.row([(1, bit)], [(1, 0), (MINUS_ONE, bit)], [(0, 0)])
    instructions.row([(1, 5), (2, 6), (four, 7), (eight, 8)], [(1, 0)], [(1, 2)])
    instructions.new_wires()
    instructions.hint(GNARK_014.inverse_or_zero.id, [[(1, 3)]], range(9, 10))
    instructions.new_wires()
    instructions.row([(MINUS_ONE, 3)], [(1, 9)], [(1, 10), (MINUS_ONE, 0)])
    instructions.row([(1, 3)], [(1, 10)], [(0, 0)])
    instructions.row([(1, 4), (three, 10), (five, 0)], [(1, 3), (1, 0)], [(1, 1)])
    instructions.new_wires()
    instructions.row([(1, 11)], [(1, 2), (1, 0)], [(1, 4), (seven, 0)])
    instructions.new_wires()
    instructions.row([(1, 2), (2, 0)], [(MINUS_ONE, 12)], [(1, 4)])
    return CompiledCircuit.of(system)


def test_constraint_system__tiny_circuit__equals_the_golden_bytes() -> None:
    key = bytes.fromhex(load("gnark/tiny.json")["key_v0_14_hex"])
    golden = key[gnark_conversion.key_sections(key, format_014=True).verifying_key_end :]
    assert constraint_system_bytes(tiny_circuit()) == golden


@pytest.mark.parametrize(
    ("kind", "height", "size"),
    [
        (CircuitKind.BATCH_APPEND, 32, 10),
        (CircuitKind.BATCH_UPDATE, 32, 10),
        (CircuitKind.BATCH_ADDRESS_APPEND, 40, 10),
    ],
)
@pytest.mark.sampled(1)
def test_constraint_system__batch_circuit__is_as_long_as_the_reference_writes_it(
    kind: CircuitKind, height: int, size: int
) -> None:
    circuit = CircuitId(kind, 2, (height,), (size,))
    rows = load("gnark/keys.json")["rows"]
    (expected,) = [row["csBytes"] for row in rows if row["file"] == circuit.key_file and row["gnark"] == "0.14.0"]
    file = io.BytesIO()
    assert write_constraint_system(compile_circuit(circuit), file) == expected
    assert len(file.getvalue()) == expected


def test_constraint_system__of_another_format_version__is_refused() -> None:
    system = ConstraintSystem(GNARK_08)
    with pytest.raises(ValueError, match=r"0\.8\.0 has another form"):
        constraint_system_bytes(CompiledCircuit.of(system))


@pytest.mark.parametrize("width", [32, 64])
def test_column__golden_values__give_the_golden_words(width: int) -> None:
    for case in load("gnark/encoding.json")[f"intcomp_uint{width}"]:
        values = as_array([int(value) for value in case["in"]], width)
        words = [int(str(word), 0) for word in case["words"] or []]
        expected = struct.pack(f"<Q{len(words)}{'I' if width == 32 else 'Q'}", len(words), *words)
        assert encoded_column(values, width) == expected


@st.composite
def columns(draw: st.DrawFn, width: int) -> list[int]:
    """Return runs of steps of different sizes and signs, long enough for packed blocks of several units."""
    mask = (1 << width) - 1
    values: list[int] = []
    for _ in range(draw(st.integers(0, 5))):
        value, bits, signed = draw(st.integers(0, mask)), draw(st.integers(0, width)), draw(st.booleans())
        random = draw(st.randoms(use_true_random=False))
        for _ in range(draw(st.sampled_from([1, 2, 31, 127, 128, 129, 256, 300]))):
            step = random.getrandbits(bits) if bits else 0
            value = (value + (-step if signed and random.random() < 0.5 else step)) & mask
            values.append(value)
    return values


@pytest.mark.parametrize("width", [32, 64])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_column__random_values__are_encoded_as_independently(width: int, data: st.DataObject) -> None:
    values = data.draw(columns(width))
    assert encoded_column(as_array(values, width), width) == gnark_conversion.encode_column(values, width)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 32).flatmap(lambda bits: st.integers(0, (1 << bits) - 1)), max_size=60))
def test_varints__random_words__are_encoded_as_independently(words: list[int]) -> None:
    expected = gnark_conversion.encode_leb128(words)
    array = as_array(words, 32).astype(np.uint32)
    assert b"".join(piece.tobytes() for piece in varints(array)) == expected
    assert varint_bytes(array) == len(expected)


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.integers(0, 2**64 - 1) | st.text(max_size=30),
        lambda items: st.lists(items, max_size=30) | st.dictionaries(st.text() | st.integers(0, 2**32), items),
        max_leaves=20,
    )
)
def test_cbor__random_items__are_encoded_as_independently(item: object) -> None:
    assert cbor.encoded(item) == gnark_conversion.encode_cbor(item)


def test_cbor__what_it_does_not_know__is_refused() -> None:
    for item in (-1, True, 1.5, b"bytes"):
        with pytest.raises(TypeError):
            cbor.encoded(item)
    with pytest.raises(OverflowError):
        cbor.encoded(SCALAR_MODULUS)
