/* key/wire_groups.h - the wires of a key, grouped by which of A, B and K have a base of them.
 *
 * The three lists have bases of nearly the same wires. Digits are sorted by bucket once for all of them, group after group
 * (msm/sort_impl.h), and of a bucket's entries a list takes those of its groups. The groups stand in an order in which each list is at
 * most two runs: {B K} {A B K} {A K} {K} {B} {A B} {A}. The last three are public wires: K has a base of those only where it is folded.
 * Keys keep the bases of A, B and a folded K in this order too (key/order.c), so that places follow from positions.
 */
#ifndef G16_KEY_WIRE_GROUPS_H
#define G16_KEY_WIRE_GROUPS_H

#include <stdint.h>

#define WIRE_GROUPS_MAX 7
#define WIRE_RUNS_MAX 2

typedef enum wire_list { WIRE_LIST_A, WIRE_LIST_B, WIRE_LIST_K, WIRE_LISTS } wire_list;

/* The bases of a list: that of wire wires[i], or first + i where wires is NULL, at place i. No wire is there twice. */
typedef struct wire_bases {
    const uint32_t *wires;
    uint32_t first, count;
} wire_bases;

/* Groups [first, end) of a list. Where its `places` are NULL, the base of position p is at place p + place, modulo 2^32. */
typedef struct wire_run {
    uint32_t first, end, place;
} wire_run;

typedef struct wire_groups {
    uint32_t count;                 /* of groups, none of them empty */
    uint32_t ends[WIRE_GROUPS_MAX]; /* group g has positions ends[g - 1] .. ends[g] - 1 */
    uint32_t *wires;                /* of each position; those of some list */
    uint32_t *places[WIRE_LISTS];   /* place of a position's base, or NULL where the runs say it */
    uint32_t runs_count[WIRE_LISTS];
    wire_run runs[WIRE_LISTS][WIRE_RUNS_MAX];
} wire_groups;

static inline uint32_t wire_groups_positions(const wire_groups *groups) {
    return groups->count ? groups->ends[groups->count - 1] : 0;
}

/* Positions of a run. */
static inline uint32_t wire_run_start(const wire_groups *groups, const wire_run *run) {
    return run->first ? groups->ends[run->first - 1] : 0;
}

static inline uint32_t wire_run_end(const wire_groups *groups, const wire_run *run) { return groups->ends[run->end - 1]; }

uint64_t wire_groups_bytes(const wire_groups *groups);

/* Groups `wires` wires, all numbers in `lists` below that. In a group they keep the order of A, or of the first list that has them.
 * Returns 0 where there is no memory. */
int wire_groups_make(wire_groups *groups, const wire_bases lists[WIRE_LISTS], uint32_t wires);

void wire_groups_free(wire_groups *groups);

#endif
