"""The trusted setup of the kernel, from a constraint system to a key file."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from prover.kernel._native import ffi, lib
from prover.kernel.cancellation import CancelFlag, Progress, cell_of
from prover.kernel.engine import SCALAR_BYTES, Engine, Readable
from prover.kernel.handles import Handle, Owner
from prover.kernel.status import call


@dataclass(frozen=True)
class SetupSecrets:
    """Given secrets, numbers in 1 .. r-1. Knowing them is enough to forge proofs: for tests only."""

    tau: int
    alpha: int
    beta: int
    gamma: int
    delta: int

    def to_bytes(self) -> bytes:
        """Return them in the format of the kernel, 5 * 32 bytes big-endian."""
        values = (self.tau, self.alpha, self.beta, self.gamma, self.delta)
        return b"".join(value.to_bytes(SCALAR_BYTES, "big") for value in values)


class TrustedSetup(Owner):
    """A constraint system ready to become keys. Close it, or use it as a context manager."""

    def __init__(
        self, engine: Engine, system: Readable, header: Sequence[int], cancel: CancelFlag | None = None
    ) -> None:
        """Read ``system`` (in the format of gnark 0.14) for a wrapper of 2 or 4 ``header`` words.

        Raises MalformedKey, UnsupportedKey, OutOfMemory or Cancelled.
        """
        out = ffi.new("g16_setup **")
        self._engine = engine
        source = ffi.from_buffer("uint8_t[]", system)  # stays readable as long as the setup
        words = ffi.new("uint32_t[]", list(header))

        def destroy(pointer: Any) -> None:
            lib.g16_setup_destroy(pointer)
            ffi.release(source)

        with engine.handle.use() as pointer:
            given = (source, len(source), words, len(words), cell_of(cancel))
            try:
                call(lib.g16_setup_create, pointer, out, *given)
            except BaseException:
                ffi.release(source)  # a map cannot be closed before
                raise
        self._handle = Handle("setup", out[0], destroy)

    @property
    def key_bytes(self) -> int:
        """Size of the key file."""
        with self._handle.use() as setup:
            return int(lib.g16_setup_key_bytes(setup))

    @property
    def verifying_key_offset(self) -> int:
        """Offset of the verifying key in the key file, in bytes."""
        with self._handle.use() as setup:
            return int(lib.g16_setup_verifying_key_offset(setup))

    def run(
        self,
        key_file: Any,
        secrets: SetupSecrets | None = None,
        progress: Progress | None = None,
        cancel: CancelFlag | None = None,
    ) -> None:
        """Write a whole key file into ``key_file``, a writable buffer of ``key_bytes`` bytes.

        Secrets come from the random generator of the operating system and are wiped, unless they are given. Raises
        OutOfMemory, Cancelled, UnsupportedKey (some wire is unused) or KernelMisused.
        """
        given = ffi.NULL if secrets is None else secrets.to_bytes()
        with ExitStack() as stack:
            engine = stack.enter_context(self._engine.handle.use())
            setup = stack.enter_context(self._handle.use())
            target = stack.enter_context(ffi.from_buffer("uint8_t[]", key_file, require_writable=True))
            rest = (given, cell_of(progress), cell_of(cancel))
            call(lib.g16_setup_run, engine, setup, target, len(target), *rest)

    def close(self) -> None:
        """Release the constraint system once running calls have returned."""
        self._handle.close()
