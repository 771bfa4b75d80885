"""Run under allocation_failures.c: every allocation of the kernel fails once, alone and with all after it.

A failure must come back as OutOfMemory or DeviceUnavailable, or change nothing, it must leave no block behind, and the
same call must succeed afterwards. Prints how many allocations each call makes, and how many it can do without.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

from golden_vectors import load

from prover.errors import DeviceUnavailable, OutOfMemory
from prover.kernel.cancellation import CancelFlag, Progress
from prover.kernel.engine import Engine, LoadedKey
from prover.kernel.prepared import open_prepared, prepared_bytes, write_prepared

shim = ctypes.CDLL(None)
shim.allocations_seen.restype = ctypes.c_long
shim.fail_allocations.argtypes = [ctypes.c_long, ctypes.c_int]
shim.blocks_live.restype = ctypes.c_long
TINY = load("gnark/tiny.json")


def survive(name: str, call: Callable[[], Any]) -> None:
    """Let every allocation of a call fail, one after the other."""
    shim.fail_allocations(-1, 0)
    call()
    count = shim.allocations_seen()
    spared = 0
    live = shim.blocks_live()
    for lasting in (0, 1):
        for number in range(count):
            shim.fail_allocations(number, lasting)
            try:
                call()
            except (OutOfMemory, DeviceUnavailable):
                continue
            finally:
                shim.fail_allocations(-1, 0)
                assert shim.blocks_live() == live, f"{name}: allocation {number} of {count} failed, and blocks are left"
            spared += 1
    call()
    print(f"{name}: {count} {spared}")


def scalars(texts: list[str]) -> bytes:
    """Return numbers as the kernel takes them."""
    return b"".join(int(text, 16).to_bytes(32, "big") for text in texts)


def in_memory(data: bytes) -> mmap.mmap:
    """Return bytes as a map of their own."""
    memory = mmap.mmap(-1, len(data))
    memory[:] = data
    return memory


def prepared_key(engine: Engine, key: LoadedKey) -> bytes:
    """Return the prepared key."""
    out = in_memory(bytes(prepared_bytes(key)))
    write_prepared(engine, key, out, bytes(32), Progress(), CancelFlag())
    return bytes(out)


def main() -> None:
    """Start, load, prove, verify."""
    case = TINY["cases"]["z0"]
    public, secret = scalars(case["public"]), scalars(case["secret"])
    survive("engine", lambda: Engine(3).close())
    with Engine(2) as engine:
        earlier, later = (bytes.fromhex(TINY[f"key_v{format_version}_hex"]) for format_version in ("0_8", "0_14"))
        survive("load 0_8", lambda: engine.load_key(earlier).close())
        survive("load 0_14", lambda: engine.load_key(later).close())
        with engine.load_key(later) as key:
            prepared = prepared_key(engine, key)
            survive("load prepared", lambda: open_prepared(engine, in_memory(prepared)).close())
            proof = key.prove(public + secret).points
            survive("prove", lambda: key.prove(public + secret))
            survive("verify", lambda: key.verifying_key.verify(proof, public))
            verifying_key = key.verifying_key.write()
            survive("verifying key", lambda: engine.load_verifying_key(verifying_key).close())
            survive("solve", lambda: key.solve(public + secret))


if __name__ == "__main__":
    main()
