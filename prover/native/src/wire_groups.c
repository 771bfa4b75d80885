/* wire_groups.c - see wire_groups.h. */
#include "wire_groups.h"

#include <stdlib.h>
#include <string.h>

#define OF(list) (1u << WIRE_LIST_##list)

static const uint8_t order[WIRE_GROUPS_MAX] = {OF(B) | OF(K), OF(A) | OF(B) | OF(K), OF(A) | OF(K), OF(K), OF(B), OF(A) | OF(B), OF(A)};

/* Notes of each wire which lists have it, and where. */
static void note_lists(wire_groups *groups, uint8_t *lists_of, const wire_bases lists[WIRE_LISTS]) {
    for (int list = 0; list < WIRE_LISTS; list++) {
        const wire_bases *bases = &lists[list];
        for (uint32_t i = 0; i < bases->count; i++) {
            const uint32_t wire = bases->wires ? bases->wires[i] : bases->first + i;
            lists_of[wire] |= (uint8_t)(1u << list);
            groups->places[list][wire] = i;
        }
    }
}

/* Group g has the wires of the lists lists_of_group[g]. */
static void find_runs(wire_groups *groups, const uint8_t *lists_of_group) {
    for (int list = 0; list < WIRE_LISTS; list++) {
        for (uint32_t g = 0; g < groups->count; g++) {
            if (!(lists_of_group[g] >> list & 1)) continue;
            wire_run *run = &groups->runs[list][groups->runs_count[list]];
            if (g > 0 && lists_of_group[g - 1] >> list & 1) {
                run[-1].end = g + 1;
            } else {
                *run = (wire_run){g, g + 1};
                groups->runs_count[list]++;
            }
        }
    }
}

int wire_groups_make(wire_groups *groups, const wire_bases lists[WIRE_LISTS], uint32_t wires) {
    memset(groups, 0, sizeof *groups);
    groups->wires = calloc((size_t)wires + 1, (1 + WIRE_LISTS) * sizeof *groups->wires);
    uint8_t *lists_of = calloc((size_t)wires + 1, 1);
    if (!groups->wires || !lists_of) {
        free(lists_of);
        wire_groups_free(groups);
        return 0;
    }
    for (size_t list = 0; list < WIRE_LISTS; list++) groups->places[list] = groups->wires + (1 + list) * wires;
    note_lists(groups, lists_of, lists);
    uint32_t counts[1 << WIRE_LISTS] = {0}, next[1 << WIRE_LISTS], used = 0;
    uint8_t lists_of_group[WIRE_GROUPS_MAX];
    for (uint32_t i = 0; i < wires; i++) counts[lists_of[i]]++;
    for (int g = 0; g < WIRE_GROUPS_MAX; g++) {
        const uint8_t of = order[g];
        next[of] = used;
        used += counts[of];
        if (counts[of] == 0) continue;
        lists_of_group[groups->count] = of;
        groups->ends[groups->count++] = used;
    }
    for (uint32_t i = 0; i < wires; i++) {
        if (lists_of[i]) groups->wires[next[lists_of[i]]++] = i;
    }
    find_runs(groups, lists_of_group);
    free(lists_of);
    return 1;
}

void wire_groups_free(wire_groups *groups) {
    free(groups->wires);
    memset(groups, 0, sizeof *groups);
}
