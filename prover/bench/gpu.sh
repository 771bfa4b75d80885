#!/usr/bin/env bash
# Tests and measurements on a GPU, in stages of less than ten minutes: gpu.sh build|keys [name...]|test|sanitize|bench|soak|peer|all [--again]
#   build     libgroth16_cuda.so, the checks and the benchmarks, in prover/build/cuda, for the GPU that is here or for
#             GPU_ARCHITECTURES=90; with nvcc (NVCC=), or packages (prover/scripts/cuda_compiler.bash);
#             `kernel` is the part of it that needs a C compiler alone: gpu_proof
#   keys      keys and inputs for whole proofs, in prover/build/cuda/keys (gpu_keys.py has names and sizes); needs Python with the
#             prover (make native), and no GPU. Existing keys are not made again. All keys found there are used
#   test      the GPU against the host: kernels and whole proofs; JSON lines in prover/build/cuda/results/test*.jsonl
#   sanitize  the small half of it under compute-sanitizer: memcheck, racecheck, initcheck
#   bench     rates and times, one JSON file each in prover/build/cuda/results; with Python and the prover also those of its server
#   soak      10,000 proofs in a row (SOAK_PROOFS=, SOAK_KEY=), each verified, 1,000 a piece
#   peer      multiplications and transforms compared with another program (PEER=) on the same numbers; gpu_peer.py has its interface
# A stage fails when one of its checks does. Pieces that passed with the same library are skipped (--again runs them), so a stopped
# stage resumes: see gpu/pieces.bash. Order on a new machine: build keys test bench sanitize soak.
# GPU_LIBRARY= names another library for whole proofs, for example libgroth16_cuda_host.so, which needs no GPU; GPU_BUILD= names
# another folder than prover/build/cuda.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=prover/bench/gpu/pieces.bash
. prover/bench/gpu/pieces.bash
# shellcheck source=prover/scripts/cuda_compiler.bash
. prover/scripts/cuda_compiler.bash

native=prover/native
build=${GPU_BUILD:-prover/build/cuda}
results=$build/results
keys=$build/keys
library=${GPU_LIBRARY:-$build/libgroth16_cuda.so}
python=.venv/bin/python
LARGE_KEY=100000000 # bytes, above which a key's proofs are measured and verified, but not compared with the CPU's
GRAPH_KEY=40000000  # bytes, above which domains are too large for graphs
SOAK_PIECE=1000     # proofs
PEER_ROUNDS=3

