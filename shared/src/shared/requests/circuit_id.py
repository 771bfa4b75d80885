"""Circuit identities and the names of the key files that hold them.

One identity has one name (``v2_inclusion_32_1``) and several file names: the current one and those of
earlier key sets, which remain in use.
"""

import enum
import re
from typing import Self

from msgspec import Struct

KEY_SUFFIX = ".key"


class CircuitKind(enum.StrEnum):
    """Circuit families, by their ``circuitType`` on the wire."""

    INCLUSION = "inclusion"
    NON_INCLUSION = "non-inclusion"
    COMBINED = "combined"
    BATCH_APPEND = "append"
    BATCH_UPDATE = "update"
    BATCH_ADDRESS_APPEND = "address-append"

    @property
    def is_batch(self) -> bool:
        """True if one proof covers a whole batch of tree updates (slow, queued when possible)."""
        return self in (self.BATCH_APPEND, self.BATCH_UPDATE, self.BATCH_ADDRESS_APPEND)


class CircuitId(Struct, frozen=True, order=True):
    """Identity of a circuit.

    ``heights`` and ``sizes`` have one entry each, or two for combined circuits (state tree first).
    A size is the number of accounts, of addresses, or of elements in a batch. ``version`` is 1 for
    circuits of height 26 with separate public inputs, 2 for those with one hashed public input.
    """

    kind: CircuitKind
    version: int
    heights: tuple[int, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        expected = 2 if self.kind is CircuitKind.COMBINED else 1
        if len(self.heights) != expected or len(self.sizes) != expected:
            raise ValueError(f"{self.kind} circuits have {expected} height(s) and size(s)")

    @property
    def name(self) -> str:
        """Stem of the current key-file name, also used in logs and messages."""
        numbers = "_".join(map(str, self.heights + self.sizes))
        prefix = "batch" if self.kind.is_batch else f"v{self.version}"
        return f"{prefix}_{self.kind}_{numbers}"

    @property
    def key_file(self) -> str:
        """Name of the key file in current key sets."""
        return self.name + KEY_SUFFIX

    @property
    def earlier_key_file(self) -> str:
        """Name of the key file in earlier key sets."""
        stem = _EARLIER_STEMS.get((self.kind, self.version), self.kind)
        heights = self.heights[:1] if self.version == 1 else self.heights  # combined_26_A_B
        return f"{stem}_{'_'.join(map(str, heights + self.sizes))}{KEY_SUFFIX}"

    @property
    def key_files(self) -> tuple[str, str]:
        """All accepted file names of a key of this circuit, preferred first."""
        return self.key_file, self.earlier_key_file

    @classmethod
    def from_key_file(cls, file_name: str) -> Self | None:
        """Return the identity that a file name (without folders) names, None for another name."""
        stem = file_name.removesuffix(KEY_SUFFIX)
        if stem == file_name:
            return None
        for pattern, kind, version in _STEMS:
            match = pattern.fullmatch(stem)
            if match is not None:
                numbers = tuple(map(int, match.groups()))
                if kind is CircuitKind.COMBINED:
                    # combined_26_A_B of earlier sets omits the second, equal height
                    numbers = (26, 26, *numbers) if len(numbers) == 2 else numbers
                    return cls(kind, version, numbers[:2], numbers[2:])
                return cls(kind, version, numbers[:1], numbers[1:])
        return None

    def __str__(self) -> str:
        return self.name


_EARLIER_STEMS = {(CircuitKind.INCLUSION, 1): "mainnet_inclusion", (CircuitKind.BATCH_APPEND, 2): "append-with-proofs"}
"""Stems of earlier key sets that are not the kind."""

_N = r"([1-9][0-9]{0,8})"
_STEMS: tuple[tuple[re.Pattern[str], CircuitKind, int], ...] = tuple(
    (re.compile(pattern, re.ASCII), kind, version)
    for pattern, kind, version in (
        (rf"v1_inclusion_{_N}_{_N}", CircuitKind.INCLUSION, 1),
        (rf"v2_inclusion_{_N}_{_N}", CircuitKind.INCLUSION, 2),
        (rf"v1_non-inclusion_{_N}_{_N}", CircuitKind.NON_INCLUSION, 1),
        (rf"v2_non-inclusion_{_N}_{_N}", CircuitKind.NON_INCLUSION, 2),
        (rf"v1_combined_{_N}_{_N}_{_N}_{_N}", CircuitKind.COMBINED, 1),
        (rf"v2_combined_{_N}_{_N}_{_N}_{_N}", CircuitKind.COMBINED, 2),
        (rf"batch_append_{_N}_{_N}", CircuitKind.BATCH_APPEND, 2),
        (rf"batch_update_{_N}_{_N}", CircuitKind.BATCH_UPDATE, 2),
        (rf"batch_address-append_{_N}_{_N}", CircuitKind.BATCH_ADDRESS_APPEND, 2),
        # earlier key sets
        (r"(?:mainnet_)?inclusion_(26)_" + _N, CircuitKind.INCLUSION, 1),
        (rf"inclusion_{_N}_{_N}", CircuitKind.INCLUSION, 2),
        (r"non-inclusion_(26)_" + _N, CircuitKind.NON_INCLUSION, 1),
        (rf"non-inclusion_{_N}_{_N}", CircuitKind.NON_INCLUSION, 2),
        (rf"combined_26_{_N}_{_N}", CircuitKind.COMBINED, 1),
        (rf"combined_{_N}_{_N}_{_N}_{_N}", CircuitKind.COMBINED, 2),
        (rf"append-with-proofs_{_N}_{_N}", CircuitKind.BATCH_APPEND, 2),
        (rf"update_{_N}_{_N}", CircuitKind.BATCH_UPDATE, 2),
        (rf"address-append_{_N}_{_N}", CircuitKind.BATCH_ADDRESS_APPEND, 2),
    )
)
