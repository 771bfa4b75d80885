"""A record of the proofs that foresters requested and got, by proxies between them and the prover."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from dataclasses import dataclass, field

from fault_proxy import Call, FaultProxy
from fleet import ProvedLink


@dataclass(frozen=True)
class Entry:
    """A proof that a forester got."""

    member: int
    link: ProvedLink
    asked: float
    answered: float


@dataclass
class ProofLog:
    """Entries in the order of their answers; requests that ended otherwise are counted by status."""

    entries: list[Entry] = field(default_factory=list)
    failures: Counter[int] = field(default_factory=Counter)

    def before(self, prover_url: str, member: int) -> contextlib.AbstractAsyncContextManager[str]:
        """Listen in front of a prover for one forester; yield the URL to use instead."""

        def observe(call: Call, asked: float, status: int) -> None:
            if call.request.method != "POST":
                return
            if status == 200:
                self.entries.append(Entry(member, proved_link(call), asked, time.time()))
            else:
                self.failures[status] += 1

        return FaultProxy(observe=observe).before(prover_url)

    def repeated(self) -> list[tuple[Entry, Entry]]:
        """Return proofs beyond the first of the same link, by any forester, each with the one before it."""
        last: dict[ProvedLink, Entry] = {}
        pairs = []
        for entry in sorted(self.entries, key=lambda entry: entry.asked):
            if entry.link in last:
                pairs.append((last[entry.link], entry))
            last[entry.link] = entry
        return pairs


def proved_link(call: Call) -> ProvedLink:
    """Return the statement of a request."""
    old, new = (int(call.body[name], 16).to_bytes(32, "big") for name in ("oldRoot", "newRoot"))
    return str(call.body["circuitType"]), old, new
