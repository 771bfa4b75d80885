"""One multi-scalar multiplication or transform of gpu_bench, alternately with another program on the same numbers.

gpu_bench writes its numbers and its result to a folder, and PEER is called as `PEER msm_g1|msm_g2|ntt FOLDER`. It reads

- msm_g1, msm_g2: `points`, affine, coordinates as below, in G2 x.c0, x.c1, y.c0, y.c1; and `scalars`, one for each,
  plain numbers below r of 32 bytes, little-endian;
- ntt: `coefficients` of a polynomial, lowest degree first, a power of two of them;

and writes to `peer` what `ours` has: the sum, affine; or the polynomial's values on all roots of unity of that order,
in any order. Elements of fields are 32 bytes, little-endian, in Montgomery form with R = 2^256. The point at infinity
is zeros. It prints one JSON object with `ms`, the median of ten runs after three that do not count, with all numbers on
the GPU; or `host_ms`, with scalars or coefficients from the host's memory and results copied there; or both. Start-up
and one-time uploads are not included, as here.

Prints one JSON object: our and the peer's medians over the rounds, and how many times faster ours is (`ratio`,
`host_ratio`). Exit status 1 when the results differ.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ELEMENT_BYTES = 32
OURS_MS = {"msm_g1": "ms", "msm_g2": "ms", "ntt": "forward_ms"}
KINDS = ("ms", "host_ms")

Times = dict[str, list[float]]


def printed(*words: str) -> dict[str, float]:
    """Return the output of a program; exit if the program failed."""
    answer = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    try:
        found = json.loads(answer.stdout)
    except json.JSONDecodeError:
        found = None
    if answer.returncode != 0 or not isinstance(found, dict):
        sys.exit(f"{' '.join(words)}: exit status {answer.returncode}, printed {answer.stdout[:200]!r}")
    return found


def is_equal(what: str, folder: Path) -> bool:
    """Return whether both results are the same: bit for bit, values of a transform in any order."""
    ours, theirs = ((folder / name).read_bytes() if (folder / name).exists() else b"" for name in ("ours", "peer"))
    if what != "ntt" or len(ours) != len(theirs):
        return ours == theirs

    def elements(data: bytes) -> list[bytes]:
        return sorted(data[at : at + ELEMENT_BYTES] for at in range(0, len(data), ELEMENT_BYTES))

    return ours == theirs or elements(ours) == elements(theirs)


def compare(bench: Path, peer: Path, what: str, log2: int, rounds: int) -> dict[str, object]:
    """Run both alternately."""
    ours: Times = defaultdict(list)
    theirs: Times = defaultdict(list)
    equal = True
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            mine = printed(str(bench), what, str(log2), "0", "0", "1", name)
            ours["ms"].append(mine[OURS_MS[what]])
            ours["host_ms"].append(mine["host_ms"])
            found = printed(str(peer), what, name)
            for kind in KINDS:
                if kind in found:
                    theirs[kind].append(found[kind])
            equal &= is_equal(what, Path(name))
    if not theirs:
        sys.exit(f"{peer} printed neither ms nor host_ms")
    result: dict[str, object] = {"name": f"gpu_peer_{what}", "log2": log2, "rounds": rounds, "equal": equal}
    for kind in KINDS:
        result[kind] = statistics.median(ours[kind])
        if theirs[kind]:
            own, other = statistics.median(ours[kind]), statistics.median(theirs[kind])
            result |= {f"peer_{kind}": other, kind.replace("ms", "ratio"): round(other / own, 3)}
    return result


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--rounds", type=int, choices=range(1, 100), default=3, metavar="N", help="of both (default 3)")
    parser.add_argument("bench", type=Path, metavar="GPU_BENCH", help="our program")
    parser.add_argument("peer", type=Path, metavar="PEER", help="the other one")
    parser.add_argument("what", choices=tuple(OURS_MS))
    parser.add_argument("log2", type=int, metavar="LOG2", help="of the number of points, or coefficients")


def run(options: argparse.Namespace) -> int:
    """Compare, print, and return the exit status."""
    result = compare(options.bench.resolve(), options.peer.resolve(), options.what, options.log2, options.rounds)
    print(json.dumps(result))
    return 0 if result["equal"] else 1
