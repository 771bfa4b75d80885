"""The recorded transactions: by slot, by signature, by address."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator

from solders.pubkey import Pubkey
from solders.signature import Signature

from localnet.chain.blocks import RecordedTransaction


class Ledger:
    """Every executed transaction since the first slot; it grows as the chain does."""

    def __init__(self, transactions: Iterable[RecordedTransaction] = ()) -> None:
        self._by_slot: dict[int, list[RecordedTransaction]] = {}
        self._slots: list[int] = []
        self._by_signature: dict[Signature, RecordedTransaction] = {}
        self._count = 0
        self._by_address: defaultdict[Pubkey, list[RecordedTransaction]] = defaultdict(list)
        for transaction in transactions:
            self.append(transaction)

    def append(self, transaction: RecordedTransaction) -> None:
        """Record a transaction; slots never decrease."""
        if transaction.slot not in self._by_slot:
            self._by_slot[transaction.slot] = []
            self._slots.append(transaction.slot)
        self._by_slot[transaction.slot].append(transaction)
        self._count += 1
        for signature in transaction.transaction.signatures:
            self._by_signature[signature] = transaction
        for key in transaction.account_keys:
            self._by_address[key].append(transaction)

    def __iter__(self) -> Iterator[RecordedTransaction]:
        for transactions in self._by_slot.values():
            yield from transactions

    def in_slot(self, slot: int) -> list[RecordedTransaction]:
        """Return the transactions of a slot, in order."""
        return self._by_slot.get(slot, [])

    def slots(self, first: int, last: int) -> list[int]:
        """Return slots with transactions, from ``first`` to ``last`` inclusive, ascending."""
        return self._slots[bisect_left(self._slots, first) : bisect_right(self._slots, last)]

    def get(self, signature: Signature) -> RecordedTransaction | None:
        """Return the transaction with this signature."""
        return self._by_signature.get(signature)

    def of_address(self, address: Pubkey) -> list[RecordedTransaction]:
        """Return transactions that name an address, oldest first."""
        return self._by_address.get(address, [])

    def count(self) -> int:
        """Return number of transactions."""
        return self._count
