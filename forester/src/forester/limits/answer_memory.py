"""Bodies of answers, counted as they arrive: a service that sends too much is refused before it fills the memory."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp

from forester.errors import AnswersExceedMemory, AnswerTooLong, EndpointError

_CHUNK_BYTES = 1 << 16


class AnswerMemory:
    """Memory for answers of one kind of service: ``each`` bytes for one, ``total`` bytes for all at once."""

    def __init__(self, *, each: int, total: int) -> None:
        self._each = each
        self._total = total
        self.held = 0
        """Bytes of the answers that are held now."""

    @asynccontextmanager
    async def body(
        self,
        response: aiohttp.ClientResponse,
        name: str,
        too_long: Callable[[str], EndpointError] | None = None,
        *,
        longest: int | None = None,
    ) -> AsyncIterator[bytes]:
        """Yield the body of a response of ``name``, which counts until the block ends; at most ``longest`` bytes.

        Raises the error of ``too_long(reason)``, else AnswerTooLong, if the answer is over its limit,
        AnswersExceedMemory if all answers together are over theirs.
        """
        each = self._each if longest is None else min(self._each, longest)
        parts: list[bytes] = []
        length = 0
        try:
            async for part in response.content.iter_chunked(_CHUNK_BYTES):
                length += len(part)
                self.held += len(part)
                if length > each:
                    reason = f"longer than {each} bytes"
                    raise AnswerTooLong(f"{name} sent an answer {reason}") if too_long is None else too_long(reason)
                if self.held > self._total:
                    text = f"{name}: answers that arrive at once are longer than {self._total} bytes; try again later"
                    raise AnswersExceedMemory(text)
                parts.append(part)
            body = b"".join(parts)
            parts.clear()
            yield body
        finally:
            self.held -= length
