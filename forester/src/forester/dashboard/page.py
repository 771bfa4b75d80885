"""The page as bytes: rendered on the server, once for all viewers.

The document of the panels has no running times in it, only the moments that they run from: it stays the same until
something changes, so that most polls are answered with "not modified".
"""

import asyncio
import gzip
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from forester.dashboard import texts
from forester.dashboard.curves import HEIGHT, WIDTH
from forester.dashboard.epoch_view import WIDTH as TIME_LINE_WIDTH
from forester.dashboard.tree_rows import KINDS, MAXIMUM_ROWS, SORTS, STANDSTILL_S, Choice, chosen_rows
from forester.dashboard.view import Inputs, View, view_of

FRESH_S = 1.0
"""A rendered document is used again for so long."""

_CHOICES_KEPT = 16
PANELS = ("verdict", "curves", "next", "services", "trees", "batches", "money", "foresters", "compressible")

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True)
class Document:
    """A rendered document: its bytes, the same compressed, and the tag that changes with its content."""

    body: bytes
    packed: bytes
    tag: str

    @classmethod
    def of(cls, text: str) -> "Document":
        """Return the document of a text."""
        body = text.encode()
        return cls(body, gzip.compress(body, 5, mtime=0), f'"{hashlib.sha256(body).hexdigest()[:24]}"')


def static(name: str) -> Document:
    """Return a style sheet or script of the page."""
    return Document.of((files("forester.dashboard") / "static" / name).read_text())


def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("forester.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (texts.duration, texts.clock, texts.iso, texts.number, texts.rate, texts.sols, texts.short):
        found.filters[function.__name__] = function
    found.globals |= {
        "NONE": texts.NONE,
        "KINDS": KINDS,
        "SORTS": SORTS,
        "STANDSTILL_S": STANDSTILL_S,
        "CURVE": (WIDTH, HEIGHT),
        "LINE_WIDTH": TIME_LINE_WIDTH,
    }
    return found


class Renderer:
    """The templates; ``page`` and ``live`` take some milliseconds, which they may spend in a thread."""

    def __init__(self) -> None:
        self._environment = _environment()
        self._assets = {name: static(name).tag.strip('"')[:12] for name in ("dashboard.css", "dashboard.js")}

    def page(self, view: View, choice: Choice) -> Document:
        """Return the whole page with the rows that are chosen."""
        template = self._environment.get_template("page.html")
        return Document.of(template.render(**self._context(view, choice, live=False)))

    def live(self, view: View) -> Document:
        """Return the panels as JSON, with all rows and without running times."""
        module = self._environment.get_template("panels.html").make_module(self._context(view, Choice(), live=True))
        panels = {name: str(getattr(module, name)()).strip() for name in PANELS}
        content = {"fit": view.is_fit, "problems": len(view.problems), "panels": panels}
        return Document.of(json.dumps(content, separators=(",", ":"), ensure_ascii=False))

    def _context(self, view: View, choice: Choice, *, live: bool) -> dict[str, object]:
        rows = chosen_rows(list(view.rows), choice)
        return {
            "view": view,
            "now": view.inputs.now,
            "choice": choice,
            "live": live,
            "rows": rows[:MAXIMUM_ROWS],
            "rows_left_out": max(0, len(rows) - MAXIMUM_ROWS),
            "assets": self._assets,
            "explorer": view.inputs.explorer,
            "moment": self._moment,
            "running": not live,
        }

    @staticmethod
    def _moment(at: float, style: str, now: float, running: bool) -> Markup:
        """Return a time element. The script writes its text if it is not ``running``, as it does every second."""
        at, text = texts.clamp(at), ""
        if style == "clock":
            text = texts.clock(at)
        elif running and style == "left":
            text = texts.duration(at - now)
        elif running:
            text = texts.duration(now - at) + (" ago" if style == "ago" else "")
        return Markup('<time datetime="{}" data-at="{}" data-as="{}">{}</time>').format(
            texts.iso(at), int(at), style, text
        )


class Pages:
    """The rendered documents of the latest moment. Viewers that come at the same time share one rendering.

    ``inputs`` is called on the event loop and must be quick; rendering happens in a thread. Nothing is rendered while
    nobody looks. ``clock`` returns Unix seconds.
    """

    def __init__(self, inputs: Callable[[], Inputs], *, clock: Callable[[], float] = time.time) -> None:
        self._inputs = inputs
        self._clock = clock
        self._renderer = Renderer()
        self._under_way: dict[Choice | None, asyncio.Task[Document]] = {}
        self._rendered: dict[Choice | None, tuple[float, Document]] = {}
        self._lock = asyncio.Lock()
        self._view: tuple[float, View] | None = None

    async def page(self, choice: Choice) -> Document:
        """Return the page."""
        return await self._document(choice)

    async def live(self) -> Document:
        """Return the panels."""
        return await self._document(None)

    async def _document(self, choice: Choice | None) -> Document:
        kept = self._rendered.get(choice)
        if kept is not None and 0 <= self._clock() - kept[0] < FRESH_S:
            return kept[1]
        task = self._under_way.get(choice)
        if task is None:
            task = self._under_way[choice] = asyncio.create_task(self._render(choice), name="dashboard")
            task.add_done_callback(lambda _: self._under_way.pop(choice, None))
        # A viewer that goes away must not cancel what others wait for.
        return await asyncio.shield(task)

    async def _render(self, choice: Choice | None) -> Document:
        async with self._lock:
            now = self._clock()
            if self._view is None or not 0 <= now - self._view[0] < FRESH_S:
                inputs = self._inputs()
                self._view = now, await asyncio.to_thread(view_of, inputs)
            view = self._view[1]
            if choice is None:
                document = await asyncio.to_thread(self._renderer.live, view)
            else:
                document = await asyncio.to_thread(self._renderer.page, view, choice)
            self._rendered.pop(choice, None)
            self._rendered[choice] = self._clock(), document
            while len(self._rendered) > _CHOICES_KEPT:
                del self._rendered[next(iter(self._rendered))]
            return document
