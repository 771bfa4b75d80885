"""Levels of commitment on a chain with one validator.

Processed is the open slot, confirmed the last closed block, finalized 31 blocks before that. Accounts are always those
of the open slot, because one validator has no competing forks.
"""

from localnet.chain.network import Network
from localnet.json_rpc import RpcError
from localnet.rpc.errors import MIN_CONTEXT_SLOT_NOT_REACHED, invalid
from localnet.rpc.params import Config

FINALIZATION_BLOCKS = 31


def confirmed_slot(network: Network) -> int:
    """Return the slot of the last closed block; that of the first block while it is open."""
    slots = network.slots
    parent = slots.parent_of(slots.current)
    return slots.current if parent is None else parent


def slot_at(network: Network, commitment: str) -> int:
    """Return the newest slot with a block at a level of commitment."""
    if commitment == "processed":
        return network.slot
    confirmed = confirmed_slot(network)
    if commitment == "confirmed":
        return confirmed
    return network.slots.slot_at_height(network.slots.height_of(confirmed) - FINALIZATION_BLOCKS)


def reached(network: Network, slot: int, commitment: str) -> bool:
    """Return whether a slot has a level of commitment; the open slot's block is not confirmed."""
    if slot > network.slot or commitment == "processed":
        return slot <= network.slot
    slots = network.slots
    above = slots.height_of(slots.current) - slots.height_of(slots.latest_at_or_before(slot))
    return above > (FINALIZATION_BLOCKS if commitment == "finalized" else 0)


def status_of(network: Network, slot: int) -> tuple[str, int | None]:
    """Return a slot's level of commitment, and its confirmations (None once finalized)."""
    if reached(network, slot, "finalized"):
        return "finalized", None
    confirmations = network.slots.height_of(network.slot) - network.slots.height_of(slot)
    return ("confirmed" if reached(network, slot, "confirmed") else "processed"), confirmations


def context(network: Network, config: Config) -> dict[str, object]:
    """Return the ``context`` member of an answer; raise RpcError for a required slot that is not open yet."""
    require_slot(network, config)
    return {"slot": network.slot, "apiVersion": "2.2.0"}


def require_slot(network: Network, config: Config) -> None:
    """Check ``minContextSlot`` and the level of commitment."""
    _ = config.commitment
    wanted = config.number("minContextSlot")
    if wanted is not None and wanted > network.slot:
        message = "Minimum context slot has not been reached"
        raise RpcError(MIN_CONTEXT_SLOT_NOT_REACHED, message, {"contextSlot": network.slot})


def require_confirmed(config: Config) -> str:
    """Return the commitment of a call that reads blocks; raise RpcError for processed."""
    if config.commitment == "processed":
        raise invalid("Method does not support commitment below `confirmed`")
    return config.commitment
