"""Factory of tree processors: the pipeline of V1 or V2, with the clients that all share."""

from forester.chain.tree_metadata import TreeMetadata
from forester.daemon.services import Services
from forester.journal.proofs import ProofStore
from forester.pipeline_v1.indexer_proofs import IndexerProofs
from forester.pipeline_v1.processor import V1Options, V1Processor
from forester.pipeline_v2.processor import V2Processor
from forester.pipeline_v2.services import V2Limits, V2Services
from forester.scheduling.eligibility_window import TreeProcessor
from forester.settings import given


class ProcessorFactory:
    """Factory of tree processors."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._derivation = given(services.settings.derivation)
        self._limits = V2Limits.of(services.settings)
        self._v2 = V2Services(
            rpc=services.rpc,
            indexer=services.indexer,
            prover=services.prover,
            sender=services.sender,
            proofs=ProofStore(services.journal),
            permits=services.permits,
            metrics=services.metrics,
            derivation=self._derivation,
        )

    def make(self, tree: TreeMetadata) -> TreeProcessor:
        """Return the tree processor of a tree."""
        if tree.kind.is_batched:
            return V2Processor(tree, self._v2, self._limits)
        services = self._services
        return V1Processor(
            tree,
            rpc=services.rpc,
            proofs=IndexerProofs(services.indexer, tree, services.metrics),
            sender=services.sender,
            derivation=self._derivation,
            options=V1Options.of(services.settings, tree.kind),
        )
