"""Accounts of the registry, decoded: protocol configuration, epochs, foresters.

Source: forester/docs/reference/accounts.md, "Registry accounts".
"""

import struct
from dataclasses import dataclass
from typing import Any

from solders.pubkey import Pubkey

from forester.chain import bounds
from forester.chain.programs.addresses import PROTOCOL_CONFIG
from forester.chain.programs.coder import decode_account
from forester.chain.rpc_client import RpcClient
from forester.errors import MalformedAccount

_EPOCH = "epoch account"
_REGISTRATION = "registration account"


@dataclass(frozen=True)
class ProtocolConfig:
    """Rules of epochs; lengths and the genesis in slots, fees in lamports."""

    genesis_slot: int
    min_weight: int
    slot_length: int
    registration_phase_length: int
    active_phase_length: int
    report_work_phase_length: int
    network_fee: int
    cpi_context_size: int
    finalize_counter_limit: int
    address_network_fee: int


@dataclass(frozen=True)
class ProtocolConfigAccount:
    """The protocol configuration and the authority that may change it."""

    authority: Pubkey
    config: ProtocolConfig


@dataclass(frozen=True)
class ForesterAccount:
    """A forester that the protocol authority admitted."""

    authority: Pubkey
    fee: int
    active_weight: int
    pending_weight: int
    current_epoch: int
    last_registered_epoch: int


@dataclass(frozen=True)
class EpochAccount:
    """An epoch for which a forester registered."""

    epoch: int
    config: ProtocolConfig
    total_work: int
    registered_weight: int


@dataclass(frozen=True)
class ForesterEpochAccount:
    """A registration. ``total_epoch_weight`` is None until it is finalised."""

    authority: Pubkey
    fee: int
    epoch: int
    weight: int
    work_counter: int
    has_reported_work: bool
    forester_index: int
    active_phase_start: int
    total_epoch_weight: int | None
    config: ProtocolConfig
    finalize_counter: int


@dataclass(frozen=True)
class RegisteredProgram:
    """A program that may change the trees of a group."""

    program: Pubkey
    group: Pubkey
    signer: Pubkey


async def read_protocol_config(rpc: RpcClient) -> ProtocolConfigAccount:
    """Read the protocol configuration. Raises EndpointError, AccountMissing and MalformedAccount."""
    account = await rpc.existing_account(PROTOCOL_CONFIG, "the protocol configuration")
    return decode_protocol_config(account.data)


def decode_protocol_config(data: bytes) -> ProtocolConfigAccount:
    """Decode a ProtocolConfigPda; MalformedAccount if it is none, as for all decoders here."""
    fields = decode_account("ProtocolConfigPda", data)
    return ProtocolConfigAccount(fields.authority, _config("protocol configuration", fields.config))


def decode_forester(data: bytes) -> ForesterAccount:
    """Decode a ForesterPda."""
    fields = decode_account("ForesterPda", data)
    account = ForesterAccount(*(getattr(fields, name) for name in ForesterAccount.__dataclass_fields__))
    epochs = {"current_epoch": account.current_epoch, "last_registered_epoch": account.last_registered_epoch}
    bounds.check_all("forester account", bounds.LARGEST_COUNT, **epochs)
    return account


def decode_epoch(data: bytes) -> EpochAccount:
    """Decode an EpochPda."""
    fields = decode_account("EpochPda", data)
    bounds.check(_EPOCH, "epoch", fields.epoch, bounds.LARGEST_COUNT)
    config = _config(_EPOCH, fields.protocol_config)
    return EpochAccount(fields.epoch, config, fields.total_work, fields.registered_weight)


def decode_forester_epoch(data: bytes) -> ForesterEpochAccount:
    """Decode a ForesterEpochPda, which is padded."""
    fields = decode_account("ForesterEpochPda", data)
    bounds.check_all(
        _REGISTRATION,
        bounds.LARGEST_COUNT,
        epoch=fields.epoch,
        epoch_active_phase_start_slot=fields.epoch_active_phase_start_slot,
        finalize_counter=fields.finalize_counter,
        work_counter=fields.work_counter,
    )
    if fields.total_epoch_weight is not None:
        parts = fields.forester_index + fields.weight
        bounds.check(_REGISTRATION, "forester_index + weight", parts, fields.total_epoch_weight)
    names = ForesterEpochAccount.__dataclass_fields__.keys() - {"active_phase_start", "config"}
    return ForesterEpochAccount(
        **{name: getattr(fields, name) for name in names},
        active_phase_start=fields.epoch_active_phase_start_slot,
        config=_config(_REGISTRATION, fields.protocol_config),
    )


REGISTERED_PROGRAM_DISCRIMINATOR = bytes.fromhex("1ffbb4eb03743204")
_REGISTERED_PROGRAM = struct.Struct("<8s32s32s32s")


def decode_registered_program(data: bytes) -> RegisteredProgram:
    """Decode a RegisteredProgram, which is zero-copy."""
    if len(data) < _REGISTERED_PROGRAM.size or data[:8] != REGISTERED_PROGRAM_DISCRIMINATOR:
        raise MalformedAccount(f"not a RegisteredProgram: {len(data)} bytes, discriminator {data[:8].hex()}")
    _, program, group, signer = _REGISTERED_PROGRAM.unpack_from(data)
    return RegisteredProgram(Pubkey(program), Pubkey(group), Pubkey(signer))


def _config(account: str, fields: Any) -> ProtocolConfig:
    config = ProtocolConfig(**{name: getattr(fields, name) for name in ProtocolConfig.__dataclass_fields__})
    bounds.check_all(
        account,
        bounds.LARGEST_COUNT,
        genesis_slot=config.genesis_slot,
        finalize_counter_limit=config.finalize_counter_limit,
    )
    for name in ("slot_length", "active_phase_length"):
        bounds.check(account, name, getattr(config, name), bounds.LONGEST_PHASE_SLOTS, minimum=1)
    active, overlap = config.active_phase_length, bounds.MAXIMUM_OVERLAPPING_EPOCHS
    for name in ("registration_phase_length", "report_work_phase_length"):
        bounds.check(account, name, getattr(config, name), bounds.LONGEST_PHASE_SLOTS)
    spanned = config.registration_phase_length + config.report_work_phase_length
    if spanned > overlap * active:
        phases = f"registration and report phase of {spanned} slots"
        raise bounds.refusal(account, f"{phases}, over {overlap} active phases of active_phase_length {active}")
    if active > config.slot_length * bounds.MAXIMUM_LIGHT_SLOTS:
        lengths = f"active_phase_length is {active} with slot_length {config.slot_length}"
        raise bounds.refusal(account, f"{lengths}, over {bounds.MAXIMUM_LIGHT_SLOTS} light slots")
    fees = {"network_fee": config.network_fee, "address_network_fee": config.address_network_fee}
    bounds.check_all(account, bounds.LARGEST_LAMPORTS, **fees)
    bounds.check(account, "cpi_context_size", config.cpi_context_size, bounds.LARGEST_ACCOUNT_BYTES)
    return config
