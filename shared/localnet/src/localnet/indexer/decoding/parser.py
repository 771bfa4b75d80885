"""Conversion of transactions to events (forester/docs/reference/indexer.md, "Parsing transactions").

The unit of parsing is a group: an outer instruction with its inner ones. Nothing is guessed: unexpected data of an
instruction of the Light programs, or accounts with other hashes than computed, raise UnknownShape.
"""

from collections import Counter
from collections.abc import Iterator
from enum import Enum, auto

from localnet.borsh import MalformedData, Reader
from localnet.indexer.decoding.events import (
    NEXT,
    Event,
    Input,
    NewAddress,
    Output,
    PublicEvent,
    TreeRef,
    decode_tree_event,
)
from localnet.indexer.decoding.hashing import CompressedAccount, account_hash
from localnet.indexer.decoding.instructions import (
    CREATE_CPI_CONTEXT,
    DISCRIMINATOR_BYTES,
    QueueInsertion,
    Sequence,
    compressed_account,
    decode_migration,
    decode_outputs,
    decode_queue_insertion,
)
from localnet.indexer.decoding.source import Group, Instruction, Transaction
from localnet.indexer.programs import (
    ACCOUNT_COMPRESSION,
    INSERT_INTO_QUEUES,
    LIGHT_SYSTEM,
    LIGHT_SYSTEM_REGISTERED,
    MIGRATE_STATE,
    NOOP,
    SOLANA_SYSTEM,
    TreeType,
)
from shared.requests.witness_inputs import nullifier, tx_hash
from shared.trees.field import ZERO

_SHORTEST = 12
_LISTED_FROM = 2  # accounts of insert_into_queues before the trees and queues
_V1_TREES = frozenset({TreeType.STATE_V1, TreeType.ADDRESS_V1})


class UnknownShape(ValueError):
    """A transaction of the Light programs has an unknown shape."""


class _Class(Enum):
    SYSTEM_TRANSFER = auto()
    LIGHT = auto()
    INSERT = auto()
    OTHER = auto()


def parse_transaction(transaction: Transaction, slot: int) -> list[Event]:
    """Return the events of a transaction in order, none for a failed one; raise UnknownShape, see the module."""
    if transaction.error is not None:
        return []
    events: list[Event] = []
    for number, group in enumerate(transaction.groups):
        try:
            events += _parse_group(group, slot)
        except (ValueError, LookupError) as fault:
            raise UnknownShape(f"instruction {number} of the transaction: {fault}") from fault
    return events


def _parse_group(group: Group, slot: int) -> list[Event]:
    """Return the events of one group: of the instructions themselves, else of payloads given to the no-op program."""
    events: list[Event] = [_public_event(executing, insertion, slot) for executing, insertion in _units(group)]
    return events or list(_reported(group))


def _classify(instruction: Instruction) -> _Class:
    if instruction.program == SOLANA_SYSTEM:
        return _Class.SYSTEM_TRANSFER
    kind = instruction.data[:DISCRIMINATOR_BYTES]
    if instruction.program == LIGHT_SYSTEM and kind != CREATE_CPI_CONTEXT:
        return _Class.LIGHT
    if instruction.program == ACCOUNT_COMPRESSION and kind == INSERT_INTO_QUEUES:
        return _Class.INSERT
    return _Class.OTHER


def _units(group: Group) -> list[tuple[Instruction | None, Instruction]]:
    """Return pairs of the executing instruction of the Light system program and its insertion into the queues.

    Instructions before the executing one that only filled a CPI context add nothing that the insertion lacks.
    A program that is registered with account compression may insert directly; such a pair has no first part.
    """
    known = [instruction for instruction in group if len(instruction.data) >= _SHORTEST]
    pairs: list[tuple[Instruction | None, Instruction]] = []
    for place, instruction in enumerate(known):
        if _classify(instruction) is not _Class.INSERT or len(instruction.accounts) <= _LISTED_FROM:
            continue
        if instruction.accounts[1] != LIGHT_SYSTEM_REGISTERED:
            pairs.append((None, instruction))
            continue
        before = place
        while before and _classify(known[before - 1]) is _Class.SYSTEM_TRANSFER:
            before -= 1
        if before == 0 or _classify(known[before - 1]) is not _Class.LIGHT:
            raise MalformedData(
                "an insertion into queues without the instruction of the Light system program before it"
            )
        pairs.append((known[before - 1], instruction))
    return pairs


def _public_event(executing: Instruction | None, insertion: Instruction, slot: int) -> PublicEvent:
    content = decode_queue_insertion(insertion.data)
    listed = insertion.accounts[_LISTED_FROM:]
    if executing is None:
        return _direct_event(content, listed)
    accounts = [*content.context_outputs, *decode_outputs(executing.data)]
    if not len(accounts) == len(content.leaves) == len(content.leaf_indices):
        message = f"{len(accounts)} accounts, {len(content.leaves)} leaves and {len(content.leaf_indices)} leaf indices"
        raise MalformedData(message)
    event = PublicEvent(
        content.tx_hash,
        tuple(_inputs(content, listed)),
        tuple(_outputs(content, accounts, listed)),
        tuple(_addresses(content, listed)),
    )
    _verify(event, slot)
    return event


def _direct_event(content: QueueInsertion, listed: tuple[bytes, ...]) -> PublicEvent:
    """Return the event of hashes that a registered program queued without accounts; it may lack indices."""

    def named(place: int) -> TreeRef:
        return TreeRef(listed[place], listed[place], TreeType.STATE_V2)

    return PublicEvent(
        content.tx_hash,
        tuple(
            Input(
                spent.hash,
                spent.leaf_index,
                named(spent.tree),
                NEXT,
                nullifier(spent.hash, spent.leaf_index, content.tx_hash),
            )
            for spent in content.nullifiers
        ),
        tuple(Output(leaf.hash, NEXT, named(leaf.account), None, None) for leaf in content.leaves),
        tuple(NewAddress(new.address, listed[new.tree], NEXT) for new in content.addresses),
    )


