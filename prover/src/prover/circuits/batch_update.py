"""Spent accounts are replaced by their nullifiers in a state tree."""

from __future__ import annotations

from prover.circuits.frontend.system import ConstraintSystem
from prover.circuits.gadgets.bits import to_bits
from prover.circuits.gadgets.hash_chain import hash_chain
from prover.circuits.gadgets.merkle import merkle_update
from prover.circuits.gadgets.poseidon import poseidon


def batch_update(system: ConstraintSystem, size: int, height: int) -> None:
    """Define the circuit. Public: the hash chain of old root, new root and the nullifiers' hash chain."""
    public_input_hash = system.public.scalar("PublicInputHash")
    old_root = system.secret.scalar("OldRoot")
    new_root = system.secret.scalar("NewRoot")
    leaves_hash_chain = system.secret.scalar("LeavesHashchainHash")
    tx_hashes = system.secret.vector("TxHashes", size)
    leaves = system.secret.vector("Leaves", size)
    old_leaves = system.secret.vector("OldLeaves", size)
    paths = system.secret.matrix("MerkleProofs", size, height)
    indices = system.secret.vector("PathIndices", size)

    system.assert_equal(hash_chain([old_root, new_root, leaves_hash_chain]), public_input_hash)
    nullifiers = [poseidon(*account) for account in zip(leaves, indices, tx_hashes, strict=True)]
    system.assert_equal(hash_chain(nullifiers), leaves_hash_chain)

    root = old_root
    for position in range(size):
        bits = to_bits(indices[position], height)
        root = merkle_update(root, old_leaves[position], nullifiers[position], bits, paths[position])
    system.assert_equal(root, new_root)
