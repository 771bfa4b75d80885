"""Errors as JSON-RPC spells them (forester/docs/reference/indexer.md, "Errors")."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
SERVER_ERROR = -32000


class ApiError(Exception):
    """An answer that is an error: JSON-RPC code, message and, for wrong parameters, detail."""

    def __init__(self, code: int, message: str, data: str | None = None) -> None:
        super().__init__(message if data is None else f"{message}: {data}")
        self.code = code
        self.message = message
        self.data = data


def invalid_params(detail: str) -> ApiError:
    """Return the error for parameters of wrong names or types."""
    return ApiError(INVALID_PARAMS, "Invalid params", detail)


def validation(text: str) -> ApiError:
    """Return the error for parameters that break a rule."""
    return ApiError(SERVER_ERROR, f"Validation Error: {text}")


def invalid_key(field: str) -> ApiError:
    """Return the error for a key that names nothing of the requested kind."""
    return ApiError(SERVER_ERROR, f"Invalid Public Key: field '{field}'")


def not_found(text: str) -> ApiError:
    """Return the error for a record that does not exist."""
    return ApiError(SERVER_ERROR, f"Record Not Found: {text}")


def internal(text: str) -> ApiError:
    """Return the error for a fault on this side; ``text`` names its class, never its details."""
    return ApiError(SERVER_ERROR, f"Internal server error: {text}" if text else "Internal server error")
