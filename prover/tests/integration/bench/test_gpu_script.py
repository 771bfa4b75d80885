"""gpu.sh makes its programs with a C compiler alone, and tests a library with them: here that of a GPU in software."""

from __future__ import annotations

from pathlib import Path

from gpu_script import GpuScript

from prover.kernel.engine import Engine


def test_run__on_a_gpu_in_software__passes_and_does_not_run_again(cuda_host_library: Path, tmp_path: Path) -> None:
    script = GpuScript(tmp_path, cuda_host_library)
    script.run("kernel", GPU_KERNEL_OPTIONS="-O0")  # in seconds; all backends must compile and link
    script.run("circuits", "tiny", "inclusion_2_1")
    listed, _ = script.outputs("run", "--dry-run")
    assert "bytes of 67108864; its programs need glibc GLIBC_2." in listed
    assert "gpu_setup" in listed
    assert "inclusion_2_1.key" in listed
    assert not list(script.results.iterdir())

    # Memory that limits batches to a few proofs: software takes seconds for 64, which unit tests prove.
    two = {"GROTH16_CUDA_HOST_DEVICES": "2", "GROTH16_CUDA_HOST_MEMORY": str(2**26)}
    script.run("run", **two)
    checks = script.lines("test_*.jsonl")
    assert {check["ok"] for check in checks} == {True}
    details = "\n".join(check["detail"] for check in checks)
    on_one = ("threads at once", "batch of proofs", "witness on the device")
    for expected in (*on_one, "GPU by GPU"):
        assert expected in details
    with Engine() as engine, engine.load_key((script.keys / "inclusion_2_1.key").read_bytes()) as key:
        inputs = (script.keys / "inclusion_2_1.inputs").read_bytes()
        key.verifying_key.verify(key.prove(inputs).points, inputs[:32])
    (predicted,) = script.lines("model_append_32_500.json")
    assert predicted["ms"] <= 110
    assert "all of it passed before" in script.run("run", **two)
    script.run("soak", SOAK_PROOFS="20", SOAK_KEY=str(script.keys / "tiny.key"))
    (total,) = script.lines("soak.json")
    assert total["verified"] >= 20
