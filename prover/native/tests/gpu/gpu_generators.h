/* gpu_generators.h - the generators of G1 and G2 as device memory holds them: Montgomery form, little-endian words. */
#ifndef G16_GPU_GENERATORS_H
#define G16_GPU_GENERATORS_H

#include <stdint.h>

static const uint64_t G1_GENERATOR[8] = {
    0xd35d438dc58f0d9d, 0x0a78eb28f5c70b3d, 0x666ea36f7879462c, 0x0e0a77c19a07df2f,
    0xa6ba871b8b1e1b3a, 0x14f1d651eb8e167b, 0xccdd46def0f28c58, 0x1c14ef83340fbe5e};
static const uint64_t G2_GENERATOR[16] = {
    0x8e83b5d102bc2026, 0xdceb1935497b0172, 0xfbb8264797811adf, 0x19573841af96503b,
    0xafb4737da84c6140, 0x6043dd5a5802d8c4, 0x09e950fc52a02f86, 0x14fef0833aea7b6b,
    0x619dfa9d886be9f6, 0xfe7fd297f59e9b78, 0xff9e1a62231b7dfe, 0x28fd7eebae9e4206,
    0x64095b56c71856ee, 0xdc57f922327d3cbb, 0x55f935be33351076, 0x0da4a0e693fd6482};

#endif
