/* key/order.c - groups the wires of a key, and orders its bases by group (key/wire_groups.h). */
#include <stdlib.h>
#include <string.h>

#include "field/mont256.h"
#include "key/key.h"

static void list_bases(wire_bases lists[WIRE_LISTS], const proving_key *pk) {
    lists[WIRE_LIST_A] = (wire_bases){pk->a_wires, 0, pk->a_count};
    lists[WIRE_LIST_B] = (wire_bases){pk->b_wires, 0, pk->b_count};
}

g16_status g16_key_group_wires(g16_key *key, g16_error *error) {
    const proving_key *pk = &key->pk;
    wire_bases lists[WIRE_LISTS];
    list_bases(lists, pk);
    lists[WIRE_LIST_K] = (wire_bases){NULL, key->cs.public_wires, pk->k_count};
    if (key_is_folded(pk)) lists[WIRE_LIST_K] = (wire_bases){pk->fold_wires, 0, pk->fold_k_count};
    if (wire_groups_make(&key->groups, lists, key->cs.wires)) return G16_OK;
    return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for the groups of wires");
}

/* ---- the order of bases when a key is read ------------------------------------------------------ */

/* Sets occurs[i] to 1 when wire first + i occurs in C, for i < count. */
static void find_products(uint8_t *occurs, const constraint_system *cs, uint32_t first, uint32_t count) {
    memset(occurs, 0, count);
    for (uint32_t row = 0; row < cs->constraints; row++) {
        const uint32_t out = cs->rows[row].out;
        for (uint32_t i = cs->expression_start[out]; i < cs->expression_start[out + 1]; i++) {
            const uint32_t place = cs->terms[i].wire - first;
            if (place < count && !mont256_is_zero(cs->coefficients[cs->terms[i].coefficient].v)) occurs[place] = 1;
        }
    }
}

/* Lists public wires that occur in C, and all private ones, in ascending order. wires: NULL to count only. */
static uint32_t list_fold_wires(const constraint_system *cs, uint32_t *wires) {
    uint8_t occurs[4096];
    uint32_t count = 0;
    for (uint32_t first = 0; first < cs->public_wires; first += sizeof occurs) {
        const uint32_t left = cs->public_wires - first, size = left < sizeof occurs ? left : sizeof occurs;
        find_products(occurs, cs, first, size);
        for (uint32_t i = 0; i < size; i++) {
            if (wires && occurs[i]) wires[count] = first + i;
            count += occurs[i];
        }
    }
    for (uint32_t wire = cs->public_wires; wires && wire < cs->wires; wire++) wires[count + wire - cs->public_wires] = wire;
    return count + cs->wires - cs->public_wires;
}

/* Groups the wires of a key as if it were folded. */
static int group_folded(wire_groups *groups, const g16_key *key) {
    uint32_t *wires = malloc(((size_t)key->cs.wires + 1) * sizeof *wires);
    if (!wires) return 0;
    wire_bases lists[WIRE_LISTS];
    list_bases(lists, &key->pk);
    lists[WIRE_LIST_K] = (wire_bases){wires, 0, list_fold_wires(&key->cs, wires)};
    const int made = wire_groups_make(groups, lists, key->cs.wires);
    free(wires);
    return made;
}

/* Moves data[from[i]] to data[i] for elements of `size` bytes. moved: one byte per element. */
static void permute(void *data, size_t size, const uint32_t *from, uint8_t *moved, uint32_t count) {
    uint8_t *const bytes = data, first[sizeof(g2_affine)];
    memset(moved, 0, count);
    for (uint32_t start = 0; start < count; start++) {
        if (moved[start] || from[start] == start) continue;
        memcpy(first, bytes + start * size, size);
        uint32_t at = start;
        for (; from[at] != start; at = from[at]) {
            memcpy(bytes + at * size, bytes + from[at] * size, size);
            moved[at] = 1;
        }
        memcpy(bytes + at * size, first, size);
        moved[at] = 1;
    }
}

/* from[i] = index of the base of a list that moves to index i. */
static void list_moves(uint32_t *from, const wire_groups *groups, wire_list list) {
    for (uint32_t r = 0, place = 0; r < groups->runs_count[list]; r++) {
        const wire_run *run = &groups->runs[list][r];
        for (uint32_t p = wire_run_start(groups, run); p < wire_run_end(groups, run); p++) {
            from[place++] = groups->places[list] ? groups->places[list][p] : p + run->place;
        }
    }
}

g16_status g16_key_order_bases(g16_key *key, g16_error *error) {
    proving_key *pk = &key->pk;
    wire_groups groups;
    if (!group_folded(&groups, key)) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for the order of the bases");
    uint32_t *from = malloc(((size_t)key->cs.wires + 1) * sizeof *from);
    uint8_t *moved = malloc((size_t)key->cs.wires + 1);
    if (from && moved) {
        list_moves(from, &groups, WIRE_LIST_A);
        permute(pk->a_wires, sizeof *pk->a_wires, from, moved, pk->a_count);
        permute(pk->a, sizeof *pk->a, from, moved, pk->a_count);
        list_moves(from, &groups, WIRE_LIST_B);
        permute(pk->b_wires, sizeof *pk->b_wires, from, moved, pk->b_count);
        permute(pk->b1, sizeof *pk->b1, from, moved, pk->b_count);
        permute(pk->b2, sizeof *pk->b2, from, moved, pk->b_count);
    }
    const int done = from && moved;
    free(from);
    free(moved);
    wire_groups_free(&groups);
    return done ? G16_OK : g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for the order of the bases");
}

uint32_t g16_key_fold_count(const g16_key *key) { return list_fold_wires(&key->cs, NULL); }

g16_status g16_key_fold_wires(const g16_key *key, uint32_t *wires, g16_error *error) {
    wire_groups groups;
    if (!group_folded(&groups, key)) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for the wires of a folded key");
    for (uint32_t r = 0; r < groups.runs_count[WIRE_LIST_K]; r++) {
        const wire_run *run = &groups.runs[WIRE_LIST_K][r];
        const uint32_t start = wire_run_start(&groups, run), positions = wire_run_end(&groups, run) - start;
        memcpy(wires, groups.wires + start, positions * sizeof *wires);
        wires += positions;
    }
    wire_groups_free(&groups);
    return G16_OK;
}
