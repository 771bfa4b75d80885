"""Which circuits an instance proves, or a command works on: run modes and circuit names, joined."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS, circuits_named, smallest_first
from prover.keys.catalogue.run_modes import KeySet, RunMode, circuits_of
from shared.circuit_id import CircuitId


@dataclass(frozen=True)
class CircuitSelection:
    """A set of circuits; None means that nothing is excluded."""

    circuits: frozenset[CircuitId] | None

    @classmethod
    def everything(cls) -> Self:
        """No restriction."""
        return cls(None)

    @classmethod
    def of(
        cls,
        run_mode: RunMode | None = None,
        names: Iterable[str] = (),
        key_set: KeySet = KeySet.SPECIFICATION,
    ) -> Self:
        """The circuits of a run mode and those of the names together; everything if neither is given.

        Raises UnknownCircuit.
        """
        named = circuits_named(names)
        if run_mode is None:
            return cls(named or None)
        return cls(named | frozenset(circuits_of(run_mode, key_set)))

    @property
    def is_restricted(self) -> bool:
        """Whether anything is excluded."""
        return self.circuits is not None

    def includes(self, circuit: CircuitId) -> bool:
        """Whether a circuit was selected."""
        return self.circuits is None or circuit in self.circuits

    def published(self) -> list[CircuitId]:
        """The published circuits that were selected, the small ones first."""
        return smallest_first(circuit for circuit in PUBLISHED_CIRCUITS if self.includes(circuit))
