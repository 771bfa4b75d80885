"""Errors of the JSON-RPC interface with the codes and messages of a cluster's nodes."""

from localnet.json_rpc import INVALID_PARAMS, RpcError

PREFLIGHT_FAILURE = -32002
SIGNATURE_VERIFICATION_FAILURE = -32003
BLOCK_NOT_AVAILABLE = -32004
SLOT_SKIPPED = -32007
NO_SNAPSHOT = -32008
UNSUPPORTED_TRANSACTION_VERSION = -32015
MIN_CONTEXT_SLOT_NOT_REACHED = -32016


def invalid(message: str) -> RpcError:
    """Return the error for wrong parameters."""
    return RpcError(INVALID_PARAMS, message)
