"""Services from the settings: clients, paths, and omitted services."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from scripted_node import Answer, ScriptedNode, result, serving, silence, status
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from forester.daemon import services
from forester.daemon.services import journal_path, open_services, prover_endpoints
from forester.daemon.supervisor import Supervisor
from forester.daemon.watches.lookup_table_watch import LookupTableWatch
from forester.errors import RequestRefused, SettingsInvalid
from forester.journal.database import JournalLocked
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.settings import Settings, SigningKey
from forester.transactions.sender import Sender
from shared.process.retries import Backoff
from shared.requests.circuit_id import CircuitKind

KEY = SigningKey(Keypair.from_seed(bytes([5]) * 32))
TABLE = Pubkey(bytes([6]) * 32)


def settings(**more: Any) -> Settings:
    given: dict[str, Any] = {"indexer_url": "http://indexer", "payer": KEY, "derivation": KEY.pubkey}
    return Settings(**(given | more))


def test_journal_path__unset__is_in_the_users_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert journal_path(settings()) == tmp_path / "forester" / "journal.sqlite"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert journal_path(settings()) == tmp_path / ".local" / "state" / "forester" / "journal.sqlite"
    assert journal_path(settings(journal_path="~/mine.sqlite")) == tmp_path / "mine.sqlite"


def test_journal_path__in_no_known_home__is_an_invalid_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    remedy = "pass --journal or set JOURNAL_PATH to an absolute path"
    with pytest.raises(SettingsInvalid, match=f"journal_path: ~nouser/x is in no known home; {remedy}"):
        journal_path(settings(journal_path="~nouser/x"))

    def homeless(*_: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(SettingsInvalid, match=f"journal_path: the user has no home for it; {remedy}"):
        journal_path(settings())


def test_prover_endpoints__one_circuit_elsewhere__leaves_the_others_with_the_common_one() -> None:
    endpoints = prover_endpoints(settings(prover_url="http://all:1/base", prover_update_url="http://update:2"))
    assert str(endpoints.prove_url(CircuitKind.BATCH_APPEND)) == "http://all:1/base/prove"
    assert str(endpoints.prove_url(CircuitKind.BATCH_UPDATE)) == "http://update:2/prove"
    assert str(endpoints.prove_url(CircuitKind.BATCH_ADDRESS_APPEND)) == "http://all:1/base/prove"


def lookup_table(addresses: int, *, deactivated_at: int = 2**64 - 1) -> dict[str, Any]:
    head = (1).to_bytes(4, "little") + deactivated_at.to_bytes(8, "little")
    data = head.ljust(56, b"\0") + b"".join(bytes([number]) * 32 for number in range(addresses))
    owner = "AddressLookupTab1e1111111111111111111111111"
    return {"lamports": 1, "owner": owner, "data": [base64.b64encode(data).decode(), "base64"], "executable": False}


@pytest.mark.parametrize(
    ("account", "usable"), [(lookup_table(3), True), (lookup_table(0) | {"owner": str(TABLE)}, False), (None, False)]
)
async def test_open_services__lookup_table__is_used_or_omitted(
    account: dict[str, Any] | None, usable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = ScriptedNode(usual=result({"context": {"slot": 1}, "value": [account]}))
    async with serving(node):
        chosen = settings(rpc_url=node.url, lookup_table_address=TABLE, journal_path=str(tmp_path / "j"))
        made: dict[str, Any] = {}
        monkeypatch.setattr(services, "Sender", lambda *_, **named: made.update(named))
        async with open_services(chosen, Metrics()):
            assert [len(table.addresses) for table in made["tables"].current] == ([3] if usable else [])
            with pytest.raises(JournalLocked, match="another forester uses the journal"):
                async with open_services(chosen, Metrics()):
                    pass


async def test_open_services__node_is_silent__does_not_wait_for_the_lookup_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "_FIRST_READ_S", 0.1)
    warned: list[dict[str, Any]] = []
    monkeypatch.setattr(services._log, "warning", lambda event, **facts: warned.append({"event": event} | facts))
    node = ScriptedNode(usual=silence)
    async with serving(node):
        chosen = settings(rpc_url=node.url, lookup_table_address=TABLE, journal_path=str(tmp_path / "j"))
        # Shorter than one attempt of the client.
        async with asyncio.timeout(10), open_services(chosen, Metrics()) as opened:
            assert opened.lookup_tables.current == ()
    problem = "the lookup table was not read within 0.1 s; it is read again"
    assert warned == [{"event": "lookup_table_rejected", "error": problem}]


def answer(account: dict[str, Any] | None) -> Answer:
    return result({"context": {"slot": 1}, "value": [account]})


async def test_lookup_table__deactivated_closed_or_created_again_at_work__is_followed_and_reported(
    tmp_path: Path,
) -> None:
    accounts = [AccountMeta(Pubkey(bytes([number]) * 32), False, False) for number in range(20)]
    work = [Instruction(TABLE, bytes([number]), accounts) for number in range(6)]
    node, board = ScriptedNode(usual=status(400)), HealthBoard()
    deactivated = f"the lookup table {TABLE} is deactivated; create another one"
    missing = f"the lookup table of --lookup-table-address does not exist at {TABLE}; is this the right cluster?"

    def state(sender: Sender) -> tuple[list[str], int]:
        return [item.reason for item in board.problems], sender.fitting(work)

    async with serving(node):
        chosen = settings(rpc_url=node.url, lookup_table_address=TABLE, journal_path=str(tmp_path / "j"))
        async with open_services(chosen, Metrics()) as services:
            tables, supervisor = services.lookup_tables, Supervisor(backoff=Backoff(0.001, 0.002))
            supervisor.start("lookup_table", LookupTableWatch(tables, board, every_s=0.001).run)
            for account, problem in (
                (lookup_table(20), None),
                (lookup_table(20, deactivated_at=7), deactivated),
                (lookup_table(20), None),
                (None, missing),
                (lookup_table(20), None),
            ):
                node.usual = answer(account)
                expected = ([problem], 4) if problem else ([], 5)
                async with asyncio.timeout(60):
                    while state(services.sender) != expected:  # noqa: ASYNC110 - neither has an event
                        await asyncio.sleep(0.01)
            await supervisor.stop(60)
            node.usual = status(400)
            with pytest.raises(RequestRefused):
                await tables.refresh()
            assert services.sender.fitting(work) == 5, "a node that fails says nothing about the table"
