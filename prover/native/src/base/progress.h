/* base/progress.h - progress of a long call. */
#ifndef G16_BASE_PROGRESS_H
#define G16_BASE_PROGRESS_H

#include <stdint.h>

/* Units of work done, and in total. *permille receives the progress in thousandths; NULL: nobody reads it. */
typedef struct table_progress {
    uint32_t *permille;
    uint64_t done, all;
} table_progress;

static inline void table_progress_add(table_progress *progress, uint64_t amount) {
    const uint64_t done = __atomic_add_fetch(&progress->done, amount, __ATOMIC_RELAXED);
    if (progress->permille) __atomic_store_n(progress->permille, (uint32_t)(done < progress->all ? done * 1000 / progress->all : 1000), __ATOMIC_RELAXED);
}

#endif
