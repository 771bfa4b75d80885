/* simd/region.h - a mode of the thread in which products of doubles are rounded towards zero, from LANES_REGION to the end of its
 * block; for instructions without their own rounding mode. */
#ifndef SHARED_SIMD_REGION_H
#define SHARED_SIMD_REGION_H

#include <immintrin.h>

#define LANES_ROUND_MODE 0x6000u /* both bits: towards zero */

static inline __attribute__((always_inline)) unsigned lanes_enter_region(void) {
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | LANES_ROUND_MODE);
    return before;
}
static inline __attribute__((always_inline)) void lanes_leave_region(const unsigned *before) { _mm_setcsr(*before); }
#define LANES_REGION const unsigned lanes_region __attribute__((cleanup(lanes_leave_region), unused)) = lanes_enter_region()
#define LANES_REGION_OR_STOP ((_mm_getcsr() & LANES_ROUND_MODE) == LANES_ROUND_MODE ? (void)0 : __builtin_trap())

#endif
