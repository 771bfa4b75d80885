"""Notifications of the node over one WebSocket: changes of trees, queues and epochs."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp
from solders.pubkey import Pubkey

from forester.chain import subscriptions
from forester.chain.batched_accounts import TREE_HEAD_BYTES
from forester.chain.programs.addresses import ACCOUNT_COMPRESSION, PROTOCOL_CONFIG, REGISTRY
from forester.chain.programs.coder import account_discriminator
from forester.chain.subscriptions import AccountChanged, NotificationsLost, Subscription
from forester.chain.tree_metadata import OUTPUT_QUEUE_DISCRIMINATOR, QUEUE_V1_DISCRIMINATOR
from forester.chain.trees import TREE_DISCRIMINATORS
from forester.daemon.trees.discovery import NOTIFIED_SPACING_S
from forester.errors import RequestRefused
from shared.process.logs import get_logger

_log = get_logger(__name__)

REFUSED_AGAIN_S = 600.0
GAP_SPACING_S = NOTIFIED_SPACING_S
"""Minimum pause between two gaps that are acted upon: each one causes calls for all trees and epochs."""

EPOCHS_SPACING_S = 1.0
"""The same for notifications of epochs, of which many foresters or a wrong WebSocket cause many each second."""


@dataclass(frozen=True)
class EventListeners:
    """Callbacks: for an account of a tree or queue with its first bytes, for epochs, for lost notifications."""

    account: Callable[[Pubkey, bytes], None]
    epochs: Callable[[], None]
    gap: Callable[[], None]


def watched() -> list[Subscription]:
    """Return the subscriptions: heads of V1 and V2 trees and queues; epochs and the protocol configuration."""
    kinds = (*TREE_DISCRIMINATORS, OUTPUT_QUEUE_DISCRIMINATOR, QUEUE_V1_DISCRIMINATOR)
    trees = [
        subscriptions.program_accounts(ACCOUNT_COMPRESSION, memcmp=[(0, kind)], length=TREE_HEAD_BYTES)
        for kind in kinds
    ]
    epochs = subscriptions.program_accounts(REGISTRY, memcmp=[(0, account_discriminator("EpochPda"))])
    return [*trees, epochs, subscriptions.account(PROTOCOL_CONFIG)]


async def watch(session: aiohttp.ClientSession, url: str, listeners: EventListeners) -> None:
    """Call the listeners, forever; RequestRefused if the node does not offer these subscriptions."""
    async for event in subscriptions.events(session, url, watched()):
        if isinstance(event, NotificationsLost):
            listeners.gap()
        elif isinstance(event, AccountChanged):
            if event.account.owner == ACCOUNT_COMPRESSION:
                listeners.account(event.account.address, event.account.data)
            else:
                listeners.epochs()


async def follow_spaced(event: asyncio.Event, act: Callable[[], None], *, spacing_s: float) -> None:
    """Act upon an event forever; those within ``spacing_s`` of the last one are acted upon once, at its end."""
    while True:
        await event.wait()
        event.clear()
        act()
        await asyncio.sleep(spacing_s)


async def while_offered(follow: Callable[[], Awaitable[None]], *, again_s: float = REFUSED_AGAIN_S) -> None:
    """Follow subscriptions forever; a node that refuses them is tried again after a while, and polled meanwhile."""
    while True:
        try:
            await follow()
        except RequestRefused as error:
            _log.warning("subscription_refused", error=error.detail, again_in_s=again_s, detail="polled meanwhile")
        await asyncio.sleep(again_s)
