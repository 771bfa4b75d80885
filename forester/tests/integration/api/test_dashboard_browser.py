"""The dashboard of ``forester start`` in a real browser, over the published programs with real traffic."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from browser import Visit, browsing, chromium, visiting
from compressible_accounts import create_account, set_mint
from day_of_samples import recorded
from local_processes import free_port
from localnet_forester import forester_on
from localnet_process import WORKSPACE, Localnet, running_localnet
from playwright.async_api import Browser
from solders.keypair import Keypair
from tcp_valve import TcpValve
from yarl import URL

from forester.chain.programs import registry
from forester.chain.programs.addresses import PROTOCOL_CONFIG
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.compressible.rent import RENT_EPOCH_SLOTS
from forester.dashboard import texts
from forester.journal.database import Journal
from forester.journal.samples import MINUTE_S, SampleStore
from forester.network_status.reader import read_network
from forester.network_status.state import NetworkState
from forester.units import LAMPORTS_PER_SOL

SEED = {"compress": 25, "spend": 12, "addresses": 22, "v1_compress": 5, "v1_spend": 3, "v1_addresses": 2}
DUE, LATER = 2, 3
DEADLINE_S = 120
FAULT_SHOWS_S = 5.0
LIGHT_SLOT, REGISTRATION, ACTIVE, REPORT = 50, 200, 600, 200
"""Lengths of an epoch in slots of a tenth of a second."""

LENGTHS_AT = 41 + 2 * 8
"""Where the protocol configuration has the lengths.

