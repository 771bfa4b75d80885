"""The promises of SECURITY.md name tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TEST = re.compile(r"`([\w/]+/tests/[\w/]+\.py)(?:::(\w+))?`")


def test_security_page__every_promise__names_tests_that_exist() -> None:
    rows = [line for line in (ROOT / "SECURITY.md").read_text().splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith("| Promise |")]
    assert len(promises) > 30
    for row in promises:
        named = TEST.findall(row)
        assert named, f"no test: {row}"
        for path, name in named:
            assert (ROOT / path).is_file(), path
            assert not name or re.search(rf"def {name}\(", (ROOT / path).read_text()), f"{path}::{name}"
