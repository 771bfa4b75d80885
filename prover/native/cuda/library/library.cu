/* cuda/library/library.cu - libgroth16_cuda.so. */
#include <stdlib.h>

#include "cuda/library/table_impl.h"

extern "C" __attribute__((visibility("default"))) const device_abi_library *groth16_device_library(void) { return &LIBRARY; }
