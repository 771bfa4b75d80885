"""The methods of an RPC node that the forester uses, with typed results."""

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from solders.hash import Hash, ParseHashError
from solders.pubkey import Pubkey
from solders.signature import Signature

from forester.chain import bounds
from forester.chain.program_errors import transaction_refused
from forester.chain.rent import checked_rent
from forester.chain.rpc_pool import RpcPool, Slot, UnusedNode
from forester.errors import AccountMissing, MalformedAnswer, RequestRefused
from forester.units import LAMPORTS_PER_BYTE_YEAR

ACCOUNTS_PER_CALL = 100
STATUSES_PER_CALL = 256
_LONG_TEXT = 1 << 17
_PROGRAM_ACCOUNTS_TIMEOUT_S = 30.0
_PREFLIGHT_FAILED = -32002

ACCOUNTS_PER_PAGE = 10_000
"""Largest page of getProgramAccountsV2."""

MAXIMUM_PAGES = 10_000
"""Pages of one listing, twelve times those of all accounts that the journal holds: filters may leave pages short."""

LONGEST_PAGINATION_KEY = 1024
"""Characters of a paginationKey; Helius sends 44."""

LISTED_ACCOUNTS = 10_000
"""Accounts that a listing may have: trees of all groups, registrations of an epoch."""

Lamports = Annotated[int, msgspec.Meta(ge=0, le=bounds.LARGEST_LAMPORTS)]

_HashText = Annotated[str, msgspec.Meta(max_length=44)]
"""32 bytes in base58."""

T = TypeVar("T")


@dataclass(frozen=True)
class Account:
    """An account, or a slice of its data. ``size`` is the length of all its data, None if the node did not say it."""

    address: Pubkey
    owner: Pubkey
    lamports: int
    data: bytes
    size: int | None = None


@dataclass(frozen=True)
class Blockhash:
    """A recent blockhash, and the last block height at which a transaction with it can land."""

    hash: Hash
    last_valid_block_height: int


class BlockHeight(msgspec.Struct, frozen=True, rename={"block": "blockHeight", "slot": "absoluteSlot"}):
    """Number of blocks, by which blockhashes expire, and the slot of the last block."""

    block: Slot
    slot: Slot


class SignatureStatus(msgspec.Struct, rename="camel"):
    """Outcome of a transaction; ``err`` is None if it succeeded."""

    slot: Slot
    err: Any = None
    confirmation_status: str | None = None


@dataclass(frozen=True)
class SignatureStatuses:
    """Statuses of transactions, None for those that the node does not know at ``slot``."""

    slot: int
    found: list[SignatureStatus | None]


@dataclass(frozen=True)
class AddressSignature:
    """A transaction that names an account, and the slot it landed in."""

    signature: Signature
    slot: int


class WireAccount(msgspec.Struct, rename="camel"):
    """An account as JSON spells it."""

    lamports: Lamports
    owner: str
    data: tuple[str, str]
    space: Annotated[int, msgspec.Meta(ge=0, le=bounds.LARGEST_ACCOUNT_BYTES)] | None = None


class _Value(msgspec.Struct, Generic[T]):
    value: T


class _Context(msgspec.Struct):
    slot: Slot


class ValueAt(msgspec.Struct, Generic[T]):
    """A value, and the slot that it is of."""

    context: _Context
    value: T


class KeyedAccount(msgspec.Struct):
    """An account of a program, with its address."""

    pubkey: str
    account: WireAccount


class _Named(msgspec.Struct):
    signature: str
    slot: Slot


class _AccountPage(msgspec.Struct, rename="camel"):
    accounts: list[KeyedAccount]
    pagination_key: Annotated[str, msgspec.Meta(max_length=LONGEST_PAGINATION_KEY)] | None = None


class _LatestBlockhash(msgspec.Struct, rename="camel"):
    blockhash: str
    last_valid_block_height: Slot


class _FeeEstimate(msgspec.Struct, rename="camel"):
    priority_fee_estimate: float | None = None


