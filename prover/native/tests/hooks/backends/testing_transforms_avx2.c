/* Hooks into sums and transforms, AVX2 backend. */
#if defined(__x86_64__)
#define G16_LANES 1
#define LANES_AVX2 1
#define MONT256_ADX 1
#define T(name) name##_avx2
#include "testing_transforms_impl.h"
#endif
