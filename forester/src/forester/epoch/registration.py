"""Accounts and instructions of an epoch: input and output of its decisions."""

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.program_errors import ForesterRefusal
from forester.chain.programs import addresses as known
from forester.chain.programs import registry
from forester.chain.registry_accounts import decode_epoch, decode_forester_epoch
from forester.chain.rpc_client import RpcClient
from forester.epoch.decisions import Action, ActionResult, EpochOnChain
from forester.errors import ForesterError, MalformedAccount, TransactionRefused

_ALREADY_IN_USE = 0
"""Code of the system program for an account that exists."""


async def read_epoch(rpc: RpcClient, derivation: Pubkey, epoch: int, slot: int, *, authority: Pubkey) -> EpochOnChain:
    """Read our registration and the weight of all in one call at ``slot``; ``authority`` is our signing key.

    Raises EndpointError, and MalformedAccount, also for another epoch's registration.
    """
    addresses = [known.forester_epoch_address(derivation, epoch), known.epoch_address(epoch)]
    ours, everybodys = await rpc.accounts(addresses)
    registration = decode_forester_epoch(ours.data) if ours is not None else None
    if registration is not None and registration.epoch != epoch:
        raise MalformedAccount(f"the registration for epoch {epoch} at {addresses[0]} names epoch {registration.epoch}")
    other_authority = ""
    if registration is not None and registration.authority != authority:
        other_authority = str(registration.authority)
    return EpochOnChain(
        slot=slot,
        registration=registration,
        registered_weight=decode_epoch(everybodys.data).registered_weight if everybodys is not None else None,
        other_authority=other_authority,
    )


def instruction_of(action: Action, authority: Pubkey, derivation: Pubkey, epoch: int) -> Instruction:
    """Return the instruction that performs an action; ValueError for an action that needs none."""
    if action is Action.REGISTER:
        return registry.register_forester_epoch(authority, authority, derivation, epoch)
    if action is Action.FINALIZE:
        return registry.finalize_registration(authority, derivation, epoch)
    if action is Action.REPORT:
        return registry.report_work(authority, derivation, epoch)
    raise ValueError(f"no instruction performs {action.value}")


def outcome_of(action: Action, error: ForesterError) -> ActionResult:
    """Return the outcome of a failed action: the registry's code, or only that it was not done."""
    if not isinstance(error, TransactionRefused):
        return ActionResult(done=False, text=error.detail)
    if action is Action.REGISTER and error.program == str(known.SYSTEM) and error.code == _ALREADY_IN_USE:
        return ActionResult(done=False, code=ForesterRefusal.FORESTER_ALREADY_REGISTERED, text=error.detail)
    ours = error.program in (None, str(known.REGISTRY))
    return ActionResult(done=False, code=error.code if ours else None, text=error.detail)
