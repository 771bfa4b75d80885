/* testing_arithmetic_adx.c - the arithmetic hooks of the x86-64 backend with mulx, adcx and adox. */
#if defined(__x86_64__)
#define MONT256_ADX 1
#define T_BACKEND adx
#include "testing_field_impl.h"
#include "testing_pairing_impl.h"
#endif
