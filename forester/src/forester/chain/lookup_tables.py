"""Address lookup tables, with which transactions name accounts in one byte.

Source: forester/docs/reference/programs.md, "Transactions".
"""

from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.pubkey import Pubkey

from forester.chain.rpc_client import Account, RpcClient
from forester.errors import AccountMissing, MalformedAccount

PROGRAM = Pubkey.from_string("AddressLookupTab1e1111111111111111111111111")
HEADER_BYTES = 56
MAXIMUM_ADDRESSES = 256
"""A transaction names an address of a table in one byte."""

_LOOKUP_TABLE = 1
_STILL_ACTIVE = 2**64 - 1


class LookupTables:
    """The lookup table of the settings, if any: its owner may extend, deactivate and close it at any time."""

    def __init__(self, rpc: RpcClient, address: Pubkey | None) -> None:
        self._rpc = rpc
        self._address = address
        self.current: tuple[AddressLookupTableAccount, ...] = ()
        """Tables that transactions may use now; without one they are only larger."""

        self.problem: str | None = None
        """Reason why the table cannot be used."""

    async def refresh(self) -> None:
        """Read the table again. Raises EndpointError, and then changes nothing."""
        if self._address is None:
            return
        try:
            account = await self._rpc.existing_account(self._address, "the lookup table of --lookup-table-address")
            self.current, self.problem = (decode_lookup_table(account),), None
        except (AccountMissing, MalformedAccount) as error:
            self.current, self.problem = (), error.detail


def decode_lookup_table(account: Account) -> AddressLookupTableAccount:
    """Decode a table; MalformedAccount if it is none, or its owner deactivated it."""
    data = account.data
    addresses = data[HEADER_BYTES:]
    if account.owner != PROGRAM or len(data) < HEADER_BYTES or int.from_bytes(data[:4], "little") != _LOOKUP_TABLE:
        raise MalformedAccount(f"{account.address} is not an address lookup table")
    if len(addresses) > 32 * MAXIMUM_ADDRESSES:
        count = len(addresses) // 32
        raise MalformedAccount(
            f"the lookup table {account.address} has {count} addresses, more than {MAXIMUM_ADDRESSES}"
        )
    if len(addresses) % 32:
        raise MalformedAccount(f"the lookup table {account.address} ends inside an address")
    if int.from_bytes(data[4:12], "little") != _STILL_ACTIVE:
        raise MalformedAccount(f"the lookup table {account.address} is deactivated; create another one")
    keys = [Pubkey(addresses[index : index + 32]) for index in range(0, len(addresses), 32)]
    return AddressLookupTableAccount(account.address, keys)