class RpcClient:
    """Typed calls over a pool. All methods raise EndpointError; reads are of ``commitment``.

    ``rent_lamports_per_byte_year`` bounds the rent that a node may ask for.
    """

    def __init__(
        self,
        pool: RpcPool | UnusedNode,
        *,
        commitment: str = "confirmed",
        rent_lamports_per_byte_year: int = LAMPORTS_PER_BYTE_YEAR,
    ) -> None:
        self._pool = pool
        self._commitment = commitment
        self._rent_lamports_per_byte_year = rent_lamports_per_byte_year

    @property
    def second_source(self) -> "RpcClient | None":
        """A client of the node that is not in use, which is called once per method; None if there is one node."""
        unused = self._pool.unused if isinstance(self._pool, RpcPool) else None
        return RpcClient(unused, commitment=self._commitment) if unused is not None else None

    async def health(self) -> str:
        """Return `ok`; a node that is behind raises."""
        return await self._pool.call("getHealth", [], str)

    def leave_stuck_node(self) -> None:
        """Fail over from a node whose slot does not move to the fallback, if any, until it moves again."""
        if isinstance(self._pool, RpcPool):
            self._pool.leave_stuck_node()

    async def slot(self, commitment: str | None = None) -> int:
        """Return the current slot."""
        return await self._pool.call("getSlot", [{"commitment": commitment or self._commitment}], Slot)

    async def block_height(self) -> BlockHeight:
        """Return the current block height with its slot."""
        return await self._pool.call("getEpochInfo", [{"commitment": self._commitment}], BlockHeight)

    async def genesis_hash(self) -> str:
        """Return the genesis hash, which identifies the cluster."""
        return await self._pool.call("getGenesisHash", [], _HashText)

    async def balance(self, address: Pubkey) -> int:
        """Return the lamports of an account, 0 if there is none."""
        answer = await self._pool.call("getBalance", [str(address), {"commitment": self._commitment}], _Value[Lamports])
        return answer.value

    async def account(self, address: Pubkey, *, start: int = 0, length: int | None = None) -> Account | None:
        """Return an account, None if there is none."""
        return (await self.accounts([address], start=start, length=length))[0]

    async def existing_account(
        self, address: Pubkey, what: str, *, start: int = 0, length: int | None = None
    ) -> Account:
        """Return an account; AccountMissing that says ``what`` was expected if there is none."""
        found = await self.account(address, start=start, length=length)
        if found is None:
            raise AccountMissing(f"{what} does not exist at {address}; is this the right cluster?")
        return found

    async def accounts(
        self, addresses: Sequence[Pubkey], *, start: int = 0, length: int | None = None
    ) -> list[Account | None]:
        """Return accounts in the order of ``addresses``; a slice of their data if ``length`` is given."""
        found: list[Account | None] = []
        for index in range(0, len(addresses), ACCOUNTS_PER_CALL):
            part = [str(address) for address in addresses[index : index + ACCOUNTS_PER_CALL]]
            answer = await self._pool.call(
                "getMultipleAccounts",
                [part, self._options(start, length)],
                _Value[list[WireAccount | None]],
            )
            if len(answer.value) != len(part):
                raise MalformedAnswer(f"{len(answer.value)} accounts instead of {len(part)}")
            pairs = [(text, wire) for text, wire in zip(part, answer.value, strict=True) if wire is not None]
            present = iter(await _accounts_of(pairs))
            found += [None if wire is None else next(present) for wire in answer.value]
        return found

    async def program_accounts(
        self,
        program: Pubkey,
        *,
        memcmp: Sequence[tuple[int, bytes]] = (),
        start: int = 0,
        length: int | None = None,
        maximum: int | None = LISTED_ACCOUNTS,
    ) -> list[Account]:
        """Return the accounts of a program that have given bytes at given offsets.

        Raises MalformedAnswer if there are more than ``maximum``.
        """
        answer = await self._pool.call(
            "getProgramAccounts",
            [str(program), self._options(start, length) | {"filters": memcmp_filters(memcmp)}],
            list[KeyedAccount],
            timeout_s=_PROGRAM_ACCOUNTS_TIMEOUT_S,
        )
        if maximum is not None and len(answer) > maximum:
            raise MalformedAnswer(
                f"getProgramAccounts of {program} returned {len(answer)} accounts, more than {maximum}"
            )
        return await _accounts_of([(item.pubkey, item.account) for item in answer])

    async def program_account_pages(
        self, program: Pubkey, *, memcmp: Sequence[tuple[int, bytes]], start: int, length: int
    ) -> AsyncIterator[list[Account]]:
        """Yield the accounts of a program in pages, by the method of Helius; RequestRefused by nodes without it."""
        options = self._options(start, length) | {"filters": memcmp_filters(memcmp), "limit": ACCOUNTS_PER_PAGE}
        seen: set[str] = set()
        for _ in range(MAXIMUM_PAGES):
            page = await self._pool.call(
                "getProgramAccountsV2",
                [str(program), options],
                _AccountPage,
                timeout_s=_PROGRAM_ACCOUNTS_TIMEOUT_S,
            )
            yield await _accounts_of([(item.pubkey, item.account) for item in page.accounts])
            key = page.pagination_key
            if not key or not page.accounts:
                return
            if key in seen:
                raise MalformedAnswer(
                    "getProgramAccountsV2 returned the same paginationKey twice; leave out --helius-rpc"
                )
            seen.add(key)
            options["paginationKey"] = key
        raise MalformedAnswer(f"getProgramAccountsV2 returned over {MAXIMUM_PAGES} pages; leave out --helius-rpc")

    async def latest_blockhash(self) -> Blockhash:
        """Return the newest blockhash."""
        answer = await self._pool.call(
            "getLatestBlockhash", [{"commitment": self._commitment}], _Value[_LatestBlockhash]
        )
        try:
            return Blockhash(Hash.from_string(answer.value.blockhash), answer.value.last_valid_block_height)
        except ParseHashError:
            raise MalformedAnswer(f"not a blockhash: {answer.value.blockhash[:64]}") from None

    async def is_blockhash_valid(self, blockhash: Hash) -> bool:
        """Return whether a transaction with a blockhash can still land."""
        params = [str(blockhash), {"commitment": "processed"}]
        return (await self._pool.call("isBlockhashValid", params, _Value[bool])).value

    async def send_transaction(self, transaction: bytes, *, skip_preflight: bool = False) -> Signature:
        """Send a signed transaction; TransactionRefused if its simulation fails. It may be sent repeatedly."""
        options = {
            "encoding": "base64",
            "skipPreflight": skip_preflight,
            "preflightCommitment": self._commitment,
            "maxRetries": 0,
        }
        try:
            text = await self._pool.call(
                "sendTransaction", [base64.b64encode(transaction).decode(), options], str, sends=True
            )
            return Signature.from_string(text)
        except RequestRefused as error:
            if error.code == _PREFLIGHT_FAILED and isinstance(error.data, dict) and error.data.get("err") is not None:
                raise transaction_refused(error.data["err"], _logs(error.data)) from None
            raise
        except ValueError:
            raise MalformedAnswer("sendTransaction returned something that is not a signature") from None

    async def signature_statuses(
        self, signatures: Sequence[Signature], *, search_history: bool = False
    ) -> SignatureStatuses:
        """Return the status of transactions, and the slot of the node that is farthest behind."""
        found: list[SignatureStatus | None] = []
        slots: list[int] = []
        for index in range(0, len(signatures), STATUSES_PER_CALL):
            part = [str(signature) for signature in signatures[index : index + STATUSES_PER_CALL]]
            answer = await self._pool.call(
                "getSignatureStatuses",
                [part, {"searchTransactionHistory": search_history}],
                ValueAt[list[SignatureStatus | None]],
            )
            if len(answer.value) != len(part):
                raise MalformedAnswer(f"{len(answer.value)} statuses instead of {len(part)}")
            found.extend(answer.value)
            slots.append(answer.context.slot)
        return SignatureStatuses(min(slots, default=0), found)

    async def transaction(self, signature: Signature) -> dict[str, Any] | None:
        """Return a transaction with its meta data, None if it is not known."""
        options = {"encoding": "base64", "commitment": self._commitment, "maxSupportedTransactionVersion": 0}
        answer: Any = await self._pool.call(
            "getTransaction",
            [str(signature), options],
            dict[str, Any] | None,  # type: ignore[arg-type]
        )
        return answer  # type: ignore[no-any-return]

    async def signatures_for(
        self, address: Pubkey, *, limit: int, until: Signature | None = None
    ) -> list[AddressSignature]:
        """Return the newest transactions that name an account, newest first, back to ``until`` exclusive."""
        options: dict[str, Any] = {"commitment": self._commitment, "limit": limit}
        if until is not None:
            options["until"] = str(until)
        answer = await self._pool.call("getSignaturesForAddress", [str(address), options], list[_Named])
        try:
            return [AddressSignature(Signature.from_string(item.signature), item.slot) for item in answer]
        except ValueError:
            raise MalformedAnswer("getSignaturesForAddress returned something that is not a signature") from None

    async def minimum_balance(self, data_length: int) -> int:
        """Return the lamports that free an account from rent; ExcessiveRent if the node asks for too much."""
        answer = await self._pool.call("getMinimumBalanceForRentExemption", [data_length], int)
        return checked_rent(answer, data_length, self._rent_lamports_per_byte_year)

    async def priority_fee_estimate(self, accounts: Sequence[Pubkey]) -> float | None:
        """Return the price that a node recommends, in microlamports; RequestRefused by nodes without the method."""
        params = [{"accountKeys": [str(address) for address in accounts], "options": {"recommended": True}}]
        answer = await self._pool.call("getPriorityFeeEstimate", params, _FeeEstimate, deadline_s=15.0)
        return answer.priority_fee_estimate

    def _options(self, start: int, length: int | None) -> dict[str, Any]:
        options: dict[str, Any] = {"encoding": "base64", "commitment": self._commitment}
        if length is not None:
            options["dataSlice"] = {"offset": start, "length": length}
        return options


