"""Links to a block explorer for the network at hand; no I/O.

A network is identified by its genesis hash, which a node reports. Source: forester/docs/reference/dashboard.md,
"Explorer links".
"""

from dataclasses import dataclass
from urllib.parse import quote

from yarl import URL

from forester.chain.clusters import CLUSTERS, MAINNET

_EXPLORER = "https://explorer.solana.com"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Explorer:
    """A network's name, and how links name it; without ``query`` there are no links."""

    network: str
    query: str | None = None

    @classmethod
    def of(cls, genesis_hash: str | None, rpc_url: str) -> "Explorer":
        """Return the explorer of a network; a local one is only linked by a URL without a key."""
        cluster = None if genesis_hash is None else CLUSTERS.get(genesis_hash)
        if cluster is not None:
            return cls(cluster, "" if cluster == MAINNET else f"?cluster={cluster}")
        url = URL(rpc_url)
        if url.host not in _LOOPBACK:
            return cls("private network" if genesis_hash else "network")
        return cls("local network", f"?cluster=custom&customUrl={quote(str(url.origin()), safe='')}")

    def transaction(self, signature: str) -> str | None:
        """Return the link of a transaction."""
        return self._link("tx", signature)

    def account(self, address: str) -> str | None:
        """Return the link of an account."""
        return self._link("address", address)

    def _link(self, kind: str, name: str) -> str | None:
        return None if self.query is None else f"{_EXPLORER}/{kind}/{quote(name, safe='')}{self.query}"
