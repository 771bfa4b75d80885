/* base/arena.h - an arena: lays out arrays one after another in memory of the caller, each aligned to 64 bytes.
 *
 * The same sequence of arena_take() calls on a measuring arena returns the size that is needed. */
#ifndef G16_BASE_ARENA_H
#define G16_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct arena {
    uint8_t *base; /* NULL: only measure */
    size_t used;
} arena;

#define ARENA_ALIGNMENT 64

static inline arena arena_measure(void) {
    arena a = {NULL, 0};
    return a;
}

/* memory: of any alignment; up to ARENA_ALIGNMENT - 1 bytes at its start stay unused. */
static inline arena arena_over(void *memory) {
    uintptr_t start = ((uintptr_t)memory + ARENA_ALIGNMENT - 1) & ~(uintptr_t)(ARENA_ALIGNMENT - 1);
    arena a = {(uint8_t *)start, 0};
    return a;
}

static inline void *arena_take(arena *a, size_t bytes) {
    void *taken = a->base ? a->base + a->used : NULL;
    a->used += (bytes + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
    return taken;
}

#endif
