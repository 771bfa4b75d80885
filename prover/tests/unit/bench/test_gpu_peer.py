"""The comparison of our sums and transforms on a GPU with another program's, with scripts in the place of both."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[4] / "shared" / "bench" / "bench.py"
OURS = '{"ms": 2.0, "forward_ms": 3.0, "inverse_ms": 9.0, "host_ms": 5.0}'
SUM = bytes(range(64))
VALUES = b"".join(bytes([number]) * 32 for number in range(4))


class Programs:
    """Ours, which writes a result, and the other one, which writes one of its own and prints its times."""

    def __init__(self, folder: Path) -> None:
        self.bench, self.peer, self.calls = folder / "bench", folder / "peer", folder / "calls"

    def write(self, ours: bytes, theirs: bytes, printed: str = '{"ms": 6.0, "host_ms": 7.5}', status: int = 0) -> None:
        shebang = f"#!{sys.executable}\nimport sys, pathlib\n"
        note = f"with open({str(self.calls)!r}, 'a') as calls: calls.write(' '.join(sys.argv[1:-1]) + '\\n')\n"
        for path, name, data, line in ((self.bench, "ours", ours, OURS), (self.peer, "peer", theirs, printed)):
            end = status if name == "peer" else 0
            path.write_text(
                f"{shebang}{note}(pathlib.Path(sys.argv[-1]) / {name!r}).write_bytes({data!r})\n"
                f"print({line!r})\nsys.exit({end})\n"
            )
            path.chmod(0o755)

    def run(self, what: str, *options: str) -> tuple[int, Any, str]:
        words = [sys.executable, str(BENCH), "gpu", "peer", *options, str(self.bench), str(self.peer), what, "20"]
        answer = subprocess.run(words, capture_output=True, text=True, timeout=60)
        return answer.returncode, json.loads(answer.stdout) if answer.stdout else None, answer.stderr


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


def test_sums__that_are_equal__are_compared_alternately_by_their_times(programs: Programs) -> None:
    programs.write(SUM, SUM)
    status, found, _ = programs.run("msm_g1", "--rounds", "2")
    assert status == 0
    assert found == {
        "name": "gpu_peer_msm_g1", "log2": 20, "rounds": 2, "equal": True,
        "ms": 2.0, "peer_ms": 6.0, "ratio": 3.0,
        "host_ms": 5.0, "peer_host_ms": 7.5, "host_ratio": 1.5,
    }  # fmt: skip
    assert programs.calls.read_text().splitlines() == 2 * ["msm_g1 20 0 0 1", "msm_g1"]


@pytest.mark.parametrize("theirs", [SUM[::-1], SUM[:32], b""])
def test_sums__that_differ__fail(programs: Programs, theirs: bytes) -> None:
    programs.write(SUM, theirs)
    status, found, _ = programs.run("msm_g2")
    assert status == 1
    assert not found["equal"]


def test_transforms__may_have_their_values_in_any_order(programs: Programs) -> None:
    programs.write(VALUES, VALUES[64:] + VALUES[:64], '{"ms": 1.5}')
    status, found, _ = programs.run("ntt")
    assert (status, found["equal"], found["ms"], found["ratio"]) == (0, True, 3.0, 0.5)
    assert "peer_host_ms" not in found
    programs.write(VALUES, VALUES[:32] + VALUES[:96], '{"ms": 1.5}')
    assert programs.run("ntt")[0] == 1


def test_peer__that_fails_or_prints_no_time__is_named(programs: Programs) -> None:
    programs.write(SUM, SUM, status=3)
    status, found, said = programs.run("msm_g1")
    assert (status, found) == (1, None)
    assert str(programs.peer) in said
    assert "exit status 3" in said
    programs.write(SUM, SUM, "{}")
    assert "neither ms nor host_ms" in programs.run("msm_g1")[2]
