"""The chain: LiteSVM with the real programs, and what LiteSVM does not have: slots, blockhashes, blocks.

Source: shared/localnet/docs/chain.md, "LiteSVM". All calls are quick (milliseconds) and come from one thread.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from solders.account import Account
from solders.clock import Clock
from solders.hash import Hash
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.message import MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import ID as SYSTEM_PROGRAM
from solders.system_program import TransferParams, transfer
from solders.transaction import SanitizeError, VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata

from localnet.chain import addresses
from localnet.chain.artefacts import PROGRAM_FILES, Artefacts
from localnet.chain.blocks import Block, ExecutedInstruction, JsonError, RecordedTransaction
from localnet.chain.execution import Keys, TransactionRefused, error_of, executed, resolve_keys, return_data_of
from localnet.chain.ledger import Ledger
from localnet.chain.nonces import DurableNonce, durable_nonce_of
from localnet.chain.slots import SECONDS_PER_SLOT, Run, Slots
from localnet.chain.token_accounts import NATIVE_MINT, TOKEN_PROGRAM, TokenBalance, native_mint_data, token_balances

MAX_TRANSACTION_BYTES = 1232
"""Size of a cluster's packet (IPv6 minimum less headers); LiteSVM itself accepts any size."""
SLOTS_PER_EPOCH = 432_000
FIRST_SLOT = 400
"""Slot at which epoch 2 of the fixtures' protocol config opens for registration."""
GENESIS_TIME = 1_600_000_000
FAUCET = Keypair.from_seed(hashlib.sha256(b"localnet faucet").digest())
FAUCET_LAMPORTS = 500_000_000 * 10**9
_UNSIGNED = Signature.default()


