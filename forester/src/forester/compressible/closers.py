"""Closers of token accounts, mints and accounts of programs: what the transactions of each kind need."""

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.programs.compressed_address import compressed_address
from forester.chain.programs.compression import (
    CompressedLocation,
    compress_and_close,
    compress_mint,
    compress_program_accounts,
)
from forester.chain.programs.registry import Forester
from forester.chain.rpc_client import RpcClient
from forester.compressible.program_account import (
    ProgramConfig,
    config_address,
    decode_program_config,
)
from forester.compressible.rent import rate_of_empty_account
from forester.compressible.sources import AccountSource
from forester.compressible.token_account import TokenAccount
from forester.errors import EndpointError, EndpointTimedOut
from forester.indexer.client import IndexerClient
from forester.indexer.types import Hash32, Validity
from shared.process.logs import get_logger

_log = get_logger(__name__)

MAX_ACCOUNTS_PER_TRANSACTION = 10
"""Accounts that one transaction closes at most: no instruction may create more compressed accounts."""

_PROOFS_AT_ONCE = 4
_PROOF_UNITS = 150_000
"""Compute units of the verification of a proof."""

_T = TypeVar("_T")


async def answered(work: Awaitable[_T], within_s: float) -> _T:
    """Return a result that is available within ``within_s``. Raises EndpointTimedOut, and what ``work`` raises."""
    try:
        async with asyncio.timeout(within_s):
            return await work
    except TimeoutError:
        raise EndpointTimedOut(f"no answer within {within_s:.3g} s") from None


@dataclass(frozen=True)
class Located:
    """An account that is due, and where its compressed account is if there is one already."""

    account: Any
    location: CompressedLocation | None = None


class AccountCloser(ABC):
    """The closer of one source.

    ``skips_silently`` says that a transaction may succeed without having closed its accounts. ``base_units`` and
    ``units`` are compute units, for a transaction and each account in addition.
    """

    purpose: ClassVar[str]
    base_units: ClassVar[int] = 60_000
    units: ClassVar[int]
    skips_silently: ClassVar[bool] = False
    exemption_lamports_per_byte = 0
    """The balance per byte that exempts from the cluster's rent; ``prepare`` reads it if accounts do not record it."""

    def __init__(self, source: AccountSource) -> None:
        self.source = source

    def compute_units(self, accounts: Sequence[Located]) -> int:
        """Return the maximum compute units of a transaction that closes accounts."""
        proofs = sum(item.location is not None and item.location.proof is not None for item in accounts)
        return self.base_units + self.units * len(accounts) + _PROOF_UNITS * proofs

    async def prepare(self) -> None:  # noqa: B027 - most kinds need nothing
        """Read what all accounts of a round need. Raises ForesterError."""

    @abstractmethod
    async def groups(self, accounts: Sequence[Any], within_s: float) -> tuple[list[list[Located]], list[Any]]:
        """Return accounts in groups that may share transactions, and those that cannot be located now.

        Each request takes at most ``within_s``, after which no other begins. The accounts left over are in neither.
        """

    @abstractmethod
    def instructions(self, accounts: Sequence[Located], output_queue: Pubkey, epoch: int) -> list[Instruction]:
        """Return the instructions that close accounts in an epoch."""


class TokenAccountCloser(AccountCloser):
    """Closes token accounts through the registry, which pays the forester."""

    purpose = "compress_and_close"
    units = 60_000

    def __init__(self, source: AccountSource, *, payer: Pubkey, derivation: Pubkey) -> None:
        super().__init__(source)
        self._payer = payer
        self._derivation = derivation

    async def groups(self, accounts: Sequence[TokenAccount], within_s: float) -> tuple[list[list[Located]], list[Any]]:  # noqa: ARG002
        """Return groups of one compression authority each, which the instruction names, extended accounts apart."""
        found: dict[tuple[Pubkey, bool], list[Located]] = defaultdict(list)
        for account in accounts:
            found[account.compression_authority, account.is_extended].append(Located(account))
        return list(found.values()), []

    def instructions(self, accounts: Sequence[Located], output_queue: Pubkey, epoch: int) -> list[Instruction]:
        """Return one instruction for all."""
        found: list[TokenAccount] = [item.account for item in accounts]
        forester = Forester.registered(self._payer, self._derivation, epoch)
        return [compress_and_close(forester, output_queue, found[0].compression_authority, found)]


