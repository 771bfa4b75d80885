"""What a V2 processor is made of: the clients that all share, and the limits that the settings set."""

from dataclasses import dataclass
from typing import Self

from solders.pubkey import Pubkey

from forester.chain.rpc_client import RpcClient
from forester.indexer.client import IndexerClient
from forester.journal.proofs import ProofStore
from forester.observability.metrics import Metrics
from forester.pipeline_v2.proof_requests import ProofPermits
from forester.prover_client.client import ProverClient
from forester.settings import Settings
from forester.transactions.sender import Sender


@dataclass(frozen=True)
class V2Services:
    """What all V2 processors share; everything is open and belongs to the caller.

    ``permits`` bounds the proofs under way of all trees together. ``derivation`` is the key that the forester is
    registered under.
    """

    rpc: RpcClient
    indexer: IndexerClient
    prover: ProverClient
    sender: Sender
    proofs: ProofStore
    permits: ProofPermits
    metrics: Metrics
    derivation: Pubkey


@dataclass(frozen=True)
class V2Limits:
    """``round_batches`` a round (``max_batches_per_tree``), ``window`` proofs of a tree under way at once.

    For ``done_kept_s`` seconds (``ops_cache_ttl_seconds``) a batch that landed is not proved again, even if a node
    shows the tree without it, nor one whose proofs the chain refuses. A proof waits ``gather_s`` seconds at most for
    others to share its transaction.
    """

    round_batches: int = 4
    window: int = 20
    done_kept_s: float = 180.0
    cu_limit: int = 1_000_000
    gather_s: float = 5.0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The limits that settings name."""
        return cls(
            round_batches=settings.max_batches_per_tree,
            window=settings.transaction_max_concurrent_batches,
            done_kept_s=settings.ops_cache_ttl_seconds,
            cu_limit=settings.cu_limit,
        )
