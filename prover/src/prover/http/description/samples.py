"""Calls of a route as programs of several languages, for the page that describes the interface."""

import json
from dataclasses import dataclass

_BODY_FILE = "request.json"
_KEY_VARIABLE = "PROVER_API_KEY"


@dataclass(frozen=True)
class Call:
    """A call of a route. With ``has_body`` the body is in request.json; with ``has_key`` an API key is sent."""

    method: str
    url: str
    has_body: bool = False
    has_key: bool = False


def samples(call: Call) -> dict[str, str]:
    """Return the call by language: curl, Python (standard library), TypeScript (Node 18), Rust (ureq 3)."""
    return {"curl": _curl(call), "Python": _python(call), "TypeScript": _typescript(call), "Rust": _rust(call)}


def _curl(call: Call) -> str:
    parts = ["curl --silent --show-error --fail-with-body"]
    if call.has_body:
        parts.append(f"--json @{_BODY_FILE}")
    elif call.method != "GET":
        parts.append(f"--request {call.method}")
    if call.has_key:
        parts.append(f'--header "X-API-Key: ${_KEY_VARIABLE}"')
    return " ".join([*parts, f"'{call.url}'"])


def _python(call: Call) -> str:
    lines = ["import os" if call.has_key else "", "import urllib.request", "from pathlib import Path"]
    if not call.has_body:
        lines.remove("from pathlib import Path")
    headers = ['"Content-Type": "application/json"'] if call.has_body else []
    if call.has_key:
        headers.append(f'"X-API-Key": os.environ["{_KEY_VARIABLE}"]')
    arguments = [f'"{call.url}"', f'method="{call.method}"']
    if call.has_body:
        arguments.append(f'data=Path("{_BODY_FILE}").read_bytes()')
    if headers:
        arguments.append(f"headers={{{', '.join(headers)}}}")
    joined = "".join(f"    {argument},\n" for argument in arguments)
    imports = "\n".join(line for line in lines if line)
    return (
        f"{imports}\n\nrequest = urllib.request.Request(\n{joined})\n"
        "with urllib.request.urlopen(request) as answer:\n    print(answer.status, answer.read().decode())"
    )


def _typescript(call: Call) -> str:
    imports = 'import { readFile } from "node:fs/promises";\n\n' if call.has_body else ""
    headers = ['"Content-Type": "application/json"'] if call.has_body else []
    if call.has_key:
        headers.append(f'"X-API-Key": process.env.{_KEY_VARIABLE}!')
    options = [f'method: "{call.method}"']
    if headers:
        options.append(f"headers: {{ {', '.join(headers)} }}")
    if call.has_body:
        options.append(f'body: await readFile("{_BODY_FILE}", "utf8")')
    joined = "".join(f"  {option},\n" for option in options)
    return (
        f'{imports}const answer = await fetch("{call.url}", {{\n{joined}}});\n'
        "console.log(answer.status, await answer.text());"
    )


def _rust(call: Call) -> str:
    chain = [f'ureq::{call.method.lower()}("{call.url}")']
    if call.has_key:
        chain.append(f'.header("X-API-Key", std::env::var("{_KEY_VARIABLE}")?)')
    if call.has_body:
        chain += ['.content_type("application/json")', f'.send(std::fs::read("{_BODY_FILE}")?)?']
    else:
        chain.append(".send_empty()?" if call.method == "POST" else ".call()?")
    joined = "\n        ".join(chain)
    return (
        "fn main() -> Result<(), Box<dyn std::error::Error>> {\n"
        f"    let mut answer = {joined};\n"
        '    println!("{} {}", answer.status(), answer.body_mut().read_to_string()?);\n'
        "    Ok(())\n}"
    )


def shortened(value: object, longest: int = 2) -> str:
    """Return JSON text in which long arrays have their first elements and the number of the others."""
    return json.dumps(_cut(value, longest), indent=2, ensure_ascii=False)


def _cut(value: object, longest: int) -> object:
    if isinstance(value, dict):
        return {name: _cut(each, longest) for name, each in value.items()}
    if isinstance(value, list):
        kept = [_cut(each, longest) for each in value[:longest]]
        return kept if len(value) <= longest else [*kept, f"… {len(value) - longest} more"]
    return value
