"""The check of C includes: this tree passes it, and each kind of breach is one line that says what to do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import native_includes
import pytest
from native_includes import ROOT, TREES, Tree, breaches

FLOOR = Tree("shared/native", ("simd", "field"))
KERNEL = Tree("src", ("base", "msm", "key"), others=("groth16.h",))
DEVICE = Tree("cuda", ("base", "msm"), prefix="cuda/", others=("gpu/abi.h",))


def write(root: Path, **files: str) -> None:
    """Write files, whose names have __ for / and no suffix .h, that include what is listed."""
    for name, included in files.items():
        path = root / (name.replace("__", "/") + ".h")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f'#include "{header}"\n' for header in included.split()))


def found(root: Path) -> list[str]:
    return list(breaches(root, (FLOOR, KERNEL, DEVICE)))


def test_tree__as_it_is__breaks_no_rule() -> None:
    assert list(breaches()) == []


def test_page__of_the_kernel__names_the_folders_in_their_order() -> None:
    page = (ROOT / "prover/native/README.md").read_text()
    rows = [line.split("`")[1].rstrip("/") for line in page.splitlines() if line.startswith("| `")]
    assert tuple(rows[: len(TREES[1].folders)]) == TREES[1].folders


def test_includes__of_earlier_folders_and_the_floor__are_accepted(tmp_path: Path) -> None:
    write(tmp_path, shared__native__field__fr="", src__base__types="field/fr.h groth16.h")
    write(tmp_path, src__msm__plan="base/types.h", src__key__key="msm/plan.h base/types.h", src__top="key/key.h")
    write(tmp_path, cuda__base__device="field/fr.h", cuda__msm__plan="cuda/base/device.h gpu/abi.h")
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (
            {"src__msm__plan": "key/key.h", "src__key__key": ""},
            "src/msm/plan.h:1: includes key/key.h; msm/ comes before key/ in the order base, msm, key",
        ),
        ({"src__msm__plan": "plan.h"}, "src/msm/plan.h:1: includes plan.h; no such file in src; paths begin there"),
        (
            {"cuda__msm__plan": "base/types.h", "src__base__types": ""},
            "cuda/msm/plan.h:1: includes base/types.h; no such file in cuda; paths begin there with cuda/",
        ),
        (
            {"src__misc__plan": ""},
            "src/misc/plan.h: misc/ is no folder of this tree; its folders are base, msm, key",
        ),
        (
            {"src__key__key": "field/fp.h", "src__field__fp": "", "shared__native__field__fp": ""},
            "src/key/key.h:1: includes field/fp.h; shared/native has a file of that path too; rename one of them",
        ),
        (
            {
                "src__msm__a": "msm/b.h",
                "src__msm__b": "base/types.h msm/c.h",
                "src__msm__c": "msm/a.h",
                "src__base__types": "",
            },
            "src: msm/a -> msm/b -> msm/c -> msm/a is a circle; divide one of them",
        ),
    ],
)
def test_breach__of_each_rule__is_one_line(tmp_path: Path, files: dict[str, str], line: str) -> None:
    write(tmp_path, **files)
    assert line in found(tmp_path)
    assert len(found(tmp_path)) <= 2


def test_circle__of_a_header_and_the_source_of_another__is_found(tmp_path: Path) -> None:
    """Modules: msm/a.c includes b.h, whose source includes a.h."""
    write(tmp_path, src__msm__a="", src__msm__b="")
    (tmp_path / "src/msm/a.c").write_text('#include "msm/a.h"\n#include "msm/b.h"\n')
    (tmp_path / "src/msm/b.c").write_text('#include "msm/b.h"\n#include "msm/a.h"\n')
    assert found(tmp_path) == ["src: msm/a -> msm/b -> msm/a is a circle; divide one of them"]


def test_main__with_a_breach__prints_it_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert native_includes.main() == 0
    monkeypatch.setattr(native_includes, "breaches", lambda: iter(["src/a.h:1: includes b.h; no such file"]))
    assert native_includes.main() == 1
    assert capsys.readouterr().err == "src/a.h:1: includes b.h; no such file\n"


@pytest.mark.parametrize("source", ["prover/native/cuda/library/library.cu", "prover/native/tests/gpu/gpu_hooks.cu"])
def test_cuda_sources__as_a_gpu_compiler_reads_them__have_the_text_for_the_gpu(source: str) -> None:
    """Without a CUDA compiler nothing else reads that half of the text."""
    compiler = shutil.which("cc")
    assert compiler is not None
    kernel = ROOT / "prover/native"
    included = (kernel, kernel / "include", kernel / "src", kernel / "tests/hooks", ROOT / "shared/native")
    folders = [f"-I{folder}" for folder in included]
    words = [compiler, "-E", "-P", "-x", "c", "-D__CUDACC__", *folders, str(ROOT / source)]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert all(name in answer.stdout for name in ("__global__", "<<<", "cudaStreamSynchronize", "cudaGraphLaunch"))
