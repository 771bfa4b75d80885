"""The options that choose a circuit, by the reference's names, checked before any work."""

import click

from prover.circuits.catalogue import CircuitSizeInvalid, CircuitTooLarge, check_size
from prover.cli.options.settings import Function
from shared.requests.circuit_id import CircuitId, CircuitKind

_STATE = ("inclusion-tree-height", "inclusion-compressed-accounts")
_ADDRESS = ("non-inclusion-tree-height", "non-inclusion-compressed-accounts")
_SIZES: dict[CircuitKind, tuple[tuple[str, str], ...]] = {
    CircuitKind.INCLUSION: (_STATE,),
    CircuitKind.NON_INCLUSION: (_ADDRESS,),
    CircuitKind.COMBINED: (_STATE, _ADDRESS),
    CircuitKind.BATCH_APPEND: (("append-tree-height", "append-batch-size"),),
    CircuitKind.BATCH_UPDATE: (("update-tree-height", "update-batch-size"),),
    CircuitKind.BATCH_ADDRESS_APPEND: (("address-append-tree-height", "address-append-batch-size"),),
}
_FLAGS = tuple(dict.fromkeys(flag for pairs in _SIZES.values() for pair in pairs for flag in pair))
_UNSET = 0


def circuit_options(command: Function) -> Function:
    """Add --circuit, --legacy and the sizes, which `circuit_from` takes as keywords."""
    for flag in reversed(_FLAGS):
        what = (
            "Height of the tree."
            if flag.endswith("height")
            else "Number of accounts, addresses or batch elements in a proof."
        )
        option = click.option(f"--{flag}", type=int, default=_UNSET, metavar="N", help=what)
        command = option(command)
    legacy = click.option(
        "--legacy", "--v1", "legacy", is_flag=True, help="Version 1 of the circuit, with separate public inputs."
    )
    choice = click.Choice([kind.value for kind in CircuitKind])
    return click.option("--circuit", "kind", type=choice, required=True, help="Circuit type.")(legacy(command))


def circuit_from(kind: str, legacy: bool, **sizes: int) -> CircuitId:
    """Return the circuit that the options name; raises click.UsageError that names the wrong one and its remedy."""
    chosen = CircuitKind(kind)
    given = {name.replace("_", "-"): value for name, value in sizes.items()}
    wanted = [flag for pair in _SIZES[chosen] for flag in pair]
    if missing := [f"--{flag}" for flag in wanted if given[flag] <= _UNSET]:
        raise click.UsageError(f"--circuit {chosen} needs {' and '.join(missing)}, each at least 1")
    if foreign := [f"--{flag}" for flag, value in given.items() if value != _UNSET and flag not in wanted]:
        raise click.UsageError(f"--circuit {chosen} has no {' and '.join(foreign)}; remove it")
    if legacy and chosen.is_batch:
        raise click.UsageError(f"--legacy exists for inclusion, non-inclusion and combined, not for --circuit {chosen}")
    heights, counts = zip(*((given[height], given[size]) for height, size in _SIZES[chosen]), strict=True)
    circuit = CircuitId(chosen, 1 if legacy else 2, heights, counts)
    try:
        check_size(circuit)
    except (CircuitSizeInvalid, CircuitTooLarge) as error:
        raise click.UsageError(f"{error}; lower {' or '.join(f'--{flag}' for flag in wanted)}") from error
    return circuit
