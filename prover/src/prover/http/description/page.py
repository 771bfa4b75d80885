"""``/docs``: the OpenAPI document as a page that needs neither scripts nor another host."""

import base64
import hashlib
import re
from functools import cache
from html import escape
from typing import Any

from prover.http.description.openapi import document
from prover.http.description.samples import Call, samples, shortened

Json = dict[str, Any]

_BASE_URL = "http://127.0.0.1:3001"
_STYLE = """
:root { color-scheme: light dark; --line: #d5dbe3; --soft: #f4f6f9; --name: #1f5fae; }
@media (prefers-color-scheme: dark) { :root { --line: #3b4450; --soft: #1d232b; --name: #7fb4f5; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1.5rem; }
h2 { border-top: 1px solid var(--line); padding-top: 1.2rem; margin-top: 2rem; }
h2 code { color: var(--name); font-size: 1.25rem; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .8rem; overflow-x: auto; }
code, pre { font: 14px/1.45 ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top; }
nav ul { list-style: none; padding: 0; columns: 2 20rem; }
summary { cursor: pointer; padding: .2rem 0; }
a { color: var(--name); }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""Headers of the page: nothing is loaded, and only its own style applies."""


@cache
def encoded_page() -> bytes:
    """Return the page as HTML text in UTF-8."""
    described = document()
    operations = [
        (method.upper(), path, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    links = "".join(
        f'<li><a href="#{_anchor(method, path)}"><code>{method} {escape(path)}</code></a></li>'
        for method, path, _ in operations
    )
    info = described["info"]
    body = "".join(_operation(method, path, operation) for method, path, operation in operations)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])} {escape(info['version'])}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>"
        f'<p>Machine-readable: <a href="openapi.json">openapi.json</a>. Samples call {_BASE_URL}; their body is in '
        "<code>request.json</code>. With API keys set, send <code>X-API-Key</code> with each call.</p>"
        f"<nav><ul>{links}</ul></nav>{body}</body></html>"
    ).encode()


def call_of(method: str, path: str, operation: Json) -> Call:
    """Return the call of an operation with the examples of its required parameters."""
    query = "&".join(
        f"{parameter['name']}={parameter['example']}"
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "query" and parameter["required"]
    )
    url = f"{_BASE_URL}{path}{'?' + query if query else ''}"
    return Call(method, url, has_body="requestBody" in operation, has_key=path.startswith("/admin/"))


def _operation(method: str, path: str, operation: Json) -> str:
    parts = [
        f'<h2 id="{_anchor(method, path)}"><code>{method} {escape(path)}</code></h2>',
        f"<p>{escape(operation['summary'])}</p>",
        _parameters(operation),
    ]
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]["application/json"]
        parts.append(f"<h3>Request</h3><pre>{escape(shortened(content['example']))}</pre>")
    parts.append("<h3>Answers</h3>" + _answers(operation))
    parts.append("<h3>Samples</h3>")
    for number, (language, text) in enumerate(samples(call_of(method, path, operation)).items()):
        opened = " open" if number == 0 else ""
        parts.append(f"<details{opened}><summary>{language}</summary><pre>{escape(text)}</pre></details>")
    return "".join(parts)


def _parameters(operation: Json) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{each['in']}{', required' if each['required'] else ''}"
        f"</td><td>{_prose(each['description'])}</td></tr>"
        for each in operation.get("parameters", [])
    )
    return f"<h3>Parameters</h3><table><tr><th>Name<th>In<th>Meaning</tr>{rows}</table>" if rows else ""


def _answers(operation: Json) -> str:
    parts = []
    for status, answer in operation["responses"].items():
        examples = [
            f"<pre>{escape(example if isinstance(example, str) else shortened(example))}</pre>"
            for content in answer.get("content", {}).values()
            if (example := content.get("example")) is not None
        ]
        parts.append(f"<tr><td>{status}</td><td>{_prose(answer['description'])}{''.join(examples)}</td></tr>")
    return f"<table><tr><th>Status<th>Meaning</tr>{''.join(parts)}</table>"


def _prose(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _anchor(method: str, path: str) -> str:
    return f"{method.lower()}{path.replace('/', '-').replace('.', '-')}"
