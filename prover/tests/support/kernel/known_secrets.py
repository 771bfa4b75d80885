"""Keys whose secrets are known: what a proof by one must be, from its logarithms in Python's integers.

A proof is three points; with the secrets of the setup each is a known multiple of a generator, whatever algorithm the
kernel takes. Nothing of what it computes is shared with the kernel: rows come from small_systems, points from py_ecc.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gnark_conversion import Expression
from kernel_library import R
from reference_curve import G1, G2, g1_bytes, g2_raw, multiply
from small_systems import System

from prover.kernel.setup import SetupSecrets

ROOT_28 = 19103219067921713944291392827692070036145651957329286315305642004821462161904
"""Of unity, of order 2^28, as gnark has it."""


def words(*values: int) -> bytes:
    """Return 32 bytes each, big-endian."""
    return b"".join(value.to_bytes(32, "big") for value in values)


def domain_size(rows: int) -> int:
    """Return places of the domain of a system."""
    return 1 << (rows - 1).bit_length()


def lagrange(tau: int, rows: int) -> list[int]:
    """Return l_j(tau) of the rows."""
    n = domain_size(rows)
    omega = pow(ROOT_28, 2**28 // n, R)
    scale = (pow(tau, n, R) - 1) * pow(n, -1, R)
    return [scale * pow(omega, j, R) * pow(tau - pow(omega, j, R), -1, R) % R for j in range(rows)]


@dataclass(frozen=True)
class Logarithms:
    """Of a proof's points: Ar and Krs to the generator of G1, Bs to that of G2."""

    ar: int
    bs: int
    krs: int

    def to_bytes(self) -> bytes:
        """Return the proof."""
        return _g1(self.ar % R) + _g2(self.bs % R) + _g1(self.krs % R)


class KnownKey:
    """A system and the secrets of its setup."""

    def __init__(self, system: System, secrets: SetupSecrets) -> None:
        self.system, self.secrets = system, secrets
        wires = system.inputs + system.internal
        at_tau = lagrange(secrets.tau, len(system.rows))
        self.columns = [[0] * wires for _ in range(3)]
        """A, B and C at tau by wire."""
        for row, weight in zip(system.rows, at_tau, strict=True):
            for side, column in zip(row, self.columns, strict=True):
                self._add(column, side, weight)

    def _add(self, column: list[int], side: Expression, weight: int) -> None:
        for coefficient, wire in side:
            column[wire] = (column[wire] + self.system.coefficients[coefficient] * weight) % R

    @property
    def has_every_base(self) -> bool:
        """True if no wire's base is infinity by accident: setups refuse such systems."""
        a, b, c = self.columns
        s = self.secrets
        return all((s.beta * x + s.alpha * y + z) % R for x, y, z in zip(a, b, c, strict=True))

    def unblinded(self, wires: list[int]) -> Logarithms:
        """Return the proof before blinding."""
        s = self.secrets
        a, b, c = (sum(w * x for w, x in zip(wires, column, strict=True)) % R for column in self.columns)
        private = range(1 + self.system.public, len(wires))
        columns = self.columns
        k = sum(wires[i] * (s.beta * columns[0][i] + s.alpha * columns[1][i] + columns[2][i]) for i in private)
        return Logarithms(s.alpha + a, s.beta + b, (k + a * b - c) * pow(s.delta, -1, R) % R)

    def rerandomised(self, wires: list[int], rho: int, sigma: int) -> Logarithms:
        """Return the proof as in prover/docs/explanation/blinding.md, "How a proof is blinded"."""
        plain = self.unblinded(wires)
        bs = rho * (plain.bs + sigma * self.secrets.delta)
        return Logarithms(plain.ar * pow(rho, -1, R), bs, plain.krs + sigma * plain.ar)


@cache
def _g1(logarithm: int) -> bytes:
    return g1_bytes(multiply(G1, logarithm))


@cache
def _g2(logarithm: int) -> bytes:
    return g2_raw(multiply(G2, logarithm))
