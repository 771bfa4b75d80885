"""gpu.sh makes gpu_proof with a C compiler alone, and tests a library with it: here the one whose GPU is software."""

from __future__ import annotations

from pathlib import Path

from gpu_script import GpuScript


def test_stages__of_whole_proofs__pass_and_do_not_run_again(cuda_host_library: Path, tmp_path: Path) -> None:
    script = GpuScript(tmp_path, cuda_host_library)
    script.run("kernel", GPU_KERNEL_OPTIONS="-O0")  # in seconds; all backends must compile and link
    script.run("keys", "tiny")
    two = {"GROTH16_CUDA_HOST_DEVICES": "2"}
    script.run("test", **two)
    checks = script.lines("test_*.jsonl")
    assert {check["ok"] for check in checks} == {True}
    details = "\n".join(check["detail"] for check in checks)
    on_one = ("threads at once", "batch, re-randomised", "witness on the device")
    for expected in (*on_one, "GPU by GPU"):
        assert expected in details
    assert "all of it passed before" in script.run("test", **two)
    script.run("soak", SOAK_PROOFS="20", SOAK_KEY=str(script.keys / "tiny.key"))
    (total,) = script.lines("soak.json")
    assert total["verified"] >= 20
