"""A clock that opens the slots of a network in real time."""

import asyncio

from localnet.chain.network import Network

MAX_CATCH_UP = 50
"""Maximum slots opened at once after a pause; the chain's time loses the rest of a longer pause."""


async def run_clock(network: Network, slot_seconds: float) -> None:
    """Open a slot every ``slot_seconds`` until cancelled."""
    loop = asyncio.get_running_loop()
    due = loop.time() + slot_seconds
    while True:
        await asyncio.sleep(max(0.0, due - loop.time()))
        late = min(int((loop.time() - due) / slot_seconds) + 1, MAX_CATCH_UP)
        for _ in range(late):
            network.advance()
        due = max(due + late * slot_seconds, loop.time() - slot_seconds)
