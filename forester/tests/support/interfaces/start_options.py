"""Settings as `forester start` reads them from its command line, and a node that such a forester may send to."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from scripted_node import ScriptedNode, result
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.transaction import VersionedTransaction

from forester.cli.start import start
from forester.settings import Settings, load_settings

KEY = Keypair.from_seed(bytes([5]) * 32)
NEEDED = ("--payer", str(KEY), "--derivation", str(KEY.pubkey()))
NOWHERE = "http://127.0.0.1:1"
_sleep = asyncio.sleep


def chosen(*words: str) -> Settings:
    """Return the settings of a command line of `forester start`, without an environment."""
    flags = start.make_context("start", list(words)).params
    known = {name: value for name, value in flags.items() if name in Settings.model_fields}
    return load_settings(known, environment={}, dotenv=Path("/nonexistent")).settings


@dataclass
class Pauses:
    """Seconds that tasks slept; ``asyncio.sleep`` returns at once, but lets other tasks run."""

    slept: list[float] = field(default_factory=list)

    @classmethod
    def kept(cls, monkeypatch: pytest.MonkeyPatch) -> Pauses:
        pauses = cls()

        async def sleep(seconds: float, result: Any = None) -> Any:
            if seconds > 0:
                pauses.slept.append(seconds)
            await _sleep(0.001 if seconds > 0 else 0)
            return result

        monkeypatch.setattr(asyncio, "sleep", sleep)
        return pauses


async def until(true: Callable[[], bool]) -> None:
    """Wait for others, also where a test has replaced ``asyncio.sleep``."""
    async with asyncio.timeout(60):
        while not true():
            await _sleep(0.01)


@dataclass
class Network(ScriptedNode):
    """A node that takes transactions, which land if ``lands``; ``answers`` are results of further methods."""

    lands: bool = True
    height: int = 10
    answers: dict[str, Any] = field(default_factory=dict)
    times_sent: Counter[bytes] = field(default_factory=Counter)
    counted: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.usual = self._answer

    @property
    def transactions(self) -> list[VersionedTransaction]:
        """Those that were sent, each once."""
        return [VersionedTransaction.from_bytes(data) for data in self.times_sent]

    async def _answer(self, body: dict[str, Any]) -> web.Response:
        method, params = body["method"], body["params"]
        self.counted[method] += 1
        return await result(self._result(method, params))(body)

    def _result(self, method: str, params: list[Any]) -> Any:
        if method in self.answers:
            value = self.answers[method]
            return value(*params) if callable(value) else value
        match method:
            case "getLatestBlockhash":
                return {"value": {"blockhash": str(Hash(bytes([3]) * 32)), "lastValidBlockHeight": 100}}
            case "getSlot":
                return self.height
            case "getEpochInfo":
                return {"absoluteSlot": self.height, "blockHeight": self.height}
            case "getBalance":
                return {"value": 10**9}
            case "sendTransaction":
                data = base64.b64decode(params[0])
                self.times_sent[data] += 1
                return str(VersionedTransaction.from_bytes(data).signatures[0])
            case "getSignatureStatuses":
                status = {"slot": 7, "err": None, "confirmationStatus": "confirmed"} if self.lands else None
                return {"context": {"slot": self.height}, "value": [status] * len(params[0])}
            case "getMultipleAccounts":
                return {"value": [None] * len(params[0])}
            case "getProgramAccounts":
                return []
        raise AssertionError(f"not played: {method}")


def budget(transaction: VersionedTransaction) -> dict[int, int]:
    """Return instructions of the compute budget by their number: 2 is the limit, 3 the price."""
    message = transaction.message
    found = {}
    for item in message.instructions:
        program = message.account_keys[item.program_id_index]
        if str(program) == "ComputeBudget111111111111111111111111111111":
            found[item.data[0]] = int.from_bytes(item.data[1:], "little")
    return found


def has_table(transaction: VersionedTransaction) -> bool:
    """Return whether a transaction names accounts through a lookup table."""
    return isinstance(transaction.message, MessageV0) and bool(transaction.message.address_table_lookups)
