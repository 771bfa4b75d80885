/* prove_file.c - prove_file KEY INPUTS PROOF [BACKEND [COUNT]]: proves with known blinding values, and verifies. For tests of a build
 * that runs on another CPU than the tests themselves. INPUTS has 32 bytes for each input, public ones first. BACKEND is a number
 * of g16_backend_choice, COUNT the number of equal proofs. Prints the backend's name. */
#include "include/groth16.h"

#include <stdio.h>
#include <stdlib.h>

static uint8_t *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) return NULL;
    long end = ftell(file);
    uint8_t *data = end > 0 ? malloc((size_t)end) : NULL;
    rewind(file);
    if (data == NULL || fread(data, 1, (size_t)end, file) != (size_t)end) return NULL;
    fclose(file);
    *size = (size_t)end;
    return data;
}

static void require(g16_status status, const g16_error *error) {
    if (status == G16_OK) return;
    fprintf(stderr, "%s: %s\n", g16_status_name(status), error->message);
    exit(1);
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    size_t key_size = 0, input_size = 0;
    uint8_t *key_file = read_file(arguments[1], &key_size), *inputs = read_file(arguments[2], &input_size);
    if (key_file == NULL || inputs == NULL) return 2;

    g16_error error = {{0}, 0, 0};
    g16_engine *engine = NULL;
    g16_key *key = NULL;
    int choice = count > 4 ? atoi(arguments[4]) : G16_BACKEND_AUTO;
    require(g16_engine_create(&engine, 1, (g16_backend_choice)choice, &error), &error);
    require(g16_key_load(engine, &key, key_file, key_size, NULL, &error), &error);

    uint8_t proof[G16_PROOF_BYTES], blinding[64] = {0};
    blinding[31] = 7, blinding[63] = 11;
    size_t scratch_size = g16_prove_scratch_bytes(engine, key);
    void *scratch = malloc(scratch_size);
    if (scratch == NULL) return 2;
    for (int left = count > 5 ? atoi(arguments[5]) : 1; left > 0; left--) {
        require(g16_prove(engine, key, proof, NULL, blinding, inputs, input_size / 32, scratch, scratch_size, NULL, &error), &error);
    }
    const g16_vk *vk = g16_key_verifying_key(key);
    require(g16_verify(engine, vk, proof, inputs, g16_vk_public_inputs(vk), &error), &error);

    FILE *out = fopen(arguments[3], "wb");
    if (out == NULL || fwrite(proof, 1, sizeof proof, out) != sizeof proof || fclose(out) != 0) return 2;
    puts(g16_engine_backend(engine));
    free(scratch);
    g16_key_destroy(key);
    g16_engine_destroy(engine);
    free(inputs);
    free(key_file);
    return 0;
}
