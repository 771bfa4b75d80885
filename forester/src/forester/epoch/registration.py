"""Accounts and instructions of an epoch: input and output of the machine's decisions."""

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.programs import addresses as known
from forester.chain.programs import registry
from forester.chain.registry_accounts import ForesterEpochAccount, decode_epoch, decode_forester_epoch
from forester.chain.rpc_client import RpcClient
from forester.epoch.machine import Action, EpochOnChain, Outcome, Registration, RegistryCode
from forester.errors import ForesterError, TransactionRefused

_ALREADY_IN_USE = 0
"""Code of the system program for an account that exists."""


async def read_epoch(rpc: RpcClient, derivation: Pubkey, epoch: int, finalize_limit: int) -> EpochOnChain:
    """Read our registration and the weight of all, in one call, and the slot before it.

    ``finalize_limit`` is the protocol's, used until a registration has a copy of its own. Raises EndpointError and
    MalformedAccount.
    """
    slot = await rpc.slot()
    addresses = [known.forester_epoch_address(derivation, epoch), known.epoch_address(epoch)]
    ours, everybodys = await rpc.accounts(addresses)
    account = decode_forester_epoch(ours.data) if ours is not None else None
    return EpochOnChain(
        slot=slot,
        registration=registration_of(account) if account is not None else None,
        registered_weight=decode_epoch(everybodys.data).registered_weight if everybodys is not None else None,
        finalize_limit=account.config.finalize_counter_limit if account is not None else finalize_limit,
        config=account.config if account is not None else None,
    )


def registration_of(account: ForesterEpochAccount) -> Registration:
    """Return the part of our account of an epoch on which decisions depend."""
    return Registration(
        index=account.forester_index,
        weight=account.weight,
        total_weight=account.total_epoch_weight,
        finalize_count=account.finalize_counter,
        has_reported=account.has_reported_work,
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


def outcome_of(action: Action, error: ForesterError) -> Outcome:
    """Return the outcome of a failed action: the registry's code, or only that it was not done."""
    if not isinstance(error, TransactionRefused):
        return Outcome(done=False, text=error.detail)
    if action is Action.REGISTER and error.program == str(known.SYSTEM) and error.code == _ALREADY_IN_USE:
        return Outcome(done=False, code=RegistryCode.FORESTER_ALREADY_REGISTERED, text=error.detail)
    ours = error.program in (None, str(known.REGISTRY))
    return Outcome(done=False, code=error.code if ours else None, text=error.detail)
