/* Hooks into sums and transforms, assembly backend. */
#if defined(__x86_64__)
#define MONT256_ADX 1
#define T(name) name##_adx
#include "testing_transforms_impl.h"
#endif
