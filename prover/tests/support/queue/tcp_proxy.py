"""A TCP proxy whose faults change while it runs: latency, cut connections, refused ones."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Iterator

CHUNK = 2**16


class TcpProxy:
    """Passes connections to a port of 127.0.0.1 on; its event loop runs in a thread of its own."""

    def __init__(self, target_port: int, port: int) -> None:
        self.target_port = target_port
        self.port = port
        self.latency_s = 0.0
        """Longest delay of a piece of data in either direction, seconds; each piece takes a random part of it."""
        self.refusing = False
        """Whether new connections are closed at once."""
        self.connections = 0
        """Connections since the start."""
        self._random = random.Random(port)
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._listening = threading.Event()

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        assert self._listening.wait(60), "the proxy does not listen"

    def close(self) -> None:
        """End all connections and the thread."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(60)
        self._loop.close()

    def cut(self) -> None:
        """Reset the connections that are open now."""
        self._loop.call_soon_threadsafe(self._abort_all)

    def _abort_all(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, reuse_address=True)
        self._listening.set()
        await self._ended.wait()
        server.close()
        self._abort_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.refusing:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, far_writer}
        with contextlib.suppress(asyncio.CancelledError):  # by close(); nothing else cancels
            async with asyncio.TaskGroup() as directions:
                directions.create_task(self._pass_on(reader, far_writer))
                directions.create_task(self._pass_on(far_reader, writer))
        for end in (writer, far_writer):
            self._open.discard(end)
            end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if self.latency_s:
                    await asyncio.sleep(self._random.uniform(0, self.latency_s))
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


@contextlib.contextmanager
def running_proxy(target_port: int, port: int) -> Iterator[TcpProxy]:
    """A proxy that is there meanwhile."""
    proxy = TcpProxy(target_port, port)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()
