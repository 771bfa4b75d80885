"""``--sizing`` of ``prover check``: proofs per second that a deployment must make, by circuit."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import click

from prover.cli.options.keys import MODES
from prover.cli.options.settings import Function
from prover.keys.catalogue.circuits import CIRCUIT_GROUPS, UnknownCircuit, circuits_named, smallest_first
from prover.keys.catalogue.run_modes import RunMode, circuits_of
from shared.requests.circuit_id import CircuitId, CircuitKind


@dataclass(frozen=True)
class Demand:
    """Proofs per second of any mix of some circuits of one kind; ``circuits`` begins with the smallest."""

    circuits: tuple[CircuitId, ...]
    per_second: float

    @property
    def kind(self) -> CircuitKind:
        """Kind of all circuits."""
        return self.circuits[0].kind

    @property
    def names(self) -> list[str]:
        """Names that select the circuits: that of a group, or one for each circuit."""
        groups = [name for name, members in CIRCUIT_GROUPS.items() if members == frozenset(self.circuits)]
        return groups or [circuit.name for circuit in self.circuits]


def _demands(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> tuple[Demand, ...]:
    found = tuple(demand for word in words for demand in _of_word(word))
    seen: set[CircuitId] = set()
    for demand in found:
        if twice := seen.intersection(demand.circuits):
            raise click.BadParameter(f"{smallest_first(twice)[0]} is sized twice; name each circuit once")
        seen.update(demand.circuits)
    return found


def _of_word(word: str) -> Iterator[Demand]:
    name, _, text = word.partition("=")
    try:
        per_second = float(text)
    except ValueError:
        per_second = math.nan
    if not 0 < per_second < math.inf:
        raise click.BadParameter(f"{word!r} has no positive number of proofs per second; write for example append=2")
    try:
        circuits = circuits_of(RunMode(name)) if name in MODES else smallest_first(circuits_named([name]))
    except UnknownCircuit as error:
        raise click.BadParameter(f"{error}, or a run mode: {', '.join(MODES)}") from error
    for kind in CircuitKind:
        of_kind = tuple(circuit for circuit in circuits if circuit.kind is kind)
        if of_kind:
            yield Demand(of_kind, per_second)


def sizing_option(command: Function) -> Function:
    """Add ``--sizing``, of which the command gets a tuple of ``Demand``."""
    return click.option(
        "--sizing",
        multiple=True,
        metavar="NAME=RATE",
        callback=_demands,
        help="Proofs per second of a circuit, or of each kind of circuit of a run mode: instead of checking, measure "
        "proofs with the installed keys and print values of the Helm chart for that rate. Repeatable.",
    )(command)
