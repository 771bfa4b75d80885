/* groth16/blinding.c - see groth16/blinding.h. */
#include "groth16/blinding.h"

#include "base/random.h"
#include "base/status.h"

g16_status blinding_draw(uint8_t out[BLINDING_BYTES], g16_error *error) {
    g16_status status;
    do {
        status = os_random_scalar(out);
    } while (status == G16_OK && os_random_is_zero(out));
    if (status == G16_OK) status = os_random_scalar(out + 32);
    if (status == G16_OK) return G16_OK;
    return g16_fail(error, status, 0, "the operating system gave no random bytes for the blinding values");
}
