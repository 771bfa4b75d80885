#!/usr/bin/env python3
"""Check the includes of C files: folders in order, no circles (prover/native/README.md).

Each tree below is divided into folders. A file includes files of its own folder and of folders before it. Files outside
of the folders (api.c, backend.c) include any. A module, which is a header and the source of the same name, must not
reach itself through other modules. Paths of includes begin at the tree, those of cuda/ at the folder above it, so that
every path names one file. Prints a line for each breach and ends with status 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"|^#define \w+ "([\w/]+\.h)"')
SUFFIXES = {".c", ".h", ".cu"}


@dataclass(frozen=True)
class Tree:
    """A folder of C files, its own folders in their order, and what its files may include besides."""

    path: str
    folders: tuple[str, ...]
    prefix: str = ""
    others: tuple[str, ...] = ()
    """Headers and folders of other trees, by the paths that includes give them."""


TREES = (
    Tree("shared/native", ("simd", "field", "poseidon", "merkle", "json")),
    Tree(
        "prover/native/src",
        ("base", "field", "curve", "msm", "ntt", "r1cs", "gnark", "key", "fold", "groth16", "gpu"),
        others=("groth16.h",),
    ),
    Tree(
        "prover/native/cuda",
        ("base", "field", "curve", "msm", "ntt", "proof", "library"),
        prefix="cuda/",
        others=(
            "gpu/abi.h",
            "field/fp2_shared.h",
            "curve/group_shared.h",
            "curve/group_add_shared.h",
            "host_gpu/queue.h",
            "host_gpu/gpu.h",
        ),
    ),
)
FLOOR = TREES[0]


def breaches(root: Path = ROOT, trees: tuple[Tree, ...] = TREES) -> Iterator[str]:
    """Yield a line for each include that breaks a rule, and for each circle."""
    for tree in trees:
        graph: dict[str, set[str]] = {}
        for file in sorted(path for path in (root / tree.path).rglob("*") if path.suffix in SUFFIXES):
            name = file.relative_to(root / tree.path).as_posix()
            folder, inside, _ = name.rpartition("/")
            if inside and folder not in tree.folders:
                yield f"{tree.path}/{name}: {folder}/ is no folder of this tree; its folders are {_listed(tree)}"
                continue
            for number, included in _includes(file):
                problem = _problem(root, tree, folder, included)
                if problem:
                    yield f"{tree.path}/{name}:{number}: includes {included}; {problem}"
                elif included.startswith(tree.prefix) and (root / tree.path / included[len(tree.prefix) :]).exists():
                    graph.setdefault(_module(name), set()).add(_module(included[len(tree.prefix) :]))
        yield from (f"{tree.path}: {' -> '.join(circle)} is a circle; divide one of them" for circle in _circles(graph))


def _includes(file: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        if match := INCLUDE.match(line):
            yield number, match[1] or match[2]


def _problem(root: Path, tree: Tree, folder: str, included: str) -> str | None:
    if included in tree.others:
        return None
    own = included.startswith(tree.prefix) and (root / tree.path / included[len(tree.prefix) :]).exists()
    of_floor = tree is not FLOOR and (root / FLOOR.path / included).exists()
    if own and of_floor:
        return f"{FLOOR.path} has a file of that path too; rename one of them"
    if of_floor:
        return None
    if not own:
        return f"no such file in {tree.path}; paths begin there" + (f" with {tree.prefix}" if tree.prefix else "")
    other = PurePosixPath(included[len(tree.prefix) :]).parts[0]
    if not folder or (other in tree.folders and tree.folders.index(other) <= tree.folders.index(folder)):
        return None
    return f"{folder}/ comes before {other}/ in the order {_listed(tree)}"


def _listed(tree: Tree) -> str:
    return ", ".join(tree.folders)


def _module(name: str) -> str:
    return str(PurePosixPath(name).with_suffix(""))


def _circles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yield one circle for each module from which a walk comes back to a module on its way."""
    done: set[str] = set()

    def walk(module: str, way: list[str]) -> Iterator[list[str]]:
        if module in way:
            yield [*way[way.index(module) :], module]
        elif module not in done:
            for other in sorted(graph.get(module, set()) - {module}):
                yield from walk(other, [*way, module])
            done.add(module)

    for module in sorted(graph):
        yield from walk(module, [])


def main() -> int:
    """Print the breaches; return the exit status."""
    found = list(breaches())
    for line in found:
        print(line, file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
