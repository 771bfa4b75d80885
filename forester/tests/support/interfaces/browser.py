"""A real browser for tests of pages: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright
from skipping import skip_or_fail

_SWITCHES = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)
_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def chromium() -> str:
    """Return the path of Chromium; without one the test is skipped, or fails if references are required."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        skip_or_fail("no Chromium: make browser")
    return found


@dataclass
class Visit:
    """A page with what it requested and what it complained about."""

    page: Page
    requested: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def hosts(self) -> set[str]:
        """Hosts and ports that the page called; data URLs call none."""
        return {urlsplit(url).netloc for url in self.requested if not url.startswith("data:")}

    async def violations(self) -> list[str]:
        """Return what axe finds, with the element."""
        found = await Axe().run(self.page, options=_RULES)
        return [
            f"{item['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
            for item in found.response["violations"]
            for node in item["nodes"]
        ]

    async def text(self, selector: str) -> str:
        """Return the visible text of an element, in one line."""
        return " ".join((await self.page.inner_text(selector)).split())


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    """A browser with a profile of its own."""
    path = chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(_SWITCHES))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def visiting(
    browser: Browser,
    url: str,
    *,
    scheme: Literal["light", "dark"] = "light",
    size: tuple[int, int] = (1280, 900),
    script: bool = True,
    **options: Any,
) -> AsyncIterator[Visit]:
    """Open a URL; requests and complaints are recorded from the beginning."""
    context = await browser.new_context(
        color_scheme=scheme, viewport={"width": size[0], "height": size[1]}, java_script_enabled=script, **options
    )
    visit = Visit(await context.new_page())

    def note(request: Request) -> None:
        visit.requested.append(request.url)

    def complain(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            visit.complaints.append(message.text)

    visit.page.on("request", note)
    visit.page.on("console", complain)
    visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    try:
        await visit.page.goto(url)
        yield visit
    finally:
        await context.close()
