"""One dispatcher per tree, for as long as the tree is processed."""

import asyncio
from collections.abc import Callable
from functools import partial
from weakref import WeakValueDictionary

from solders.pubkey import Pubkey

from forester.chain.tree_metadata import TreeMetadata
from forester.daemon.supervisor import Supervisor
from forester.daemon.trees.discovery import Trees
from forester.daemon.trees.dispatch import TreeDispatcher


class TreeTasks:
    """The dispatchers, which receive the changes of their trees."""

    def __init__(self, supervisor: Supervisor, make: Callable[[TreeMetadata], TreeDispatcher]) -> None:
        self._supervisor = supervisor
        self._make = make
        self._dispatchers: dict[Pubkey, TreeDispatcher] = {}
        self._by_account: dict[Pubkey, TreeDispatcher] = {}
        self._running: WeakValueDictionary[Pubkey, asyncio.Lock] = WeakValueDictionary()

    def set_trees(self, trees: Trees) -> None:
        """Start dispatchers of new trees, retire those of removed ones; both if the accounts of a tree differ."""
        for address, dispatcher in list(self._dispatchers.items()):
            if address not in trees or _identity(trees[address]) != _identity(dispatcher.tree):
                self._dispatchers.pop(address).retire()
        for address in trees.keys() - self._dispatchers.keys():
            dispatcher = self._make(trees[address])
            self._dispatchers[address] = dispatcher
            work = partial(_run_alone, dispatcher, self._running.setdefault(address, asyncio.Lock()))
            self._supervisor.start("tree", work, name=self._free_name(address), drains=True)
        self._by_account = {
            account: dispatcher
            for dispatcher in self._dispatchers.values()
            for account in (dispatcher.tree.address, dispatcher.tree.queue)
        }

    def account_changed(self, address: Pubkey) -> None:
        """Notify the dispatcher whose tree or queue an account is."""
        dispatcher = self._by_account.get(address)
        if dispatcher is not None:
            dispatcher.queue_changed()

    def all_changed(self) -> None:
        """Notify all dispatchers that their queues may have changed."""
        for dispatcher in self._dispatchers.values():
            dispatcher.queue_changed()

    def plan_changed(self) -> None:
        """Notify all dispatchers that shares or funds have changed."""
        for dispatcher in self._dispatchers.values():
            dispatcher.plan_changed()

    def _free_name(self, address: Pubkey) -> str:
        """Return an unused name of a task: the last one of a tree that returns may still be ending."""
        name = f"tree {address}"
        while name in self._supervisor.names:
            name += " again"
        return name


async def _run_alone(dispatcher: TreeDispatcher, running: asyncio.Lock) -> None:
    """Run a dispatcher once the earlier one of its tree has ended: two would send the same elements."""
    if dispatcher.is_retired:
        return  # it crashed after its round, and must not wait for its successor
    async with running:
        await dispatcher.run()


def _identity(tree: TreeMetadata) -> tuple[object, ...]:
    """Return the part of the metadata that dispatching and processing use; a rollover does not change it."""
    return tree.kind, tree.queue, tree.eligibility_key
