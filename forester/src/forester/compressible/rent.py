"""Rent of compressible accounts, computed as the programs do; no I/O.

Source: forester/docs/reference/programs.md, "Compressible accounts".

An account is prepaid for some rent epochs. It may be compressed in the first rent epoch that its balance no longer
covers. A forester that is early pays the fee of a refused transaction.
"""

from dataclasses import dataclass

RENT_EPOCH_SLOTS = 13_500

_OVERHEAD_BYTES = 128
"""Bytes that rent exemption counts in addition to the data of an account."""


@dataclass(frozen=True, slots=True)
class RentState:
    """Facts of an account that decide its rent. Amounts are lamports.

    ``rent_exemption`` is the amount that was recorded when the account was created, ``compression_cost`` the amount
    that pays for closing it, ``lamports_per_byte`` the rent of a byte for one rent epoch.
    """

    data_bytes: int
    lamports: int
    rent_exemption: int
    last_claimed_slot: int
    base_rent: int
    compression_cost: int
    lamports_per_byte: int

    @property
    def rent_per_epoch(self) -> int:
        """Rent of one rent epoch."""
        return self.base_rent + self.data_bytes * self.lamports_per_byte

    @property
    def available(self) -> int:
        """Balance that can pay rent."""
        return max(0, self.lamports - self.rent_exemption - self.compression_cost)

    @property
    def claimed_epoch(self) -> int:
        """Rent epoch up to which rent has been claimed, exclusive."""
        return self.last_claimed_slot // RENT_EPOCH_SLOTS

    @property
    def compressible_from(self) -> int | None:
        """First slot in which the account may be compressed; None if it pays no rent."""
        if not self.rent_per_epoch:
            return None
        paid = self.available // self.rent_per_epoch
        return (self.claimed_epoch + paid) * RENT_EPOCH_SLOTS

    def is_compressible(self, slot: int) -> bool:
        """Return whether the account may be compressed in a slot."""
        first = self.compressible_from
        return first is not None and slot >= first

    def claimable(self, slot: int) -> int:
        """Return the rent of completed rent epochs that can be claimed in a slot; 0 once it may be compressed."""
        if self.is_compressible(slot):
            return 0
        return max(0, slot // RENT_EPOCH_SLOTS - self.claimed_epoch) * self.rent_per_epoch


def rent_exemption(data_bytes: int, per_byte: int) -> int:
    """Return the balance that exempts an account from the cluster's rent, for the cluster's rate in lamports."""
    return (_OVERHEAD_BYTES + data_bytes) * per_byte


def rate_of_empty_account(minimum_balance: int) -> int:
    """Return lamports per byte from the balance that exempts an account without data."""
    return minimum_balance // _OVERHEAD_BYTES
