/* testing_arithmetic_ifma.c - the arithmetic hooks of the backend with AVX-512 IFMA. */
#if defined(__x86_64__)
#define G16_LANES 1
#define LANES_IFMA 1
#define MONT256_ADX 1
#define T_BACKEND ifma
#include "testing_field_impl.h"
#include "testing_pairing_impl.h"
#include "testing_lanes_impl.h"
#endif
