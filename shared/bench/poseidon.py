"""Poseidon hashes per second: batches of two-input hashes on one thread, and on two at once.

Two threads are twice as fast on two free CPUs, because the computation runs without the interpreter lock.
Run it on an otherwise idle machine: ``python shared/bench/poseidon.py``.
"""

from __future__ import annotations

import argparse
import random
import time
from concurrent.futures import ThreadPoolExecutor

from shared.field import SCALAR_MODULUS, scalar_bytes
from shared.poseidon import backend_name, hash_many


def hashes_per_second(threads: int, count: int, width: int) -> float:
    """Return the rate of ``threads`` that hash ``count`` groups of ``width`` elements each."""
    numbers = random.Random(0)
    inputs = b"".join(scalar_bytes(numbers.randrange(SCALAR_MODULUS)) for _ in range(count * width))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(hash_many, [inputs[: width * 32]] * threads, [width] * threads))  # start the threads
        started = time.perf_counter()
        list(pool.map(hash_many, [inputs] * threads, [width] * threads))
        return threads * count / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50_000, help="hashes per thread and round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the best counts")
    parser.add_argument("--width", type=int, default=2, choices=(1, 2, 3), help="inputs of a hash")
    options = parser.parse_args()
    print(f"Poseidon of {options.width} inputs, {backend_name()} arithmetic")
    for threads in (1, 2):
        rates = [hashes_per_second(threads, options.count, options.width) for _ in range(options.rounds)]
        print(f"{threads} thread{'s' if threads > 1 else ' '}  {max(rates):>10,.0f} hashes/s")


if __name__ == "__main__":
    main()
