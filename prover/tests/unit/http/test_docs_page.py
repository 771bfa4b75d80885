"""The page of the interface: every route with its samples, nothing from another host, nothing that runs."""

import re
from html.parser import HTMLParser

from prover.http.description.page import HEADERS, encoded_page
from prover.http.description.samples import shortened
from prover.http.routes.table import ROUTES

_VOID = {"meta", "link", "br", "hr", "img", "input"}
_OPTIONAL_END = {"th"}


class Balance(HTMLParser):
    """Collects names of elements, and asserts that each end closes the latest start."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in _VOID | _OPTIONAL_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page__is_balanced__and_has_every_route_with_samples_in_four_languages() -> None:
    page = encoded_page().decode()
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    for route in ROUTES:
        assert f"<code>{route.method} {route.path}</code></h2>" in page
    for language in ("curl", "Python", "TypeScript", "Rust"):
        assert page.count(f"<summary>{language}</summary>") == len(ROUTES)


def test_page__loads_nothing_and_runs_nothing() -> None:
    parser = Balance()
    parser.feed(encoded_page().decode())
    assert not parser.names & {"script", "link", "img", "iframe", "form", "object"}
    assert all(link.startswith("#") or link == "openapi.json" for link in parser.links)
    assert HEADERS["Content-Security-Policy"].startswith("default-src 'none'; style-src 'sha256-")
    targets = set(re.findall(r' id="([^"]+)"', encoded_page().decode()))
    assert {link[1:] for link in parser.links if link.startswith("#")} == targets


def test_shortened__long_arrays__have_their_first_elements_and_a_count() -> None:
    assert shortened({"a": [1, 2, 3, 4]}) == '{\n  "a": [\n    1,\n    2,\n    "… 2 more"\n  ]\n}'
