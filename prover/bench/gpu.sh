#!/usr/bin/env bash
# Tests and measurements on a GPU: gpu.sh pack|run|soak|service|peer [--again]
#   pack     on any machine with Python and the prover (make native): library, programs, circuits and inputs in prover/build/gpu, which
#            is what a machine with a GPU needs next to this folder; 64 MiB at most. For one architecture, GPU_ARCHITECTURES=90; with nvcc
#            (NVCC=), or packages (prover/scripts/cuda_compiler.bash). Its parts: `build`, of which `kernel` needs a C compiler alone,
#            and `circuits [name...]` (gpu/keys.py has names)
#   run      on a machine with a GPU and its driver, and nothing else: half an hour in pieces of five minutes at most. RUN_SECONDS=550
#            ends a call in that time, with exit code 3 when pieces are left; the next call continues. --dry-run lists the pieces and
#            starts each program. Each line of JSON has predicted next to measured; files are in prover/build/gpu/results
#   soak     10,000 proofs in a row (SOAK_PROOFS=, SOAK_KEY=), each verified, 1,000 a piece
#   service  a server from the request to the proof's JSON; needs Python with the prover
#   peer     multiplications and transforms compared with another program (PEER=) on the same numbers; gpu/peer.py has its interface
# A stage fails when one of its checks does. Pieces that passed with the same library are skipped (--again runs them), so a stopped
# stage resumes: see gpu/pieces.bash.
# GPU_LIBRARY= names another library for whole proofs, for example libgroth16_cuda_host.so, which needs no GPU; GPU_BUILD= names
# another folder than prover/build/gpu.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=prover/bench/gpu/pieces.bash
. prover/bench/gpu/pieces.bash
# shellcheck source=prover/scripts/cuda_compiler.bash
. prover/scripts/cuda_compiler.bash

native=prover/native
build=${GPU_BUILD:-prover/build/gpu}
objects=prover/build/cuda
if [ -n "${GPU_BUILD:-}" ]; then objects=$build/objects; fi
results=$build/results
keys=$build/keys
library=${GPU_LIBRARY:-$build/libgroth16_cuda.so}
python=.venv/bin/python
PACK_BYTES=$((64 << 20))
LARGE_KEY=300000000 # bytes, above which a key's proofs are measured and verified, but not compared with the CPU's
GRAPH_KEY=40000000  # bytes, above which domains are too large for graphs
SOAK_PIECE=1000     # proofs
PEER_ROUNDS=3
FOLDED="inclusion_2_1 inclusion_32_4 append_32_10" # circuits whose keys are folded too, in seconds on 16 CPUs
PIECE_SECONDS=300   # limit of a piece with whole proofs
if [ -n "${GPU_SLOW:-}" ]; then PIECE_SECONDS=3000; fi
piece_limit=$PIECE_SECONDS

