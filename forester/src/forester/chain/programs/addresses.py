"""Programs of Light Protocol and the addresses derived from them.

Source: forester/docs/reference/programs.md, "Programs" and "Derived addresses".
"""

from functools import cache

from solders.pubkey import Pubkey

REGISTRY = Pubkey.from_string("Lighton6oQpVkeewmo2mcPTQQp7kYHr4fWpAgJyEmDX")
ACCOUNT_COMPRESSION = Pubkey.from_string("compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq")
LIGHT_SYSTEM = Pubkey.from_string("SySTEM1eSU2p4BGQfQpimFEWWSC1XDFeun3Nqzz3rT7")
COMPRESSED_TOKEN = Pubkey.from_string("cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m")
NOOP = Pubkey.from_string("noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV")
SYSTEM = Pubkey.default()

PROTOCOL_CONFIG, _ = Pubkey.find_program_address([b"authority"], REGISTRY)
CPI_AUTHORITY, CPI_AUTHORITY_BUMP = Pubkey.find_program_address([b"cpi_authority"], REGISTRY)
REGISTERED_PROGRAM, _ = Pubkey.find_program_address([bytes(REGISTRY)], ACCOUNT_COMPRESSION)


@cache
def forester_address(derivation: Pubkey) -> Pubkey:
    """Return the address of the forester that was registered under the key ``derivation``."""
    return Pubkey.find_program_address([b"forester", bytes(derivation)], REGISTRY)[0]


def epoch_address(epoch: int) -> Pubkey:
    """Return the address of an epoch's account."""
    return Pubkey.find_program_address([epoch.to_bytes(8, "little")], REGISTRY)[0]


def forester_epoch_address(derivation: Pubkey, epoch: int) -> Pubkey:
    """Return the address of a forester's registration for an epoch."""
    seeds = [b"forester_epoch", bytes(forester_address(derivation)), epoch.to_bytes(8, "little")]
    return Pubkey.find_program_address(seeds, REGISTRY)[0]
