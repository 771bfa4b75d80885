"""New leaves are appended to a state tree, except in slots that are not empty."""

from __future__ import annotations

from prover.circuits.frontend.system import ConstraintSystem
from prover.circuits.gadgets.bits import to_bits
from prover.circuits.gadgets.choice import is_zero, select
from prover.circuits.gadgets.hash_chain import hash_chain
from prover.circuits.gadgets.merkle import merkle_update


def batch_append(system: ConstraintSystem, size: int, height: int) -> None:
    """Define the circuit. Public: hash chain of old root, new root, leaves' hash chain and first slot's index."""
    public_input_hash = system.public.scalar("PublicInputHash")
    old_root = system.secret.scalar("OldRoot")
    new_root = system.secret.scalar("NewRoot")
    leaves_hash_chain = system.secret.scalar("LeavesHashchainHash")
    start_index = system.secret.scalar("StartIndex")
    old_leaves = system.secret.vector("OldLeaves", size)
    leaves = system.secret.vector("Leaves", size)
    paths = system.secret.matrix("MerkleProofs", size, height)

    system.assert_equal(hash_chain([old_root, new_root, leaves_hash_chain, start_index]), public_input_hash)
    # A slot that is not empty has the nullifier of an account that was spent before it was appended; it stays.
    new_leaves = [select(is_zero(old), leaf, old) for old, leaf in zip(old_leaves, leaves, strict=True)]
    system.assert_equal(hash_chain(leaves), leaves_hash_chain)

    root = old_root
    for position in range(size):
        bits = to_bits(start_index + position, height)
        root = merkle_update(root, old_leaves[position], new_leaves[position], bits, paths[position])
    system.assert_equal(root, new_root)
