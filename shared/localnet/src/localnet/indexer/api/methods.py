"""The methods that one reading of the store answers, by their names (forester/docs/reference/indexer.md, "Methods")."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from localnet.indexer.api import accounts, params, proofs, queues, signatures, tokens
from localnet.indexer.api.shapes import Snapshot, account_v1, account_v2
from localnet.indexer.database.state import LinkKind


@dataclass(frozen=True, slots=True)
class Method:
    """A method: the type of its parameters, and its answer."""

    params: Any
    answer: Callable[[Snapshot, Any], Any]


def _for_address(snapshot: Snapshot, given: params.AddressPage) -> Any:
    return signatures.get_signatures_for_key(snapshot, LinkKind.ADDRESS, given.address, given)


def _for_owner(kind: LinkKind, snapshot: Snapshot, given: params.OwnerPage) -> Any:
    return signatures.get_signatures_for_key(snapshot, kind, given.owner, given)


def _both(name: str, wanted: Any, answer: Callable[..., Any]) -> dict[str, Method]:
    """Return a method in its older and newer variant, which differ in the shape of accounts."""
    return {
        name: Method(wanted, partial(answer, shape=account_v1)),
        f"{name}V2": Method(wanted, partial(answer, shape=account_v2)),
    }


METHODS: dict[str, Method] = {
    **_both("getCompressedAccount", params.AccountOrAddress, accounts.get_account),
    **_both("getMultipleCompressedAccounts", params.HashesOrAddresses, accounts.get_accounts),
    **_both("getCompressedAccountsByOwner", params.AccountsByOwner, accounts.get_accounts_by_owner),
    **_both("getCompressedTokenAccountsByOwner", params.TokensByOwner, tokens.get_token_accounts),
    **_both("getCompressedTokenAccountsByDelegate", params.TokensByDelegate, tokens.get_token_accounts),
    "getCompressedBalance": Method(params.AccountOrAddress, accounts.get_balance),
    "getCompressedAccountBalance": Method(params.AccountOrAddress, accounts.get_balance),
    "getCompressedBalanceByOwner": Method(params.Owner, accounts.get_balance_by_owner),
    "getCompressedAccountProof": Method(params.HashOnly, proofs.get_account_proof),
    "getCompressedAccountProofV2": Method(params.HashOnly, proofs.get_account_proof_v2),
    "getMultipleCompressedAccountProofs": Method(list[params.Hash], proofs.get_account_proofs),
    "getMultipleCompressedAccountProofsV2": Method(list[params.Hash], proofs.get_account_proofs_v2),
    "getMultipleNewAddressProofs": Method(list[params.Hash], proofs.get_address_proofs),
    "getMultipleNewAddressProofsV2": Method(list[params.AddressWithTree], proofs.get_address_proofs_v2),
    "getQueueElements": Method(params.QueueElements, queues.get_queue_elements),
    "getQueueInfo": Method(params.QueueTrees, queues.get_queue_info),
    "getQueueLeafIndices": Method(params.LeafIndices, queues.get_queue_leaf_indices),
    "getCompressedTokenBalancesByOwner": Method(params.TokensByOwner, tokens.get_token_balances_v1),
    "getCompressedTokenBalancesByOwnerV2": Method(params.TokensByOwner, tokens.get_token_balances_v2),
    "getCompressedTokenAccountBalance": Method(params.AccountOrAddress, tokens.get_token_balance),
    "getCompressedMintTokenHolders": Method(params.TokenHolders, tokens.get_token_holders),
    "getCompressionSignaturesForAccount": Method(params.HashOnly, signatures.get_signatures_for_account),
    "getCompressionSignaturesForAddress": Method(params.AddressPage, _for_address),
    "getCompressionSignaturesForOwner": Method(params.OwnerPage, partial(_for_owner, LinkKind.OWNER)),
    "getCompressionSignaturesForTokenOwner": Method(params.OwnerPage, partial(_for_owner, LinkKind.TOKEN_OWNER)),
    "getLatestCompressionSignatures": Method(params.Page, signatures.get_latest_compression_signatures),
    "getLatestNonVotingSignatures": Method(params.Page, signatures.get_latest_signatures),
}