# compile <file> <command...>: runs a compiler unless it made the file by these words from these sources.
compile() {
    local file=$1 digest
    shift
    digest=$({
        echo "$@"
        find "$native"/{cuda,include,src,tests} shared/native -name '*.[ch]*' -type f -print0 | LC_ALL=C sort -z | xargs -0 cat
        cat prover/bench/gpu/*.cu prover/bench/gpu/*.h
    } | sha256sum)
    if [ -s "$file" ] && [ "$(cat "$file.digest" 2>/dev/null)" = "$digest" ]; then return; fi
    rm -f "$file.digest"
    if ! "$@" -o "$file" 2>"$file.log"; then
        cat "$file.log" >&2
        return 1
    fi
    echo "$digest" >"$file.digest"
}

wait_for() {
    local job failed=0
    for job in "$@"; do wait "$job" || failed=1; done
    return $failed
}

# The kernel and gpu_proof, with the compiler alone. Backends and their options are those of prover/CMakeLists.txt, which a test compares.
stage_kernel() {
    local options=(cc -std=gnu11 -fPIC -I "$native/include" -I "$native/src" -I shared/native) level objects=() jobs=() source name
    read -ra level <<<"${GPU_KERNEL_OPTIONS:--O3 -DNDEBUG}"
    options+=("-DG16_VERSION=\"$(sed -n 's/^version = "\(.*\)"/\1/p' prover/pyproject.toml)\"")
    options+=("${level[@]}")
    mkdir -p "$build/kernel"
    # backend <name> <options...>: takes minutes of one CPU.
    backend() {
        objects+=("$build/kernel/backend_$1.o")
        compile "$build/kernel/backend_$1.o" "${options[@]}" "${@:2}" "-DG16_COMPILE_${1^^}" -c "$native/src/backend.c" &
        jobs+=($!)
    }
    backend portable
    if [ "$(uname -m)" = x86_64 ]; then
        local lanes=(-mavx512f -mavx512dq -mavx512vl -mbmi2 -madx)
        backend adx
        backend avx2 -mavx2 -mfma -mbmi2 -madx -frounding-math
        backend avx512 "${lanes[@]}"
        backend ifma "${lanes[@]}" -mavx512ifma
    elif [ "$(uname -m)" = aarch64 ]; then
        backend aarch64
    fi
    for source in "$native"/src/*.c "$native"/src/*/*.c; do
        name=${source#"$native"/src/}
        name=${name%.c}
        name=${name//\//_}
        if [ "$name" = backend ]; then continue; fi
        objects+=("$build/kernel/$name.o")
        compile "$build/kernel/$name.o" "${options[@]}" -c "$source"
    done
    wait_for "${jobs[@]}"
    cc -O2 -Wall -Wextra -I "$native/include" -I "$native" -o "$build/gpu_proof" "$native"/tests/gpu_proof*.c "${objects[@]}" -lpthread -ldl
}

stage_build() {
    provide_nvcc || return 1
    # One architecture, that of the first GPU: each takes minutes.
    if [ -z "${GPU_ARCHITECTURES:-}" ]; then
        GPU_ARCHITECTURES=$( (nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || echo 9.0) | head -n 1 | tr -d .)
        export GPU_ARCHITECTURES
    fi
    local options=(-O3 -std=c++17 -I "$native" -I "$native/src" -I "$native/tests" -I shared/native) architecture jobs=()
    for architecture in $GPU_ARCHITECTURES; do
        options+=(-gencode "arch=compute_$architecture,code=sm_$architecture")
    done
    mkdir -p "$build" "$results"
    local host=(cc -std=gnu11 -O3 -Wall -Wextra -I shared/native -I "$native" -I "$native/src" -I "$native/tests" -c)
    compile "$build/testing_cuda_runs.o" "${host[@]}" "$native/tests/testing_cuda_runs.c"
    compile "$build/gpu_check.o" "${host[@]}" "$native/tests/gpu_check.c"
    # Each of the three takes minutes of one CPU: G2 has large kernels.
    compile "$build/gpu_hooks.o" "$NVCC" "${options[@]}" -c "$native/tests/gpu_hooks.cu" &
    jobs+=($!)
    prover/scripts/native cuda-library "$(realpath "$build")/libgroth16_cuda.so" &
    jobs+=($!)
    compile "$build/gpu_bench" "$NVCC" "${options[@]}" -Xptxas -v prover/bench/gpu/gpu_bench.cu &
    jobs+=($!)
    stage_kernel
    wait_for "${jobs[@]}"
    cp "$build/gpu_bench.log" "$results/ptxas.log"
    "$NVCC" "${options[@]}" -o "$build/gpu_check" "$build/gpu_check.o" "$build/testing_cuda_runs.o" "$build/gpu_hooks.o"
    echo "built $build/libgroth16_cuda.so, $build/gpu_check, $build/gpu_proof and $build/gpu_bench"
}

stage_keys() {
    "$python" shared/bench/bench.py gpu keys "$keys" "$@"
}

# each_key <command>: the command with every key and its inputs.
each_key() {
    local key
    compgen -G "$keys/*.key" >/dev/null || {
        echo "gpu.sh: there are no keys in $keys: make them with \`prover/bench/gpu.sh keys\`, here or on another machine" >&2
        return 1
    }
    for key in "$keys"/*.key; do
        "$1" "$key" "${key%.key}.inputs"
    done
}

# Whether a file has so many bytes at least.
is_larger() {
    [ "$(stat -L -c %s "$1")" -ge "$2" ]
}

test_proofs() {
    if is_larger "$1" $LARGE_KEY; then return; fi
    local name
    name=$(basename "$1" .key)
    piece "test_proofs_$name.jsonl" "$build/gpu_proof" check "$library" "$1" "$2"
    # Once more with witnesses of the GPU, which leaves them to the CPU for circuits of this size otherwise.
    piece "test_proofs_witness_$name.jsonl" env GROTH16_CUDA_WITNESS=device "$build/gpu_proof" check "$library" "$1" "$2"
    piece "test_tunings_$name.jsonl" "$build/gpu_proof" tunings "$library" "$1" "$2"
    piece "test_devices_$name.jsonl" "$build/gpu_proof" devices "$library" "$1" "$2"
}

stage_test() {
    if [ -z "${GPU_LIBRARY:-}" ]; then piece test.jsonl "$build/gpu_check"; fi
    each_key test_proofs
    end_pieces
}

stage_sanitize() {
    local tool
    for tool in memcheck racecheck initcheck; do
        local checked=(compute-sanitizer --tool "$tool" --error-exitcode 1)
        piece "sanitize_${tool}_kernels.log" "${checked[@]}" "$build/gpu_check" small
        piece "sanitize_${tool}_check.log" \
            "${checked[@]}" "$build/gpu_proof" check "$library" "$keys/tiny.key" "$keys/tiny.inputs"
    done
    end_pieces
}

stage_soak() {
    local left=${SOAK_PROOFS:-10000} key=${SOAK_KEY:-$keys/inclusion_32_4.key} number=0 made=0 proofs file verified
    while [ "$left" -gt 0 ]; do
        number=$((number + 1))
        proofs=$((left < SOAK_PIECE ? left : SOAK_PIECE))
        left=$((left - proofs))
        file=soak_$(printf %02d $number).jsonl
        piece "$file" "$build/gpu_proof" soak "$library" "$key" "${key%.key}.inputs" "$proofs"
        verified=$(sed -n 's/.*"count": \([0-9]*\), "ok": true.*/\1/p' "$results/$file")
        made=$((made + ${verified:-0}))
    done
    end_pieces
    echo "{\"check\": \"soak\", \"key\": \"$(basename "$key")\", \"pieces\": $number, \"verified\": $made, \"ok\": true}" |
        tee "$results/soak.json"
}

# measure <name of the result> <command...>
measure() {
    piece "$1.json" "${@:2}"
}

measure_proofs() {
    local name
    name=$(basename "$1" .key)
    measure "proof_$name" "$build/gpu_proof" bench "$library" "$1" "$2"
    measure "gpu_prove_tput_$name" "$build/gpu_proof" rate "$library" "$1" "$2"
    # What graphs gain, and the times of stages, of which a graph shows only the whole. Large circuits have none.
    if ! is_larger "$1" $GRAPH_KEY; then
        measure "gpu_prove_tput_launches_$name" env GROTH16_CUDA_GRAPHS=never "$build/gpu_proof" rate "$library" "$1" "$2"
    fi
}

# A server, from the request to the proof in JSON.
measure_service() {
    local key=$keys/$1.key how
    if [ ! -e "$key" ] || [ ! -e "$keys/$1.json" ]; then return; fi
    for how in latency throughput; do
        measure "gpu_service_${how}_$1" "$python" shared/bench/bench.py gpu service --cuda-library "$library" "$how" "$key" "$keys/$1.json"
    done
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
    if [ -x "$python" ]; then
        for name in append_32_500 address-append_40_250 inclusion_32_4; do measure_service "$name"; done
    else
        echo "gpu.sh: NOT measured: the server, for want of Python with the prover (make native)" >&2
    fi
    end_pieces
}

# compare <group or transform> <log2>: numbers and times of ours and of the other program, alternately.
compare() {
    piece "peer_$1_$2.jsonl" "$python" shared/bench/bench.py gpu peer --rounds "$PEER_ROUNDS" "$build/gpu_bench" "$PEER" "$1" "$2"
}

stage_peer() {
    local log2
    if [ -z "${PEER:-}" ]; then
        echo "gpu.sh: SKIPPED, nothing was compared: name a program in PEER; prover/bench/gpu_peer.py says what it must do" >&2
        return
    fi
    for log2 in 16 18 20 22; do compare msm_g1 "$log2"; done
    for log2 in 16 18 20; do compare msm_g2 "$log2"; done
    for log2 in 16 18 20 22 24; do compare ntt "$log2"; done
    end_pieces
}

stage=${1:-}
shift || true
words=()
for word in "$@"; do
    if [ "$word" = --again ]; then export AGAIN=1; else words+=("$word"); fi
done
case "$stage" in
    build | kernel | keys | test | sanitize | bench | soak | peer) "stage_$stage" "${words[@]}" ;;
    # Each on its own: within a list of commands the shell would go on after a failure.
    all)
        prover/bench/gpu.sh build
        prover/bench/gpu.sh keys "${words[@]}"
        for stage in test bench sanitize soak; do prover/bench/gpu.sh "$stage"; done
        ;;
    *)
        echo "usage: gpu.sh build|kernel|keys [name...]|test|sanitize|bench|soak|peer|all [--again]" >&2
        exit 2
        ;;
esac
