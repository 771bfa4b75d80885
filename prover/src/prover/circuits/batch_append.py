"""New leaves are appended to a state tree, except in slots that are not empty."""

from __future__ import annotations

from prover.circuits.frontend.system import ConstraintSystem, Expression
from prover.circuits.gadgets.bits import to_bits
from prover.circuits.gadgets.choice import is_zero, select
from prover.circuits.gadgets.hash_chain import hash_chain
from prover.circuits.gadgets.merkle import merkle_update
from shared.requests.circuit_inputs import PUBLIC_INPUT_HASH, NamedValues


def batch_append(system: ConstraintSystem, inputs: NamedValues[Expression]) -> None:
    """Define the circuit. Public: hash chain of old root, new root, leaves' hash chain and first slot's index."""
    old_root, new_root = inputs.scalar("OldRoot"), inputs.scalar("NewRoot")
    leaves_hash_chain, start_index = inputs.scalar("LeavesHashchainHash"), inputs.scalar("StartIndex")
    old_leaves, leaves = inputs.vector("OldLeaves"), inputs.vector("Leaves")

    chain = hash_chain([old_root, new_root, leaves_hash_chain, start_index])
    system.assert_equal(chain, inputs.scalar(PUBLIC_INPUT_HASH))
    # A slot that is not empty has the nullifier of an account that was spent before it was appended; it stays.
    new_leaves = [select(is_zero(old), leaf, old) for old, leaf in zip(old_leaves, leaves, strict=True)]
    system.assert_equal(hash_chain(leaves), leaves_hash_chain)

    root = old_root
    for position, path in enumerate(inputs.matrix("MerkleProofs")):
        bits = to_bits(start_index + position, len(path))
        root = merkle_update(root, old_leaves[position], new_leaves[position], bits, path)
    system.assert_equal(root, new_root)
