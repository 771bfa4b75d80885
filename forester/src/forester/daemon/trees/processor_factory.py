"""Factory of tree processors: the pipeline of V1 or V2, with the clients that all share."""

from forester.chain.tree_metadata import TreeMetadata
from forester.daemon.services import Services
from forester.pipeline_v1.indexer_proofs import IndexerProofs
from forester.pipeline_v1.processor import V1Options, V1Processor
from forester.pipeline_v2.processor import V2Processor
from forester.pipeline_v2.services import V2Limits
from forester.scheduling.eligibility_window import TreeProcessor


def make_processor(services: Services, tree: TreeMetadata) -> TreeProcessor:
    """Return the tree processor of a tree."""
    if tree.kind.is_batched:
        return V2Processor(tree, services, V2Limits.of(services.settings))
    return V1Processor(
        tree,
        rpc=services.rpc,
        proofs=IndexerProofs(services.indexer, tree, services.metrics),
        sender=services.sender,
        derivation=services.derivation,
        options=V1Options.of(services.settings, tree.kind),
    )
