"""Methods of the node by their names."""

import inspect
from collections.abc import Callable
from typing import Any

from localnet.chain.network import Network
from localnet.json_rpc import INTERNAL_ERROR, METHOD_NOT_FOUND, Call, Framing, RpcError
from localnet.rpc.methods import accounts, blocks, cluster, harness, history, tokens, transactions
from localnet.rpc.params import Params

Method = Callable[[Network, Params], Any]
"""Function that returns the result, or an awaitable of it."""
METHODS: dict[str, Method] = {
    **accounts.METHODS,
    **tokens.METHODS,
    **blocks.METHODS,
    **cluster.METHODS,
    **transactions.METHODS,
    **history.METHODS,
    **harness.METHODS,
}
FRAMING = Framing(longest_batch=1000, fault=RpcError(INTERNAL_ERROR, "Internal error"))


def calling(network: Network, methods: dict[str, Method]) -> Call:
    """Return a function that calls the methods of a network."""

    async def call(name: str, params: object) -> Any:
        method = methods.get(name)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found")
        result = method(network, Params(params))
        return await result if inspect.isawaitable(result) else result

    return call
