"""Nothing that grants access reaches a sink: logs, errors, tracebacks, terminals."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair

from forester import redaction
from forester.chain.program_errors import transaction_refused
from forester.chain.rpc_transport import RpcEndpoint, _Error
from forester.errors import EndpointUnreachable, RequestRefused
from forester.indexer.failures import AnswerWrong, IndexerRefused
from forester.observability.logs import configure_logs
from forester.redaction import mask, remember_url
from shared.process.logs import get_logger

PAYER = Keypair.from_seed(bytes([5]) * 32)
PAYER_JSON = json.dumps(list(bytes(PAYER)))
URL = "https://user:passw0rd@rpc.example:443/v2/Abcdefghijklmnopqrstuvwx1234?api-key=s3cr3tkey&x=1"
SECRETS = ("passw0rd", "s3cr3tkey", "Abcdefghijklmnopqrstuvwx1234")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (URL, "https://***@rpc.example:443/v2/***?api-key=***&x=1"),
        ("wss://h/?API_KEY=abc", "wss://h/?API_KEY=***"),
        ("failed: 'http://h/p?token=t0k3n' refused", "failed: 'http://h/p?token=***' refused"),
        (f"payer {PAYER_JSON} given", "payer [***] given"),
        ("redis://:pw@h/0", "redis://***@h/0"),
        ("https://h/status?x=1", "https://h/status?x=1"),
        ("http://h/?x=a?key=b&y=1;token=c", "http://h/?x=a?key=***&y=1;token=***"),
        ("http://h/%3Fapi-key=a%26x=b", "http://h/%3Fapi-key=***"),
        ("key=a 'auth=b' ?key= &key==c", "key=a 'auth=b' ?key= &key=***"),
        ("no secret, user@example.com", "no secret, user@example.com"),
    ],
)
def test_mask__what_grants_access__is_starred_and_the_rest_kept(text: str, masked: str) -> None:
    assert mask(text) == masked
    assert mask(masked) == masked


@pytest.mark.parametrize(
    ("url", "reported"),
    [
        ("http://h/?api-key=k3y%2Bk3y", "k3y+k3y, k3y%2Bk3y"),
        ("http://h/?api-key=k3yk3y+k3y", "k3yk3y k3y"),
        ("http://t0kent0ken@h/", "t0kent0ken, Basic dDBrZW50MGtlbjo="),
        ("http://h/v2/Abcdefghijklmnopqrstuvwx1234", "Abcdefghijklmnopqrstuvwx1234"),
        ("http://user:p%40ssw0rd@h/", "p@ssw0rd, p%40ssw0rd, Basic dXNlcjpwQHNzdzByZA=="),
    ],
)
def test_remember_url__its_secrets_alone__are_masked_in_any_form(
    url: str, reported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "_remembered", {})
    remember_url(url)
    assert re.sub(r"\*\*\*|Basic|[, ]", "", mask(reported)) == ""


@given(st.text(max_size=300))
def test_mask__any_text__is_stable(text: str) -> None:
    assert mask(mask(text)) == mask(text)


@pytest.mark.parametrize(
    "shape",
    [
        *("x", "?", "?key", "?key=", "&api-key=", "%3fkey", "=", "= ", "key", "; "),
        *("://", "x://", "a:b@", "://a:b@", "http://h/" + "A" * 30, "/" + "A" * 23, "[", "[1,", "[1  ", "1,"),
    ],
)
def test_mask__long_text_of_any_shape__takes_time_in_proportion(shape: str) -> None:
    """Each takes some 0.1 s at most; with work in the square of the length it would be minutes."""
    text = (shape * 100_000)[:100_000]
    started = time.process_time()
    mask(text)
    assert time.process_time() - started < 2


TEXTS_OF_PEERS: dict[str, Callable[[str], str]] = {
    "node": lambda text: RpcEndpoint(cast(Any, None), URL)._refusal("getSlot", _Error(1, text), 200).args[0],
    "transaction": lambda text: transaction_refused(text).detail,
    "program": lambda text: (
        transaction_refused({"InstructionError": [0, {"Custom": 1}]}, [f"Program {'x' * len(text)} failed: x"]).detail
    ),
    "indexer": lambda text: IndexerRefused("getIndexerSlot", 1, text, text).detail,
    "answer of the indexer": lambda text: AnswerWrong("getIndexerSlot", "$", text).detail,
}


@pytest.mark.parametrize("of", TEXTS_OF_PEERS)
def test_errors__with_a_text_of_megabytes_from_another_machine__take_no_time_for_its_length(of: str) -> None:
    started = time.process_time()
    shown = TEXTS_OF_PEERS[of](f"{URL} " + "=" * 1_000_000)
    assert time.process_time() - started < 0.3, "the event loop waits meanwhile"
    assert len(shown) < 2000
    assert not [secret for secret in SECRETS if secret in shown]


@pytest.mark.parametrize("as_json", [True, False])
def test_logs__secrets_in_events_fields_and_tracebacks__are_masked(
    as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    root = logging.getLogger()
    before, level = root.handlers, root.level
    try:
        configure_logs(as_json=as_json)
        log = get_logger("forester.test")
        log.info("connecting", url=URL, payer=PAYER_JSON, nested={"url": URL})
        logging.getLogger("aiohttp").warning("cannot connect to %s", URL)
        try:
            raise ValueError(f"bad answer of {URL}")
        except ValueError:
            log.exception("request_failed")
    finally:
        root.handlers = before
        root.setLevel(level)
    text = stream.getvalue()
    assert text.count("rpc.example") >= 4
    assert "Traceback" in text or "exception" in text
    assert not [secret for secret in (*SECRETS, PAYER_JSON) if secret in text]


def test_errors__made_of_text_with_secrets__never_hold_them() -> None:
    for error in (EndpointUnreachable(f"cannot reach {URL}"), RequestRefused(f"{URL} said no", code=1)):
        for text in (str(error), repr(error), error.detail, str(error.args)):
            assert not [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("of", [name for name in TEXTS_OF_PEERS if name != "program"])
def test_errors__with_control_characters_from_another_machine__leave_a_terminal_alone(of: str) -> None:
    shown = TEXTS_OF_PEERS[of]("\x1b[2J\x9b2J\x07\b\r fine")
    assert "fine" in shown
    assert shown.isprintable()


COMMANDS = [
    ("health",),
    ("health", "--output", "json", "--timeout", "3"),
    ("status",),
    ("config", "show"),
    ("config", "show", "--output", "json"),
    ("-v", "status"),
]


def test_commands__with_secrets_everywhere__write_none_to_any_stream(tmp_path: Path) -> None:
    """One process runs them all: starting an interpreter for each would take most of the time."""
    environment = {
        "RPC_URL": "http://user:passw0rd@127.0.0.1:1/Abcdefghijklmnopqrstuvwx1234?api-key=s3cr3tkey",
        "FALLBACK_RPC_URL": "http://127.0.0.1:1/?api-key=0therkey",
        "PAYER": PAYER_JSON,
        "DERIVATION_PUBKEY": "[1, 2]",
        "PROVER_API_KEY": "prover-s3cr3t",
        "PAGERDUTY_ROUTING_KEY": "routing-s3cr3t",
        "PATH": "/usr/bin:/bin",
    }
    program = (
        "import sys\n"
        "import forester.chain.rpc_pool as pool\n"
        "import forester.cli.status as status\n"
        "status._RETRY = pool.RetryPolicy(1, pool.Backoff(0.01, 0.01))\n"
        "from forester.cli.main import cli\n"
        f"for words in {COMMANDS!r}:\n"
        "    try:\n"
        "        cli(words)\n"
        "    except SystemExit as end:\n"
        "        print('exit', end.code)\n"
        "status.read_network = None\n"
        "try:\n"
        "    cli(['status'])\n"
        "except SystemExit as end:\n"
        "    print('exit', end.code)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert answer.stdout.count("exit") == len(COMMANDS) + 1, answer.stderr
    assert "Traceback" in answer.stderr, "the last command must crash"
    assert "exit 70" in answer.stdout
    everything = answer.stdout + answer.stderr
    secrets = (*SECRETS, "0therkey", "prover-s3cr3t", "routing-s3cr3t", str(PAYER), PAYER_JSON, PAYER_JSON[1:60])
    assert not [secret for secret in secrets if secret in everything]
