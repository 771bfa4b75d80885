"""Sets of compressible accounts: how a node finds them, and what decides their rent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from solders.pubkey import Pubkey

from forester.chain import subscriptions
from forester.chain.programs.addresses import COMPRESSED_TOKEN
from forester.chain.rpc_client import Account
from forester.chain.subscriptions import Subscription
from forester.compressible import mint_account, program_account, token_account
from forester.compressible.rent import RentState
from forester.errors import MalformedAccount
from forester.journal.compressible import (
    ASSOCIATED_TOKEN,
    MINT,
    NEVER_SLOT,
    TOKEN,
    TrackedAccount,
    program_kind,
)
from forester.settings import LightProgram
from shared.process.logs import get_logger

_log = get_logger(__name__)


class RentedAccount(Protocol):
    """An account that pays rent, as its kind decodes it."""

    @property
    def address(self) -> Pubkey:
        """Address of the account."""

    @property
    def kind(self) -> int:
        """Kind of the account, as the journal numbers it."""

    @property
    def rent(self) -> RentState:
        """Rent of the account."""


@dataclass(frozen=True)
class AccountSource:
    """Accounts of a program that have given bytes at an offset.

    ``start`` and ``length`` are the slice of their data that decides rent. ``split_at`` is the offset of a byte that
    differs between accounts, by which a scan is split. Without ``pays_forester`` closing an account earns nothing, and
    without ``is_claimable`` its rent cannot be claimed before.
    """

    name: str
    kinds: tuple[int, ...]
    program: Pubkey
    memcmp: tuple[int, bytes]
    start: int
    length: int
    split_at: int
    decode: Callable[[Account, int, int], tuple[int, RentState] | None]
    decode_whole: Callable[[Account, int], RentedAccount | None]
    pays_forester: bool = False
    is_claimable: bool = True

    def subscription(self) -> Subscription:
        """Return the subscription to changes."""
        return subscriptions.program_accounts(self.program, memcmp=[self.memcmp])

    def has(self, account: Account) -> bool:
        """Return whether an account, with all its data, is one of these."""
        offset, content = self.memcmp
        return account.owner == self.program and account.data[offset:].startswith(content)

    def tracked(self, account: Account, size: int, per_byte: int, slot: int) -> TrackedAccount | None:
        """Return the row of an account whose data is the slice, read at a slot; None if it pays no rent.

        Raises MalformedAccount for values that no program writes.
        """
        found = self.decode(account, size, per_byte)
        return None if found is None else self.row(program_account.ProgramAccount(account.address, *found), slot)

    def rented(self, account: Account | None, per_byte: int) -> RentedAccount | None:
        """Decode an account with all its data; None if it is none of these, or malformed, which is logged."""
        if account is None or not self.has(account):
            return None
        try:
            return self.decode_whole(account, per_byte)
        except MalformedAccount as error:
            _log.warning("compressible_account_malformed", account=str(account.address), error=error.detail)
            return None

    def row(self, account: RentedAccount, slot: int) -> TrackedAccount:
        """Return the row of a decoded account, read at a slot."""
        rent = account.rent
        first = rent.compressible_from
        return TrackedAccount(
            bytes(account.address),
            account.kind,
            NEVER_SLOT if first is None else min(first, NEVER_SLOT),
            rent.compression_cost if self.pays_forester else 0,
            slot,
            rent.claimed_epoch,
            rent.rent_per_epoch if self.is_claimable else 0,
        )


def sources(programs: Sequence[LightProgram]) -> list[AccountSource]:
    """Return token accounts, mints, and the accounts of the programs."""
    return [_TOKENS, _MINTS, *map(_program_source, programs)]


def _token_rent(account: Account, size: int, _: int) -> tuple[int, RentState] | None:
    found = token_account.decode_token_rent(account.data, size, account.lamports)
    return None if found is None else (found[0], found[1].rent)


def _mint_rent(account: Account, size: int, _: int) -> tuple[int, RentState] | None:
    found = mint_account.decode_mint_rent(account.data, size, account.lamports)
    if found is None or found[0] != bytes(account.address):
        return None
    return MINT, found[1].rent


_TOKENS = AccountSource(
    name="token accounts",
    kinds=(TOKEN, ASSOCIATED_TOKEN),
    program=COMPRESSED_TOKEN,
    memcmp=(token_account.RENT_OFFSET, bytes([token_account.TOKEN_ACCOUNT_TYPE])),
    start=token_account.RENT_OFFSET,
    length=token_account.RENT_BYTES,
    split_at=token_account.OWNER_OFFSET,
    decode=_token_rent,
    decode_whole=lambda account, _: token_account.decode_token_account(account),
    pays_forester=True,
)

_MINTS = AccountSource(
    name="mints",
    kinds=(MINT,),
    program=COMPRESSED_TOKEN,
    memcmp=(mint_account.TYPE_OFFSET, bytes([mint_account.MINT_TYPE])),
    start=mint_account.RENT_OFFSET,
    length=mint_account.RENT_BYTES,
    split_at=mint_account.ADDRESS_OFFSET,
    decode=_mint_rent,
    decode_whole=lambda account, _: mint_account.decode_mint_account(account),
)


def _program_source(named: LightProgram) -> AccountSource:
    kind = program_kind(bytes(named.program), named.discriminator)

    def decode(account: Account, size: int, per_byte: int) -> tuple[int, RentState] | None:
        rent = program_account.decode_program_rent(account.data, size, account.lamports, per_byte)
        return None if rent is None else (kind, rent)

    def decode_whole(account: Account, per_byte: int) -> RentedAccount | None:
        found = decode(account, len(account.data), per_byte)
        return None if found is None else program_account.ProgramAccount(account.address, *found)

    return AccountSource(
        name=f"accounts of {named.program}",
        kinds=(kind,),
        program=named.program,
        memcmp=(0, named.discriminator),
        start=0,
        length=program_account.RENT_BYTES,
        split_at=program_account.CLAIMED_OFFSET,
        decode=decode,
        decode_whole=decode_whole,
        is_claimable=False,
    )
