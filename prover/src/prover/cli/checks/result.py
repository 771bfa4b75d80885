"""Results of checks."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Status(enum.StrEnum):
    """Outcome of a check."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True)
class CheckResult:
    """Result of a check; ``hint`` is a remedy."""

    name: str
    status: Status
    detail: str
    hint: str = ""