def memcmp_filters(memcmp: Sequence[tuple[int, bytes]]) -> list[dict[str, Any]]:
    """Return filters for accounts that have given bytes at given offsets."""
    return [
        {"memcmp": {"offset": offset, "bytes": base64.b64encode(value).decode(), "encoding": "base64"}}
        for offset, value in memcmp
    ]


async def _accounts_of(wires: Sequence[tuple[str, WireAccount]]) -> list[Account]:
    """Return accounts by their addresses; long or many ones are decoded in a thread, so that they hold no loop."""

    def decode() -> list[Account]:
        return [account_of(pubkey_of(text), wire) for text, wire in wires]

    is_long = len(wires) > ACCOUNTS_PER_CALL or sum(len(wire.data[0]) for _, wire in wires) > _LONG_TEXT
    return await asyncio.to_thread(decode) if is_long else decode()


def account_of(address: Pubkey, wire: WireAccount) -> Account:
    """Return an account; MalformedAnswer if it makes no sense."""
    try:
        data = base64.b64decode(wire.data[0], validate=True)
    except (binascii.Error, ValueError):
        raise MalformedAnswer(f"the data of {address} is not base64") from None
    return Account(address, pubkey_of(wire.owner), wire.lamports, data, wire.space)


def pubkey_of(text: str) -> Pubkey:
    """Return a public key; MalformedAnswer if the text is none."""
    try:
        return Pubkey.from_string(text)
    except ValueError:
        raise MalformedAnswer(f"not a public key: {text[:64]}") from None


def _logs(data: dict[str, Any]) -> list[str]:
    logs = data.get("logs")
    return [line for line in logs if isinstance(line, str)] if isinstance(logs, list) else []
