/* device_library.cu - libgroth16_cuda.so. */
#include <stdlib.h>

#include "device_library_impl.h"

extern "C" __attribute__((visibility("default"))) const device_abi_library *groth16_device_library(void) { return &LIBRARY; }
