"""All stages of gpu.sh that need no GPU but a library whose GPU is software, with gpu_proof by a C compiler alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_script import GpuScript


@pytest.mark.timeout(5400)  # it takes 12 minutes on two idle CPUs, and whole runs keep all CPUs busy
def test_stages__without_a_gpu__test_soak_and_measure_the_library_of_software(
    cuda_host_library: Path, tmp_path: Path
) -> None:
    script = GpuScript(tmp_path, cuda_host_library)
    script.run("kernel")
    script.run("circuits", "tiny", "inclusion_2_1")
    script.run("run", GROTH16_CUDA_HOST_DEVICES="2", GPU_SLOW="1")
    assert {check["ok"] for check in script.lines("test_*.jsonl")} == {True}
    (proof,) = script.lines("proof_tiny.json")
    assert (proof["key"], proof["verified"]) == ("tiny.key", True)
    (rate,) = script.lines("gpu_prove_tput_tiny.json")
    assert (rate["key"], rate["verified"], rate["batch"]) == ("tiny.key", True, 64)

    soak = {"SOAK_PROOFS": "1100", "SOAK_KEY": str(script.keys / "tiny.key"), "GPU_SLOW": "1"}
    script.run("soak", **soak)
    (total,) = script.lines("soak.json")
    assert total["pieces"] == 2
    assert total["verified"] >= 1100
    assert "all of it passed before" in script.run("soak", **soak)

    script.replace_library()
    assert "passed before" not in script.run("soak", **soak)
