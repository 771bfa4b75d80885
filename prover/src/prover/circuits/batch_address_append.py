"""New addresses are inserted into an indexed tree: each is linked from its low element, then appended."""

from __future__ import annotations

from prover.circuits.frontend.system import ConstraintSystem
from prover.circuits.gadgets.bits import assert_less, to_bits
from prover.circuits.gadgets.hash_chain import hash_chain
from prover.circuits.gadgets.merkle import merkle_update
from prover.circuits.gadgets.poseidon import poseidon


def batch_address_append(system: ConstraintSystem, size: int, height: int) -> None:
    """Define the circuit. Public: hash chain of old root, new root, addresses' hash chain and first slot's index."""
    public_input_hash = system.public.scalar("PublicInputHash")
    old_root = system.secret.scalar("OldRoot")
    new_root = system.secret.scalar("NewRoot")
    addresses_hash_chain = system.secret.scalar("HashchainHash")
    start_index = system.secret.scalar("StartIndex")
    lows = system.secret.vector("LowElementValues", size)
    nexts = system.secret.vector("LowElementNextValues", size)
    low_indices = system.secret.vector("LowElementIndices", size)
    low_paths = system.secret.matrix("LowElementProofs", size, height)
    values = system.secret.vector("NewElementValues", size)
    paths = system.secret.matrix("NewElementProofs", size, height)

    empty = system.constant(0)
    root = old_root
    for position, (low, value, following) in enumerate(zip(lows, values, nexts, strict=True)):
        assert_less(low, value)
        assert_less(value, following)
        old_low_leaf, new_low_leaf = poseidon(low, following), poseidon(low, value)
        low_bits = to_bits(low_indices[position], height)
        root = merkle_update(root, old_low_leaf, new_low_leaf, low_bits, low_paths[position])

        new_leaf = poseidon(value, following)
        bits = to_bits(start_index + position, height)
        root = merkle_update(root, empty, new_leaf, bits, paths[position])

    system.assert_equal(new_root, root)
    system.assert_equal(addresses_hash_chain, hash_chain(values))
    chain = hash_chain([old_root, new_root, addresses_hash_chain, start_index])
    system.assert_equal(public_input_hash, chain)