# compile <file> <command...>: runs a compiler unless it made the file by these words from these sources.
compile() {
    local file=$1 digest
    shift
    digest=$({
        echo "$@"
        find "$native"/{cuda,include,src,tests} shared/native -name '*.[ch]*' -type f -print0 | LC_ALL=C sort -z | xargs -0 cat
        cat prover/bench/gpu/*.cu prover/bench/gpu/*.c prover/bench/gpu/*.h
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

# The kernel, gpu_proof, gpu_setup and gpu_model, with the compiler alone. Backends and their options are those of prover/CMakeLists.txt, which a test compares.
stage_kernel() {
    local options=(cc -std=gnu11 -fPIC -I "$native/include" -I "$native/src" -I shared/native) level linked=() jobs=() source name
    read -ra level <<<"${GPU_KERNEL_OPTIONS:--O3 -DNDEBUG}"
    options+=("-DG16_VERSION=\"$(sed -n 's/^version = "\(.*\)"/\1/p' prover/pyproject.toml)\"")
    options+=("${level[@]}")
    mkdir -p "$objects/kernel"
    # backend <name> <options...>: takes minutes of one CPU.
    backend() {
        linked+=("$objects/kernel/backend_$1.o")
        compile "$objects/kernel/backend_$1.o" "${options[@]}" "${@:2}" "-DG16_COMPILE_${1^^}" -c "$native/src/backend.c" &
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
        linked+=("$objects/kernel/$name.o")
        compile "$objects/kernel/$name.o" "${options[@]}" -c "$source"
    done
    wait_for "${jobs[@]}"
    cc -O2 -Wall -Wextra -I "$native/include" -I "$native" -o "$build/gpu_proof" "$native"/tests/gpu/gpu_proof*.c "${linked[@]}" -lpthread -ldl
    cc -O2 -Wall -Wextra -I "$native/include" -o "$build/gpu_setup" prover/bench/gpu/gpu_setup.c "${linked[@]}" -lpthread -ldl
    cc -std=gnu11 -O1 -Wall -Wextra -I "$native" -I "$native/include" -I "$native/src" -I "$native/tests/gpu" -I "$native/tests/hooks" -I shared/native -o "$build/gpu_model" \
        prover/bench/gpu/gpu_model.c -lpthread
}

stage_build() {
    provide_nvcc || return 1
    # One architecture, that of the first GPU: each takes minutes.
    if [ -z "${GPU_ARCHITECTURES:-}" ]; then
        GPU_ARCHITECTURES=$( (nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || echo 9.0) | head -n 1 | tr -d .)
        export GPU_ARCHITECTURES
    fi
    local options=(-O3 -std=c++17 -I "$native" -I "$native/include" -I "$native/src" -I "$native/tests/gpu" -I "$native/tests/hooks" -I shared/native) architecture jobs=()
    local bare=(-cudart static -Xcompiler "-static-libstdc++,-static-libgcc")
    for architecture in $GPU_ARCHITECTURES; do
        options+=(-gencode "arch=compute_$architecture,code=sm_$architecture")
    done
    mkdir -p "$build" "$objects"
    local host=(cc -std=gnu11 -O3 -Wall -Wextra -I shared/native -I "$native" -I "$native/include" -I "$native/src" -I "$native/tests/gpu" -I "$native/tests/hooks" -c)
    compile "$objects/testing_cuda_runs.o" "${host[@]}" "$native/tests/hooks/testing_cuda_runs.c"
    compile "$objects/gpu_check.o" "${host[@]}" "$native/tests/gpu/gpu_check.c"
    # Each of the three takes minutes of one CPU: G2 has large kernels.
    compile "$objects/gpu_hooks.o" "$NVCC" "${options[@]}" -c "$native/tests/gpu/gpu_hooks.cu" &
    jobs+=($!)
    prover/scripts/native cuda-library "$(realpath "$build")/libgroth16_cuda.so" &
    jobs+=($!)
    compile "$objects/gpu_bench" "$NVCC" "${options[@]}" "${bare[@]}" prover/bench/gpu/gpu_bench.cu &
    jobs+=($!)
    stage_kernel
    wait_for "${jobs[@]}"
    cp "$objects/gpu_bench" "$build/gpu_bench"
    "$NVCC" "${options[@]}" "${bare[@]}" -o "$build/gpu_check" "$objects/gpu_check.o" "$objects/testing_cuda_runs.o" "$objects/gpu_hooks.o"
}

stage_circuits() {
    "$python" shared/bench/bench.py gpu keys "$keys" "$@"
}

# Fails when what travels is too large.
check_pack() {
    local size
    size=$(du --bytes --summarize --exclude results --exclude objects --exclude '*_[0-9]*.key' "$build" | cut -f 1)
    echo "$build: $size bytes of $PACK_BYTES; its programs need glibc $(cat "$build"/gpu_* | grep -ao 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)"
    [ "$size" -le "$PACK_BYTES" ] || {
        echo "gpu.sh: $build is too large" >&2
        return 1
    }
}

stage_pack() {
    stage_build
    stage_circuits "$@"
    check_pack
}

# has_folded <circuit>
has_folded() {
    case " $FOLDED " in
        *" $1 "*) ;;
        *) return 1 ;;
    esac
}

# each_key <command>: the command with every key and its inputs; a dry run has not made the keys.
each_key() {
    local inputs name
    for inputs in "$keys"/*.inputs; do
        name=${inputs%.inputs}
        if [ -e "$name.key" ] || [ -n "${DRY_RUN:-}" ]; then "$1" "$name.key" "$inputs"; fi
        if has_folded "$(basename "$name")" && { [ -e "${name}_folded.key" ] || [ -n "${DRY_RUN:-}" ]; }; then
            "$1" "${name}_folded.key" "$inputs"
        fi
    done
}

# Whether a file has so many bytes at least; a key that a dry run has not made counts as small.
is_larger() {
    [ -e "$1" ] && [ "$(stat -L -c %s "$1")" -ge "$2" ]
}

# Keys from circuits, by the kernel, and folded ones.
run_setups() {
    local circuit key name
    for circuit in "$keys"/*.circuit; do
        if [ -e "$circuit" ] && { [ ! -e "${circuit%.circuit}.key" ] || [ -n "${DRY_RUN:-}" ]; }; then
            piece "setup_$(basename "$circuit" .circuit).json" "$build/gpu_setup" "$circuit" "${circuit%.circuit}.key"
        fi
    done
    for name in $FOLDED; do
        key=$keys/${name}_folded.key
        if [ -e "$keys/$name.circuit" ] && { [ ! -e "$key" ] || [ -n "${DRY_RUN:-}" ]; }; then
            piece "fold_$name.json" "$build/gpu_setup" fold "$keys/$name.key" "$key"
        fi
    done
}

# Software computes the batches of all keys but one for minutes. GPU_SLOW=1 tests those too, and measures that one: at least 23 batches
# of 64 proofs, which take one thread two minutes on an idle CPU. Limits are ten times longer, because the CPU may be slow or busy.
is_slow() {
    [ -n "${GPU_LIBRARY:-}" ] && [ "$1" != tiny ]
}

test_proofs() {
    if is_larger "$1" $LARGE_KEY; then return; fi
    local name
    name=$(basename "$1" .key)
    if [ -z "${GPU_SLOW:-}" ] && is_slow "$name"; then return; fi
    piece "test_proofs_$name.jsonl" "$build/gpu_proof" check "$library" "$1" "$2"
    if [ "${name%_folded}" != "$name" ]; then return; fi
    # Once more with witnesses of the GPU, which leaves them to the CPU for circuits of this size otherwise.
    piece "test_proofs_witness_$name.jsonl" env GROTH16_CUDA_WITNESS=device "$build/gpu_proof" check "$library" "$1" "$2"
    piece "test_tunings_$name.jsonl" "$build/gpu_proof" tunings "$library" "$1" "$2"
    piece "test_devices_$name.jsonl" "$build/gpu_proof" devices "$library" "$1" "$2"
}

# measure <name of the result> <command...>
measure() {
    piece "$1.json" "${@:2}"
}

run_rates() {
    local mib name
    piece_limit=30
    for name in imad_wide_rate mul_imad sqr_imad madd_g1 madd_g2; do measure "gpu_$name" "$build/gpu_bench" "$name"; done
    for mib in 32 512 4096 16384; do measure "gpu_gather_$mib" "$build/gpu_bench" gather $mib; done
}

run_kernels() {
    local log2 g2
    piece_limit=120
    for log2 in 14 15 16 17 18 19 20 21 22 23; do measure "gpu_sweep_g1_$log2" "$build/gpu_bench" sweep_g1 $log2; done
    for log2 in 14 15 16 17 18 19 20 21 22; do measure "gpu_sweep_g2_$log2" "$build/gpu_bench" sweep_g2 $log2; done
    # The other kernels for sums in G2, whose own is in the sweeps.
    for g2 in 1 2; do
        for log2 in 18 22; do
            measure "gpu_msm_g2_${log2}_kernel_$g2" env "GROTH16_CUDA_TUNING=g2=$g2" "$build/gpu_bench" msm_g2 $log2 1
        done
    done
    piece_limit=30
    for log2 in 14 15 16 17 18 19 20 21 22 23 24; do measure "gpu_ntt_$log2" "$build/gpu_bench" ntt $log2; done
    # 64 at once, of several proofs.
    measure gpu_msm_batch64_15 "$build/gpu_bench" msm_g1 15 1 0 64
    measure gpu_msm_g2_batch64_15 "$build/gpu_bench" msm_g2 15 1 0 64
    # One chain for each Merkle path. What a whole witness takes is with the proofs: witness_ms.
    measure gpu_witness_append_32_500 "$build/gpu_bench" witness 1000 32
}

# Milliseconds by gpu_model, if it has them for this key.
predicted_ms() {
    sed -n 's/.*"ms": \([0-9.]*\).*/\1/p' "$results/model_$1.json" 2>/dev/null || true
}

measure_proofs() {
    local name g2 predicted
    name=$(basename "$1" .key)
    if is_slow "$name" || { [ -n "${GPU_LIBRARY:-}" ] && [ -z "${GPU_SLOW:-}" ]; }; then return; fi
    predicted=$(predicted_ms "$name")
    measure "proof_$name" "$build/gpu_proof" bench "$library" "$1" "$2" ${predicted:+8 "$predicted"}
    if [ "${name%_folded}" != "$name" ]; then return; fi
    measure "gpu_prove_tput_$name" "$build/gpu_proof" rate "$library" "$1" "$2"
    if is_larger "$1" $LARGE_KEY; then
        for g2 in 1 2; do
            measure "proof_${name}_kernel_$g2" env "GROTH16_CUDA_TUNING=g2=$g2" "$build/gpu_proof" bench "$library" "$1" "$2" ${predicted:+8 "$predicted"}
        done
    fi
    # What graphs gain, and the times of stages, of which a graph shows only the whole. Large circuits have none.
    if ! is_larger "$1" $GRAPH_KEY; then
        measure "gpu_prove_tput_launches_$name" env GROTH16_CUDA_GRAPHS=never "$build/gpu_proof" rate "$library" "$1" "$2"
    fi
}

# The five largest kernels, by counters of the hardware where NVIDIA's profiler is installed; else their times are in the sweeps.
run_profiles() {
    local kernel group
    if ! command -v ncu >/dev/null; then
        echo "gpu.sh: SKIPPED for want of ncu: counters of kernels; accumulate_ms, reduce_ms and sort_ms of the sweeps are their times" >&2
        return
    fi
    piece_limit=180
    for kernel in g1_msm_accumulate g2_msm_accumulate g1_msm_reduce_buckets msm_sort_buckets; do
        group=g1
        if [ "${kernel:0:2}" = g2 ]; then group=g2; fi
        piece "profile_$kernel.txt" ncu --set full --kernel-name "${kernel}_kernel" --launch-count 1 "$build/gpu_bench" "msm_$group" 20 1
    done
    piece profile_ntt_pass.txt ncu --set full --kernel-name ntt_pass_kernel --launch-count 1 "$build/gpu_bench" ntt 22
}

run_sanitizer() {
    local tool
    if ! command -v compute-sanitizer >/dev/null; then
        echo "gpu.sh: SKIPPED for want of compute-sanitizer: racecheck, memcheck, initcheck and synccheck" >&2
        return
    fi
    for tool in racecheck memcheck initcheck synccheck; do
        local checked=(compute-sanitizer --tool "$tool" --error-exitcode 1)
        piece "sanitize_${tool}_kernels.log" "${checked[@]}" "$build/gpu_check" small
        piece "sanitize_${tool}_check.log" \
            "${checked[@]}" "$build/gpu_proof" check "$library" "$keys/tiny.key" "$keys/tiny.inputs"
    done
}

# Whether there is a GPU, or a library that needs none.
has_gpu() {
    [ -n "${GPU_LIBRARY:-}${DRY_RUN:-}" ] || nvidia-smi --list-gpus 2>/dev/null | grep -q .
}

# Each program without words says how it is used.
start_programs() {
    local program status
    for program in gpu_setup gpu_proof gpu_model gpu_check gpu_bench; do
        if [ ! -e "$build/$program" ] && [ -n "${GPU_LIBRARY:-}" ]; then continue; fi
        status=0
        "$build/$program" >/dev/null 2>&1 || status=$?
        [ "$status" = 2 ] || {
            echo "gpu.sh: $build/$program does not start (status $status): $("$build/$program" 2>&1 | head -n 1)" >&2
            return 1
        }
    done
}

stage_run() {
    local memory
    if ! has_gpu; then
        echo "gpu.sh: SKIPPED for want of a GPU (nvidia-smi lists none): nothing was tested or measured" >&2
        return
    fi
    check_pack
    start_programs
    mkdir -p "$results"
    memory=$( (nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits 2>/dev/null || echo 144384) | head -n 1)
    piece_limit=30
    if [ -z "${GPU_LIBRARY:-}" ]; then
        piece gpu.csv nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,memory.free,ecc.errors.uncorrected.volatile.total --format=csv
        run_rates
    fi
    piece_limit=$PIECE_SECONDS
    run_setups
    measure model_append_32_500 "$build/gpu_model" $((memory / 1024)) append_32_500
    each_key measure_proofs
    if [ -z "${GPU_LIBRARY:-}" ]; then
        run_kernels
        piece_limit=$PIECE_SECONDS
        piece test.jsonl "$build/gpu_check" all
    fi
    piece_limit=$PIECE_SECONDS
    each_key test_proofs
    if [ -z "${GPU_LIBRARY:-}" ]; then
        run_profiles
        piece_limit=$PIECE_SECONDS
        run_sanitizer
    fi
    if [ -n "${DRY_RUN:-}" ]; then echo "$planned_seconds s at most"; fi
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

stage_service() {
    local name how
    for name in append_32_500 inclusion_32_4; do
        if [ ! -e "$keys/$name.key" ]; then continue; fi
        for how in latency throughput; do
            measure "gpu_service_${how}_$name" "$python" shared/bench/bench.py gpu service --cuda-library "$library" "$how" "$keys/$name.key" \
                "$keys/$name.json"
        done
    done
    end_pieces
}

# compare <group or transform> <log2>: numbers and times of ours and of the other program, alternately.
compare() {
    piece "peer_$1_$2.jsonl" "$python" shared/bench/bench.py gpu peer --rounds "$PEER_ROUNDS" "$build/gpu_bench" "$PEER" "$1" "$2"
}

stage_peer() {
    local log2
    if [ -z "${PEER:-}" ]; then
        echo "gpu.sh: SKIPPED, nothing was compared: name a program in PEER; prover/bench/gpu/peer.py says what it must do" >&2
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
    case "$word" in
        --again) export AGAIN=1 ;;
        --dry-run) DRY_RUN=1 ;;
        *) words+=("$word") ;;
    esac
done
case "$stage" in
    pack | build | kernel | circuits | run | soak | service | peer) "stage_$stage" "${words[@]}" ;;
    *)
        echo "usage: gpu.sh pack|run|soak|service|peer [--again] [--dry-run]; parts of pack: build|kernel|circuits [name...]" >&2
        exit 2
        ;;
esac
