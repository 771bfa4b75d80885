"""What the checker of words reports in a page, and what it lets pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_words.py"
PAGE = "docs/a.md"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    scripts = tmp_path / "shared" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / SCRIPT.name).write_text(SCRIPT.read_text())
    (scripts / "unwelcome_words.toml").write_text('clean = ["docs"]\n[say]\n"will do" = "is enough"\n')
    (tmp_path / "docs").mkdir()
    return tmp_path


def report(tree: Path, page: str, text: str) -> tuple[int, str]:
    (tree / page).write_text(text)
    script = tree / "shared" / "scripts" / SCRIPT.name
    answer = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert not answer.stderr
    return answer.returncode, answer.stdout


def test_word__in_a_clean_page__is_reported_with_a_better_one(tree: Path) -> None:
    finding = f'{PAGE}:2: "Will do"; say: is enough\n'
    assert report(tree, PAGE, "# Sizes\nWill\ndo.\n") == (1, finding)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (PAGE, "`will do`, [a page](will do), goodwill done\n\n```\nwill do\n```\n"),
        ("a.md", "It will do.\n"),
    ],
)
def test_word__in_code_or_in_another_page__is_not_reported(tree: Path, page: str, text: str) -> None:
    assert report(tree, page, text) == (0, "")
