"""The page of the interface from a live service: its samples run as they are, and get what the page says."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

import aiohttp
import pytest
from in_process_service import Listen

from prover.http.description.openapi import EXAMPLES, document
from prover.http.description.page import call_of
from prover.http.description.samples import samples
from prover.keys.store.key_store import KeyStore
from prover.queue.store import JobStore

KEY = "a-key-of-the-tests"
SAMPLED = [("POST", "/prove"), ("POST", "/queue/cleanup"), ("GET", "/admin/keys"), ("GET", "/health")]


async def run_sample(language: str, text: str, folder: Path) -> str:
    """Run a sample in a folder that holds the example of a request; return what it prints."""
    (folder / "request.json").write_text(json.dumps(EXAMPLES["request"]))
    if language == "curl":
        command = ["bash", "-c", text]
    elif language == "Python":
        command = [sys.executable, "-c", text]
    else:
        # Types are the only difference between these samples and JavaScript.
        (folder / "sample.mjs").write_text(text.replace("KEY!", "KEY"))
        command = ["node", "sample.mjs"]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={"PROVER_API_KEY": KEY, "PATH": "/usr/local/bin:/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return printed.decode()


@pytest.mark.parametrize("language", ["curl", "Python", "TypeScript"])
@pytest.mark.parametrize(("method", "path"), SAMPLED)
async def test_sample__run_as_shown__gets_an_answer_with_the_members_of_the_example(
    listen: Listen, published_keys: KeyStore, job_store: JobStore, tmp_path: Path, language: str, method: str, path: str
) -> None:
    _, port = await listen(
        published_keys, job_store, http={"api_keys": f"tester:admin={KEY}"} if path.startswith("/admin/") else {}
    )
    operation = document()["paths"][path][method.lower()]
    text = samples(call_of(method, path, operation))[language].replace("127.0.0.1:3001", f"127.0.0.1:{port}")
    printed = await run_sample(language, text, tmp_path)
    answer = json.loads(printed if language == "curl" else printed.removeprefix("200 "))
    example = EXAMPLES["answers"][f"{method} {path}"]["200"]
    assert set(answer) == set(json.loads(example) if isinstance(example, str) else example)


async def test_docs__with_api_keys__are_open_and_allow_no_script(listen: Listen, published_keys: KeyStore) -> None:
    _, port = await listen(published_keys, None, http={"api_keys": f"tester={KEY}"})
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/docs") as answer:
        assert answer.status == 200
        assert answer.content_type == "text/html"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert "POST /prove" in await answer.text()
