/* Hooks into sums and transforms, AVX-512 backend without IFMA. */
#if defined(__x86_64__)
#define G16_LANES 1
#define MONT256_ADX 1
#define T(name) name##_avx512
#include "testing_transforms_impl.h"
#endif
