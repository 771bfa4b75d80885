"""Candidates of closing and of claiming: reading them again, splitting them into transactions, adding up results."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from solders.pubkey import Pubkey

from forester.chain.program_errors import ForesterRefusal
from forester.chain.programs.addresses import REGISTRY
from forester.chain.rpc_client import RpcClient
from forester.compressible.sources import AccountSource, RentedAccount
from forester.errors import ForesterError, TransactionRefused
from forester.journal.compressible import CompressibleStore, TrackedAccount

_T = TypeVar("_T")

UNKNOWN_SLOTS = 200
"""Slots until a transaction of unknown outcome cannot land: a blockhash is valid for 150 blocks, some slots have none.

Another transaction for its accounts would be refused after it, and so would each account alone, at a fee.
"""

_OF_FORESTERS = {
    ForesterRefusal.FORESTER_NOT_ELIGIBLE,
    ForesterRefusal.NOT_IN_ACTIVE_PHASE,
    ForesterRefusal.REGISTRATION_NOT_FINALIZED,
}
"""Codes of the registry's check of each piece of work."""


async def confirmed(
    rpc: RpcClient,
    store: CompressibleStore,
    candidates: Sequence[tuple[AccountSource, Pubkey]],
    *,
    slot: int,
    wanted: Callable[[RentedAccount], object],
    exemption_lamports_per_byte: int = 0,
) -> list[Any]:
    """Return candidates that are ``wanted`` as the chain says; rows that are wrong or out of date are corrected.

    Raises EndpointError and JournalError.
    """
    found: list[RentedAccount] = []
    corrected: list[TrackedAccount] = []
    gone: list[bytes] = []
    accounts = await rpc.accounts([address for _, address in candidates])
    for (source, address), account in zip(candidates, accounts, strict=True):
        rented = source.rented(account, exemption_lamports_per_byte)
        if rented is None:
            gone.append(bytes(address))
        elif wanted(rented):
            found.append(rented)
        else:
            corrected.append(source.row(rented, slot))
    await store.put(corrected)
    await store.remove(gone)
    return found


def split(group: Sequence[_T], largest: int, fits: Callable[[Sequence[_T]], bool]) -> Iterator[Sequence[_T]]:
    """Split a group into batches of a transaction each: as many as fit, ``largest`` at most, at least one."""
    begin = 0
    while begin < len(group):
        count = min(largest, len(group) - begin)
        while count > 1 and not fits(group[begin : begin + count]):
            count -= 1
        yield group[begin : begin + count]
        begin += count


def totals(done: Sequence[int | BaseException]) -> tuple[int, ForesterError | None]:
    """Return the sum of results, and their first failure. Raises bugs."""
    for result in done:
        if isinstance(result, BaseException) and not isinstance(result, ForesterError):
            raise result
    failures = [result for result in done if isinstance(result, ForesterError)]
    return sum(result for result in done if isinstance(result, int)), failures[0] if failures else None


def is_for_forester(error: TransactionRefused) -> bool:
    """Return whether the registry refused the forester's share or the phase rather than an account.

    Other codes of the registry affect accounts: 6020 is one that it cannot decode. Without logs the program is unknown,
    and other programs count from 6000 as well.
    """
    if error.program is None:
        return error.code in _OF_FORESTERS
    return error.program == str(REGISTRY) and error.code in set(ForesterRefusal)
