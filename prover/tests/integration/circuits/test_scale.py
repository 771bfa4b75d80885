"""Production batches compile within minutes and a fraction of a machine's memory.

Each compiles in a process of its own, so that the memory measured is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from golden_vectors import load
from sampling import FULL

COMPILE = """
import json, resource, sys, time
import numpy as np
from prover.circuits.catalogue import compile_circuit
from shared.requests.circuit_id import CircuitId

began = time.process_time()
circuit = compile_circuit(CircuitId.from_key_file(sys.argv[1] + ".key"))
seconds = time.process_time() - began
print(json.dumps({
    "public": len(circuit.public_names),
    "secret": len(circuit.secret_names),
    "internal": circuit.internal_wires,
    "wires": circuit.wires,
    "constraints": circuit.constraints,
    "instructions": circuit.instructions,
    "hints": int(np.count_nonzero(circuit.is_hint)),
    "calldataWords": len(circuit.words),
    "coefficients": len(circuit.coefficients),
    "levels": int(circuit.levels.max()) + 1,
    "seconds": seconds,
    "gibibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
}))
"""

MOST_SECONDS = 180
MOST_GIBIBYTES = 12
H2_LEVELS, H3_LEVELS = 3 * 65, 3 * 64
LEVELS = {
    "batch_append_32_500": 499 * H2_LEVELS + 1,
    "batch_update_32_500": H3_LEVELS + 499 * H2_LEVELS + 1,
    "batch_address-append_40_250": 249 * H2_LEVELS + 1,
}
"""The longest path is the hash chain, three levels per round, and its equality (the file extrapolates this wrongly)."""

PRODUCTION: dict[str, dict[str, Any]] = load("circuits/r1cs_stats.json")["extrapolated"]


@pytest.mark.parametrize("name", PRODUCTION if FULL else ["batch_address-append_40_250"])
def test_compile__production_batch__has_the_extrapolated_counts_in_bounded_time_and_memory(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", COMPILE, name], capture_output=True, text=True, check=True)
    made = json.loads(done.stdout)
    assert made.pop("seconds") < MOST_SECONDS
    assert made.pop("gibibytes") < MOST_GIBIBYTES
    assert made.pop("levels") == LEVELS[name]
    assert made == {key: PRODUCTION[name][key] for key in made}
