"""Spent accounts are replaced by their nullifiers in a state tree."""

from __future__ import annotations

from prover.circuits.frontend.system import ConstraintSystem, Expression
from prover.circuits.gadgets.bits import to_bits
from prover.circuits.gadgets.hash_chain import hash_chain
from prover.circuits.gadgets.merkle import merkle_update
from prover.circuits.gadgets.poseidon import poseidon
from shared.requests.circuit_inputs import PUBLIC_INPUT_HASH, NamedValues


def batch_update(system: ConstraintSystem, inputs: NamedValues[Expression]) -> None:
    """Define the circuit. Public: the hash chain of old root, new root and the nullifiers' hash chain."""
    old_root, new_root = inputs.scalar("OldRoot"), inputs.scalar("NewRoot")
    leaves_hash_chain = inputs.scalar("LeavesHashchainHash")
    leaves, old_leaves = inputs.vector("Leaves"), inputs.vector("OldLeaves")
    indices = inputs.vector("PathIndices")

    system.assert_equal(hash_chain([old_root, new_root, leaves_hash_chain]), inputs.scalar(PUBLIC_INPUT_HASH))
    nullifiers = [poseidon(*account) for account in zip(leaves, indices, inputs.vector("TxHashes"), strict=True)]
    system.assert_equal(hash_chain(nullifiers), leaves_hash_chain)

    root = old_root
    for position, path in enumerate(inputs.matrix("MerkleProofs")):
        bits = to_bits(indices[position], len(path))
        root = merkle_update(root, old_leaves[position], nullifiers[position], bits, path)
    system.assert_equal(root, new_root)
