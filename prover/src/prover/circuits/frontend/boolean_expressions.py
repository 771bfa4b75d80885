"""Expressions that are known to be 0 or 1."""

from __future__ import annotations

from prover.circuits.frontend.terms import Terms


class BooleanExpressions:
    """A set of expressions that remembers the order in which they were added."""

    def __init__(self) -> None:
        self._known: set[Terms] = set()
        self._added: list[Terms] = []

    def __len__(self) -> int:
        return len(self._added)

    def __contains__(self, terms: Terms) -> bool:
        return terms in self._known

    def add(self, terms: Terms) -> None:
        """Add an expression."""
        self._known.add(terms)
        self._added.append(terms)

    def since(self, count: int) -> list[Terms]:
        """Return the expressions added after the first ``count``."""
        return self._added[count:]
