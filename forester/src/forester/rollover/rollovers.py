"""Rollovers of full trees, one step at a time; a restart after any step continues with the next one.

The keys of the new accounts are in the journal before anything is sent. Which accounts exist, and whether the tree has
a successor, is read from the chain each time. Usually one transaction creates the accounts and puts them in place, so
that either both happen or neither.
"""

import time
from collections.abc import Callable
from dataclasses import astuple, replace

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.programs.registry import Forester
from forester.chain.registry_accounts import read_protocol_config
from forester.chain.rent import ExcessiveRent
from forester.chain.rpc_client import Account, RpcClient
from forester.chain.tree_metadata import TreeKind, TreeMetadata, decode_metadata
from forester.errors import ForesterError, TransactionRefused
from forester.journal.rollovers import BegunRollover, KeysUnreadable, RolloverStore
from forester.rollover.failures import (
    RolloverImpossible,
    RolloverNotFunded,
    RolloverUnsettled,
)
from forester.rollover.readiness import HEAD_BYTES, PAID_BY_TREE, Rents, TreeHead, decode_head, lacking_lamports
from forester.rollover.spending_cap import cap_of, require_sizes, require_within
from forester.rollover.successor import (
    UNIT_LIMITS,
    NewAccount,
    Sizes,
    has_cpi_context,
    has_queue,
    new_accounts,
    new_keys,
    rollover_instruction,
)
from forester.scheduling.eligibility_window import EligibilityWindow
from forester.transactions.confirm import Fate, Outcome
from forester.transactions.sender import Sender
from forester.transactions.spending import BudgetExceeded
from forester.units import LAMPORTS_PER_BYTE_YEAR, sol
from shared.process.logs import get_logger

_log = get_logger(__name__)

PURPOSE = "rollover"
NOT_AGAIN_S = 60.0
"""Seconds for which a full tree that could not be replaced is skipped."""

NOT_AGAIN_REFUSED_S = 600.0
"""The same after a refusal, which cost a fee."""

_EARLIER_S = 10.0
_FEES_LAMPORTS = 10_000_000
_ALREADY_ROLLED_OVER = 14003


