/* testing_arithmetic_portable.c - the arithmetic hooks of the portable backend. */
#define T_BACKEND portable
#include "testing_field_impl.h"
#include "testing_pairing_impl.h"
