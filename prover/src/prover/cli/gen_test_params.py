"""``prover gen-test-params``: a valid request for any circuit, from trees made up for it."""

import random
import secrets

import click

from prover.circuits.catalogue import CircuitSizeInvalid, CircuitTooLarge, check_size
from prover.cli.command import Command
from shared.circuit_id import CircuitId, CircuitKind
from shared.field import SCALAR_MODULUS, scalar_bytes
from shared.indexed_merkle_tree import HEIGHTS, LARGEST_VALUE, Absence, IndexedMerkleTree
from shared.merkle_tree import MerkleTree, TreeFull
from shared.proof_wire import ProofRequest, encode_request
from shared.witness_inputs import (
    Membership,
    SpentAccount,
    batch_address_append_request,
    batch_append_request,
    batch_update_request,
    combined_request,
    inclusion_request,
    membership,
    non_inclusion_request,
    tx_hash,
)

_STATE_HEIGHTS = {1: 26, 2: 32}
_INDICES = 1 << 32  # path indices of requests have 32 bits
_NEIGHBOURS = 8  # leaves that are in a tree besides those asked about, so that paths are not all empty
_STATE_KINDS = (CircuitKind.INCLUSION, CircuitKind.COMBINED)
_ADDRESS_KINDS = (CircuitKind.NON_INCLUSION, CircuitKind.COMBINED)


class MadeUpRequests:
    """Requests from random trees; the same seed gives the same requests."""

    def __init__(self, seed: str) -> None:
        self._numbers = random.Random(seed)  # noqa: S311 - test data, not secrets

    def make(self, circuit: CircuitId) -> ProofRequest:
        """A request that the circuit accepts; TreeFull if the trees are too small for it."""
        height, size = circuit.heights[0], circuit.sizes[0]
        match circuit.kind:
            case CircuitKind.INCLUSION:
                return inclusion_request(self._memberships(height, size), circuit.version)
            case CircuitKind.NON_INCLUSION:
                return non_inclusion_request(self._absences(circuit.version, height, size))
            case CircuitKind.COMBINED:
                absences = self._absences(circuit.version, circuit.heights[1], circuit.sizes[1])
                return combined_request(self._memberships(height, size), absences)
            case CircuitKind.BATCH_APPEND:
                return self._batch_append(height, size)
            case CircuitKind.BATCH_UPDATE:
                return self._batch_update(height, size)
            case CircuitKind.BATCH_ADDRESS_APPEND:
                return self._batch_address_append(height, size)

    def _memberships(self, height: int, count: int) -> list[Membership]:
        tree = MerkleTree(height)
        indices = range(min(tree.capacity, _INDICES))
        chosen = [self._numbers.choice(indices) for _ in range(count)]
        beside = [self._numbers.choice(indices) for _ in range(_NEIGHBOURS)]
        tree.set_many({index: self._element() for index in chosen + beside})
        return [membership(tree, index) for index in chosen]

    def _absences(self, version: int, height: int, count: int) -> list[Absence]:
        tree = IndexedMerkleTree(version, height)
        room = (1 << height) - tree.next_index
        tree.insert_many(self._values(min(_NEIGHBOURS, room)))
        present = {element.value for element in tree.elements}
        absent = [value for value in self._values(count + len(present)) if value not in present]
        return [tree.absence(value) for value in absent[:count]]

    def _batch_append(self, height: int, count: int) -> ProofRequest:
        """A second batch; some of its accounts were spent already, so that their slots hold nullifiers."""
        tree = MerkleTree(height)
        tree.append([self._element() for _ in range(min(count, max(tree.capacity - count, 0)))])
        spent = range(tree.next_index, min(tree.next_index + count, tree.capacity), 3)
        tree.set_many({index: self._element() for index in spent})
        return batch_append_request(tree, [self._element() for _ in range(count)])

    def _batch_update(self, height: int, count: int) -> ProofRequest:
        """About half of the accounts are in the tree; the others are spent before they are appended."""
        tree = MerkleTree(height)
        slots = min(tree.capacity, 2 * count)
        if slots < count:
            raise TreeFull(f"{count} accounts do not fit into a tree of {height} levels")
        accounts = [self._element() for _ in range(slots)]
        tree.append(accounts[: (slots + 1) // 2])
        indices = self._numbers.sample(range(slots), count)
        transaction = tx_hash(
            [accounts[index] for index in indices], [self._element()], self._numbers.randrange(_INDICES)
        )
        return batch_update_request(tree, [SpentAccount(accounts[index], index, transaction) for index in indices])

    def _batch_address_append(self, height: int, count: int) -> ProofRequest:
        tree = IndexedMerkleTree(2, height)
        room = max((1 << height) - tree.next_index - count, 0)
        before = min(_NEIGHBOURS, room)
        values = self._values(before + count)
        tree.insert_many(values[:before])
        return batch_address_append_request(tree, values[before:])

    def _element(self) -> bytes:
        return scalar_bytes(self._numbers.randrange(1, SCALAR_MODULUS))

    def _values(self, count: int) -> list[bytes]:
        """Distinct values that an address tree can hold."""
        largest = int.from_bytes(LARGEST_VALUE, "big")
        values: dict[bytes, None] = {}
        while len(values) < count:
            values[scalar_bytes(self._numbers.randrange(1, largest))] = None
        return list(values)


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
        request = MadeUpRequests(secrets.token_hex(16) if seed is None else seed).make(circuit)
    except TreeFull as error:
        raise click.UsageError(f"{circuit}: {error}; raise the height of the tree") from error
    click.echo(encode_request(request).decode())


def _circuit(kind: CircuitKind, version: int, sizes: dict[str, int | None]) -> CircuitId:
    """The circuit that the options name; click.UsageError if they do not fit together."""
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