class _LocatingCloser(AccountCloser):
    """A closer of accounts whose addresses have compressed accounts, which the indexer finds and proves."""

    def __init__(self, source: AccountSource, indexer: IndexerClient) -> None:
        super().__init__(source)
        self._indexer = indexer
        self._proofs = asyncio.Semaphore(_PROOFS_AT_ONCE)

    async def _located(
        self, accounts: Sequence[Any], addresses: Sequence[bytes], within_s: float
    ) -> tuple[list[Located], list[Any]]:
        """Return accounts with the positions of their compressed accounts, and those that cannot be located now."""
        found = await answered(self._indexer.compressed_accounts([Hash32(item) for item in addresses]), within_s)
        located: list[Located] = []
        failed: list[Any] = []
        time = asyncio.get_running_loop().time
        ends = time() + within_s

        async def locate(account: Any, value: Hash32) -> None:
            async with self._proofs:
                if time() >= ends:
                    return
                try:
                    validity = await answered(self._indexer.validity_proof([value]), within_s)
                    located.append(Located(account, _location_of(validity)))
                except EndpointError as error:
                    _log.warning("compressed_account_not_proved", hash=str(value), error=error.detail)
                    failed.append(account)

        known: list[tuple[Any, Hash32]] = []
        for account, item in zip(accounts, found, strict=True):
            if item is None:
                _log.warning("compressed_account_unknown", account=str(account.address), detail="the indexer lacks it")
                failed.append(account)
            else:
                known.append((account, item.hash))
        await asyncio.gather(*(locate(account, value) for account, value in known))
        return located, failed


class MintCloser(_LocatingCloser):
    """Closes mints. Anyone may, and their lamports go to the rent sponsor."""

    purpose = "compress_mint"
    units = 60_000

    def __init__(self, source: AccountSource, indexer: IndexerClient, *, payer: Pubkey) -> None:
        super().__init__(source, indexer)
        self._payer = payer

    async def groups(self, accounts: Sequence[Any], within_s: float) -> tuple[list[list[Located]], list[Any]]:
        """Return one group."""
        addresses = [account.compressed_address for account in accounts]
        located, failed = await self._located(accounts, addresses, within_s)
        return [located], failed

    def instructions(self, accounts: Sequence[Located], output_queue: Pubkey, epoch: int) -> list[Instruction]:  # noqa: ARG002
        """Return an instruction for each."""
        return [
            compress_mint(self._payer, item.account.address, item.account.rent_sponsor, item.location, output_queue)
            for item in accounts
            if item.location is not None
        ]


class ProgramAccountCloser(_LocatingCloser):
    """Closes accounts of a program. Anyone may, and their lamports go to the program's rent sponsor."""

    purpose = "compress_program_accounts"
    base_units = 200_000
    units = 80_000
    skips_silently = True
    _config: ProgramConfig
    """The program's configuration, which ``prepare`` reads."""

    def __init__(self, source: AccountSource, rpc: RpcClient, indexer: IndexerClient, *, payer: Pubkey) -> None:
        super().__init__(source, indexer)
        self._rpc = rpc
        self._payer = payer

    async def prepare(self) -> None:
        """Read the program's configuration and the cluster's rate for rent exemption. Raises ForesterError."""
        program = self.source.program
        found = await self._rpc.existing_account(config_address(program), f"the configuration of {program}")
        self._config = decode_program_config(program, found)
        self.exemption_lamports_per_byte = rate_of_empty_account(await self._rpc.minimum_balance(0))

    async def groups(self, accounts: Sequence[Any], within_s: float) -> tuple[list[list[Located]], list[Any]]:
        """Return a group of accounts that need no proof, and one for each that needs one."""
        tree, program = self._config.address_tree, self.source.program
        addresses = [compressed_address(account.address, tree, program) for account in accounts]
        located, failed = await self._located(accounts, addresses, within_s)
        queued = [item for item in located if item.location is not None and item.location.proof is None]
        return [queued, *([item] for item in located if item not in queued)], failed

    def instructions(self, accounts: Sequence[Located], output_queue: Pubkey, epoch: int) -> list[Instruction]:  # noqa: ARG002
        """Return one instruction for all."""
        locations = [item.location for item in accounts if item.location is not None]
        addresses = [item.account.address for item in accounts]
        return [compress_program_accounts(self._payer, self._config, addresses, locations, output_queue)]


def _location_of(validity: Validity) -> CompressedLocation:
    """Return the position of the one account of a proof."""
    [account] = validity.accounts
    tree, queue = Pubkey(account.merkle_context.tree), Pubkey(account.merkle_context.queue)
    if account.root_index.prove_by_index or validity.compressed_proof is None:
        return CompressedLocation(tree, queue, account.leaf_index)
    points = validity.compressed_proof
    proof = bytes([*points.a, *points.b, *points.c])
    return CompressedLocation(tree, queue, account.leaf_index, account.root_index.root_index, proof)
