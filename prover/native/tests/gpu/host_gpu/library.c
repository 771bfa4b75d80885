/* host_gpu/library.c - libgroth16_cuda_host.so: the same library with the host as a GPU, slow and bit-exact, for tests. */
#define _GNU_SOURCE
#pragma GCC diagnostic ignored "-Wunused-function"
#include "cuda/library/table_impl.h"

__attribute__((visibility("default"))) const device_abi_library *groth16_device_library(void) { return &LIBRARY; }
