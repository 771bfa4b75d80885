"""Addresses of the programs and of the accounts derived from them.

Source: forester/docs/reference/programs.md, "Derived addresses".
"""

from solders.pubkey import Pubkey

REGISTRY = Pubkey.from_string("Lighton6oQpVkeewmo2mcPTQQp7kYHr4fWpAgJyEmDX")
ACCOUNT_COMPRESSION = Pubkey.from_string("compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq")
LIGHT_SYSTEM = Pubkey.from_string("SySTEM1eSU2p4BGQfQpimFEWWSC1XDFeun3Nqzz3rT7")
COMPRESSED_TOKEN = Pubkey.from_string("cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m")
NOOP = Pubkey.from_string("noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV")

PROTOCOL_CONFIG = Pubkey.from_string("CuEtcKkkbTn6qy2qxqDswq5U2ADsqoipYDAYfRvxPjcp")
REGISTRY_CPI_AUTHORITY = Pubkey.from_string("27zfL6426bibq3b949DiEzUjaduEuZt6WZK369FKEYKG")
REGISTRY_CPI_AUTHORITY_BUMP = 255
REGISTERED_REGISTRY = Pubkey.from_string("DumMsyvkaGJG4QnQ1BhTgvoRMXsgGxfpKDUCr22Xqu4w")
REGISTERED_LIGHT_SYSTEM = Pubkey.from_string("35hkDgaAKwMCaxRz2ocSZ6NaUrtKkyNqU6c4RV3tYJRh")
LIGHT_SYSTEM_CPI_AUTHORITY = Pubkey.from_string("HwXnGK3tPkkVY6P439H2p68AxpeuWXd5PcrAxFpbmfbA")
SOL_POOL = Pubkey.from_string("CHK57ywWSDncAoRu1F8QgwYJeXuAJyyBYT4LixLXvMZ1")
TOKEN_CPI_AUTHORITY = Pubkey.from_string("GXtd2izAiMJPwMEjfgTRH3d7k9mjn4Jq3JrWFv9gySYy")

STATE_TREE = Pubkey.from_string("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU")
OUTPUT_QUEUE = Pubkey.from_string("oq1na8gojfdUhsfCpyjNt6h4JaDWtHf1yQj4koBWfto")
ADDRESS_TREE = Pubkey.from_string("amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx")
STATE_TREE_V1 = Pubkey.from_string("smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT")
NULLIFIER_QUEUE_V1 = Pubkey.from_string("nfq1NvQDJ2GEgnS8zt9prAe8rjjpAW1zFkrvZoBR148")
ADDRESS_TREE_V1 = Pubkey.from_string("amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2")
ADDRESS_QUEUE_V1 = Pubkey.from_string("aq1S9z4reTSQAdgWHGD2zDaS39sjGrAxbR31vxJ2F4F")


def forester(derivation: Pubkey) -> Pubkey:
    """Return the address of the forester account of a derivation key."""
    return Pubkey.find_program_address([b"forester", bytes(derivation)], REGISTRY)[0]


def epoch(number: int) -> Pubkey:
    """Return the address of an epoch's account."""
    return Pubkey.find_program_address([number.to_bytes(8, "little")], REGISTRY)[0]


def forester_epoch(derivation: Pubkey, number: int) -> Pubkey:
    """Return the address of a forester's account in an epoch."""
    seeds = [b"forester_epoch", bytes(forester(derivation)), number.to_bytes(8, "little")]
    return Pubkey.find_program_address(seeds, REGISTRY)[0]
