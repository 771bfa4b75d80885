"""Accounts are in state trees and addresses are not in address trees, in one proof."""

from __future__ import annotations

from prover.circuits.frontend.system import ConstraintSystem, Expression
from prover.circuits.gadgets.poseidon import poseidon
from prover.circuits.inclusion import Accounts
from prover.circuits.non_inclusion import Addresses
from shared.requests.circuit_inputs import INCLUSION_PART, NON_INCLUSION_PART, PUBLIC_INPUT_HASH, NamedValues


def combined(system: ConstraintSystem, inputs: NamedValues[Expression]) -> None:
    """Define the circuit. Public: all roots, leaves and values; in version 2 the hash of both statements."""
    state, absent = Accounts.of(inputs, INCLUSION_PART), Addresses.of(inputs, NON_INCLUSION_PART)

    if PUBLIC_INPUT_HASH in inputs:
        system.assert_equal(inputs.scalar(PUBLIC_INPUT_HASH), poseidon(state.claim(), absent.claim()))
    state.assert_included(system)
    absent.assert_absent(system)
