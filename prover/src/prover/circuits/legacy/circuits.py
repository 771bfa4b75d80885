"""The circuits of version 1, whose roots, leaves and values are public inputs."""

from __future__ import annotations

from prover.circuits.frontend.system import ConstraintSystem
from prover.circuits.legacy.statements import (
    Inclusion,
    LowElements,
    NonInclusion,
    Positions,
    assert_absent,
    assert_included,
)


def inclusion(system: ConstraintSystem, accounts: int, height: int) -> None:
    """Define the circuit: accounts are in state trees."""
    claims = Inclusion.declare(system.public, accounts)
    positions = Positions.declare(system.secret, accounts, height)

    assert_included(system, claims, positions)


def non_inclusion(system: ConstraintSystem, addresses: int, height: int) -> None:
    """Define the circuit: addresses are not in address trees."""
    claims = NonInclusion.declare(system.public, addresses)
    elements = LowElements.declare(system.secret, addresses, height)

    assert_absent(system, claims, elements)


def combined(system: ConstraintSystem, accounts: int, addresses: int, state_height: int, address_height: int) -> None:
    """Define the circuit: accounts are in state trees and addresses are not in address trees."""
    included = Inclusion.declare(system.public.within("Inclusion"), accounts)
    absent = NonInclusion.declare(system.public.within("NonInclusion"), addresses)
    positions = Positions.declare(system.secret.within("Inclusion"), accounts, state_height)
    elements = LowElements.declare(system.secret.within("NonInclusion"), addresses, address_height)

    assert_included(system, included, positions)
    assert_absent(system, absent, elements)
