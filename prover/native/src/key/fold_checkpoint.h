/* key/fold_checkpoint.h - progress of folding a key, in memory that outlives the process: a mapped file.
 *
 * The file has two halves, each with a header and the lists of points that the rest of the fold depends on. States are written to
 * the halves alternately, each with a checksum, and reach the disk before the next one is begun. So one half is valid whenever
 * the process or the machine stops.
 */
#ifndef G16_KEY_FOLD_CHECKPOINT_H
#define G16_KEY_FOLD_CHECKPOINT_H

#include "key/fold_shape.h"
#include "key/key.h"

#define FOLD_CHECKPOINT_MAGIC "\x89G16FLD\n"
/* Version of the layout and of the sequence of computations in fold/bases_impl.h; increases when either changes. */
#define FOLD_CHECKPOINT_VERSION 1
/* Alignment of halves and of their lists: a multiple of any system's page size. */
#define FOLD_CHECKPOINT_ALIGNMENT 65536
/* Saving states takes at most 1/20 of the time. */
#define FOLD_CHECKPOINT_SHARE 20

/* Number of points to save of the lists of fold_job: work, sums, the two halves of spare, and T. */
typedef struct fold_live {
    uint64_t work, sums, spare, second, t;
} fold_live;
#define FOLD_CHECKPOINT_LISTS 5

typedef struct fold_span {
    void *data;
    size_t bytes;
} fold_span;

/* A position in a fold: `done` points of run number `run` (fold/transform_impl.h). */
typedef struct fold_place {
    uint64_t run, done;
} fold_place;

typedef struct fold_checkpoint_header {
    /* Identify the fold. */
    uint8_t magic[8];
    uint32_t version, byte_order, point_format, domain_log2;
    uint64_t constraints, wires;
    uint8_t source_sha256[32];
    /* Describe the state. */
    uint64_t generation; /* from 1 on; stored in half generation % 2 */
    fold_place place;
    uint64_t work; /* work done, in units of fold_work() * FOLD_WORK_BYTES */
    fold_live live;
    uint64_t data_bytes, data_checksum;
    uint64_t checksum; /* of the header before this field */
} fold_checkpoint_header;

typedef struct fold_checkpoint {
    uint8_t *data;
    size_t half_bytes;
    uint64_t interval_ns, due_ns;         /* 0: always due */
    fold_checkpoint_header header;        /* of the state that is written next */
    const fold_checkpoint_header *found;  /* of the newest valid state; NULL: none */
} fold_checkpoint;

/* Looks for a state of the fold of this key. Returns G16_INVALID_ARGUMENT for a wrong size. */
g16_status fold_checkpoint_open(fold_checkpoint *checkpoint, const g16_key *key, const g16_fold_checkpoint *memory,
                                const uint8_t *source_sha256, g16_error *error);

int fold_checkpoint_is_due(const fold_checkpoint *checkpoint);

/* Saves a state: its lists and the work done. */
void fold_checkpoint_save(fold_checkpoint *checkpoint, fold_place place, const fold_live *live,
                          const fold_span lists[FOLD_CHECKPOINT_LISTS], uint64_t work);

/* Returns 1 when the lists of the state that was found have these sizes. */
int fold_checkpoint_fits(const fold_checkpoint *checkpoint, const fold_span lists[FOLD_CHECKPOINT_LISTS]);

/* Fills the lists from the state that was found. */
void fold_checkpoint_restore(const fold_checkpoint *checkpoint, const fold_span lists[FOLD_CHECKPOINT_LISTS]);

#endif
