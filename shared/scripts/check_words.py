#!/usr/bin/env python3
"""Report unwelcome words and first words of `unwelcome_words.toml`: `check_words.py [PATH …]`.

It searches pages, YAML, comments, docstrings, string literals, and names of log events and tests, in all files but
those that the list excludes, or in those below the paths. Code is not searched: blocks and spans of code in pages, and
string literals of one word. Prints one line for each finding; exits 1 if there are any.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_CODE = re.compile(
    r"^(?P<fence>```|~~~).*?^(?P=fence)|``[^`\n]+``|`[^`\n]*`|\]\([^)\n]*\)", flags=re.MULTILINE | re.DOTALL
)
_NAME = re.compile(r'\.(?:debug|info|warning|error|exception|critical)\(\s*"(?P<event>\w+)"|\bdef (?P<test>test_\w+)\(')
_DOUBLE, _SINGLE = (rf"{quote}(?:\\.|[^{quote}\\\n])*{quote}" for quote in "\"'")
_TRIPLE = r'"""(?:\\.|.)*?"""'
# What is prose in a language: comments, and string literals of more than one word.
_PYTHON = re.compile(rf"#[^\n]*|{_TRIPLE}|{_DOUBLE}|{_SINGLE}", flags=re.DOTALL)
_C = re.compile(rf"//[^\n]*|/\*.*?\*/|{_DOUBLE}|{_SINGLE}", flags=re.DOTALL)
_LUA = re.compile(rf"--[^\n]*|{_DOUBLE}|{_SINGLE}")
_SHELL = re.compile(r"(?<!\S)#[^\n]*")
_PAGES = {".md", ".yaml", ".yml", ".tpl"}
_LANGUAGES = {
    ".py": _PYTHON,
    **dict.fromkeys((".c", ".h", ".cu", ".cuh"), _C),
    ".lua": _LUA,
    **dict.fromkeys((".bash", ".sh", ".toml", ".awk", ""), _SHELL),
}
_VALUES = {"property", "cached_property", "fixture", "contextmanager", "asynccontextmanager"}
_MARKS = re.compile(r"\\n|^--|[\"'#*]|//")
_FIELD = re.compile(r"\{[^{}\n]*\}")


def prose(text: str, suffix: str) -> str:
    """Return a file's text with zeros in place of all that is not prose; positions stay."""
    if suffix in _PAGES:
        return _without_code(text)
    parts = []
    end = 0
    for found in _LANGUAGES[suffix].finditer(text):
        # White space stays, so that a sentence continues from one literal or comment to the next.
        parts += [_blank(text[end : found.start()]), _words(found[0])]
        end = found.end()
    return "".join(parts) + _blank(text[end:])


def _words(token: str) -> str:
    if token[0] in "\"'" and not re.search(r"\s", token):
        return _blank(token)
    token = _FIELD.sub(lambda field: _blank(field[0]), _without_code(token))
    return _MARKS.sub(lambda mark: " " * len(mark[0]), token)


def _without_code(text: str) -> str:
    return _CODE.sub(lambda code: _blank(code[0]), text)


def _blank(code: str) -> str:
    return re.sub(r"\S", "\0", code)


def compiled(say: Mapping[str, str]) -> re.Pattern[str]:
    """Return one pattern for whole words of all patterns; ``lastgroup`` of a match is ``w`` and the pattern's index."""
    words = (f"(?P<w{index}>{pattern})".replace(" ", r"\s+") for index, pattern in enumerate(say))
    return re.compile(rf"\b(?:{'|'.join(words)})\b", flags=re.IGNORECASE)


def unwelcome_words(text: str, suffix: str, words: re.Pattern[str], better: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield line and description of each unwelcome word in a file's prose and names of log events and tests."""
    searched = prose(text, suffix)
    for found in _NAME.finditer(text) if suffix == ".py" else ():
        name = found.lastgroup or "event"
        start, end = found.span(name)
        searched = searched[:start] + found[name].replace("_", " ") + searched[end:]
    for found in words.finditer(searched):
        line = searched.count("\n", 0, found.start()) + 1
        yield line, f'"{" ".join(found[0].split())}"; say: {better[int((found.lastgroup or "w0")[1:])]}'


def unwelcome_beginnings(text: str, begin: Mapping[str, str], nouns: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yield line and description of each docstring that begins with an unwelcome word.

    ``nouns`` apply to functions that are called: not to modules, classes, properties, fixtures and context managers.
    Docstrings of tests are free.
    """
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        name = getattr(node, "name", "the module")
        docstring = ast.get_docstring(node)
        if docstring is None or name.startswith("test_"):
            continue
        patterns = begin if _is_value(node) else {**begin, **nouns}
        for pattern, better in patterns.items():
            if found := re.match(rf"(?:{pattern})\b", docstring):
                yield node.body[0].lineno, f'docstring of {name} begins with "{found[0]}"; say: {better}'


def _is_value(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    if isinstance(node, ast.Module | ast.ClassDef):
        return True
    names = {re.sub(r"\(.*|.*\.", "", ast.unparse(decorator)) for decorator in node.decorator_list}
    return bool(names & _VALUES)


def main() -> int:
    """Check all files that are not excluded, or those below the paths of the command line."""
    content = tomllib.loads(Path(__file__).with_name("unwelcome_words.toml").read_text())
    paths = sys.argv[1:] or [f":!{path}" for path in content["quoted"] + content["unchecked"]]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    words, better = compiled(content["say"]), [*content["say"].values()]
    lines = []
    for name in sorted(set(listing)):
        file = ROOT / name
        if file.suffix not in {*_PAGES, *_LANGUAGES} or not file.is_file():
            continue
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue
        found = [*unwelcome_words(text, file.suffix, words, better)]
        if file.suffix == ".py":
            found += unwelcome_beginnings(text, content["begin"], content["begin_nouns"])
        lines += [f"{name}:{line}: {description}" for line, description in sorted(found)]
    print("\n".join(lines), end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
