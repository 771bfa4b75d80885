"""Programs of a Kubernetes cluster and of KEDA, built from the sources that modules/ pins.

They are kept outside git in .state/cluster; building them takes ten minutes on two CPUs and a Go compiler.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parents[4]
FOLDER = WORKSPACE / ".state" / "cluster"
_PINS = Path(__file__).with_name("modules")
_KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_KEDA = "github.com/kedacore/keda/v2"
_MODULES = {
    "kubernetes": (*(f"k8s.io/kubernetes/cmd/{name}" for name in _KUBERNETES), "go.etcd.io/etcd/server/v3"),
    "keda": (f"{_KEDA}/cmd/operator", f"{_KEDA}/cmd/adapter"),
}
"""Packages of each pinned module."""


class ClusterUnavailable(Exception):
    """The programs are not on this machine and cannot be built now; the message says why."""


@dataclass(frozen=True)
class ClusterPrograms:
    """Paths of the programs, and the folder with KEDA's definitions of its resources."""

    etcd: Path
    api_server: Path
    controller_manager: Path
    scheduler: Path
    keda_operator: Path
    keda_adapter: Path
    keda_definitions: Path


def built_programs() -> ClusterPrograms:
    """Return the programs, after building those that are missing. Raises ClusterUnavailable."""
    pins = b"".join(path.read_bytes() for module in _MODULES for path in sorted((_PINS / module).iterdir()))
    folder = FOLDER / hashlib.sha256(pins).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            _build(folder)
            (folder / ".complete").touch()
    server, manager, scheduler = (folder / name for name in _KUBERNETES)
    return ClusterPrograms(
        folder / "server", server, manager, scheduler, folder / "operator", folder / "adapter", folder
    )


def _build(folder: Path) -> None:
    compiler = shutil.which("go")
    if compiler is None:
        raise ClusterUnavailable("there is no Go compiler")
    version = _run([compiler, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"], _PINS / "kubernetes").strip()
    # Helm asks the server for its version, which Kubernetes' own build sets.
    flags = f"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion={version}"
    for module, packages in _MODULES.items():
        _run([compiler, "build", "-trimpath", flags, "-o", f"{folder}/", *packages], _PINS / module)
    place = Path(_run([compiler, "list", "-m", "-f", "{{.Dir}}", _KEDA], _PINS / "keda").strip())
    for path in (place / "config/crd/bases").iterdir():
        shutil.copyfile(path, folder / path.name)


def _run(words: list[str], folder: Path) -> str:
    answer = subprocess.run(
        words, cwd=folder, env={**os.environ, "CGO_ENABLED": "0"}, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise ClusterUnavailable(f"{' '.join(words[:2])} of {folder.name} failed: {answer.stderr[-1000:]}")
    return answer.stdout
