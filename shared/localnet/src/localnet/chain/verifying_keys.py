"""Verifying keys in the program files: reading them, and replacing them by those of local development keys.

Source: shared/localnet/docs/chain.md, "Verifying keys in programs". The offsets are those of the published files, which
are checked by digest.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

import msgspec

from localnet.chain.artefacts import Artefacts
from localnet.chain.bn254 import PointInvalid, g1_bytes, g1_decompress, g2_bytes, g2_decompress
from shared.requests.circuit_id import CircuitId

MAIN_BYTES = 448
"""alpha (G1), beta, gamma, delta (G2), uncompressed."""
IC_POINT_BYTES = 64
NO_COMMITMENTS = bytes(8)
"""End of verifying keys of gnark 0.14, after the points: two counts of commitments, which our circuits lack."""


class VerifyingKeyInvalid(ValueError):
    """Bytes are no verifying key, or one that does not fit the program; the message says which."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key as the programs hold it: 448 bytes, and 64 for each point that public inputs are summed with."""

    main: bytes
    ic: bytes

    @property
    def public_inputs(self) -> int:
        """Number of public inputs."""
        return len(self.ic) // IC_POINT_BYTES - 1


class _File(msgspec.Struct):
    sha256: str
    keys: dict[str, tuple[int, int, int]]


@cache
def _offsets(version: str) -> dict[str, _File]:
    text = resources.files(__package__).joinpath("verifying_key_offsets.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, dict[str, _File]]).get(version, {})


def parse_verifying_key(data: bytes) -> VerifyingKey:
    """Decode a verifying key as `prover setup` (text) or `prover export-vk` (bytes) writes it.

    VerifyingKeyInvalid for anything else.
    """
    try:
        if data.startswith(b"["):
            return _from_raw(bytes(map(int, data.strip(b"[] \n").split())))
        return _from_compressed(data)
    except (PointInvalid, ValueError, IndexError) as error:
        raise VerifyingKeyInvalid(f"no verifying key: {error}") from error


def _from_raw(data: bytes) -> VerifyingKey:
    """Read alpha, beta in G1, beta, gamma, delta in G1, delta, count, then the points of the public inputs."""
    count = _count(data, 576, IC_POINT_BYTES)
    return VerifyingKey(data[:64] + data[128:384] + data[448:576], data[580 : 580 + count * IC_POINT_BYTES])


def _from_compressed(data: bytes) -> VerifyingKey:
    """Read the same sequence with compressed points."""
    count = _count(data, 288, IC_POINT_BYTES // 2)
    points = (data[at : at + 32] for at in range(292, 292 + 32 * count, 32))
    main = g1_bytes(g1_decompress(data[:32])) + b"".join(
        g2_bytes(g2_decompress(data[at : at + 64])) for at in (64, 128, 224)
    )
    return VerifyingKey(main, b"".join(g1_bytes(g1_decompress(point)) for point in points))


def _count(data: bytes, at: int, point_bytes: int) -> int:
    count = int.from_bytes(data[at : at + 4], "big")
    end = at + 4 + count * point_bytes
    if count < 1 or len(data) < end or data[end:] not in (b"", NO_COMMITMENTS):
        raise VerifyingKeyInvalid(f"{len(data)} bytes do not hold {count} points of public inputs")
    return count


def program_key_names(circuit: CircuitId) -> tuple[str, str]:
    """Return a circuit's names in the tables of offsets: for current programs, and for earlier ones."""
    name = circuit.name.replace("-", "_")
    earlier = circuit.earlier_key_file.removesuffix(".key").replace("-", "_").removeprefix("mainnet_")
    return name, earlier


def keys_in_programs(artefacts: Artefacts) -> dict[str, VerifyingKey]:
    """Return all verifying keys that the programs contain, by name."""
    found = {}
    for file, facts in _offsets(artefacts.version).items():
        program = artefacts.programs[file]
        for name, (main, ic, points) in facts.keys.items():
            found[name] = VerifyingKey(program[main : main + MAIN_BYTES], program[ic : ic + points * IC_POINT_BYTES])
    return found


def with_verifying_keys(artefacts: Artefacts, keys: Mapping[str, VerifyingKey]) -> Artefacts:
    """Return the same programs with some keys replaced.

    Raise VerifyingKeyInvalid for a name that no program has, for another number of public inputs, and for programs that
    differ from the published ones: their keys may be at other offsets.
    """
    programs = dict(artefacts.programs)
    waiting = dict(keys)
    for file, facts in _offsets(artefacts.version).items():
        chosen = {name: waiting.pop(name) for name in facts.keys if name in waiting}
        if not chosen:
            continue
        if hashlib.sha256(programs[file]).hexdigest() != facts.sha256:
            message = (
                f"{file} is not the published file of {artefacts.version}; fetch it with `make reference-fixtures`"
            )
            raise VerifyingKeyInvalid(message)
        changed = bytearray(programs[file])
        for name, key in chosen.items():
            main, ic, points = facts.keys[name]
            if key.public_inputs != points - 1 or len(key.main) != MAIN_BYTES:
                message = f"{name}: the program expects {points - 1} public inputs, the key has {key.public_inputs}"
                raise VerifyingKeyInvalid(message)
            changed[main : main + MAIN_BYTES] = key.main
            changed[ic : ic + len(key.ic)] = key.ic
        programs[file] = bytes(changed)
    if waiting:
        raise VerifyingKeyInvalid(f"no program of {artefacts.version} has a key named {', '.join(sorted(waiting))}")
    return replace(artefacts, programs=programs)
