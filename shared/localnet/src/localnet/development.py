"""Well-known keys, and the environment with which a forester uses this network."""

import hashlib
import json
from collections.abc import Mapping

from solders.keypair import Keypair
from solders.message import Message
from solders.transaction import VersionedTransaction

from localnet.chain.network import Network
from localnet.programs import registry


def _well_known(name: str) -> Keypair:
    return Keypair.from_seed(hashlib.sha256(f"localnet {name}".encode()).digest())


AUTHORITY = _well_known("protocol authority")
FORESTER = _well_known("forester")
USER = _well_known("user")
LAMPORTS_EACH = 1000 * 10**9


class NetworkUnusable(Exception):
    """The programs refuse the initial transactions of a network."""


def furnish(network: Network) -> None:
    """Fund the well-known keys and admit the forester as the protocol authority. Raise NetworkUnusable on failure."""
    for key in (AUTHORITY, FORESTER, USER):
        network.airdrop(key.pubkey(), LAMPORTS_EACH)
    instruction = registry.register_forester(AUTHORITY.pubkey(), AUTHORITY.pubkey(), FORESTER.pubkey())
    blockhash = network.slots.hash_of(network.slot)
    message = Message.new_with_blockhash([instruction], AUTHORITY.pubkey(), blockhash)
    done = network.submit(bytes(VersionedTransaction(message, [AUTHORITY])))
    if done.err is not None:
        message_text = f"the forester cannot be registered: {json.dumps(done.err)}"
        raise NetworkUnusable(message_text)


def forester_environment(urls: Mapping[str, str]) -> dict[str, str]:
    """Return variables for a forester: the given addresses, its key, and its derivation key."""
    return {
        **urls,
        "PAYER": json.dumps(list(bytes(FORESTER))),
        "DERIVATION_PUBKEY": json.dumps(list(bytes(FORESTER.pubkey()))),
    }
