"""Merkle paths of a request, hashed level by level in batches."""

from collections.abc import Sequence

from msgspec import Struct

from shared.field import FIELD_BYTES
from shared.poseidon import hash_many


class Path(Struct, frozen=True):
    """The siblings of a leaf from the leaf upwards, 32 bytes each; bits of ``index`` beyond the path do not count."""

    index: int
    siblings: bytes

    @property
    def height(self) -> int:
        """Number of siblings."""
        return len(self.siblings) // FIELD_BYTES

    @property
    def is_inside(self) -> bool:
        """True if the index is one of a tree as high as the path is long."""
        return self.index < 1 << self.height


def roots(leaves: Sequence[bytes], paths: Sequence[Path]) -> list[bytes]:
    """Return the roots to which leaves and their paths, of one height, lead."""
    nodes = list(leaves)
    for level in range(paths[0].height if paths else 0):
        pairs = [_children(path, node, level) for path, node in zip(paths, nodes, strict=True)]
        nodes = split(hash_many(b"".join(pairs), 2))
    return nodes


def split(elements: bytes) -> list[bytes]:
    """Return elements one by one."""
    return [elements[start : start + FIELD_BYTES] for start in range(0, len(elements), FIELD_BYTES)]


def _children(path: Path, node: bytes, level: int) -> bytes:
    """Return a node of a path at some level and its sibling, from left to right."""
    sibling = path.siblings[level * FIELD_BYTES : (level + 1) * FIELD_BYTES]
    return sibling + node if path.index >> level & 1 else node + sibling
