/* setup_device_impl.h - the lists of points of a trusted setup from a device; included by groth16_setup_impl.h. */
#ifndef G16_SETUP_DEVICE_IMPL_H
#define G16_SETUP_DEVICE_IMPL_H

/* Points that are on their way at a time, 32 MiB in G2; and points of a task. */
#define DEVICE_PIECE ((size_t)1 << 18)
#define DEVICE_CHUNK ((size_t)8192)

/* What makes multiples of both generators. */
typedef struct device_multiples {
    const struct g16_device *device; /* NULL: nothing does */
    void *handles[2];                /* of G1 and G2 */
    void *points;                    /* DEVICE_PIECE of G2, or as many as will be needed */
} device_multiples;

#define AFFINE g1_affine
#define XYZZ g1_xyzz
#define C(name) g1_##name
#define GENERATOR G1_GENERATOR
#define DEVICE_GROUP DEVICE_ABI_G1
#define ENCODED_BYTES G1_COMPRESSED_BYTES
#include "device_multiples_impl.h"
#undef AFFINE
#undef XYZZ
#undef C
#undef GENERATOR
#undef DEVICE_GROUP
#undef ENCODED_BYTES

#define AFFINE g2_affine
#define XYZZ g2_xyzz
#define C(name) g2_##name
#define GENERATOR G2_GENERATOR
#define DEVICE_GROUP DEVICE_ABI_G2
#define ENCODED_BYTES G2_COMPRESSED_BYTES
#include "device_multiples_impl.h"
#undef AFFINE
#undef XYZZ
#undef C
#undef GENERATOR
#undef DEVICE_GROUP
#undef ENCODED_BYTES

static void setup_device_close(device_multiples *multiples) {
    for (int i = 0; i < 2; i++) {
        if (multiples->handles[i]) multiples->device->library->multiples_close(multiples->handles[i]);
    }
    free(multiples->points);
}

/* Also after a failure it is to be closed. */
static g16_status setup_device_open(device_multiples *multiples, const struct g16_device *device, size_t g1_count, size_t g2_count,
                                    const g16_cancel *cancel, g16_error *error) {
    const size_t counts[2] = {g1_count, g2_count}, most = g1_count > g2_count ? g1_count : g2_count;
    const void *const generators[2] = {&G1_GENERATOR, &G2_GENERATOR};
    char message[DEVICE_ABI_MESSAGE] = "";
    multiples->device = device;
    multiples->points = malloc((most < DEVICE_PIECE ? most : DEVICE_PIECE) * sizeof(g2_affine));
    if (!multiples->points) return G16_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < 2; i++) {
        const device_abi_status status = device->library->multiples_open(device->handle, &multiples->handles[i], DEVICE_ABI_G1 + i,
                                                                         generators[i], counts[i], cancel, message);
        if (status != DEVICE_ABI_OK) return g16_device_result(status, message, error);
    }
    return G16_OK;
}

#endif
