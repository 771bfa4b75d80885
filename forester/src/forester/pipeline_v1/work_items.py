"""Work items of V1: the instruction for one element, its compute units, and the meaning of refusals.

Source: forester/docs/reference/programs.md, "V1 work" and "Error codes". Compute units were measured on the published
programs.
"""

import enum
from dataclasses import dataclass

from solders.instruction import Instruction

from forester.chain.program_errors import ForesterRefusal
from forester.chain.programs import registry
from forester.chain.programs.addresses import REGISTRY
from forester.chain.tree_metadata import TreeMetadata
from forester.errors import InsufficientFunds, TransactionRefused
from forester.pipeline_v1.indexer_proofs import Proof

_ELEMENT_GONE = (6015, 9003)
"""LeafNotFound of account-compression; ElementDoesNotExist of older programs."""

_NULLIFY_UNITS = 100_000
_NULLIFY_UNITS_PER_CHANGE = 100
"""Measured: 85 600, and 83 for each change of the tree since the proof."""

_ADDRESS_UNITS = 150_000
_ADDRESS_UNITS_PER_CHANGE = 300
"""Measured: 125 500, and some 130 for each change since the proof with addresses in random order."""

CHANGES_PER_ADDRESS = 2
"""An address changes its low element and adds a leaf."""


class RefusalResponse(enum.Enum):
    """Response to a refusal."""

    GONE = "gone"
    """The element has left the queue: another forester moved it."""
    PROVE_AGAIN = "prove again"
    STOP = "stop"
    """No transaction of ours will succeed now: no eligibility, not our tree, no money."""


def response_to(error: TransactionRefused | None) -> RefusalResponse:
    """Return the response to a refusal."""
    if error is None:
        return RefusalResponse.PROVE_AGAIN
    if isinstance(error, InsufficientFunds):
        return RefusalResponse.STOP
    if error.code in _ELEMENT_GONE:
        return RefusalResponse.GONE
    # Without logs the program is not known; no other code of these programs means what the registry's means.
    ours = error.program == str(REGISTRY) or (error.program is None and error.code in set(ForesterRefusal))
    return RefusalResponse.STOP if ours else RefusalResponse.PROVE_AGAIN


@dataclass(frozen=True)
class WorkItem:
    """The instruction for one element, and its purpose as the journal names it."""

    proof: Proof
    instruction: Instruction
    purpose: str
    unit_limit: int


def work_item(
    tree: TreeMetadata, forester: registry.Forester, proof: Proof, changelog_index: int, changes: int
) -> WorkItem:
    """Build the instruction of an element; ``changes`` is the maximum age of its proof when it lands."""
    queue = tree.queue
    if proof.low is None:
        instruction = registry.nullify(
            *(forester, tree.address, queue),
            changelog_index=changelog_index,
            queue_index=proof.cell.index,
            leaf_index=proof.leaf_index,
            proof=proof.siblings[: registry.V1_PROOF_LENGTH],
        )
        return WorkItem(proof, instruction, "nullify", _NULLIFY_UNITS + _NULLIFY_UNITS_PER_CHANGE * changes)
    instruction = registry.update_address_merkle_tree(
        *(forester, tree.address, queue),
        changelog_index=changelog_index,
        indexed_changelog_index=changelog_index,
        queue_index=proof.cell.index,
        low=proof.low,
    )
    return WorkItem(proof, instruction, "update_address", _ADDRESS_UNITS + _ADDRESS_UNITS_PER_CHANGE * changes)
