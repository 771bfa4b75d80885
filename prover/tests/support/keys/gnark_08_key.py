"""Keys of our setup in the format of gnark 0.8, which the reference's published binary reads.

The key of a setup is converted from gnark 0.14, see prover/docs/reference/gnark-keys.md, "Conversion between format
versions".
As a program: gnark_08_key.py CIRCUIT --output=FILE --output-vkey=FILE, where CIRCUIT is the stem of a key file.
"""

from __future__ import annotations

import argparse
import dataclasses
import mmap
import struct
from pathlib import Path

import gnark_014_system
import gnark_08_system
import numpy as np
from gnark_08_system import GNARK_08

from prover.circuits.catalogue import compile_circuit
from prover.circuits.frontend.compiled import CompiledCircuit
from prover.circuits.frontend.gnark_release import GNARK_014
from prover.kernel.engine import Engine, Readable
from prover.kernel.setup import TrustedSetup
from prover.keys.files.key_description import header_of
from prover.keys.setup.trusted_setup import verifying_key_text
from shared.requests.circuit_id import CircuitId

_DOMAIN_BYTES = 8 + 5 * 32
_G1_BYTES = 32
_COUNT_BYTES = 4
_VERIFYING_KEY_COUNTS_BYTES = 8
_STEP_BYTES = 2**24


def make_gnark_08_key(circuit: CircuitId, output: Path, output_vkey: Path) -> None:
    """Run a setup and write its key in the format of gnark 0.8, and the verifying key as text."""
    compiled = compile_circuit(circuit, GNARK_08)
    system = gnark_014_system.constraint_system_bytes(_with_hints_of_gnark_014(compiled))
    with Engine() as engine, TrustedSetup(engine, system, header_of(circuit)) as setup:
        key = mmap.mmap(-1, setup.key_bytes)
        setup.run(key)
        places = (4 * len(header_of(circuit)), setup.verifying_key_offset, setup.key_bytes - len(system))
        earlier_system = gnark_08_system.constraint_system_bytes(compiled)
        with output.open("w+b") as file:
            file.truncate(gnark_08_key_bytes(places[2], earlier_system))
            with mmap.mmap(file.fileno(), 0) as target:
                verifying_key = write_gnark_08_key(target, key, *places, earlier_system)
        with engine.load_verifying_key(verifying_key) as loaded:
            output_vkey.write_text(verifying_key_text(loaded))


def _with_hints_of_gnark_014(circuit: CompiledCircuit) -> CompiledCircuit:
    """Return the same constraints and wires, with hints under the names of gnark 0.14."""
    old, new = circuit.release, GNARK_014
    names = {old.bits.id: new.bits.id, old.inverse_or_zero.id: new.inverse_or_zero.id}
    words = circuit.words.copy()
    positions = circuit.starts[circuit.is_hint].astype(np.intp) + 1
    words[positions] = [names[number] for number in words[positions].tolist()]
    return dataclasses.replace(circuit, release=new, words=words)


def gnark_08_key_bytes(system_offset: int, system: Readable) -> int:
    """Return the size of the converted file in bytes; ``system`` replaces that at ``system_offset``."""
    added = _G1_BYTES - 1 - _COUNT_BYTES - _VERIFYING_KEY_COUNTS_BYTES
    return system_offset + added + len(system)


def write_gnark_08_key(
    target: mmap.mmap,
    key: mmap.mmap,
    header_bytes: int,
    verifying_key_offset: int,
    system_offset: int,
    system: Readable,
) -> bytes:
    """Write the converted file and return its verifying key, compressed.

    gnark 0.8 stores one more point of Z, for the coefficient of X^(n-1), which is always zero: any point is valid.
    """
    domain_end = header_bytes + _DOMAIN_BYTES
    _copy(target, key, 0, domain_end)
    start = domain_end + 1  # after a flag of gnark 0.14 for tables that readers compute
    slice_a = start + 3 * _G1_BYTES
    slice_z = _slice_end(key, _slice_end(key, slice_a))
    end_z = _slice_end(key, slice_z)
    _copy(target, key, start, slice_z)
    target.write(struct.pack(">I", _count(key, slice_z) + 1))
    _copy(target, key, slice_z + _COUNT_BYTES, end_z)
    target.write(key[end_z - _G1_BYTES : end_z])
    _copy(target, key, end_z, verifying_key_offset - _COUNT_BYTES)
    verifying_key = key[verifying_key_offset : system_offset - _VERIFYING_KEY_COUNTS_BYTES]
    target.write(verifying_key)
    target.write(system)
    return verifying_key


def _count(key: mmap.mmap, at: int) -> int:
    return int.from_bytes(key[at : at + _COUNT_BYTES], "big")


def _slice_end(key: mmap.mmap, at: int) -> int:
    return at + _COUNT_BYTES + _count(key, at) * _G1_BYTES


def _copy(target: mmap.mmap, source: mmap.mmap, start: int, end: int) -> None:
    for at in range(start, end, _STEP_BYTES):
        target.write(source[at : min(end, at + _STEP_BYTES)])


def main() -> None:
    """Make the key that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("circuit")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--output-vkey", type=Path, required=True)
    options = parser.parse_args()
    circuit = CircuitId.from_key_file(f"{options.circuit}.key")
    if circuit is None:
        parser.error(f"{options.circuit} names no circuit")
    make_gnark_08_key(circuit, options.output, options.output_vkey)


if __name__ == "__main__":
    main()
