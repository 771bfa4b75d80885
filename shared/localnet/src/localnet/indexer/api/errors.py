"""Errors as the indexer spells them (forester/docs/reference/indexer.md, "Errors")."""

from localnet.json_rpc import INVALID_PARAMS, SERVER_ERROR, RpcError


def invalid_params(detail: str) -> RpcError:
    """Return the error for parameters of wrong names or types."""
    return RpcError(INVALID_PARAMS, "Invalid params", detail)


def validation(text: str) -> RpcError:
    """Return the error for parameters that break a rule."""
    return RpcError(SERVER_ERROR, f"Validation Error: {text}")


def invalid_key(field: str) -> RpcError:
    """Return the error for a key that names nothing of the requested kind."""
    return RpcError(SERVER_ERROR, f"Invalid Public Key: field '{field}'")


def not_found(text: str) -> RpcError:
    """Return the error for a record that does not exist."""
    return RpcError(SERVER_ERROR, f"Record Not Found: {text}")


def internal(text: str) -> RpcError:
    """Return the error for a fault on this side; ``text`` names its class, never its details."""
    return RpcError(SERVER_ERROR, f"Internal server error: {text}" if text else "Internal server error")
