"""The Rust samples of the page of the interface compile with the published crate that they name."""

import shutil
import subprocess
from pathlib import Path

import pytest

from prover.http.description.openapi import document
from prover.http.description.page import call_of
from prover.http.description.samples import samples


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
def test_rust_samples__of_all_routes__compile(tmp_path: Path) -> None:
    subprocess.run(
        ["cargo", "init", "--quiet", "--bin", "--name", "samples", "--vcs", "none"], cwd=tmp_path, check=True
    )
    with (tmp_path / "Cargo.toml").open("a") as manifest:
        manifest.write('ureq = { version = "3", default-features = false }\n')
    binaries = tmp_path / "src/bin"
    binaries.mkdir()
    count = 0
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            count += 1
            text = samples(call_of(method.upper(), path, operation))["Rust"]
            (binaries / f"sample{count}.rs").write_text(text)
    checked = subprocess.run(["cargo", "check", "--quiet"], cwd=tmp_path, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
