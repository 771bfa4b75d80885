"""A full V1 address tree on a chain that is played, for rollovers, and kills after any step."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import ACCOUNT_COMPRESSION, PROTOCOL_CONFIG, SYSTEM
from forester.chain.rpc_client import Account, RpcClient
from forester.chain.tree_metadata import Metadata, TreeKind, TreeMetadata
from forester.epoch.phases import SlotRange
from forester.errors import ForesterError, TransactionRefused
from forester.journal.database import Journal
from forester.journal.rollovers import RolloverStore
from forester.rollover.rollovers import Rollovers
from forester.scheduling.eligibility_window import EligibilityWindow
from forester.transactions.confirm import Fate, Outcome
from forester.transactions.sender import Sender

TREE, QUEUE, PAYER, OTHER = (Pubkey(bytes([number]) * 32) for number in (1, 2, 3, 4))
NEVER = 2**64 - 1
TREE_BYTES, QUEUE_BYTES = 900, 500
FULL, RICH = 2**26, 10**12
METADATA = Metadata(PAYER, PAYER, PAYER, 0, 1, 95, 5000, None, NEVER, 0, QUEUE, Pubkey.default())
ADDRESS_TREE = TreeMetadata(TREE, TreeKind.ADDRESS_V1, METADATA)


class Crash(BaseException):
    """The process is killed."""


@dataclass
class World:
    """A full V1 address tree. ``crash_in`` calls of node or sender from now the process is killed, before or after."""

    next_index: int = FULL
    successor: Pubkey | None = None
    accounts_made: dict[Pubkey, Pubkey] = field(default_factory=dict)
    lamports: dict[Pubkey, int] = field(default_factory=lambda: {PAYER: RICH, QUEUE: RICH, TREE: RICH})
    crash_in: int | None = None
    fits: int = 4
    fate: Outcome | ForesterError | None = None
    lag: int = 0
    lags_after_landing: int = 0
    slot_after_sending: int | None = None
    sent: list[int] = field(default_factory=list)
    landed: int = 0
    slot: int = 10
    clock: float = 0.0
    payer: Pubkey = PAYER
    maximum_lamports: int | None = None
    reads: int = 0
    earlier: str = ""
    """What the rollover of an earlier process does while it is awaited: it ``lands``, or still ``may land``."""

    def _step(self) -> None:
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                raise Crash

    # The node.

    async def existing_account(self, address: Pubkey, what: str, *, length: int | None = None) -> Account:
        assert address != PROTOCOL_CONFIG
        assert what
        self._step()
        if length is None:
            return Account(address, ACCOUNT_COMPRESSION, 1, bytes(TREE_BYTES if address == TREE else QUEUE_BYTES))
        assert address == TREE
        self.reads += 1
        hidden = self.lag > 0
        self.lag -= hidden
        return Account(TREE, ACCOUNT_COMPRESSION, 1, self._tree(None if hidden else self.successor)[:length])

    def _tree(self, successor: Pubkey | None) -> bytes:
        data = bytearray(TREE_BYTES)
        data[:8] = bytes.fromhex("0ba1af09d4e54949")
        numbers = (0, 1, 95, 5000, NEVER if successor is None else 7, NEVER, 0)
        struct.pack_into("<7Q32s32s", data, 104, *numbers, bytes(QUEUE), bytes(successor or Pubkey.default()))
        struct.pack_into("<4Q", data, 224, 26, 10, self.next_index, 5)
        struct.pack_into("<4Q", data, 304, 1400, 1400, 0, 5)
        struct.pack_into("<4Q", data, 336, 2400, 2400, 0, 5)
        return bytes(data)

    async def accounts(self, addresses: Sequence[Pubkey], *, length: int) -> list[Account | None]:
        assert length == 0
        self._step()
        return [
            Account(address, self.accounts_made[address], 1, b"") if address in self.accounts_made else None
            for address in addresses
        ]

    async def minimum_balance(self, size: int) -> int:
        self._step()
        return size

    async def balance(self, address: Pubkey) -> int:
        self._step()
        return self.lamports[address]

    # The sender.

    async def wait_for_earlier(self, purpose: str, subject: bytes, within_s: float) -> bool:
        assert (purpose, subject) == ("rollover", bytes(TREE))
        assert within_s > 0
        if self.earlier == "lands":
            self.successor = OTHER
        return self.earlier != "may land"

    def fitting(self, work: Sequence[Instruction]) -> int:
        return min(self.fits, len(work))

    async def send(
        self,
        work: Sequence[Instruction],
        *,
        purpose: str,
        subject: bytes,
        within_s: float,
        unit_limit: int,
        signers: Sequence[Keypair],
    ) -> Outcome:
        assert (purpose, subject) == ("rollover", bytes(TREE))
        assert within_s > 0
        assert unit_limit
        self._step()  # before it lands
        self.sent.append(len(work))
        if isinstance(self.fate, ForesterError):
            raise self.fate
        if self.fate is not None:
            return self.fate
        outcome = self._land(work, signers)
        self.lag += self.lags_after_landing
        self.slot = self.slot_after_sending or self.slot
        self._step()  # after it has landed
        return outcome

    def _land(self, work: Sequence[Instruction], signers: Sequence[Keypair]) -> Outcome:
        """Apply all of a transaction or nothing."""
        made = dict(self.accounts_made)
        keys = [key.pubkey() for key in signers]
        for instruction in work:
            if instruction.program_id == SYSTEM:
                created = instruction.accounts[1].pubkey
                assert created in keys
                if created in made:
                    return refusal(0)
                made[created] = Pubkey(bytes(instruction.data)[-32:])
                continue
            if self.successor is not None:
                return refusal(14003)
            new_tree, new_queue = instruction.accounts[5].pubkey, instruction.accounts[6].pubkey
            assert {new_tree, new_queue} <= set(made)
            self.accounts_made, self.successor = made, new_tree
            self.landed += 1
        self.accounts_made = made
        return Outcome(Fate.CONFIRMED, 11)

    def rollovers(self, journal: Journal) -> Rollovers:
        parts = (cast(RpcClient, self), cast(Sender, self), RolloverStore(journal))
        return Rollovers(*parts, derivation=PAYER, maximum_lamports=self.maximum_lamports, clock=lambda: self.clock)

    def window(self, last: int = 1000) -> EligibilityWindow:
        return EligibilityWindow(3, SlotRange(0, last), lambda: self.slot)


def refusal(code: int) -> Outcome:
    error = TransactionRefused(f"refused with {code}", program=str(ACCOUNT_COMPRESSION), code=code, instruction=3)
    return Outcome(Fate.REFUSED, 11, error)


async def open_journal(folder: Path) -> Journal:
    return await Journal.open(folder / "journal.sqlite")


async def run(world: World, journal: Journal, made: Rollovers | None = None) -> ForesterError | None:
    return await (made or world.rollovers(journal)).roll_over_if_full(ADDRESS_TREE, world.window())
