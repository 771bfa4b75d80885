"""Proofs for users' traffic: from the known trapdoor, or from the indexer as wallets request them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from solders.pubkey import Pubkey

from localnet.base58 import encode
from localnet.chain import addresses
from localnet.chain.network import Network
from localnet.chain.simulated_proofs import simulate_proof
from localnet.indexer.accounts.tree_accounts import TreeAccount, decode_tree_account
from localnet.indexer.programs import TreeType
from localnet.json_rpc import RpcError
from shared.requests.proof_compression import compress_proof
from shared.trees.poseidon import hash2


class NoProof(Exception):
    """There is no proof; the message says why."""


@dataclass(frozen=True)
class RootedProof:
    """A proof of 128 bytes, and the place of its root in the history of the tree."""

    root_index: int
    proof: bytes


@dataclass(frozen=True)
class SimulatedProofs:
    """Proofs for programs that have simulated keys."""

    network: Network

    async def of_leaf(self, leaf: bytes) -> RootedProof:
        """Return a proof that the V1 state tree has a leaf."""
        tree = self._tree(bytes(addresses.STATE_TREE_V1))
        numbers = [int.from_bytes(value, "big") for value in (tree.root, leaf)]
        return RootedProof(tree.sequence % tree.root_capacity, compress_proof(simulate_proof(numbers)).data)

    async def of_absence(self, address: bytes, tree: Pubkey = addresses.ADDRESS_TREE) -> RootedProof:
        """Return a proof that an address tree lacks an address."""
        found = self._tree(bytes(tree))
        pair = (found.root, address)
        statement = [hash2(*pair)] if found.tree_type is TreeType.ADDRESS_V2 else pair
        numbers = [int.from_bytes(value, "big") for value in statement]
        return RootedProof(found.sequence % found.root_capacity, compress_proof(simulate_proof(numbers)).data)

    def _tree(self, key: bytes) -> TreeAccount:
        account = self.network.account(Pubkey(key))
        tree = decode_tree_account(key, bytes(account.data)) if account else None
        if tree is None:
            raise NoProof(f"the tree {encode(key)} does not exist")
        return tree


@dataclass(frozen=True)
class IndexedProofs:
    """Validity proofs of the indexer, which requests them from its prover."""

    call: Callable[[str, object], Awaitable[Any]]

    async def of_leaf(self, leaf: bytes) -> RootedProof:
        """Return a proof that the V1 state tree has a leaf."""
        value = await self._ask("getValidityProof", {"hashes": [encode(leaf)]})
        return RootedProof(value["rootIndices"][0], _bytes_of(value))

    async def of_absence(self, address: bytes, tree: Pubkey = addresses.ADDRESS_TREE) -> RootedProof:
        """Return a proof that an address tree lacks an address."""
        wanted = [{"address": encode(address), "tree": str(tree)}]
        value = await self._ask("getValidityProofV2", {"newAddressesWithTrees": wanted})
        return RootedProof(value["addresses"][0]["rootIndex"], _bytes_of(value))

    async def _ask(self, method: str, params: object) -> Any:
        try:
            return (await self.call(method, params))["value"]
        except RpcError as error:
            raise NoProof(f"no proof: {error}") from error


Proofs = SimulatedProofs | IndexedProofs
"""Source of proofs about the default trees; raises NoProof if there is none."""


def _bytes_of(value: Any) -> bytes:
    return b"".join(bytes(value["compressedProof"][name]) for name in "abc")
