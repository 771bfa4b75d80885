"""The circuits of an instance or a command, selected by run mode and by name."""

from collections.abc import Iterable
from typing import Self

from msgspec import Struct

from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS, circuits_named, smallest_first
from prover.keys.catalogue.run_modes import KeySet, RunMode, circuits_of
from shared.requests.circuit_id import CircuitId


class CircuitSelection(Struct, frozen=True):
    """A set of circuits; None excludes no circuit."""

    circuits: frozenset[CircuitId] | None

    @classmethod
    def everything(cls) -> Self:
        """Return the selection that excludes no circuit."""
        return cls(None)

    @classmethod
    def of(
        cls,
        run_mode: RunMode | None = None,
        names: Iterable[str] = (),
        key_set: KeySet = KeySet.SPECIFICATION,
    ) -> Self:
        """Return the circuits of a run mode and of the names together; all circuits if neither is given.

        Raises UnknownCircuit.
        """
        named = circuits_named(names)
        if run_mode is None:
            return cls(named or None)
        return cls(named | frozenset(circuits_of(run_mode, key_set)))

    @property
    def is_restricted(self) -> bool:
        """True if any circuit is excluded."""
        return self.circuits is not None

    def includes(self, circuit: CircuitId) -> bool:
        """Return whether a circuit is selected."""
        return self.circuits is None or circuit in self.circuits

    def published(self) -> list[CircuitId]:
        """Return the selected published circuits, the smallest first."""
        return smallest_first(circuit for circuit in PUBLISHED_CIRCUITS if self.includes(circuit))
