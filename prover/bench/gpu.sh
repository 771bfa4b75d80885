#!/usr/bin/env bash
# What needs a GPU, in stages of less than ten minutes: gpu.sh build|test|sanitize|bench|all
#   build     the check and the benchmarks with nvcc (NVCC=, GPU_ARCHITECTURES="80 90"), in prover/build/cuda
#   test      the GPU against the host; JSON lines in prover/build/cuda/results/test.jsonl
#   sanitize  the small half of it under compute-sanitizer: memcheck, racecheck, initcheck
#   bench     rates and times, one JSON file each in prover/build/cuda/results; what is there already is not measured again
#             (BENCH_AGAIN=1 does), so that a run that was cut short goes on
# A stage fails when one of its checks does. Order at a new machine: build test bench sanitize.
set -euo pipefail
cd "$(dirname "$0")/../.."

native=prover/native
build=prover/build/cuda
results=$build/results
nvcc=${NVCC:-nvcc}

stage_build() {
    command -v "$nvcc" >/dev/null || {
        echo "gpu.sh: no CUDA compiler; put nvcc (12.0 or later) on the PATH or name it in NVCC" >&2
        return 1
    }
    local options=(-O3 -std=c++17 -I "$native/cuda" -I "$native/tests" -I shared/native) architecture
    for architecture in ${GPU_ARCHITECTURES:-80 90}; do
        options+=(-gencode "arch=compute_$architecture,code=sm_$architecture")
    done
    mkdir -p "$build" "$results"
    local host=(cc -std=gnu11 -O3 -Wall -Wextra -I shared/native -I "$native/tests" -c)
    "${host[@]}" -o "$build/testing_cuda_runs.o" "$native/tests/testing_cuda_runs.c"
    "${host[@]}" -o "$build/gpu_check.o" "$native/tests/gpu_check.c"
    # The two take minutes of one processor each: G2 has large kernels.
    "$nvcc" "${options[@]}" -c -o "$build/gpu_hooks.o" "$native/tests/gpu_hooks.cu" &
    local hooks=$!
    "$nvcc" "${options[@]}" -Xptxas -v -o "$build/gpu_bench" prover/bench/gpu_bench.cu 2>"$results/ptxas.log" || {
        cat "$results/ptxas.log" >&2
        return 1
    }
    wait "$hooks"
    "$nvcc" "${options[@]}" -o "$build/gpu_check" "$build/gpu_check.o" "$build/testing_cuda_runs.o" "$build/gpu_hooks.o"
    echo "built $build/gpu_check and $build/gpu_bench"
}

stage_test() {
    "$build/gpu_check" | tee "$results/test.jsonl"
}

stage_sanitize() {
    local tool
    for tool in memcheck racecheck initcheck; do
        compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/gpu_check" small | tee "$results/$tool.log"
    done
}

# measure <file> <arguments of gpu_bench>
measure() {
    local file=$results/$1.json
    shift
    if [ -s "$file" ] && [ -z "${BENCH_AGAIN:-}" ]; then return; fi
    "$build/gpu_bench" "$@" >"$file.new"
    mv "$file.new" "$file"
    cat "$file"
}

stage_bench() {
    local log2 name
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,ecc.errors.uncorrected.volatile.total --format=csv |
        tee "$results/gpu.csv"
    for name in imad_wide_rate mul_imad madd_g1 madd_g2; do measure "gpu_$name" "$name"; done
    for log2 in 15 16 18 20 22 23; do measure "gpu_msm_g1_$log2" msm_g1 "$log2"; done
    for log2 in 15 16 18 20 22; do measure "gpu_msm_g2_$log2" msm_g2 "$log2"; done
    for log2 in 14 15 16 18 19 20 22 23 24; do measure "gpu_ntt_$log2" ntt "$log2"; done
    # With tables of shifted bases: one bucket set.
    for log2 in 15 18 20 22; do measure "gpu_msm_g1_table_$log2" msm_g1 "$log2" 1; done
    for log2 in 15 18 20; do measure "gpu_msm_g2_table_$log2" msm_g2 "$log2" 1; done
}

case "${1:-}" in
    build | test | sanitize | bench) "stage_$1" ;;
    all) stage_build && stage_test && stage_bench && stage_sanitize ;;
    *)
        echo "usage: gpu.sh build|test|sanitize|bench|all" >&2
        exit 2
        ;;
esac
