/* testing_wires.c - a hook for the groups of wires. */
#include "key/wire_groups.h"

/* Groups wires by the lists A, B, K of `counts` wires each. groups[wire]: its group, or -1. places[list * wires + wire]: where a run of
 * the list finds the wire's base, or -1 where none covers it. looked_up: a bit per list whose places do not follow from positions.
 * Returns the number of groups, or -1 without memory, or where a wire has two positions or a list too many runs. */
int32_t t_wire_groups(const uint32_t *const lists[WIRE_LISTS], const uint32_t counts[WIRE_LISTS], uint32_t wires, int32_t *groups,
                      int64_t *places, uint32_t *looked_up) {
    wire_bases bases[WIRE_LISTS];
    wire_groups made;
    *looked_up = 0;
    for (uint32_t list = 0; list < WIRE_LISTS; list++) bases[list] = (wire_bases){lists[list], 0, counts[list]};
    if (!wire_groups_make(&made, bases, wires)) return -1;
    int32_t count = (int32_t)made.count;
    for (uint32_t i = 0; i < wires; i++) groups[i] = -1;
    for (uint32_t i = 0; i < WIRE_LISTS * wires; i++) places[i] = -1;
    for (uint32_t g = 0, p = 0; g < made.count; g++) {
        for (; p < made.ends[g]; p++) {
            if (groups[made.wires[p]] != -1) count = -1;
            groups[made.wires[p]] = (int32_t)g;
        }
    }
    for (uint32_t list = 0; list < WIRE_LISTS; list++) {
        if (made.places[list]) *looked_up |= 1u << list;
        if (made.runs_count[list] > WIRE_RUNS_MAX) count = -1;
        for (uint32_t r = 0; r < made.runs_count[list] && count != -1; r++) {
            const wire_run *run = &made.runs[list][r];
            for (uint32_t p = wire_run_start(&made, run); p < wire_run_end(&made, run); p++) {
                places[list * wires + made.wires[p]] = made.places[list] ? made.places[list][p] : (uint32_t)(p + run->place);
            }
        }
    }
    wire_groups_free(&made);
    return count;
}
