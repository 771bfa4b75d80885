#!/usr/bin/env bash
# What needs a GPU, in stages of less than ten minutes: gpu.sh build|keys [name...]|test|sanitize|bench|soak|all
#   build     libgroth16_cuda.so, the checks and the benchmarks with nvcc (NVCC=, GPU_ARCHITECTURES="80 90"), in prover/build/cuda
#   keys      keys and inputs for whole proofs, in prover/build/cuda/keys (gpu_keys.py says which and how large); needs Python with the
#             prover (make native), and no GPU, but makes large keys and their folding on one where it is. What is there already is not
#             made again. All keys found there are used
#   test      the GPU against the host: kernels, whole proofs, setup and folding; JSON lines in prover/build/cuda/results/test*.jsonl
#   sanitize  the small half of it under compute-sanitizer: memcheck, racecheck, initcheck
#   bench     rates and times, one JSON file each in prover/build/cuda/results; what is there already is not measured again
#             (BENCH_AGAIN=1 does), so that a run that was cut short goes on
#   soak      10,000 proofs in a row (SOAK_PROOFS=), each verified
# A stage fails when one of its checks does. Order at a new machine: build keys test bench sanitize soak.
# GPU_LIBRARY= names another library for whole proofs, as libgroth16_cuda_host.so, with which these run without a GPU.
set -euo pipefail
cd "$(dirname "$0")/../.."

native=prover/native
build=prover/build/cuda
results=$build/results
keys=$build/keys
nvcc=${NVCC:-nvcc}
library=${GPU_LIBRARY:-$build/libgroth16_cuda.so}
LARGE_KEY=100000000 # bytes, above which a key's proofs are measured and verified, but not compared with the processor's
GRAPH_KEY=40000000  # bytes, above which domains are too large for graphs

