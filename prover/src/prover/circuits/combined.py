"""Accounts are in state trees and addresses are not in address trees, in one proof."""

from __future__ import annotations

from prover.circuits.frontend.system import ConstraintSystem
from prover.circuits.gadgets.poseidon import poseidon
from prover.circuits.inclusion import Accounts
from prover.circuits.non_inclusion import Addresses


def combined(system: ConstraintSystem, accounts: int, addresses: int, state_height: int, address_height: int) -> None:
    """Define the circuit. Public: the hash of both statements."""
    public_input_hash = system.public.scalar("PublicInputHash")
    state = Accounts.declare(system.secret.within("Inclusion"), accounts, state_height)
    absent = Addresses.declare(system.secret.within("NonInclusion"), addresses, address_height)

    system.assert_equal(public_input_hash, poseidon(state.claim(), absent.claim()))
    state.assert_included(system)
    absent.assert_absent(system)
