/* wire_groups.h - the wires of a key, grouped by which of A, B and K have a base of them.
 *
 * The three lists have bases of nearly the same wires. Digits are sorted by bucket once for all of them, group after group
 * (msm_sort_impl.h), and of a bucket's entries a list takes those of its groups. The groups stand in an order in which each list is at
 * most two runs: {B K} {A B K} {A K} {K} {B} {A B} {A}. The last three are public wires: K has no base of them unless it is folded.
 */
#ifndef G16_WIRE_GROUPS_H
#define G16_WIRE_GROUPS_H

#include <stdint.h>

#define WIRE_GROUPS_MAX 7
#define WIRE_RUNS_MAX 2

typedef enum wire_list { WIRE_LIST_A, WIRE_LIST_B, WIRE_LIST_K, WIRE_LISTS } wire_list;

/* The bases of a list: that of wire wires[i], or first + i where wires is NULL, at place i. Wires ascend. */
typedef struct wire_bases {
    const uint32_t *wires;
    uint32_t first, count;
} wire_bases;

/* Groups [first, end). */
typedef struct wire_run {
    uint32_t first, end;
} wire_run;

typedef struct wire_groups {
    uint32_t count;                 /* of groups, none of them empty */
    uint32_t ends[WIRE_GROUPS_MAX]; /* group g is wires[ends[g - 1] .. ends[g]), ascending */
    uint32_t *wires;                /* those of some list; the start of the memory of all arrays */
    uint32_t *places[WIRE_LISTS];   /* place of a wire's base in a list, 0 where there is none */
    uint32_t runs_count[WIRE_LISTS];
    wire_run runs[WIRE_LISTS][WIRE_RUNS_MAX];
} wire_groups;

static inline uint32_t wire_groups_wires(const wire_groups *groups) { return groups->count ? groups->ends[groups->count - 1] : 0; }

static inline uint64_t wire_groups_bytes(uint32_t wires) { return (uint64_t)(1 + WIRE_LISTS) * wires * sizeof(uint32_t); }

/* Groups `wires` wires, all numbers in `lists` below that. Returns 0 where there is no memory. */
int wire_groups_make(wire_groups *groups, const wire_bases lists[WIRE_LISTS], uint32_t wires);

void wire_groups_free(wire_groups *groups);

#endif