# The kernel as an archive, with the compiler alone.
build_kernel() {
    local options=(cc -std=gnu11 -O3 -DNDEBUG -fPIC -I "$native/include" -I "$native/src" -I shared/native -c) source
    mkdir -p "$build/kernel"
    for source in "$native"/src/*.c; do
        if [ "${source##*/}" != backend.c ]; then "${options[@]}" -o "$build/kernel/$(basename "$source" .c).o" "$source"; fi
    done
    "${options[@]}" -DG16_COMPILE_PORTABLE -o "$build/kernel/backend_portable.o" "$native/src/backend.c"
    if [ "$(uname -m)" = x86_64 ]; then
        local lanes=(-mavx512f -mavx512dq -mavx512vl -mbmi2 -madx)
        "${options[@]}" -DG16_COMPILE_ADX -o "$build/kernel/backend_adx.o" "$native/src/backend.c"
        "${options[@]}" "${lanes[@]}" -DG16_COMPILE_AVX512 -o "$build/kernel/backend_avx512.o" "$native/src/backend.c"
        "${options[@]}" "${lanes[@]}" -mavx512ifma -DG16_COMPILE_IFMA -o "$build/kernel/backend_ifma.o" "$native/src/backend.c"
    fi
    cc -O2 -Wall -Wextra -I "$native/include" -o "$build/gpu_proof" "$native/tests/gpu_proof.c" "$build"/kernel/*.o -lpthread -ldl
}

stage_build() {
    command -v "$nvcc" >/dev/null || {
        echo "gpu.sh: no CUDA compiler; put nvcc (12.0 or later) on the PATH or name it in NVCC" >&2
        return 1
    }
    local options=(-O3 -std=c++17 -I "$native/cuda" -I "$native/src" -I "$native/tests" -I shared/native) architecture
    for architecture in ${GPU_ARCHITECTURES:-80 90}; do
        options+=(-gencode "arch=compute_$architecture,code=sm_$architecture")
    done
    mkdir -p "$build" "$results"
    local host=(cc -std=gnu11 -O3 -Wall -Wextra -I shared/native -I "$native/src" -I "$native/tests" -c)
    "${host[@]}" -o "$build/testing_cuda_runs.o" "$native/tests/testing_cuda_runs.c"
    "${host[@]}" -o "$build/gpu_check.o" "$native/tests/gpu_check.c"
    # The three take minutes of one processor each: G2 has large kernels.
    "$nvcc" "${options[@]}" -c -o "$build/gpu_hooks.o" "$native/tests/gpu_hooks.cu" &
    local hooks=$!
    prover/scripts/native cuda-library "$PWD/$build/libgroth16_cuda.so" &
    local made=$!
    build_kernel
    "$nvcc" "${options[@]}" -Xptxas -v -o "$build/gpu_bench" prover/bench/gpu_bench.cu 2>"$results/ptxas.log" || {
        cat "$results/ptxas.log" >&2
        return 1
    }
    wait "$hooks"
    wait "$made"
    "$nvcc" "${options[@]}" -o "$build/gpu_check" "$build/gpu_check.o" "$build/testing_cuda_runs.o" "$build/gpu_hooks.o"
    echo "built $build/libgroth16_cuda.so, $build/gpu_check, $build/gpu_proof and $build/gpu_bench"
}

stage_keys() {
    .venv/bin/python prover/bench/gpu_keys.py --cuda-library "$library" "$keys" "$@"
}

# each_key <command> <arguments>: gpu_proof with every key, its inputs, and what follows "--".
each_key() {
    local key command=$1
    shift
    compgen -G "$keys/*.key" >/dev/null || {
        echo "gpu.sh: there are no keys in $keys: make them with \`prover/bench/gpu.sh keys\`, here or on another machine" >&2
        return 1
    }
    for key in "$keys"/*.key; do
        "$command" "$key" "${key%.key}.inputs" "$@"
    done
}

check_proofs() {
    if [ "$(stat -c %s "$1")" -lt $LARGE_KEY ]; then "$build/gpu_proof" check "$library" "$1" "$2"; fi
}

check_tunings() {
    if [ "$(stat -c %s "$1")" -lt $LARGE_KEY ]; then "$build/gpu_proof" tunings "$library" "$1" "$2"; fi
}

check_devices() {
    if [ "$(stat -c %s "$1")" -lt $LARGE_KEY ]; then "$build/gpu_proof" devices "$library" "$1" "$2"; fi
}

check_keys() {
    if [ "$(stat -c %s "$1")" -lt $LARGE_KEY ]; then "$build/gpu_proof" keys "$library" "$1" "$2"; fi
}

stage_test() {
    mkdir -p "$results"
    if [ -z "${GPU_LIBRARY:-}" ]; then "$build/gpu_check" | tee "$results/test.jsonl"; fi
    each_key check_proofs | tee "$results/test_proofs.jsonl"
    # Once more with witnesses that the GPU makes, which it would leave to the processor for circuits of this size.
    GROTH16_CUDA_WITNESS=device each_key check_proofs | tee "$results/test_proofs_witness.jsonl"
    each_key check_tunings | tee "$results/test_tunings.jsonl"
    each_key check_devices | tee "$results/test_devices.jsonl"
    each_key check_keys | tee "$results/test_keys.jsonl"
}

stage_sanitize() {
    local tool command
    for tool in memcheck racecheck initcheck; do
        compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/gpu_check" small | tee "$results/$tool.log"
        for command in check keys; do
            compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/gpu_proof" "$command" "$library" "$keys/tiny.key" "$keys/tiny.inputs" |
                tee "$results/${tool}_$command.log"
        done
    done
}

stage_soak() {
    "$build/gpu_proof" soak "$library" "$keys/inclusion_32_4.key" "$keys/inclusion_32_4.inputs" "${SOAK_PROOFS:-10000}" |
        tee "$results/soak.jsonl"
}

# measure <name of the result> <command...>
measure() {
    local file=$results/$1.json
    shift
    if [ -s "$file" ] && [ -z "${BENCH_AGAIN:-}" ]; then return; fi
    "$@" >"$file.new"
    mv "$file.new" "$file"
    cat "$file"
}

measure_proofs() {
    measure "proof_$(basename "$1" .key)" "$build/gpu_proof" bench "$library" "$1" "$2"
    measure "gpu_prove_tput_$(basename "$1" .key)" "$build/gpu_proof" rate "$library" "$1" "$2"
    # What graphs gain, and the times of stages, of which a graph shows only the whole. Large circuits have none.
    if [ "$(stat -c %s "$1")" -lt $GRAPH_KEY ]; then
        measure "gpu_prove_tput_launches_$(basename "$1" .key)" env GROTH16_CUDA_GRAPHS=never "$build/gpu_proof" rate "$library" "$1" "$2"
    fi
}

stage_bench() {
    local log2 name bench=$build/gpu_bench
    mkdir -p "$results"
    if [ -z "${GPU_LIBRARY:-}" ]; then
        nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,ecc.errors.uncorrected.volatile.total --format=csv |
            tee "$results/gpu.csv"
        for name in imad_wide_rate mul_imad madd_g1 madd_g2; do measure "gpu_$name" "$bench" "$name"; done
        for log2 in 15 16 18 20 22 23; do measure "gpu_msm_g1_$log2" "$bench" msm_g1 "$log2"; done
        for log2 in 15 16 18 20 22; do measure "gpu_msm_g2_$log2" "$bench" msm_g2 "$log2"; done
        for log2 in 14 15 16 18 19 20 22 23 24; do measure "gpu_ntt_$log2" "$bench" ntt "$log2"; done
        # With tables of shifted bases: one bucket set.
        for log2 in 15 18 20 22; do measure "gpu_msm_g1_table_$log2" "$bench" msm_g1 "$log2" 1; done
        for log2 in 15 18 20; do measure "gpu_msm_g2_table_$log2" "$bench" msm_g2 "$log2" 1; done
        # 64 at once, of several proofs.
        measure gpu_msm_batch64_15 "$bench" msm_g1 15 1 0 64
        measure gpu_msm_g2_batch64_15 "$bench" msm_g2 15 1 0 64
        # One chain for each Merkle path. What a whole witness takes is with the proofs: witness_ms.
        for name in append_32_500 update_32_500; do measure "gpu_witness_$name" "$bench" witness 1000 32; done
        measure gpu_witness_address-append_40_250 "$bench" witness 1000 40
    fi
    each_key measure_proofs
}

case "${1:-}" in
    build | keys | test | sanitize | bench | soak) "stage_$1" "${@:2}" ;;
    all) stage_build && stage_keys "${@:2}" && stage_test && stage_bench && stage_sanitize && stage_soak ;;
    *)
        echo "usage: gpu.sh build|keys [name...]|test|sanitize|bench|soak|all" >&2
        exit 2
        ;;
esac