class ProgramUnusable(ValueError):
    """A program cannot be loaded; the message has its address and the remedy."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """Simulated outcome of a transaction; ``accounts`` are its accounts afterwards, empty if it fails."""

    err: JsonError | None
    logs: tuple[str, ...]
    compute_units: int
    fee: int
    return_data: tuple[Pubkey, bytes] | None
    inner_instructions: tuple[tuple[ExecutedInstruction, ...], ...]
    accounts: dict[Pubkey, Account]


@dataclass(frozen=True, slots=True)
class Admitted:
    """A transaction that may enter a block, its accounts, and the durable nonce in place of its blockhash."""

    transaction: VersionedTransaction
    keys: Keys
    nonce: DurableNonce | None

    def changed(self, *, failed: bool) -> list[Pubkey]:
        """Return the accounts that a node stores: writable ones; after a failure, fee payer and nonce account."""
        if not failed:
            return [key for key, writable in zip(self.keys.all, self.keys.writable, strict=True) if writable]
        return [self.keys.all[0], *([self.nonce.account] if self.nonce else [])]


@dataclass(frozen=True, slots=True)
class State:
    """State of a chain: its slots, accounts and history. ``accounts`` lack those of the programs."""

    slot: int
    fork: int
    runs: tuple[Run, ...]
    accounts: dict[Pubkey, Account]
    transactions: tuple[RecordedTransaction, ...]


Listener = Callable[[RecordedTransaction | None, Sequence[Pubkey]], None]
"""Called after accounts have changed: with the transaction (None when set from outside) and the accounts."""


class Network:
    """A chain with one validator. Without ``check_blockhash``, recorded transactions can be replayed."""

    def __init__(
        self, artefacts: Artefacts, *, first_slot: int = FIRST_SLOT, genesis: bytes = b"", check_blockhash: bool = True
    ) -> None:
        self.artefacts = artefacts
        self.genesis_hash = Hash(hashlib.sha256(b"localnet" + genesis).digest())
        self.fork = 0
        self.check_blockhash = check_blockhash
        self.drop_every = 0
        """A fault: one of this number of transactions that are sent to the node is lost; 0 for none."""
        self._sent = 0
        self.transaction_listeners: list[Listener] = []
        self.slot_listeners: list[Callable[[], None]] = []
        self.slots = Slots(first_slot, bytes(self.genesis_hash))
        """Blocks by slot, height and hash."""
        self._ledger = Ledger()
        self._known: set[Pubkey] = set()
        self._vm = self._new_machine()
        for pubkey, account in artefacts.accounts.items():
            self._put(pubkey, account)
        self._put(FAUCET.pubkey(), Account(FAUCET_LAMPORTS, b"", SYSTEM_PROGRAM))
        # The fixtures lack the pool; with its rent paid, a first compression may be of any size.
        self._put(addresses.SOL_POOL, Account(self.rent_exempt_minimum(0), b"", SYSTEM_PROGRAM))
        if NATIVE_MINT not in artefacts.accounts:
            data = native_mint_data()
            self._put(NATIVE_MINT, Account(self.rent_exempt_minimum(len(data)), data, TOKEN_PROGRAM))
        self._machine_slot = -1

    def _new_machine(self) -> LiteSVM:
        # This class checks blockhashes and repeated signatures, because LiteSVM lacks a cluster's rules.
        machine = LiteSVM().with_blockhash_check(False).with_transaction_history(0).with_log_bytes_limit(10_000)
        for file, program in PROGRAM_FILES.items():
            machine.add_program(program, self.artefacts.programs[file])
        for program, content in self.artefacts.own_programs.items():
            try:
                machine.add_program(program, content)
            except Exception as error:  # solders does not export the class of its error
                message = f"the file of program {program} cannot be loaded: {error}; pass the .so that a build makes"
                raise ProgramUnusable(message) from error
        return machine

    # Slots and blocks

    @property
    def slot(self) -> int:
        """Slot that is open now."""
        return self.slots.current

    @property
    def first_slot(self) -> int:
        """Slot of the first block."""
        return self.slots.first

    @property
    def transaction_count(self) -> int:
        """Number of transactions since the first block."""
        return self._ledger.count()

    def advance(self, count: int = 1) -> None:
        """Close the open slot; ``count`` slots get a block each."""
        for _ in range(count):
            self.slots.advance()
            for listener in self.slot_listeners:
                listener()

    def warp(self, slot: int) -> None:
        """Jump to a later slot; those between are skipped. Raise ValueError for a slot that is not later."""
        self.slots.jump(slot)
        for listener in self.slot_listeners:
            listener()

    def block_time(self, slot: int) -> int:
        """Return the time of a slot in seconds since 1970; time on this chain advances with its slots."""
        return GENESIS_TIME + int(slot * SECONDS_PER_SLOT)

    def block(self, slot: int) -> Block | None:
        """Return the block of a slot, None if the slot was skipped or does not exist yet."""
        if not self.slots.has_block(slot):
            return None
        parent = self.slots.parent_of(slot)
        previous = self.genesis_hash if parent is None else self.slots.hash_of(parent)
        return Block(
            slot=slot,
            parent_slot=max(slot - 1, 0) if parent is None else parent,
            block_height=self.slots.height_of(slot),
            blockhash=self.slots.hash_of(slot),
            previous_blockhash=previous,
            block_time=self.block_time(slot),
            transactions=tuple(self._ledger.in_slot(slot)),
        )

    def blocks_with_transactions(self, first: int, last: int) -> Iterator[Block]:
        """Yield blocks that hold a transaction, by slot."""
        for slot in self._ledger.slots(first, last):
            block = self.block(slot)
            if block is not None:
                yield block

    def transaction(self, signature: Signature) -> RecordedTransaction | None:
        """Return the executed transaction with a signature."""
        return self._ledger.get(signature)

    def transactions_of(self, address: Pubkey) -> list[RecordedTransaction]:
        """Return executed transactions that name an address, oldest first."""
        return self._ledger.of_address(address)

    # Accounts

    def account(self, pubkey: Pubkey) -> Account | None:
        """Return the present account, None if there is none."""
        found = self._machine().get_account(pubkey)
        return found if found is not None and found.lamports else None

    def program_accounts(self, program: Pubkey) -> list[tuple[Pubkey, Account]]:
        """Return all accounts that a program owns."""
        return [(key, account) for key, account in self._machine().get_program_accounts(program) if account.lamports]

    def accounts(self) -> Iterator[tuple[Pubkey, Account]]:
        """Yield every account that the chain began with or that a transaction has named, in no order."""
        for key in self._known:
            account = self.account(key)
            if account is not None:
                yield key, account

    def set_account(self, pubkey: Pubkey, account: Account) -> None:
        """Write an account, whatever it held before; no rule of the chain is applied.

        Raise ProgramUnusable for an executable account that is no program.
        """
        self._put(pubkey, account)
        for listener in self.transaction_listeners:
            listener(None, [pubkey])

    def _put(self, pubkey: Pubkey, account: Account) -> None:
        try:
            self._vm.set_account(pubkey, account)
        except Exception as error:  # solders does not export the class of its error
            message = f"account {pubkey} is not a program that can be loaded ({error}); load its program data first"
            raise ProgramUnusable(message) from error
        self._known.add(pubkey)

    @property
    def _genesis_programs(self) -> set[Pubkey]:
        return {*PROGRAM_FILES.values(), *self.artefacts.own_programs}

    def rent_exempt_minimum(self, size: int) -> int:
        """Return lamports that an account of ``size`` bytes must hold."""
        return self._vm.minimum_balance_for_rent_exemption(size)

    # Transactions

    def loses_next(self) -> bool:
        """Count a transaction that is sent to the node; return whether it is lost before it reaches a block."""
        self._sent += 1
        return bool(self.drop_every) and self._sent % self.drop_every == 0

    def submit(self, raw: bytes) -> RecordedTransaction:
        """Execute a signed transaction in the open slot and record it.

        A transaction that fails during execution is recorded with its error. Raise TransactionRefused for one that a
        cluster would not include in a block.
        """
        admitted = self._admit(raw)
        keys = admitted.keys
        machine = self._machine()
        before, tokens_before = self._balances(keys), self._token_balances(keys)
        result = machine.send_transaction(admitted.transaction)
        meta = result.meta() if isinstance(result, FailedTransactionMetadata) else result
        if meta.signature() == _UNSIGNED and isinstance(result, FailedTransactionMetadata):
            raise TransactionRefused(error_of(result), meta.logs())
        failed = isinstance(result, FailedTransactionMetadata)
        if failed and admitted.nonce is not None:
            self._put(admitted.nonce.account, admitted.nonce.advanced)
        self._known.update(keys.all)
        recorded = self._record(admitted, result, meta, before, tokens_before)
        for listener in self.transaction_listeners:
            listener(recorded, admitted.changed(failed=failed))
        return recorded

    def _admit(self, raw: bytes) -> Admitted:
        if len(raw) > MAX_TRANSACTION_BYTES:
            raise TransactionRefused("SanitizeFailure", [f"{len(raw)} bytes, maximum {MAX_TRANSACTION_BYTES}"])
        transaction = decode_transaction(raw)
        if not all(transaction.verify_with_results()):
            raise TransactionRefused("SignatureFailure")
        nonce = self._require_recent(transaction)
        if self._ledger.get(transaction.signatures[0]) is not None:
            raise TransactionRefused("AlreadyProcessed")
        return Admitted(transaction, resolve_keys(transaction, self.account), nonce)

    def _require_recent(self, transaction: VersionedTransaction) -> DurableNonce | None:
        """Return the durable nonce in place of a recent blockhash; raise TransactionRefused without either."""
        if not self.check_blockhash or self.slots.is_recent(transaction.message.recent_blockhash):
            return None
        nonce = durable_nonce_of(transaction, self.account)
        if nonce is None:
            raise TransactionRefused("BlockhashNotFound")
        return nonce

    def _balances(self, keys: Keys) -> tuple[int, ...]:
        return tuple(self._vm.get_balance(key) or 0 for key in keys.all)

    def _token_balances(self, keys: Keys) -> tuple[TokenBalance, ...]:
        return token_balances(keys.all, self._vm.get_account)

    def _record(
        self,
        admitted: Admitted,
        result: TransactionMetadata | FailedTransactionMetadata,
        meta: TransactionMetadata,
        before: tuple[int, ...],
        tokens_before: tuple[TokenBalance, ...],
    ) -> RecordedTransaction:
        transaction, keys = admitted.transaction, admitted.keys
        outer, inner = executed(keys, transaction, meta)
        recorded = RecordedTransaction(
            signature=transaction.signatures[0],
            slot=self.slot,
            block_time=self.block_time(self.slot),
            transaction=transaction,
            account_keys=keys.all,
            loaded_writable=keys.loaded_writable,
            loaded_readonly=keys.loaded_readonly,
            instructions=outer,
            inner_instructions=inner,
            err=error_of(result) if isinstance(result, FailedTransactionMetadata) else None,
            logs=tuple(meta.logs()),
            fee=meta.fee(),
            compute_units=meta.compute_units_consumed(),
            pre_balances=before,
            post_balances=self._balances(keys),
            return_data=return_data_of(meta),
            pre_token_balances=tokens_before,
            post_token_balances=self._token_balances(keys),
        )
        self._ledger.append(recorded)
        return recorded

    def simulate(self, raw: bytes, *, verify_signatures: bool, replace_blockhash: bool) -> Simulation:
        """Execute a transaction without storing its effects.

        Raise TransactionRefused as ``submit`` does, except for disabled checks.
        """
        transaction = decode_transaction(raw)
        if verify_signatures and not all(transaction.verify_with_results()):
            raise TransactionRefused("SignatureFailure")
        if not replace_blockhash:
            self._require_recent(transaction)
        keys = resolve_keys(transaction, self.account)
        machine = self._machine().with_sigverify(False)
        try:
            result = machine.simulate_transaction(transaction)
        finally:
            machine.with_sigverify(True)
        meta = result.meta()
        failed = isinstance(result, FailedTransactionMetadata)
        return Simulation(
            err=error_of(result) if isinstance(result, FailedTransactionMetadata) else None,
            logs=tuple(meta.logs()),
            compute_units=meta.compute_units_consumed(),
            fee=meta.fee(),
            return_data=return_data_of(meta),
            inner_instructions=executed(keys, transaction, meta)[1],
            accounts={} if failed else dict(result.post_accounts()),  # type: ignore[union-attr]
        )

    def airdrop(self, pubkey: Pubkey, lamports: int) -> RecordedTransaction:
        """Send lamports from the faucet, as a transaction in the open block."""
        # The second transfer, to the faucet itself, makes equal airdrops of one slot distinct transactions.
        blockhash = self.slots.hash_of(self.slot)
        instructions = [transfer(TransferParams(from_pubkey=FAUCET.pubkey(), to_pubkey=pubkey, lamports=lamports))]
        memo = self.transaction_count
        instructions.append(
            transfer(TransferParams(from_pubkey=FAUCET.pubkey(), to_pubkey=FAUCET.pubkey(), lamports=memo))
        )
        message = MessageV0.try_compile(FAUCET.pubkey(), instructions, [], blockhash)
        return self.submit(bytes(VersionedTransaction(message, [FAUCET])))

    def _machine(self) -> LiteSVM:
        """Return the machine with its clock set to the open slot."""
        if self._machine_slot != self.slot:
            self._machine_slot = self.slot
            epoch = self.slot // SLOTS_PER_EPOCH
            started = self.block_time(max(epoch * SLOTS_PER_EPOCH, self.first_slot))
            self._vm.set_clock(Clock(self.slot, started, epoch, epoch + 1, self.block_time(self.slot)))
            self._vm.set_slot_hashes(self.slots.recent_hashes())
        return self._vm

    # States

    def state(self) -> State:
        """Return everything needed to restore this moment."""
        present = ((key, self._vm.get_account(key)) for key in self._known - self._genesis_programs)
        accounts = {key: account for key, account in present if account is not None and account.lamports}
        return State(self.slot, self.fork, tuple(self.slots.runs), accounts, tuple(self._ledger))

    def restore(self, state: State) -> None:
        """Restore a state, of this or of an earlier process: a fork in the slot after it, with new blockhashes."""
        self.fork = max(self.fork, state.fork) + 1
        self._vm = self._new_machine()
        self._known = set()
        self._machine_slot = -1
        # Executable accounts last: they load what others hold.
        for pubkey, account in sorted(state.accounts.items(), key=lambda item: item[1].executable):
            self._put(pubkey, account)
        self._ledger = Ledger(state.transactions)
        self.slots.fork_at(state.runs, state.slot, self.fork)
        for listener in self.slot_listeners:
            listener()


def decode_transaction(raw: bytes) -> VersionedTransaction:
    """Decode a legacy or versioned transaction; raise TransactionRefused for anything else."""
    try:
        transaction = VersionedTransaction.from_bytes(raw)
        transaction.sanitize()
    except (ValueError, SanitizeError) as error:
        raise TransactionRefused("SanitizeFailure", [str(error)]) from error
    if isinstance(transaction.message, MessageV1):
        raise TransactionRefused("UnsupportedVersion")
    return transaction
