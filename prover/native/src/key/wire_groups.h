/* key/wire_groups.h - the wires of a key, grouped by the subset of the lists A, B and K that have a base for them.
 *
 * The three lists have bases for nearly the same wires. Entries are sorted by bucket once for all lists, group by group
 * (msm/sort_impl.h), and a list uses the entries of its groups. The order of the groups makes each list at most two runs of
 * groups: {B K} {A B K} {A K} {K} {B} {A B} {A}. The last three contain public wires, for which K has a base only when it is
 * folded. Keys store the bases of A, B and a folded K in this order as well (key/order.c), so that indices follow from positions.
 */
#ifndef G16_KEY_WIRE_GROUPS_H
#define G16_KEY_WIRE_GROUPS_H

#include <stdint.h>

#define WIRE_GROUPS_MAX 7
#define WIRE_RUNS_MAX 2

typedef enum wire_list { WIRE_LIST_A, WIRE_LIST_B, WIRE_LIST_K, WIRE_LISTS } wire_list;

/* The bases of a list: base i belongs to wire wires[i], or to first + i when wires is NULL. Wires are distinct. */
typedef struct wire_bases {
    const uint32_t *wires;
    uint32_t first, count;
} wire_bases;

/* Groups [first, end) of a list. When its `places` are NULL, the base of position p has index p + place modulo 2^32. */
typedef struct wire_run {
    uint32_t first, end, place;
} wire_run;

typedef struct wire_groups {
    uint32_t count;                 /* number of groups, all non-empty */
    uint32_t ends[WIRE_GROUPS_MAX]; /* group g has positions ends[g - 1] .. ends[g] - 1 */
    uint32_t *wires;                /* by position; wires that belong to some list */
    uint32_t *places[WIRE_LISTS];   /* index of the base of a position; NULL when the runs determine it */
    uint32_t runs_count[WIRE_LISTS];
    wire_run runs[WIRE_LISTS][WIRE_RUNS_MAX];
} wire_groups;

static inline uint32_t wire_groups_positions(const wire_groups *groups) {
    return groups->count ? groups->ends[groups->count - 1] : 0;
}

/* Returns the first position of a run. */
static inline uint32_t wire_run_start(const wire_groups *groups, const wire_run *run) {
    return run->first ? groups->ends[run->first - 1] : 0;
}

static inline uint32_t wire_run_end(const wire_groups *groups, const wire_run *run) { return groups->ends[run->end - 1]; }

uint64_t wire_groups_bytes(const wire_groups *groups);

/* Groups `wires` wires; all numbers in `lists` are below that. Within a group wires keep the order of A, or of the first list
 * that has them. Returns 0 when out of memory. */
int wire_groups_make(wire_groups *groups, const wire_bases lists[WIRE_LISTS], uint32_t wires);

void wire_groups_free(wire_groups *groups);

#endif
