"""Shared clients of V2 tree processors, and their limits from the settings."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from solders.pubkey import Pubkey

from forester.chain.rpc_client import RpcClient
from forester.indexer.client import IndexerClient
from forester.journal.proofs import ProofStore
from forester.observability.metrics import Metrics
from forester.prover_client.client import ProverClient
from forester.settings import Settings
from forester.transactions.sender import Sender
from shared.requests.circuit_id import CircuitKind


def proof_permits(maximum: int) -> dict[CircuitKind, asyncio.Semaphore]:
    """Return permits for ``maximum`` proofs of each circuit under way, of all trees together.

    Circuits have provers of their own: one that hangs or is busy must not stop the others.
    """
    return {kind: asyncio.Semaphore(maximum) for kind in CircuitKind if kind.is_batch}


@dataclass(frozen=True)
class V2Services:
    """Services that all V2 tree processors share; all are open and belong to the caller.

    ``permits`` bounds the proofs under way of all trees together. ``derivation`` is the key that the forester is
    registered under.
    """

    rpc: RpcClient
    indexer: IndexerClient
    prover: ProverClient
    sender: Sender
    proofs: ProofStore
    permits: Mapping[CircuitKind, asyncio.Semaphore]
    metrics: Metrics
    derivation: Pubkey


@dataclass(frozen=True)
class V2Limits:
    """Limits: ``round_batches`` in a round (``max_batches_per_tree``), ``window`` proofs of a tree under way at once.

    For ``done_kept_s`` seconds (``ops_cache_ttl_seconds``) a batch that landed is not proved again, even if a node
    returns the tree without it, nor one whose proofs the chain refuses. A proof waits ``gather_s`` seconds at most for
    others to share its transaction.
    """

    round_batches: int = 4
    window: int = 20
    done_kept_s: float = 180.0
    cu_limit: int = 1_000_000
    gather_s: float = 5.0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the limits of the settings."""
        return cls(
            round_batches=settings.max_batches_per_tree,
            window=settings.transaction_max_concurrent_batches,
            done_kept_s=settings.ops_cache_ttl_seconds,
            cu_limit=settings.cu_limit,
        )
