/* Hooks into sums and transforms, portable backend. */
#define T(name) name##_portable
#include "testing_transforms_impl.h"
