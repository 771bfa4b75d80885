"""Call of the prover for a proof."""

import json
import logging
from typing import Any

import aiohttp

from localnet.indexer.api.errors import internal
from localnet.indexer.api.shapes import Json

_log = logging.getLogger(__name__)
_PROVER_SECONDS = 120


async def prove(session: aiohttp.ClientSession, url: str, request: Json) -> Any:
    """Return a proof as the JSON of the prover at ``url``, by one attempt with a time limit.

    Raises RpcError with the reason: no answer, a refusal, or another answer.
    """
    timeout = aiohttp.ClientTimeout(total=_PROVER_SECONDS)
    try:
        async with session.post(url.rstrip("/") + "/prove", json=request, timeout=timeout) as response:
            body = await response.read()
            status = response.status
    except TimeoutError:
        raise internal("the prover took too long") from None
    except aiohttp.ClientError as fault:
        _log.warning("the prover cannot be reached: %s", type(fault).__name__)
        raise internal("the prover cannot be reached") from None
    if status // 100 != 2:
        _log.warning("the prover refused a proof with status %d: %.500s", status, body.decode(errors="replace"))
        raise internal(f"the prover refused the proof with status {status}")
    try:
        return json.loads(body)
    except ValueError:
        raise internal("the answer of the prover is not a proof") from None
