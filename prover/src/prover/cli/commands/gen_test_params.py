"""``prover gen-test-params``: a valid request for any circuit, from random trees."""

import secrets

import click

from prover.circuits.catalogue import CircuitSizeInvalid, CircuitTooLarge, check_size
from prover.cli.random_requests import RandomRequests
from shared.process.command_line import Command
from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.proof_wire import encode_request
from shared.trees.indexed_merkle_tree import HEIGHTS
from shared.trees.merkle_tree import TreeFull

_STATE_HEIGHTS = {1: 26, 2: 32}
_STATE_KINDS = (CircuitKind.INCLUSION, CircuitKind.COMBINED)
_ADDRESS_KINDS = (CircuitKind.NON_INCLUSION, CircuitKind.COMBINED)
_SIZE = click.IntRange(min=1)


@click.command(
    "gen-test-params",
    cls=Command,
    examples=(
        "prover gen-test-params --tree-height 32 --compressed-accounts 2 > request.json",
        "prover gen-test-params --circuit combined --legacy --new-addresses 2 --seed demo",
        "prover gen-test-params | prover prove --key v2_inclusion_32_1.key",
        "prover gen-test-params --circuit append --batch-size 500 | curl --data @- localhost:3001/prove",
    ),
)
@click.option(
    "--circuit",
    "kind",
    type=click.Choice([kind.value for kind in CircuitKind]),
    default=CircuitKind.INCLUSION.value,
    show_default=True,
    help="Circuit type.",
)
@click.option("--legacy", "--v1", "legacy", is_flag=True, help="Version 1 of the circuit, with separate public inputs.")
@click.option(
    "--tree-height",
    type=_SIZE,
    metavar="N",
    help="Height of the state tree (inclusion, combined, append, update). Default: 32, with --legacy 26.",
)
@click.option(
    "--compressed-accounts",
    type=_SIZE,
    metavar="N",
    help="Number of accounts (inclusion, combined). Default: 1.",
)
@click.option(
    "--address-tree-height",
    type=_SIZE,
    metavar="N",
    help="Height of the address tree (non-inclusion, combined, address-append). Default: 40, with --legacy 26.",
)
@click.option(
    "--new-addresses",
    type=_SIZE,
    metavar="N",
    help="Number of addresses (non-inclusion, combined). Default: 1.",
)
@click.option(
    "--batch-size",
    type=_SIZE,
    metavar="N",
    help="Number of batch elements (append, update, address-append). Default: 10.",
)
@click.option("--seed", metavar="TEXT", help="Seed: the same seed and options give the same request. Default: random.")
def gen_test_params(kind: str, legacy: bool, seed: str | None, **sizes: int | None) -> None:
    """Generate a valid request from random trees.

    Writes the request (JSON, as for POST /prove) to standard output. Default: inclusion of one account in a state tree
    of version 2. Only the default heights have published keys; `prover setup` makes keys for others.
    """
    circuit = _circuit(CircuitKind(kind), 1 if legacy else 2, sizes)
    try:
        request = RandomRequests(secrets.token_hex(16) if seed is None else seed).make(circuit)
    except TreeFull as error:
        raise click.UsageError(f"{circuit}: {error}; raise the height of the tree") from error
    click.echo(encode_request(request).decode())


def _circuit(kind: CircuitKind, version: int, sizes: dict[str, int | None]) -> CircuitId:
    """Return the circuit of the options; raises click.UsageError if they contradict each other."""
    if version == 1 and kind.is_batch:
        raise click.UsageError(f"--legacy exists for inclusion, non-inclusion and combined, not for --circuit {kind}")
    state = ("tree_height", _STATE_HEIGHTS[version])
    address = ("address_tree_height", HEIGHTS[version])
    pairs: list[tuple[tuple[str, int], tuple[str, int]]] = []
    if kind in _STATE_KINDS:
        pairs.append((state, ("compressed_accounts", 1)))
    if kind in _ADDRESS_KINDS:
        pairs.append((address, ("new_addresses", 1)))
    if kind.is_batch:
        pairs.append((address if kind is CircuitKind.BATCH_ADDRESS_APPEND else state, ("batch_size", 10)))
    known = {name for pair in pairs for name, _ in pair}
    if foreign := [_flag(name) for name, value in sizes.items() if value is not None and name not in known]:
        raise click.UsageError(f"--circuit {kind} has no {' and '.join(foreign)}; remove it")
    heights, counts = zip(*([sizes[name] or default for name, default in pair] for pair in pairs), strict=True)
    circuit = CircuitId(kind, version, heights, counts)
    try:
        check_size(circuit)
    except (CircuitSizeInvalid, CircuitTooLarge) as error:
        raise click.UsageError(f"{error}; lower {' or '.join(sorted(map(_flag, known)))}") from error
    return circuit


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
