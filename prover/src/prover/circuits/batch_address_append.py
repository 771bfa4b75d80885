"""New addresses are inserted into an indexed tree: each is linked from its low element, then appended."""

from __future__ import annotations

from prover.circuits.frontend.system import ConstraintSystem, Expression
from prover.circuits.gadgets.bits import assert_less, to_bits
from prover.circuits.gadgets.hash_chain import hash_chain
from prover.circuits.gadgets.merkle import merkle_update
from prover.circuits.gadgets.poseidon import poseidon
from shared.requests.circuit_inputs import PUBLIC_INPUT_HASH, NamedValues


def batch_address_append(system: ConstraintSystem, inputs: NamedValues[Expression]) -> None:
    """Define the circuit. Public: hash chain of old root, new root, addresses' hash chain and first slot's index."""
    old_root, new_root = inputs.scalar("OldRoot"), inputs.scalar("NewRoot")
    addresses_hash_chain, start_index = inputs.scalar("HashchainHash"), inputs.scalar("StartIndex")
    lows, nexts = inputs.vector("LowElementValues"), inputs.vector("LowElementNextValues")
    low_indices, low_paths = inputs.vector("LowElementIndices"), inputs.matrix("LowElementProofs")
    values, paths = inputs.vector("NewElementValues"), inputs.matrix("NewElementProofs")

    empty = system.constant(0)
    root = old_root
    for position, (low, value, following) in enumerate(zip(lows, values, nexts, strict=True)):
        assert_less(low, value)
        assert_less(value, following)
        old_low_leaf, new_low_leaf = poseidon(low, following), poseidon(low, value)
        low_bits = to_bits(low_indices[position], len(low_paths[position]))
        root = merkle_update(root, old_low_leaf, new_low_leaf, low_bits, low_paths[position])

        new_leaf = poseidon(value, following)
        bits = to_bits(start_index + position, len(paths[position]))
        root = merkle_update(root, empty, new_leaf, bits, paths[position])

    system.assert_equal(new_root, root)
    system.assert_equal(addresses_hash_chain, hash_chain(values))
    chain = hash_chain([old_root, new_root, addresses_hash_chain, start_index])
    system.assert_equal(inputs.scalar(PUBLIC_INPUT_HASH), chain)
