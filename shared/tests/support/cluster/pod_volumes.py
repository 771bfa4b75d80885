"""Volumes of a pod as folders of this machine."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubernetes_api import KubernetesApi


async def made_volumes(api: KubernetesApi, pod: Mapping[str, Any], folder: Path) -> dict[str, Path]:
    """Return the folder of each volume of a pod, made in ``folder`` unless it is that of a claim."""
    namespace, found = pod["metadata"]["namespace"], {}
    for volume in pod["spec"].get("volumes", []):
        place = folder / volume["name"]
        place.mkdir(parents=True, exist_ok=True)
        if "secret" in volume:
            secret = await api.get(f"/api/v1/namespaces/{namespace}/secrets/{volume['secret']['secretName']}")
            for item in volume["secret"]["items"]:
                (place / item["path"]).write_bytes(base64.b64decode(secret["data"][item["key"]]))
        elif "persistentVolumeClaim" in volume:
            claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
            claim = await api.get(f"{claims}/{volume['persistentVolumeClaim']['claimName']}")
            bound = await api.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
            place = Path(bound["spec"]["hostPath"]["path"])
        else:
            assert "emptyDir" in volume, f"unknown kind of volume: {volume}"
        found[volume["name"]] = place
    return found


def folder_volume(folder: Path) -> dict[str, Any]:
    """Return the volume that a claim of any access mode and class gets: a folder, which is made."""
    folder.mkdir(parents=True)
    spec = {
        "capacity": {"storage": "100Gi"},
        "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
        "hostPath": {"path": str(folder)},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": folder.name}, "spec": spec}


def on_this_machine(text: str, container: Mapping[str, Any], volumes: Mapping[str, Path], address: str) -> str:
    """Return a word of a container's command with its paths and addresses as they are outside of a container."""
    places = {mount["mountPath"]: str(volumes[mount["name"]]) for mount in container.get("volumeMounts", [])}
    if places:
        # In one pass: a folder may contain a path at which something else is mounted.
        longest_first = "|".join(map(re.escape, sorted(places, key=len, reverse=True)))
        text = re.sub(rf"(?<![\w./-])({longest_first})(?![\w-])", lambda found: places[found[1]], text)
    return text.replace("[::]:", f"{address}:")
