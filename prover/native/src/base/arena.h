/* base/arena.h - places arrays one after the other in memory that the caller owns, 64-byte aligned.
 *
 * The same sequence of arena_take() calls, first on a measuring arena, gives the size needed. */
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

/* Over memory of any alignment; ARENA_ALIGNMENT - 1 bytes may be lost at the start. */
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