def _outputs(content: QueueInsertion, accounts: list[CompressedAccount], listed: tuple[bytes, ...]) -> Iterator[Output]:
    seen: Counter[bytes] = Counter()
    for leaf, leaf_index, account in zip(content.leaves, content.leaf_indices, accounts, strict=True):
        entry = _entry(content.output_sequences, listed[leaf.account])
        if entry is None:
            raise MalformedData("a leaf goes to a tree without a sequence number")
        sequence = None
        if entry.place.tree_type in _V1_TREES:
            sequence = entry.number + seen[entry.place.tree]
            seen[entry.place.tree] += 1
        yield Output(leaf.hash, leaf_index, entry.place, sequence, account)


def _inputs(content: QueueInsertion, listed: tuple[bytes, ...]) -> Iterator[Input]:
    """Yield the inputs, with nullifier queue indices by the insertion's list: the instruction's may lack some."""
    seen: Counter[bytes] = Counter()
    for spent in content.nullifiers:
        entry = _entry(content.input_sequences, listed[spent.tree])
        if entry is None or entry.place.tree_type in _V1_TREES:
            yield Input(spent.hash, None, None, None, None)
            continue
        index = entry.number + seen[entry.place.tree]
        seen[entry.place.tree] += 1
        replacement = nullifier(spent.hash, spent.leaf_index, content.tx_hash)
        yield Input(spent.hash, spent.leaf_index, entry.place, index, replacement)


def _addresses(content: QueueInsertion, listed: tuple[bytes, ...]) -> Iterator[NewAddress]:
    seen: Counter[bytes] = Counter()
    for new in content.addresses:
        tree = listed[new.tree]
        entry = _entry(content.address_sequences, tree)
        if entry is None or entry.place.tree_type in _V1_TREES:
            yield NewAddress(new.address, tree, None)
            continue
        yield NewAddress(new.address, entry.place.tree, entry.number + seen[tree])
        seen[tree] += 1


def _entry(sequences: tuple[Sequence, ...], key: bytes) -> Sequence | None:
    """Return the entry of a key, which is that of a tree or of its queue."""
    return next((entry for entry in sequences if key in (entry.place.tree, entry.place.queue)), None)


def _verify(event: PublicEvent, slot: int) -> None:
    for output in event.outputs:
        if output.account is None:
            continue
        expected = account_hash(output.account, output.place.tree, output.place.tree_type, output.leaf_index)
        if expected != output.hash:
            message = f"leaf {output.leaf_index}: the account hashes to {expected.hex()}, not to {output.hash.hex()}"
            raise MalformedData(message)
    if event.tx_hash != ZERO:
        made = tx_hash([i.hash for i in event.inputs], [o.hash for o in event.outputs], slot)
        if made != event.tx_hash:
            raise MalformedData(f"the transaction hash is {made.hex()} at slot {slot}, not {event.tx_hash.hex()}")


def _reported(group: Group) -> Iterator[Event]:
    """Yield events that account compression gave to the no-op program, and migrations, which it reports in part."""
    for place, instruction in enumerate(group):
        if instruction.program != ACCOUNT_COMPRESSION:
            continue
        behind = group[place + 1 :]
        transfers = 0
        while transfers < len(behind) and behind[transfers].program == SOLANA_SYSTEM:
            transfers += 1
        report = behind[transfers] if transfers < len(behind) else None
        # A report is the call of account compression itself; the depth is unknown in recordings without it.
        if report is None or report.program != NOOP or (report.depth and report.depth != instruction.depth + 1):
            report = None
        if report is not None:
            yield decode_tree_event(report.data) if transfers == 0 else _legacy_event(report.data)
        if instruction.data[:DISCRIMINATOR_BYTES] == MIGRATE_STATE:
            yield _migration(instruction)


def _migration(instruction: Instruction) -> PublicEvent:
    """Return the leaf that ``migrate_state`` queues; its index is the queue's next one, which the state has."""
    queue = instruction.accounts[-1]
    place = TreeRef(queue, queue, TreeType.STATE_V2)
    return PublicEvent(ZERO, (), (Output(decode_migration(instruction.data), NEXT, place, None, None),), ())


def _legacy_event(data: bytes) -> PublicEvent:
    """Decode a public event of older releases, V1 trees only; members of later builds follow and are ignored."""
    reader = Reader(data)
    spent = reader.vector(reader.key)
    hashes = reader.vector(reader.key)
    records = reader.vector(lambda: (compressed_account(reader), reader.u8()))
    indices = reader.vector(reader.u32)
    sequences = dict(reader.vector(lambda: (reader.key(), reader.u64())))
    reader.option(reader.u64)  # relay fee
    reader.flag()
    reader.option(reader.u64)
    keys = reader.vector(reader.key)
    reader.option(reader.byte_vector)
    outputs = []
    for leaf, (account, tree_index), leaf_index in zip(hashes, records, indices, strict=True):
        tree = keys[tree_index]
        place = TreeRef(tree, tree, TreeType.STATE_V1)
        outputs.append(Output(leaf, leaf_index, place, sequences[tree], account))
        sequences[tree] += 1
    event = PublicEvent(ZERO, tuple(Input(leaf, None, None, None, None) for leaf in spent), tuple(outputs), ())
    _verify(event, 0)
    return event
