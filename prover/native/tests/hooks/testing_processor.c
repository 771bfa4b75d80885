/* testing_processor.c - the backends that this CPU supports. */
#include <string.h>

#include "groth16.h"

/* 1 when an engine can be made with the backend of that name, else 0. */
int32_t t_processor_runs(const char *backend) {
    static const struct {
        const char *name;
        g16_backend_choice choice;
    } choices[] = {
        {"portable", G16_BACKEND_PORTABLE}, {"adx", G16_BACKEND_ADX}, {"avx512", G16_BACKEND_AVX512},
        {"avx2", G16_BACKEND_AVX2},
        {"ifma", G16_BACKEND_IFMA}};
    for (unsigned i = 0; i < sizeof choices / sizeof *choices; i++) {
        g16_engine *engine = NULL;
        if (strcmp(backend, choices[i].name) != 0) continue;
        if (g16_engine_create(&engine, 1, choices[i].choice, NULL) != G16_OK) return 0;
        g16_engine_destroy(engine);
        return 1;
    }
    return 0;
}
