/* testing_arithmetic_avx512.c - the arithmetic hooks of the backend with AVX-512 but not IFMA. */
#if defined(__x86_64__)
#define G16_LANES 1
#define MONT256_ADX 1
#define T_BACKEND avx512
#include "testing_field_impl.h"
#include "testing_pairing_impl.h"
#include "testing_lanes_impl.h"
#endif