class Rollovers:
    """Rollovers of the trees of one forester; ``derivation`` is the key that it is registered under.

    ``maximum_lamports`` caps the rent of one rollover, None means a default for each kind of tree at the rent of
    ``rent_lamports_per_byte_year``.
    """

    def __init__(
        self,
        rpc: RpcClient,
        sender: Sender,
        store: RolloverStore,
        *,
        derivation: Pubkey,
        maximum_lamports: int | None = None,
        rent_lamports_per_byte_year: int = LAMPORTS_PER_BYTE_YEAR,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rpc = rpc
        self._sender = sender
        self._store = store
        self._derivation = derivation
        self._maximum_lamports = maximum_lamports
        self._rent_lamports_per_byte_year = rent_lamports_per_byte_year
        self._clock = clock
        self._not_before: dict[Pubkey, float] = {}
        self._sizes: dict[Pubkey, Sizes] = {}

    async def roll_over_if_full(self, tree: TreeMetadata, eligibility: EligibilityWindow) -> ForesterError | None:
        """Check a tree of any kind in its window, and replace it if it is full.

        Returns the failure that prevents a replacement; None otherwise. Raises only bugs.
        """
        try:
            # A transaction of an earlier process may still replace a tree that we would read as full.
            if not await self._sender.wait_for_earlier(PURPOSE, bytes(tree.address), _EARLIER_S):
                raise RolloverUnsettled(f"a rollover of {tree.address} from before the restart may still land")
            head = await self._head(tree)
            if head.metadata.is_rolled_over:
                await self._settle(tree, head)
                return None
            too_soon = self._clock() < self._not_before.get(tree.address, 0.0)
            if not head.is_due or too_soon or eligibility.sending_seconds() is None:
                return None
            await self._roll_over(tree, eligibility)
        except (ExcessiveRent, RolloverImpossible, BudgetExceeded, TransactionRefused) as error:
            self._skip(tree, NOT_AGAIN_REFUSED_S if isinstance(error, TransactionRefused) else NOT_AGAIN_S)
            self._sizes.pop(tree.address, None)  # one wrong answer must not be the cause for ever
            return error
        except ForesterError as error:
            return error
        return None

    def _skip(self, tree: TreeMetadata, seconds: float) -> None:
        self._not_before[tree.address] = self._clock() + seconds

    async def _settle(self, tree: TreeMetadata, head: TreeHead) -> None:
        """Forget the keys of a tree that has a successor."""
        self._not_before.pop(tree.address, None)
        begun = await self._begun(tree, is_needed=False)
        if begun is None:
            return
        successor = head.metadata.successor
        ours = successor == begun.new_tree.pubkey
        fields = {"tree": str(tree.address), "kind": tree.kind.label, "successor": str(successor)}
        if ours:
            _log.info("tree_rolled_over", **fields)
        else:
            # Accounts of the program cannot be closed: the rent of useless ones is lost.
            lost = [account for account in await self._existing(begun) if account is not None]
            _log.warning("tree_rolled_over_by_another", **fields, stranded=[str(account.address) for account in lost])
        await self._store.forget(bytes(tree.address))

    async def _roll_over(self, tree: TreeMetadata, eligibility: EligibilityWindow) -> None:
        if tree.kind is TreeKind.ADDRESS_V2:
            await self._require_network_fee(tree)
        sizes = await self._sizes_of(tree)
        require_sizes(sizes)
        rents = Rents(*[await self._rpc.minimum_balance(size) if size is not None else 0 for size in astuple(sizes)])
        cap = cap_of(tree.kind, self._maximum_lamports, self._rent_lamports_per_byte_year)
        require_within(cap, sizes, rents, tree)
        await self._require_funds(tree, rents)
        key = bytes(tree.address)
        begun = await self._begun(tree) or await self._store.begin(new_keys(tree))
        wanted = new_accounts(begun, sizes, rents)
        existing = {account.address: account for account in await self._existing(begun) if account is not None}
        foreign = [item for item in wanted if (found := existing.get(item.key.pubkey)) and found.owner != item.owner]
        if foreign:
            await self._store.forget(key)
            raise RolloverImpossible(f"{foreign[0].key.pubkey} is in use; the next attempt draws new keys")
        missing = [item for item in wanted if item.key.pubkey not in existing]
        await self._require_balance(sum(item.lamports for item in missing))
        await self._send(tree, eligibility, begun, missing)

    async def _send(
        self, tree: TreeMetadata, eligibility: EligibilityWindow, begun: BegunRollover, missing: list[NewAccount]
    ) -> None:
        forester = Forester.registered(self._sender.payer, self._derivation, eligibility.epoch)
        work = [item.creation(self._sender.payer) for item in missing]
        work.append(rollover_instruction(tree, forester, begun))
        while work:
            part = work[: self._sender.fitting(work)]
            outcome = await self._sent(tree, eligibility, part, missing[: len(part)])
            if outcome is None or outcome.fate is not Fate.CONFIRMED:
                await self._explain(tree, outcome)
                return
            work, missing = work[len(part) :], missing[len(part) :]
        head = await self._head(tree)
        if head.metadata.is_rolled_over:  # a node that lags may not show it yet
            await self._settle(tree, head)

    async def _sent(
        self, tree: TreeMetadata, eligibility: EligibilityWindow, part: list[Instruction], created: list[NewAccount]
    ) -> Outcome | None:
        """Send a part of the work; None if the window is over."""
        within_s = eligibility.sending_seconds()
        if within_s is None:
            return None
        try:
            return await self._sender.send(
                part,
                purpose=PURPOSE,
                subject=bytes(tree.address),
                within_s=within_s,
                unit_limit=UNIT_LIMITS[tree.kind],
                signers=[item.key.keypair for item in created],
            )
        except ForesterError:
            self._skip(tree, NOT_AGAIN_S)  # the rent of each attempt counts against the budget
            raise

    async def _explain(self, tree: TreeMetadata, outcome: Outcome | None) -> None:
        """Raise the failure of a transaction, unless the refused work is done, by us or by another forester."""
        if outcome is None:
            return
        head = await self._head(tree)
        if head.metadata.is_rolled_over:
            await self._settle(tree, head)
            return
        if outcome.error is None:
            raise RolloverUnsettled(f"the rollover of {tree.address} is not confirmed: {outcome.fate.value}")
        if outcome.error.code == _ALREADY_ROLLED_OVER:
            raise RolloverUnsettled(f"{tree.address} has a successor that the node does not show yet")
        raise outcome.error

    async def _require_funds(self, tree: TreeMetadata, rents: Rents) -> None:
        """Raise RolloverNotFunded if the old accounts lack lamports to return the rent."""
        purse = tree.address if tree.kind in PAID_BY_TREE else tree.queue
        lacking = lacking_lamports(tree.kind, rents, await self._rpc.balance(purse))
        if lacking:
            raise RolloverNotFunded(
                f"the full tree {tree.address} cannot pay for its successor: {purse} lacks {sol(lacking):.9f} SOL, "
                "which come from its users' fees or from any sender"
            )

    async def _require_network_fee(self, tree: TreeMetadata) -> None:
        """Raise RolloverImpossible while the protocol gives new V2 address trees no fee: nobody would serve them."""
        if (await read_protocol_config(self._rpc)).config.address_network_fee == 0:
            raise RolloverImpossible(
                f"the full tree {tree.address} gets no successor while address_network_fee of the protocol "
                "configuration is 0: no forester would serve the new tree; the protocol's authority must set it"
            )

    async def _require_balance(self, lamports: int) -> None:
        """Raise RolloverNotFunded if the payer cannot advance the rent."""
        balance = await self._rpc.balance(self._sender.payer)
        needed = lamports + _FEES_LAMPORTS
        if balance < needed:
            raise RolloverNotFunded(
                f"{self._sender.payer} has {sol(balance):g} SOL, a rollover advances {sol(needed):g}; send SOL to it"
            )

    async def _sizes_of(self, tree: TreeMetadata) -> Sizes:
        """Return the sizes of the old accounts, which never change; that of the CPI context may."""
        known = self._sizes.get(tree.address)
        if known is None:
            known = self._sizes[tree.address] = await self._old_sizes(tree)
        if not has_cpi_context(tree.kind):
            return known
        protocol = await read_protocol_config(self._rpc)
        return replace(known, cpi_context=protocol.config.cpi_context_size)

    async def _old_sizes(self, tree: TreeMetadata) -> Sizes:
        account = await self._rpc.existing_account(tree.address, "a tree")
        if not has_queue(tree.kind):
            return Sizes(len(account.data))
        queue = await self._rpc.existing_account(tree.queue, "the queue of a tree")
        additional = decode_metadata(queue.data, 8).additional_bytes if tree.kind is TreeKind.STATE_V2 else None
        return Sizes(len(account.data), len(queue.data), additional=additional)

    async def _begun(self, tree: TreeMetadata, *, is_needed: bool = True) -> BegunRollover | None:
        """Return the begun rollover of a tree. Unreadable keys are forgotten unless rent was paid for their accounts.

        Raises RolloverImpossible for those if they are needed: with other keys the rent would be paid twice.
        """
        try:
            return await self._store.of_tree(bytes(tree.address))
        except KeysUnreadable as error:
            found = await self._rpc.accounts(error.addresses, length=0) if error.addresses else []
            paid = ", ".join(str(account.address) for account in found if account is not None)
        if paid and is_needed:
            raise RolloverImpossible(
                f"the full tree {tree.address} gets no successor from us: the journal has no usable keys for the "
                f"accounts that were created for it ({paid}); another forester may replace the tree, or stop this one "
                "and move the journal away to pay for other accounts"
            )
        remedy = f"none is possible: the rent of {paid} may be lost" if paid else "none is needed: new keys are drawn"
        self._store.log_unreadable("rollovers", tree.address, f"{remedy}; check the health of the disk")
        await self._store.forget(bytes(tree.address))
        return None

    async def _existing(self, begun: BegunRollover) -> list[Account | None]:
        return await self._rpc.accounts([key.pubkey for key in begun.keys], length=0)

    async def _head(self, tree: TreeMetadata) -> TreeHead:
        return decode_head((await self._rpc.existing_account(tree.address, "a tree", length=HEAD_BYTES)).data)
