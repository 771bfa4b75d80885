# Sourced: the CUDA compiler. Without nvcc on the PATH, or named in NVCC, packages with the hashes of shared/locks/cuda.lock are
# installed into .state/cuda (300 MB); they need an environment (make setup) and a C++ compiler.
# shellcheck shell=bash
# shellcheck source=shared/scripts/install_locked.bash
. shared/scripts/install_locked.bash

# provide_nvcc: sets NVCC; fails if there is no compiler.
provide_nvcc() {
    if command -v "${NVCC:-nvcc}" >/dev/null 2>&1; then
        NVCC=${NVCC:-nvcc}
    elif [ -n "${NVCC:-}" ]; then
        echo "there is no CUDA compiler $NVCC; name one (12.0 or later), or unset NVCC to use packages" >&2
        return 1
    else
        use_packages
    fi
}

# use_packages: sets NVCC, LIBRARY_PATH, and CUDA_TOOLS, the folder of compiler and disassemblers.
use_packages() {
    local folder=.state/cuda root
    if [ ! -x .venv/bin/python ]; then
        echo "there is no CUDA compiler; put nvcc (12.0 or later) on the PATH, name it in NVCC, or run make setup for packages" >&2
        return 1
    fi
    mkdir -p .state
    exec 8>.state/cuda.lock
    flock 8
    if [ "$(cat "$folder/installed" 2>/dev/null)" != "$(sha256sum <shared/locks/cuda.lock)" ]; then
        echo "Installing the CUDA compiler from packages" >&2
        rm -rf "$folder"
        .venv/bin/python -m venv --without-pip "$folder"
        install_locked "$folder" shared/locks/cuda.lock || return 1
        sha256sum <shared/locks/cuda.lock >"$folder/installed"
    fi
    exec 8>&-
    root=$(realpath "$folder"/lib/python3*/site-packages/nvidia/cu13)
    NVCC=$root/bin/nvcc
    export NVCC CUDA_TOOLS=$root/bin LIBRARY_PATH=$root/lib${LIBRARY_PATH:+:$LIBRARY_PATH}
}
