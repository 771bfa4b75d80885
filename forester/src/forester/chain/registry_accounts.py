"""Accounts of the registry, decoded: protocol configuration, epochs, foresters (onchain.md 5.1 to 5.4, 5.11)."""

import struct
from dataclasses import dataclass
from typing import Any

from solders.pubkey import Pubkey

from forester.chain.programs.coder import decode_account
from forester.errors import MalformedAccount


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
    """The protocol configuration and who may change it."""

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
    """An epoch for which somebody registered."""

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


def decode_protocol_config(data: bytes) -> ProtocolConfigAccount:
    """Decode a ProtocolConfigPda; MalformedAccount if it is none, as for all decoders here."""
    fields = decode_account("ProtocolConfigPda", data)
    return ProtocolConfigAccount(fields.authority, _config(fields.config))


def decode_forester(data: bytes) -> ForesterAccount:
    """Decode a ForesterPda."""
    fields = decode_account("ForesterPda", data)
    names = ("authority", "fee", "active_weight", "pending_weight", "current_epoch", "last_registered_epoch")
    return ForesterAccount(*(getattr(fields, name) for name in names))


def decode_epoch(data: bytes) -> EpochAccount:
    """Decode an EpochPda."""
    fields = decode_account("EpochPda", data)
    return EpochAccount(fields.epoch, _config(fields.protocol_config), fields.total_work, fields.registered_weight)


def decode_forester_epoch(data: bytes) -> ForesterEpochAccount:
    """Decode a ForesterEpochPda, which is padded."""
    fields = decode_account("ForesterEpochPda", data)
    return ForesterEpochAccount(
        authority=fields.authority,
        fee=fields.fee,
        epoch=fields.epoch,
        weight=fields.weight,
        work_counter=fields.work_counter,
        has_reported_work=fields.has_reported_work,
        forester_index=fields.forester_index,
        active_phase_start=fields.epoch_active_phase_start_slot,
        total_epoch_weight=fields.total_epoch_weight,
        config=_config(fields.protocol_config),
        finalize_counter=fields.finalize_counter,
    )


REGISTERED_PROGRAM_DISCRIMINATOR = bytes.fromhex("1ffbb4eb03743204")
_REGISTERED_PROGRAM = struct.Struct("<8s32s32s32s")


def decode_registered_program(data: bytes) -> RegisteredProgram:
    """Decode a RegisteredProgram, which is zero-copy."""
    if len(data) < _REGISTERED_PROGRAM.size or data[:8] != REGISTERED_PROGRAM_DISCRIMINATOR:
        raise MalformedAccount(f"not a RegisteredProgram: {len(data)} bytes, discriminator {data[:8].hex()}")
    _, program, group, signer = _REGISTERED_PROGRAM.unpack_from(data)
    return RegisteredProgram(Pubkey(program), Pubkey(group), Pubkey(signer))


def _config(fields: Any) -> ProtocolConfig:
    return ProtocolConfig(**{name: getattr(fields, name) for name in ProtocolConfig.__dataclass_fields__})