Source: forester/docs/reference/accounts.md, "Registry accounts".
"""

PANELS = ("verdict", "curves", "next", "services", "trees", "batches", "money", "foresters", "compressible")
PICTURES = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "pictures"
LARGEST_PICTURE = 250_000
NARROWEST = 320
"""Pixels at which the page still needs no sideways scrolling (WCAG 2.2, "Reflow")."""


@dataclass
class Running:
    """A forester with its network, its dashboard, and the valve before its node."""

    net: Localnet
    url: str
    valve: TcpValve
    process: asyncio.subprocess.Process
    log: Path
    highest: int
    """Largest backlog in the samples of the day before the start."""

    async def get(self, path: str) -> dict[str, Any]:
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as response:
            return cast(dict[str, Any], await response.json())

    async def chain(self) -> NetworkState:
        async with RpcPool([self.net.url]) as pool:
            return await read_network(RpcClient(pool))


async def create_accounts(net: Localnet, folder: Path) -> None:
    """Create token accounts with rent for two rent epochs and for more."""
    async with forester_on(net, folder) as kit:
        mint = set_mint(kit)
        for epochs in (2,) * DUE + (50,) * LATER:
            key = Keypair()
            work = [create_account(key.pubkey(), mint, kit.pubkey, kit.pubkey, epochs)]
            outcome = await kit.sender.send(work, purpose="test", subject=b"", within_s=120, signers=[key])
            assert outcome.error is None, outcome


async def share_an_epoch(net: Localnet, folder: Path) -> None:
    """Go to the beginning of an epoch of a minute, and register another forester for it."""
    from fleet import Member, admit

    lengths = b"".join(length.to_bytes(8, "little") for length in (LIGHT_SLOT, REGISTRATION, ACTIVE, REPORT))
    patch = {"offset": LENGTHS_AT, "data": base64.b64encode(lengths).decode()}
    await asyncio.to_thread(net.call, "localnet_patchAccount", str(PROTOCOL_CONFIG), patch)
    other = Member(2, 1, folder)
    await asyncio.to_thread(admit, net, [other])
    epoch = -(-2 * RENT_EPOCH_SLOTS // ACTIVE) + 1
    await asyncio.to_thread(net.call, "localnet_warp", epoch * ACTIVE + 1)
    payer = other.payer.pubkey()
    async with forester_on(net, folder, other.payer) as kit:
        work = registry.register_forester_epoch(payer, payer, other.derivation.pubkey(), epoch)
        outcome = await kit.sender.send([work], purpose="test", subject=b"", within_s=60)
        assert outcome.error is None, outcome


async def write_samples(path: Path) -> int:
    """Fill a journal with the samples of a recorded day; return their largest backlog."""
    samples = recorded(int(time.time() // MINUTE_S) - 1)
    journal = await Journal.open(path)
    async with journal:
        store = SampleStore(journal)
        for sample in samples:
            await store.add(sample)
    return max(sample.backlog or 0 for sample in samples)


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Running]:
    with running_localnet("--slot-ms", "100") as net:
        await create_accounts(net, folder / "accounts")
        await asyncio.to_thread(net.call, "localnet_seed", SEED)
        highest = await write_samples(folder / "journal.sqlite")
        await share_an_epoch(net, folder / "other")
        port, log = free_port(), folder / "log"
        async with TcpValve(URL(net.url).port or 0) as valve:
            own = {
                "RPC_URL": f"http://127.0.0.1:{valve.port}",
                "JOURNAL_PATH": str(folder / "journal.sqlite"),
                "API_SERVER_PORT": str(port),
                "ENABLE_COMPRESSIBLE": "true",
                "SLOT_UPDATE_INTERVAL_SECONDS": "1",
                "CONFIRMATION_POLL_INTERVAL_MS": "100",
                "RPC_POOL_INITIAL_RETRY_DELAY_MS": "100",
                "RPC_POOL_MAX_RETRY_DELAY_MS": "500",
            }
            inherited = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
            with log.open("w") as told:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "forester", "start"),
                    env=inherited | net.environment | own,
                    cwd=folder,
                    stderr=told,
                )
            try:
                yield Running(net, f"http://127.0.0.1:{port}", valve, process, log, highest)
            except BaseException:
                sys.stderr.write(log.read_text()[-2_000:])
                raise
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()


async def until(true: Callable[[], Awaitable[bool]], within_s: float = DEADLINE_S) -> float:
    """Wait, and return the seconds that it took."""
    began = time.monotonic()
    while True:
        with contextlib.suppress(aiohttp.ClientError):
            if await true():
                return time.monotonic() - began
        assert time.monotonic() - began < within_s, f"not reached within {within_s} s"
        await asyncio.sleep(0.1)


async def test_dashboard__forester_with_traffic__shows_what_the_chain_has_and_a_fault_while_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chromium()
    monkeypatch.syspath_prepend(WORKSPACE / "forester" / "bench")
    async with running(tmp_path) as forester, browsing() as browser:
        await until(lambda: has_worked(forester))
        async with visiting(browser, forester.url + "/") as visit:
            assert visit.page.url == forester.url + "/dashboard"
            await visit.page.wait_for_selector("#live.on")
            await check_against_sources(forester, visit)
            await take_pictures(browser, forester, tmp_path)
            await check_explorer_links(forester, visit)
            await check_filter_and_sort(visit)
            assert await visit.violations() == []
            await check_fault(forester, visit)
            assert visit.hosts == {URL(forester.url).authority}
            assert visit.complaints == []
        await check_without_script(browser, forester)
        await check_merged(browser, forester)
        for path in ("/activity", "/dashboard", "/dashboard/live"):
            async with aiohttp.ClientSession() as session, session.get(forester.url + path) as response:
                text = await response.text()
            assert str(list(bytes(forester.net.keys["forester"])))[1:40] not in text
            assert str(forester.net.keys["forester"]) not in text


async def has_worked(forester: Running) -> bool:
    """Return whether every panel has something to show, and the snapshot is younger than the last work."""
    activity = await forester.get("/activity")
    states = {item["circuit"]: item["state"] for item in activity["batches"]}
    status = await forester.get("/status")
    compressible = await forester.get("/compressible")
    return (
        {"append", "update", "address-append"} <= states.keys()
        and all(item["state"] == "confirmed" for item in activity["batches"])
        and compressible.get("ctoken", {}).get("compressed") == DUE
        and {"register", "v2_batches", "compress_and_close"} <= activity["money"]["by_purpose"].keys()
        and status["total_pending_batches"] == 0
        and status["slot"] > max(item["slot"] or 0 for item in activity["transactions"])
        and any(item["role"] == "indexer" and item["lag_slots"] is not None for item in activity["services"])
        and activity["history"] is not None
    )


async def check_against_sources(forester: Running, visit: Visit) -> None:
    """Compare the panels with the chain, read by ourselves while nothing changes, and with the API."""
    page = visit.page
    chain = await forester.chain()
    for item in chain.trees:
        row = page.locator(f'tr[data-tree="{item.tree.address}"]')
        assert await row.get_attribute("data-backlog") == str(sum(item.pending.values()))
        assert await row.get_attribute("data-kind") == item.kind.label
        assert f"{item.fullness_percentage:.2f} %" in await row.inner_text()
    assert await page.locator("tr[data-tree]").count() == len(chain.trees)

    me = str(forester.net.keys["forester"].pubkey())
    activity, status = await forester.get("/activity"), await forester.get("/status")
    assert activity["payer"] == me
    assert status["total_pending_items"] == sum(sum(item.pending.values()) for item in chain.trees)
    backlog = page.locator('[data-curve="Backlog"]')
    assert await backlog.locator(".value").inner_text() == texts.number(status["total_pending_items"])
    assert f"maximum {forester.highest}" in str(await backlog.locator("svg").get_attribute("aria-label"))

    signatures = sorted({item["signature"] for item in activity["batches"]})
    found = forester.net.call("getSignatureStatuses", signatures, {"searchTransactionHistory": True})["value"]
    landed = dict(zip(signatures, found, strict=True))
    for batch in activity["batches"]:
        assert landed[batch["signature"]]["err"] is None
        assert landed[batch["signature"]]["slot"] == batch["slot"]
        assert list(batch["times"]) == ["staged", "proving", "proved", "sent", "confirmed"]
        assert sorted(batch["times"].values()) == list(batch["times"].values())
        name = f"{batch['tree']} {batch['circuit']} {batch['sequence']}"
        row = page.locator(f'tr[data-batch="{name}"]')
        assert await row.get_attribute("data-state") == "confirmed"
        assert f"slot {batch['slot']}" in await row.inner_text()

    owner = page.locator(f'tr[data-authority="{me}"]')
    assert "ours" in await owner.inner_text()
    balance = next(item for item in status["active_epoch_foresters"] if item["authority"] == me)["balance_sol"]
    assert line(texts.sols(round(balance * LAMPORTS_PER_SOL))) in line(await owner.inner_text())
    money = await visit.text("#money")
    for purpose, lamports in activity["money"]["by_purpose"].items():
        assert line(f"{purpose.replace('_', ' ')} {texts.number(lamports)} lamports") in money
    accounts = await visit.text("#compressible")
    assert f"Token accounts {LATER} 0 {DUE}" in accounts
    assert "in " in accounts
    assert line(f"Recovered here {texts.sols(activity['compressed_lamports'])} SOL") in accounts
    assert activity["compressed_lamports"] > 0
    services = await visit.text("#services")
    assert all(word in services for word in ("Node", "Indexer", "Prover", " ms", " slots"))
    following = await visit.text("#next")
    assert any(words in following for words in ("Our window is open", "Our next window in"))
    assert await page.locator("#next .time-line path.ours:not([d=''])").count() > 0
    assert await page.locator("#next .time-line path.others:not([d=''])").count() > 0
    assert await page.locator("#next .time-line li").count() == len(chain.trees)
    health = await forester.get("/health")
    assert health == {"status": "ok"}
    assert (await visit.text("#verdict")).startswith("Fit Epoch")


def line(text: str) -> str:
    """Return a text with single spaces, as the helper reads the page."""
    return " ".join(text.split())


async def check_explorer_links(forester: Running, visit: Visit) -> None:
    link = await visit.page.locator("#batches a").last.get_attribute("href")
    host = f"http%3A%2F%2F127.0.0.1%3A{forester.valve.port}"
    assert str(link).startswith("https://explorer.solana.com/tx/")
    assert str(link).endswith(f"?cluster=custom&customUrl={host}")


async def check_filter_and_sort(visit: Visit) -> None:
    """Use the page by keyboard."""
    page = visit.page
    await page.keyboard.press("/")
    await page.keyboard.type("bmt2")
    rows = page.locator("tr[data-tree]:visible")
    assert await rows.count() == 1
    await page.wait_for_timeout(2500)
    assert await rows.count() == 1, "the choice outlives a poll"
    await page.keyboard.press("Control+A")
    await page.keyboard.press("Delete")
    await page.focus('th[data-sort="backlog"] button')
    await page.keyboard.press("Enter")
    backlogs = [int(str(await row.get_attribute("data-backlog"))) for row in await rows.all()]
    assert backlogs == sorted(backlogs, reverse=True)
    await page.keyboard.press("Space")
    backlogs = [int(str(await row.get_attribute("data-backlog"))) for row in await rows.all()]
    assert backlogs == sorted(backlogs)
    assert await page.get_attribute('th[data-sort="backlog"]', "aria-sort") == "ascending"


async def check_fault(forester: Running, visit: Visit) -> None:
    """Take the node away, and give it back."""

    async def shows() -> bool:
        text = await visit.text("#verdict")
        return "1 warning" in text and "Calls to the node fail" in text and "FALLBACK_RPC_URL" in text

    async def is_gone() -> bool:
        return "warning" not in await visit.text("#verdict")

    await forester.valve.close()
    assert await until(shows) < FAULT_SHOWS_S
    assert "Fails (" in await visit.text('#services [data-role="node"]')
    assert await visit.violations() == []
    await forester.valve.open()
    assert await until(is_gone) < FAULT_SHOWS_S
    assert "Last error" in await visit.text('#services [data-role="node"]')


async def check_without_script(browser: Browser, forester: Running) -> None:
    address = forester.url + "/dashboard?kind=AddressV2&sort=tree"
    async with visiting(browser, address, script=False) as visit:
        kinds = [await row.get_attribute("data-kind") for row in await visit.page.locator("tr[data-tree]").all()]
        assert len(kinds) >= 1
        assert set(kinds) == {"AddressV2"}
        assert "ends in" in await visit.text("#next") or "in " in await visit.text("#next")
        assert "min" in await visit.text("#next") or " s" in await visit.text("#next")
        for panel in PANELS:
            assert len(await visit.text(f"#{panel}")) > 10, panel


async def take_pictures(browser: Browser, forester: Running, folder: Path) -> None:
    """Take the pictures of the how-to page; ZKC_WRITE_PICTURES=1 puts them there."""
    folder = PICTURES if os.environ.get("ZKC_WRITE_PICTURES") == "1" else folder
    folder.mkdir(exist_ok=True)
    looks: tuple[tuple[str, Any, tuple[int, int]], ...] = (
        ("light", "light", (1180, 1240)),
        ("dark", "dark", (1180, 1240)),
        ("narrow", "light", (390, 844)),
    )
    for name, scheme, size in looks:
        async with visiting(browser, forester.url + "/dashboard", scheme=scheme, size=size) as visit:
            await visit.page.wait_for_selector("#live.on")
            await visit.page.screenshot(path=folder / f"dashboard-{name}.png", animations="disabled")
            await visit.page.set_viewport_size({"width": min(size[0], NARROWEST), "height": size[1]})
            assert await visit.page.evaluate("document.documentElement.scrollWidth") <= NARROWEST, "nothing is cut"
            await visit.page.set_viewport_size({"width": size[0], "height": size[1]})
            assert await visit.violations() == []
            assert visit.complaints == []
        assert 10_000 < (folder / f"dashboard-{name}.png").stat().st_size < LARGEST_PICTURE


async def check_merged(browser: Browser, forester: Running) -> None:
    """Start ``forester dashboard`` over this forester and one that does not exist."""
    port = free_port()
    nowhere = f"http://127.0.0.1:{free_port()}"
    words = ("--rpc-url", forester.net.url, "--port", str(port))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "forester", "dashboard", *words),
        *("--forester-api-url", forester.url, "--forester-api-url", nowhere),
        env={name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")},
        stderr=asyncio.subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"

    async def has_read() -> bool:
        async with aiohttp.ClientSession() as session, session.get(url + "/dashboard") as response:
            return "up for" in await response.text()

    try:
        await until(has_read)
        async with visiting(browser, url + "/dashboard") as visit:
            await visit.page.wait_for_selector("#live.on")
            verdict = await visit.text("#verdict")
            assert "Unfit: 1 open problem" in verdict
            assert f"Forester cannot be read {nowhere}" in verdict
            listed = await visit.text("#foresters")
            assert f"{forester.url} fit" in listed
            assert f"{nowhere} unfit" in listed
            assert await visit.page.locator("tr[data-batch]").count() > 0
            assert visit.hosts == {URL(url).authority}
            assert visit.complaints == []
            assert await visit.violations() == []
        async with aiohttp.ClientSession() as session, session.get(url + "/activity") as response:
            assert response.status == 404
            assert "no forester" in json.loads(await response.text())["error"]
    finally:
        process.kill()
        await process.wait()


def test_pictures__of_the_how_to_page__exist() -> None:
    for name in ("light", "dark", "narrow"):
        assert (PICTURES / f"dashboard-{name}.png").is_file()
