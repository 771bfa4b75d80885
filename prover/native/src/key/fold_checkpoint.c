/* key/fold_checkpoint.c - see key/fold_checkpoint.h. */
#include "key/fold_checkpoint.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/xxh64.h"
#include "key/prepared_format.h"

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static size_t aligned(size_t bytes) {
    return (bytes + FOLD_CHECKPOINT_ALIGNMENT - 1) / FOLD_CHECKPOINT_ALIGNMENT * FOLD_CHECKPOINT_ALIGNMENT;
}

/* Upper bound of a state: for the whole coset work and sums, or sums and T; otherwise the lists while one part is divided by
 * another. */
static size_t half_bytes(const g16_key *key) {
    const size_t n = (size_t)1 << key->pk.domain_log2;
    const size_t points = fold_shape_for(key->cs.constraints, key->pk.domain_log2).points;
    return FOLD_CHECKPOINT_ALIGNMENT + aligned((points == n ? 2 * n : n + 4 * points) * sizeof(g1_affine));
}

static const fold_checkpoint_header *half_of(const fold_checkpoint *checkpoint, uint64_t generation) {
    return (const void *)(checkpoint->data + generation % 2 * checkpoint->half_bytes);
}

static const uint8_t *lists_of(const fold_checkpoint_header *header) { return (const uint8_t *)header + FOLD_CHECKPOINT_ALIGNMENT; }

static int holds(const fold_checkpoint *checkpoint, uint64_t half) {
    const fold_checkpoint_header *header = half_of(checkpoint, half);
    return memcmp(header, &checkpoint->header, offsetof(fold_checkpoint_header, generation)) == 0 &&
           header->checksum == xxh64(header, offsetof(fold_checkpoint_header, checksum)) && header->generation % 2 == half &&
           header->data_bytes <= checkpoint->half_bytes - FOLD_CHECKPOINT_ALIGNMENT &&
           header->data_checksum == xxh64(lists_of(header), (size_t)header->data_bytes);
}

g16_status fold_checkpoint_open(fold_checkpoint *checkpoint, const g16_key *key, const g16_fold_checkpoint *memory,
                                const uint8_t *source_sha256, g16_error *error) {
    memset(checkpoint, 0, sizeof *checkpoint);
    checkpoint->data = memory->data;
    checkpoint->half_bytes = half_bytes(key);
    if (!memory->data || memory->size != 2 * checkpoint->half_bytes) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "%zu bytes given for the %zu of a checkpoint", memory->size,
                        2 * checkpoint->half_bytes);
    }
    checkpoint->interval_ns = (uint64_t)memory->interval_ms * 1000000u;
    checkpoint->due_ns = checkpoint->interval_ns ? now_ns() + checkpoint->interval_ns : 0;
    fold_checkpoint_header *header = &checkpoint->header;
    memcpy(header->magic, FOLD_CHECKPOINT_MAGIC, sizeof header->magic);
    header->version = FOLD_CHECKPOINT_VERSION;
    header->byte_order = PREPARED_BYTE_ORDER;
    header->point_format = (uint32_t)key->backend->point_format;
    header->domain_log2 = key->pk.domain_log2;
    header->constraints = key->cs.constraints;
    header->wires = key->cs.wires;
    memcpy(header->source_sha256, source_sha256, sizeof header->source_sha256);
    header->generation = 1;
    for (uint64_t half = 0; half < 2; half++) {
        if (!holds(checkpoint, half) || half_of(checkpoint, half)->generation < header->generation) continue;
        checkpoint->found = half_of(checkpoint, half);
        header->generation = checkpoint->found->generation + 1;
    }
    return G16_OK;
}

int fold_checkpoint_is_due(const fold_checkpoint *checkpoint) { return !checkpoint->interval_ns || now_ns() >= checkpoint->due_ns; }

void fold_checkpoint_save(fold_checkpoint *checkpoint, fold_place place, const fold_live *live,
                          const fold_span lists[FOLD_CHECKPOINT_LISTS], uint64_t work) {
    const uint64_t begun = now_ns();
    fold_checkpoint_header *header = &checkpoint->header;
    uint8_t *const half = checkpoint->data + header->generation % 2 * checkpoint->half_bytes;
    uint8_t *const data = half + FOLD_CHECKPOINT_ALIGNMENT;
    header->place = place;
    header->live = *live;
    header->work = work;
    header->data_bytes = 0;
    for (int i = 0; i < FOLD_CHECKPOINT_LISTS; i++) {
        if (!lists[i].bytes) continue;
        memcpy(data + header->data_bytes, lists[i].data, lists[i].bytes);
        header->data_bytes += lists[i].bytes;
    }
    header->data_checksum = xxh64(data, (size_t)header->data_bytes);
    header->checksum = xxh64(header, offsetof(fold_checkpoint_header, checksum));
    memcpy(half, header, sizeof *header);
    /* Without this a power failure could damage both halves. The checksums detect remaining damage. */
    (void)msync(half, checkpoint->half_bytes, MS_SYNC);
    header->generation++;
    const uint64_t now = now_ns(), pause = (now - begun) * FOLD_CHECKPOINT_SHARE;
    checkpoint->due_ns = now + (pause > checkpoint->interval_ns ? pause : checkpoint->interval_ns);
}

int fold_checkpoint_fits(const fold_checkpoint *checkpoint, const fold_span lists[FOLD_CHECKPOINT_LISTS]) {
    uint64_t bytes = 0;
    for (int i = 0; i < FOLD_CHECKPOINT_LISTS; i++) bytes += lists[i].bytes;
    return bytes == checkpoint->found->data_bytes;
}

void fold_checkpoint_restore(const fold_checkpoint *checkpoint, const fold_span lists[FOLD_CHECKPOINT_LISTS]) {
    const uint8_t *data = lists_of(checkpoint->found);
    for (int i = 0; i < FOLD_CHECKPOINT_LISTS; i++) {
        if (!lists[i].bytes) continue;
        memcpy(lists[i].data, data, lists[i].bytes);
        data += lists[i].bytes;
    }
}

size_t g16_fold_checkpoint_bytes(const g16_key *key) { return 2 * half_bytes(key); }

int32_t g16_fold_checkpoint_permille(const g16_key *key, const uint8_t *data, size_t size, const uint8_t *source_sha256) {
    /* This function only reads; functions that write receive writable memory. */
    const g16_fold_checkpoint memory = {.data = (uint8_t *)(uintptr_t)data, .size = size};
    fold_checkpoint checkpoint;
    if (!key || !source_sha256 || fold_checkpoint_open(&checkpoint, key, &memory, source_sha256, NULL) != G16_OK) return -1;
    if (!checkpoint.found) return -1;
    const fold_shape shape = fold_shape_for(key->cs.constraints, key->pk.domain_log2);
    const uint64_t all = fold_work(&shape, key->pk.domain_log2) * FOLD_WORK_BYTES, work = checkpoint.found->work;
    return work < all ? (int32_t)(work * 1000 / all) : 1000;
}
