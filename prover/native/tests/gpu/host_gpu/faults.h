/* host_gpu/faults.h - failures on demand, for tests of GPU users.
 *
 * GROTH16_CUDA_HOST_FAULTS is a comma-separated list of [index:]call=fault[@number[+]]. call is count, open, key_load or prove.
 * fault is unavailable (count, open), out_of_memory, lost (all but count), wrong or garbage (prove: another point, no point).
 * number selects the call of its kind since the device was opened, with + also all later ones; without a number all fail. index
 * selects a GPU; without it all fail.
 * GROTH16_CUDA_HOST_ORDER: lazy or eager, for queues that run late and for graphs (host_gpu/schedule.h).
 * GROTH16_CUDA_HOST_DEVICES: number of GPUs, default 1.
 * GROTH16_CUDA_HOST_MEMORY: bytes per GPU, default 1 GiB; or a comma-separated list by GPU, whose last number applies to all
 * further GPUs.
 * GROTH16_CUDA_HOST_FREE_GATE: path of a FIFO; while it exists, each release of device memory waits until the FIFO was opened for
 * writing and closed.
 */
#ifndef HOST_GPU_FAULTS_H
#define HOST_GPU_FAULTS_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline uint64_t faults_number(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* Returns the number for a GPU in a list. */
static inline uint64_t faults_number_of(const char *variable, uint32_t device, uint64_t otherwise) {
    const char *text = getenv(variable);
    if (!text || !*text) return otherwise;
    for (const char *comma; device > 0 && (comma = strchr(text, ',')); device--) text = comma + 1;
    return strtoull(text, NULL, 10);
}

/* Returns 1 and advances *text when it begins with the word. */
static inline int faults_word(const char **text, const char *word) {
    const size_t length = strlen(word);
    if (strncmp(*text, word, length) != 0) return 0;
    *text += length;
    return 1;
}

/* Returns 1 when an entry of the list selects this fault of call `number` on a GPU. */
static inline int faults_entry(const char *entry, uint32_t device, const char *place, uint64_t number, const char *fault) {
    char *colon;
    const uint64_t index = strtoull(entry, &colon, 10);
    if (colon != entry && *colon == ':') {
        if (index != device) return 0;
        entry = colon + 1;
    }
    if (!faults_word(&entry, place) || !faults_word(&entry, "=") || !faults_word(&entry, fault)) return 0;
    if (!faults_word(&entry, "@")) return *entry == 0 || *entry == ',';
    char *end;
    const uint64_t named = strtoull(entry, &end, 10);
    return *end == '+' ? number >= named : number == named;
}

static inline int faults_any(uint32_t device, const char *place, uint64_t number, const char *fault) {
    const char *entry = getenv("GROTH16_CUDA_HOST_FAULTS");
    while (entry && *entry) {
        if (faults_entry(entry, device, place, number, fault)) return 1;
        entry = strchr(entry, ',');
        if (entry) entry++;
    }
    return 0;
}

static inline void faults_wait_at_gate(void) {
    const char *path = getenv("GROTH16_CUDA_HOST_FREE_GATE");
    const int gate = path && *path ? open(path, O_RDONLY) : -1;
    uint8_t byte;
    if (gate < 0) return;
    while (read(gate, &byte, 1) > 0) {
    }
    close(gate);
}

#endif
