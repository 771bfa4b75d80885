"""The checker of words in pages and in code: findings, and accepted texts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_words.py"
RULES = """
quoted = ["shared", "src/quoted"]
unchecked = ["*/tests/*"]
[say]
"(will|shall) do" = "is enough"
"is told" = "is logged"
[begin]
"What|Whether" = "Return"
[begin_nouns]
"The|A" = "Return"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    scripts = tmp_path / "shared" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / SCRIPT.name).write_text(SCRIPT.read_text())
    (scripts / "unwelcome_words.toml").write_text(RULES)
    return tmp_path


def report(tree: Path, page: str, text: str, *paths: str) -> tuple[int, str]:
    (tree / page).parent.mkdir(parents=True, exist_ok=True)
    (tree / page).write_text(text)
    script = tree / "shared" / "scripts" / SCRIPT.name
    answer = subprocess.run([sys.executable, str(script), *paths], capture_output=True, text=True, check=False)
    assert not answer.stderr
    return answer.returncode, answer.stdout


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("docs/a.md", "# Sizes\nWill\ndo.\n"),
        ("src/alerts.yaml", "annotations:\n  summary: It will do.\n"),
        ("src/comment.py", "x = 1\n# It will\n# do.\n"),
        ("src/docstring.py", '"""Sizes.\nIt will do."""\n'),
        ("src/message.py", 'raise E(\n    f"{size} will " "do it"\n)\n'),
        ("src/call.py", 'a = 1\nassert f(1, "it will do") == f(2)\n'),
        ("src/name_of_a_test.py", "x = 1\ndef test_it__will_do(): ...\n"),
        ("src/a.c", "int x;\n/* It will\n * do. */\n"),
        ("src/message.h", 'void f(void)\n{ fail("it will do"); }\n'),
        ("src/a.cu", "int x = '\"';\n// It will do.\n"),
        ("src/a.lua", "local x\n-- It will do.\n"),
        ("src/a.bash", "x=${y#z}\n# It will do.\n"),
        ("src/Dockerfile", "FROM x\n# It will do.\n"),
    ],
)
def test_word__in_prose__is_reported_with_line_and_a_better_one(tree: Path, page: str, text: str) -> None:
    status, found = report(tree, page, text)
    assert (status, found.lower()) == (1, f'{page}:2: "will do"; say: is enough\n'.lower())


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("docs/a.md", "`will do`, [a page](will do), goodwill done\n\n```\nwill do\n```\n"),
        ("src/code.py", 'will, do = f("will", "do"), "will_do"  # `will do` ``will do``\n'),
        ("src/field.py", "text = f\"a {x['will do']} b\"\n"),
        ("src/code.c", 'int will; int done = f("will_do");\n'),
        ("src/data.json", '"it will do"\n'),
        ("src/quoted/a.md", "It will do.\n"),
        ("src/tests/unit/a.md", "It will do.\n"),
    ],
)
def test_word__in_code_or_in_excluded_files__is_not_reported(tree: Path, page: str, text: str) -> None:
    assert report(tree, page, text) == (0, "")


def test_log_event__of_unwelcome_words__is_reported(tree: Path) -> None:
    finding = 'src/a.py:1: "is told"; say: is logged\n'
    assert report(tree, "src/a.py", '_log.info("client_is_told", count=1)\n') == (1, finding)


def test_paths__of_the_command_line__restrict_the_report(tree: Path) -> None:
    report(tree, "docs/a.md", "It will do.\n")
    assert report(tree, "b/c.py", "# It shall do.\n", "b") == (1, 'b/c.py:1: "shall do"; say: is enough\n')


def test_docstring_of_a_function__begins_with_an_unwelcome_word__is_reported(tree: Path) -> None:
    source = 'def f():\n    """Whether it is."""\n\n\ndef g():\n    """The size."""\n'
    findings = (
        'src/a.py:2: docstring of f begins with "Whether"; say: Return',
        'src/a.py:6: docstring of g begins with "The"; say: Return',
    )
    assert report(tree, "src/a.py", source) == (1, "\n".join(findings) + "\n")


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ('"""The module."""\n', 0),
        ('"""What it does."""\n', 1),
        ('class C:\n    """The class."""\n', 0),
        ('class C:\n    """What it does."""\n', 1),
        ('class C:\n    @property\n    def f(self):\n        """The size."""\n', 0),
        ('@pytest.fixture(scope="module")\ndef f():\n    """A server."""\n', 0),
        ('class C:\n    @property\n    def f(self):\n        """Whether it is."""\n', 1),
        ('@contextlib.contextmanager\ndef f():\n    """A server."""\n', 0),
        ('def test_f():\n    """Whether it is."""\n', 0),
        ('@functools.cache\ndef f():\n    """The size."""\n', 1),
    ],
)
def test_docstring__of_a_value__may_begin_with_a_noun_but_not_with_a_question(
    tree: Path, source: str, status: int
) -> None:
    assert report(tree, "src/a.py", source)[0] == status
