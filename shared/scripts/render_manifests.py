#!/usr/bin/env python3
"""Write the objects that the charts' presets render to <service>/deploy/manifests, for clusters without Helm."""

import argparse
import sys
from pathlib import Path

from deployment_tools import CHARTS, ToolsUnavailable, fetch, render_text


def write_manifests(service: str, folder: Path, namespace: str) -> list[Path]:
    """Write one file for each preset of a service, and remove those of presets that are gone; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    presets = {path.stem.removeprefix("values-"): path for path in sorted(CHARTS[service].glob("values-*.yaml"))}
    for path in folder.glob("*.yaml"):
        if path.stem not in presets:
            path.unlink()
    written = []
    for name, preset in presets.items():
        written.append(folder / f"{name}.yaml")
        written[-1].write_text(render_text(service, preset, namespace=namespace))
    return written


def main() -> int:
    """Write the files and print their names; return 1 if helm cannot be fetched."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namespace", default="default", help="Namespace that names in the cluster contain")
    arguments = parser.parse_args()
    try:
        fetch()
    except ToolsUnavailable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for service, chart in CHARTS.items():
        for path in write_manifests(service, chart.parent / "manifests", arguments.namespace):
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
