/* key/wire_groups.c - see key/wire_groups.h. */
#include "key/wire_groups.h"

#include <stdlib.h>
#include <string.h>

#define OF(list) (1u << WIRE_LIST_##list)
#define SUBSETS (1u << WIRE_LISTS)

static const uint8_t order[WIRE_GROUPS_MAX] = {OF(B) | OF(K), OF(A) | OF(B) | OF(K), OF(A) | OF(K), OF(K), OF(B), OF(A) | OF(B), OF(A)};

static uint32_t wire_of(const wire_bases *bases, uint32_t place) { return bases->wires ? bases->wires[place] : bases->first + place; }

/* Determines the groups and the wires of their positions. lists_of: one byte per wire, zero on entry; receives a bit per list. */
static void find_groups(wire_groups *groups, uint8_t *lists_of_group, uint8_t *lists_of, const wire_bases lists[WIRE_LISTS],
                        uint32_t wires) {
    uint32_t counts[SUBSETS] = {0}, next[SUBSETS], used = 0;
    for (uint32_t list = 0; list < WIRE_LISTS; list++) {
        for (uint32_t i = 0; i < lists[list].count; i++) lists_of[wire_of(&lists[list], i)] |= (uint8_t)(1u << list);
    }
    for (uint32_t i = 0; i < wires; i++) counts[lists_of[i]]++;
    for (uint32_t g = 0; g < WIRE_GROUPS_MAX; g++) {
        const uint8_t of = order[g];
        next[of] = used;
        used += counts[of];
        if (counts[of] == 0) continue;
        lists_of_group[groups->count] = of;
        groups->ends[groups->count++] = used;
    }
    for (uint32_t list = 0; list < WIRE_LISTS; list++) {
        for (uint32_t i = 0; i < lists[list].count; i++) {
            const uint32_t wire = wire_of(&lists[list], i);
            const uint8_t of = lists_of[wire], before = (uint8_t)((1u << list) - 1);
            if (!(of & before)) groups->wires[next[of]++] = wire;
        }
    }
}

static void find_runs(wire_groups *groups, const uint8_t *lists_of_group, uint32_t list) {
    for (uint32_t g = 0; g < groups->count; g++) {
        if (!(lists_of_group[g] >> list & 1)) continue;
        wire_run *run = &groups->runs[list][groups->runs_count[list]];
        if (g > 0 && lists_of_group[g - 1] >> list & 1) {
            run[-1].end = g + 1;
        } else {
            *run = (wire_run){g, g + 1, 0};
            groups->runs_count[list]++;
        }
    }
}

/* Determines the indices of a list's bases, and drops them when they follow from positions. place_of: scratch memory, one entry
 * per wire. */
static int find_places(wire_groups *groups, uint32_t list, const wire_bases *bases, uint32_t *place_of) {
    const uint32_t positions = wire_groups_positions(groups);
    uint32_t *places = calloc((size_t)positions + 1, sizeof *places);
    int follow = 1;
    if (!places) return 0;
    for (uint32_t i = 0; i < bases->count; i++) place_of[wire_of(bases, i)] = i;
    for (uint32_t r = 0; r < groups->runs_count[list]; r++) {
        wire_run *run = &groups->runs[list][r];
        const uint32_t start = wire_run_start(groups, run), end = wire_run_end(groups, run);
        for (uint32_t p = start; p < end; p++) places[p] = place_of[groups->wires[p]];
        run->place = places[start] - start;
        for (uint32_t p = start; p < end; p++) follow &= places[p] == p + run->place;
    }
    if (follow) {
        free(places);
        places = NULL;
    }
    groups->places[list] = places;
    return 1;
}

int wire_groups_make(wire_groups *groups, const wire_bases lists[WIRE_LISTS], uint32_t wires) {
    memset(groups, 0, sizeof *groups);
    groups->wires = malloc(((size_t)wires + 1) * sizeof *groups->wires);
    uint32_t *place_of = malloc(((size_t)wires + 1) * sizeof *place_of);
    uint8_t *lists_of = calloc((size_t)wires + 1, 1), lists_of_group[WIRE_GROUPS_MAX];
    int made = groups->wires && place_of && lists_of;
    if (made) find_groups(groups, lists_of_group, lists_of, lists, wires);
    for (uint32_t list = 0; made && list < WIRE_LISTS; list++) {
        find_runs(groups, lists_of_group, list);
        made = find_places(groups, list, &lists[list], place_of);
    }
    free(place_of);
    free(lists_of);
    if (!made) wire_groups_free(groups);
    return made;
}

uint64_t wire_groups_bytes(const wire_groups *groups) {
    const uint64_t bytes = wire_groups_positions(groups) * (uint64_t)sizeof *groups->wires;
    uint64_t arrays = 1;
    for (uint32_t list = 0; list < WIRE_LISTS; list++) arrays += groups->places[list] != NULL;
    return arrays * bytes;
}

void wire_groups_free(wire_groups *groups) {
    free(groups->wires);
    for (uint32_t list = 0; list < WIRE_LISTS; list++) free(groups->places[list]);
    memset(groups, 0, sizeof *groups);
}
