#!/usr/bin/env python3
"""Build wheels that run on any Linux with glibc 2.28 or newer, for x86-64 or aarch64, without a compiler of the system.

    build_wheels.py [--architecture x86_64|aarch64] [--sdist] --output DIR MEMBER...

Run it with an interpreter into which shared/locks/wheels.lock is installed: the C compiler is Zig's, which has the C
libraries of older systems. Objects stay in shared/build/wheels of this tree, and are compiled again only if their
sources change; a release compiles everything, in a tree of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parents[2]
ARCHITECTURES = ("x86_64", "aarch64")
GLIBC = "2.28"
"""The oldest C library that wheels run on: that of Debian 10 and RHEL 8, which NumPy's wheels need as well."""
_BUILD = WORKSPACE / "shared" / "build" / "wheels"
_HOOK = """
import json, sys
from scikit_build_core import build
print(getattr(build, sys.argv[1])(sys.argv[2], json.loads(sys.argv[3])))
"""


def _write_program(path: Path, *words: str) -> Path:
    """Write a program that starts Zig with some words before its own."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-m", "ziglang", *words])} "$@"\n')
    path.chmod(0o755)
    return path


def copied_headers(folder: Path) -> Path:
    """Copy this interpreter's headers, without Debian's choice by architecture: both have the same 64-bit values."""
    source, target = Path(sysconfig.get_path("include")), folder / "include"
    shutil.copytree(source, target, dirs_exist_ok=True)
    configuration = target / "pyconfig.h"
    chosen = re.search(rf"<({platform.machine()}-linux-gnu/\S+/pyconfig\.h)>", configuration.read_text())
    if chosen:
        shutil.copy(source.parent / chosen[1], configuration)
    return target


def _build_folder(architecture: str) -> Path:
    return _BUILD / f"{architecture}-glibc-{GLIBC}-zig-{metadata.version('ziglang')}"


def compiler_settings(architecture: str) -> dict[str, str]:
    """Return the CMake variables that make Zig the compiler for an architecture."""
    target = f"{architecture}-linux-gnu.{GLIBC}"
    folder = _build_folder(architecture)
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": architecture,
        "CMAKE_C_COMPILER": str(_write_program(folder / "cc", "cc", "-target", target)),
        "CMAKE_C_FLAGS": "-g0",
        "CMAKE_AR": str(_write_program(folder / "ar", "ar")),
        "CMAKE_RANLIB": str(_write_program(folder / "ranlib", "ranlib")),
        "Python_INCLUDE_DIR": str(copied_headers(folder)),
    }


def _call_backend(hook: str, member: str, output: Path, settings: dict[str, str], architecture: str) -> Path:
    """Call a hook of the build backend in the folder of a member; return the file that it wrote."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "_PYTHON_HOST_PLATFORM": f"manylinux_{GLIBC}-{architecture}",
        "CMAKE_GENERATOR": "Ninja",
        # One time for all files, so that equal sources give equal archives.
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "1577836800"),
    }
    output.mkdir(parents=True, exist_ok=True)
    answer = subprocess.run(
        [sys.executable, "-c", _HOOK, hook, str(output), json.dumps(settings)],
        cwd=WORKSPACE / member,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return output / answer.stdout.strip().splitlines()[-1]


def build_wheel(member: str, architecture: str, output: Path) -> Path:
    """Build the wheel of a member, for any architecture if it has no native code; return its path."""
    settings = {}
    if (WORKSPACE / member / "CMakeLists.txt").exists():
        settings = {f"cmake.define.{name}": value for name, value in compiler_settings(architecture).items()}
        settings |= {"build-dir": str(_build_folder(architecture) / member), "install.strip": "false"}
    return _call_backend("build_wheel", member, output, settings, architecture)


def build_sdist(member: str, output: Path) -> Path:
    """Build the source archive of a member; return its path."""
    return _call_backend("build_sdist", member, output, {}, platform.machine())


def main() -> int:
    """Build the wheels that the command line names, and print their paths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", choices=ARCHITECTURES, default=platform.machine())
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="Directory of the wheels")
    parser.add_argument("--sdist", action="store_true", help="Build source archives instead")
    parser.add_argument("members", nargs="+", choices=("shared", "prover", "forester"), metavar="MEMBER")
    arguments = parser.parse_args()
    output = arguments.output.resolve()
    for member in arguments.members:
        print(build_sdist(member, output) if arguments.sdist else build_wheel(member, arguments.architecture, output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
