"""Accounts with values that no deployed program writes: a lying node must not make the forester work without end."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from chain_accounts import TreeAccount
from hypothesis import example, given, settings
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from forester.chain import batched_accounts, bounds, concurrent_accounts, registry_accounts, tree_metadata
from forester.chain.lookup_tables import PROGRAM, decode_lookup_table
from forester.chain.programs.coder import account_discriminator
from forester.chain.rpc_client import LISTED_ACCOUNTS, Account
from forester.chain.tree_metadata import TreeKind
from forester.daemon.clock import SlotClock
from forester.daemon.epochs import EpochKeeper, EpochParts
from forester.daemon.supervisor import Supervisor
from forester.errors import MalformedAccount
from forester.network_status.epochs import owners, protocol_times
from forester.observability.metrics import Metrics
from forester.rollover.readiness import decode_head

LARGEST = 2**64 - 1
CONFIG = (0, 1, 10, 100, 1000, 100, 5000, 20_488, 100)
CONFIG_FIELDS = (
    *("genesis_slot", "min_weight", "slot_length", "registration_phase_length", "active_phase_length"),
    *("report_work_phase_length", "network_fee", "cpi_context_size", "finalize_counter_limit"),
)
words = st.one_of(st.integers(0, 300), st.integers(0, LARGEST), st.sampled_from([2**32 - 1, 2**32, 2**63, LARGEST]))


def config_body(numbers: tuple[int, ...] = CONFIG, address_fee: int = 10_000) -> bytes:
    return struct.pack("<9Q32sQ40s", *numbers, bytes(32), address_fee, bytes(40))


def config_account(**changes: int) -> bytes:
    values = dict(zip(CONFIG_FIELDS, CONFIG, strict=True)) | changes
    return account_discriminator("ProtocolConfigPda") + bytes(33) + config_body(tuple(values.values()))


def registration_account(*, weight: int = 1, index: int = 0, total: int = 5, epoch: int = 3, start: int = 100) -> bytes:
    head = struct.pack("<32s4Q?QQ", bytes(32), 0, epoch, weight, 0, False, index, start)
    body = head + b"\1" + struct.pack("<Q", total) + config_body() + bytes(8)
    return account_discriminator("ForesterEpochPda") + body


def v1_tree(kind: TreeKind = TreeKind.STATE_V1) -> bytes:
    data = bytearray(TreeAccount(kind, 1).accounts()[0].data)
    struct.pack_into("<4Q", data, 224, 26, 10, 5, 7)
    struct.pack_into("<4Q", data, 304, 1400, 1, 0, 0)
    struct.pack_into("<4Q", data, 336, 2400, 1, 0, 0)
    return bytes(data)


def account(kind: TreeKind, place: int) -> bytes:
    return TreeAccount(kind, 1).accounts()[place].data


@dataclass(frozen=True)
class Decoder:
    """A decoder, an account that it accepts, and the part of it whose numbers are changed."""

    decode: Callable[[bytes], Any]
    valid: bytes
    first: int
    end: int


DECODERS = {
    "protocol config": Decoder(registry_accounts.decode_protocol_config, config_account(), 41, 193),
    "forester": Decoder(registry_accounts.decode_forester, account_discriminator("ForesterPda") + bytes(104), 40, 112),
    "epoch": Decoder(
        registry_accounts.decode_epoch, account_discriminator("EpochPda") + bytes(8) + config_body() + bytes(16), 8, 184
    ),
    "registration": Decoder(registry_accounts.decode_forester_epoch, registration_account(), 40, 258),
    "V2 state tree": Decoder(batched_accounts.decode_batched_tree, account(TreeKind.STATE_V2, 0), 8, 704),
    "V2 address tree": Decoder(batched_accounts.decode_batched_tree, account(TreeKind.ADDRESS_V2, 0), 8, 704),
    "V2 output queue": Decoder(batched_accounts.decode_output_queue, account(TreeKind.STATE_V2, 1), 8, 552),
    "V1 tree": Decoder(concurrent_accounts.decode_tree, v1_tree(), 8, 384),
    "V1 queue": Decoder(concurrent_accounts.decode_queue, account(TreeKind.STATE_V1, 1), 8, 256),
    "tree metadata": Decoder(
        lambda data: tree_metadata.decode_tree_metadata(Pubkey.default(), data), account(TreeKind.STATE_V2, 0), 8, 264
    ),
    "head for a rollover": Decoder(lambda data: decode_head(data).is_due, account(TreeKind.STATE_V2, 0), 8, 704),
}
FREE = {"rollover_index", "close_threshold", "root_index", "min_weight", "fee", "active_weight", "pending_weight"} | {
    *("total_work", "registered_weight", "total_epoch_weight", "forester_index", "weight", "rollover_threshold"),
}
"""Numbers that are only compared and shown."""


def largest_number(value: object, name: str = "") -> int:
    """Return the largest decoded number, except the unbounded ones."""
    if isinstance(value, int):
        return 0 if name in FREE else value
    if isinstance(value, tuple):
        return max(largest_number(item, name) for item in value)
    return max((largest_number(item, key) for key, item in vars(value).items()), default=0) if is_plain(value) else 0


def is_plain(value: object) -> bool:
    return type(value).__module__.startswith("forester.chain") and not isinstance(value, TreeKind)


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=100, deadline=500)
@given(data=st.data())
def test_decoder__numbers_of_an_account_are_replaced__is_within_bounds_or_refuses(
    name: str, data: st.DataObject
) -> None:
    decoder = DECODERS[name]
    changed = bytearray(decoder.valid)
    offsets = st.integers(decoder.first, decoder.end - 8)
    for offset, word in data.draw(st.lists(st.tuples(offsets, words), max_size=4)):
        struct.pack_into("<Q", changed, offset, word)
    with contextlib.suppress(MalformedAccount):
        assert largest_number(decoder.decode(bytes(changed))) <= bounds.LARGEST_LAMPORTS


@pytest.mark.parametrize("name", DECODERS)
def test_decoder__account_as_the_programs_write_it__is_decoded(name: str) -> None:
    DECODERS[name].decode(DECODERS[name].valid)


@settings(max_examples=300, deadline=500)
@given(st.tuples(*[words] * 9), st.integers(0, 2**48))
@example((0, 1, 1, 0, 1, 300_000_000, 0, 0, 0), 300_000_000)
def test_protocol_config__any_numbers__makes_few_live_epochs_and_light_slots(
    numbers: tuple[int, ...], slot: int
) -> None:
    try:
        config = registry_accounts.decode_protocol_config(
            config_account(**dict(zip(CONFIG_FIELDS, numbers, strict=True)))
        ).config
    except MalformedAccount:
        return
    times = protocol_times(config)
    assert len(times.live_epochs(slot)) <= bounds.MAXIMUM_OVERLAPPING_EPOCHS + 2
    assert times.phases(0).light_slots <= bounds.MAXIMUM_LIGHT_SLOTS


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        (
            {"active_phase_length": 1, "slot_length": 1, "report_work_phase_length": 300_000_000},
            "report_work_phase_length is 300000000, expected 0 to 16777216",
        ),
        ({"active_phase_length": 1}, "registration and report phase of 200 slots, over 16 active phases"),
        ({"active_phase_length": 0}, "active_phase_length is 0, expected 1 to 16777216"),
        ({"slot_length": 0}, "slot_length is 0, expected 1"),
        ({"slot_length": LARGEST}, f"slot_length is {LARGEST}"),
        (
            {"active_phase_length": 1_000_000, "slot_length": 1},
            "active_phase_length is 1000000 with slot_length 1, over 32768 light slots",
        ),
        ({"genesis_slot": LARGEST}, f"genesis_slot is {LARGEST}"),
        ({"cpi_context_size": 2**40}, f"cpi_context_size is {2**40}, expected 0 to 10485760"),
        ({"network_fee": LARGEST}, f"network_fee is {LARGEST}"),
    ],
)
def test_protocol_config__hostile__is_refused_with_field_value_and_remedy(
    changes: dict[str, int], reported: str
) -> None:
    with pytest.raises(MalformedAccount) as raised:
        registry_accounts.decode_protocol_config(config_account(**changes))
    assert raised.value.detail.startswith("protocol configuration: ")
    assert reported in raised.value.detail
    assert "correct --rpc-url or --fallback-rpc-url" in raised.value.detail


@pytest.mark.parametrize(
    "changes",
    [
        *({}, {"slot_length": 60}, {"genesis_slot": 286_142_505}, {"registration_phase_length": 0}),
        {"slot_length": 50, "registration_phase_length": 216_000, "active_phase_length": 432_000}
        | {"report_work_phase_length": 216_000},
        {"slot_length": 2, "registration_phase_length": 10, "active_phase_length": 20, "report_work_phase_length": 10},
        {"active_phase_length": 20},
    ],
)
def test_protocol_config__of_a_deployment_or_a_local_network__is_accepted(changes: dict[str, int]) -> None:
    config = registry_accounts.decode_protocol_config(config_account(**changes)).config
    assert {name: getattr(config, name) for name in changes} == changes


@pytest.mark.parametrize("kind", [TreeKind.STATE_V1, TreeKind.STATE_V2, TreeKind.ADDRESS_V2])
def test_tree__height_of_an_attack__is_refused_at_once(kind: TreeKind) -> None:
    data = bytearray(account(kind, 0) if kind.is_batched else v1_tree())
    struct.pack_into("<I", data, 248 if kind.is_batched else 224, 2**32 - 1)
    began = time.monotonic()
    with pytest.raises(MalformedAccount, match=f"height is {2**32 - 1}, expected 1 to {kind.height}"):
        decode_head(bytes(data)).is_due  # noqa: B018 - the shift was what cost a GiB
    assert time.monotonic() - began < 0.5


def test_registration__share_beyond_the_total_weight__is_refused() -> None:
    assert registry_accounts.decode_forester_epoch(registration_account(index=4, weight=1, total=5)).weight == 1
    with pytest.raises(MalformedAccount, match=r"forester_index \+ weight is 6, expected 0 to 5"):
        registry_accounts.decode_forester_epoch(registration_account(index=5, weight=1, total=5))


def test_lookup_table__more_addresses_than_a_transaction_can_name__is_refused() -> None:
    header = (1).to_bytes(4, "little") + b"\xff" * 8
    for count in (256, 257):
        table = Account(Pubkey.default(), PROGRAM, 1, header.ljust(56, b"\0") + bytes(32 * count))
        if count == 256:
            assert len(decode_lookup_table(table).addresses) == count
        else:
            with pytest.raises(MalformedAccount, match="has 257 addresses"):
                decode_lookup_table(table)


def test_owners__thousands_of_registrations_and_light_slots__take_little_time() -> None:
    shares = tuple((number, 1) for number in range(LISTED_ACCOUNTS))
    began = time.monotonic()
    found = owners(shares, LISTED_ACCOUNTS, bytes(32), 1, bounds.MAXIMUM_LIGHT_SLOTS)
    assert time.monotonic() - began < 5
    assert all(position is not None for position in found)
    assert owners(((0, 0), (0, 3), (3, 1)), 10, bytes(32), 1, 40).count(0) == 0


async def test_epochs__of_a_hostile_config__are_not_begun() -> None:
    data = config_account(active_phase_length=1, slot_length=1, report_work_phase_length=300_000_000)
    found = Account(Pubkey.default(), PROGRAM, 1, data)
    clock = SlotClock(silence_s=1)
    clock.read(300_000_001)
    rpc = SimpleNamespace(existing_account=AsyncMock(return_value=found))
    parts = cast(EpochParts, SimpleNamespace(rpc=rpc, clock=clock, metrics=Metrics()))
    supervisor = Supervisor()
    with pytest.raises(MalformedAccount, match="report_work_phase_length is 300000000"):
        await asyncio.wait_for(EpochKeeper(parts, supervisor).run(), 2)
    assert not supervisor.names
