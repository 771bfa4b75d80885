"""`forester start` with secrets in all settings: indexer and prover repeat what they are sent, and nothing shows it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from echo_service import Echo, echoing
from localnet_process import Localnet, running_localnet

PATIENCE_S = 240
ASKED = 8
"""More questions to the indexer than the checks at the start have: the trees are worked on."""

RPC_KEY, INDEXER_KEY, PROVER_KEY, GATEWAY_KEY = "rpcs3cr3tkey", "1ndexers3cr3t", "pr0vers3cr3tkey", "g4tewaysecret"
PASSWORD = "passw0rd!"
BASIC = base64.b64encode(f"user:{PASSWORD}".encode()).decode()


def with_secrets(url: str) -> str:
    """Return the same place with a user, a password and a key."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"user:{PASSWORD}@{parts.netloc}", path="/", query=f"api-key={RPC_KEY}").geturl()


def environment_of(net: Localnet, echo: Echo, folder: Path) -> dict[str, str]:
    return {
        "RPC_URL": with_secrets(net.environment["RPC_URL"]),
        "WS_RPC_URL": with_secrets(net.environment["WS_RPC_URL"]),
        "INDEXER_URL": echo.url("/indexer", f"user:{PASSWORD}@", f"?api-key={INDEXER_KEY}"),
        "PROVER_URL": echo.url("/prover", query=f"?key={PROVER_KEY}"),
        "PROVER_API_KEY": PROVER_KEY,
        "PUSH_GATEWAY_URL": echo.url("/push", query=f"?token={GATEWAY_KEY}"),
        "PROMETHEUS_URL": echo.url("/prometheus", query=f"?token={GATEWAY_KEY}"),
        "PAYER": net.environment["PAYER"],
        "DERIVATION_PUBKEY": net.environment["DERIVATION_PUBKEY"],
        "JOURNAL_PATH": str(folder / "journal.sqlite"),
        "API_SERVER_PORT": "0",
        "PATH": os.environ["PATH"],
    }


async def _seen(process: asyncio.subprocess.Process, echo: Echo) -> str:
    """Return the output of the process and the answers of its API, until its work has failed at the indexer."""
    assert process.stderr is not None
    lines: list[str] = []
    url = None
    while echo.asked["indexer"] < ASKED or not echo.asked["push"] or url is None:
        line = (await process.stderr.readline()).decode()
        assert line, "the forester ended"
        lines.append(line)
        if '"api_listening"' in line:
            url = f"http://{json.loads(line)['address']}"
    async with aiohttp.ClientSession() as session:
        for path in ("/health", "/status", "/metrics", "/metrics/json"):
            async with session.get(url + path) as response:
                lines.append(await response.text())
    process.terminate()
    lines.append((await process.stderr.read()).decode())
    return "".join(lines)


async def test_start__services_repeat_its_secrets__writes_none(tmp_path: Path) -> None:
    with running_localnet("--slot-ms", "100") as net:
        net.call("localnet_seed", {"compress": 20, "v1_compress": 2, "v1_spend": 2})
        payer = net.keys["forester"]
        async with echoing() as echo:
            process = await asyncio.create_subprocess_exec(
                *(str(Path(sys.executable).with_name("forester")), "-v", "start"),
                env=environment_of(net, echo, tmp_path),
                cwd=tmp_path,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                limit=2**20,
            )
            try:
                text = await asyncio.wait_for(_seen(process, echo), PATIENCE_S)
                assert await process.wait() == 0, text
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
    assert "not for http://" in text, "the indexer's answers are logged"
    keys = (RPC_KEY, INDEXER_KEY, PROVER_KEY, GATEWAY_KEY, PASSWORD, BASIC)
    secrets = (*keys, str(payer), json.dumps(list(bytes(payer)))[1:60], bytes(payer).hex())
    assert not [secret for secret in secrets if secret in text]
