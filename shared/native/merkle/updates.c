#include "merkle/updates.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NODE = 32 };

/* The node of update `path` at some level must have a value. Its failure is one of update `blamed`. */
typedef struct {
    uint32_t path, blamed;
    const uint8_t *value;
} expectation;

typedef struct {
    expectation *list;
    size_t count, room;
} expectations;

typedef struct {
    const merkle_updates *updates;
    expectations olds[MERKLE_MOST_HEIGHT + 1], news[MERKLE_MOST_HEIGHT + 1]; /* by level */
    uint32_t *old_levels, *new_levels;
    size_t first_failure;
} plan;

static const uint8_t *sibling(const merkle_updates *all, uint32_t update, uint32_t level) {
    return all->siblings + NODE * ((size_t)all->height * update + level);
}

static uint64_t node_index(const merkle_updates *all, uint32_t update, uint32_t level) {
    const uint64_t inside = all->height < 64 ? (UINT64_C(1) << all->height) - 1 : UINT64_MAX;
    return level < 64 ? (all->indices[update] & inside) >> level : 0;
}

static bool expect(expectations *all, uint32_t path, uint32_t blamed, const uint8_t *value) {
    if (all->count == all->room) {
        const size_t room = all->room ? 2 * all->room : 64;
        expectation *list = realloc(all->list, room * sizeof *list);
        if (!list) return false;
        all->list = list;
        all->room = room;
    }
    all->list[all->count++] = (expectation){path, blamed, value};
    return true;
}

static void fail(plan *p, size_t update) {
    if (update < p->first_failure) p->first_failure = update;
}

static bool expect_old(plan *p, uint32_t update, uint32_t level, const uint8_t *value) {
    p->old_levels[update] = level;
    return expect(&p->olds[level], update, update, value);
}

static bool expect_new(plan *p, uint32_t update, uint32_t level, uint32_t blamed, const uint8_t *value) {
    if (level > p->new_levels[update]) p->new_levels[update] = level;
    return expect(&p->news[level], update, blamed, value);
}

/* Compares the siblings of an update with the paths before it, from the root downwards; adds what must be hashed. */
static bool follow(plan *p, uint32_t update) {
    const merkle_updates *all = p->updates;
    if (update == 0) return expect_old(p, 0, all->height, all->old_root);
    uint32_t latest = update - 1; /* the last update before that went through the present node */
    for (uint32_t level = all->height; level-- > 0;) {
        const uint8_t *own = sibling(all, update, level), *other = sibling(all, latest, level);
        if (node_index(all, update, level) == node_index(all, latest, level)) {
            if (memcmp(own, other, NODE) != 0) fail(p, update);
            continue;
        }
        if (!expect_new(p, latest, level, update, own)) return false;
        uint32_t before = latest;
        while (before > 0 && node_index(all, before - 1, level) != node_index(all, update, level)) before--;
        if (before == 0) return expect_old(p, update, level, other);
        latest = before - 1;
    }
    /* The leaf itself was written before. */
    if (memcmp(all->olds + NODE * (size_t)update, all->news + NODE * (size_t)latest, NODE) != 0) fail(p, update);
    return true;
}

static void compare(plan *p, const expectations *expected, const uint8_t *nodes, const uint32_t *slot) {
    for (size_t i = 0; i < expected->count; i++) {
        const expectation *each = &expected->list[i];
        if (slot[each->path] == UINT32_MAX) continue; /* another part checks it */
        if (memcmp(nodes + NODE * (size_t)slot[each->path], each->value, NODE) != 0) fail(p, each->blamed);
    }
}

/* Hashes upwards from the leaves of this part, all paths at once, and compares at each level. */
static bool climb_all(plan *p, const poseidon_backend *backend, const uint8_t *leaves, const uint32_t *levels,
                      const expectations *expected, uint32_t part, uint32_t parts) {
    const merkle_updates *all = p->updates;
    const size_t count = all->count;
    uint8_t *nodes = malloc(count * NODE), *pairs = malloc(count * 2 * NODE);
    uint32_t *slot = malloc(count * sizeof *slot), *active = malloc(count * sizeof *active);
    const bool has_memory = nodes && pairs && slot && active;
    size_t left = 0;
    for (uint32_t i = 0; has_memory && i < count; i++) {
        slot[i] = UINT32_MAX;
        if (i % parts != part) continue;
        slot[i] = (uint32_t)left;
        memcpy(nodes + NODE * left, leaves + NODE * (size_t)i, NODE);
        active[left++] = i;
    }
    for (uint32_t level = 0; has_memory && left; level++) {
        compare(p, &expected[level], nodes, slot);
        size_t going = 0;
        for (size_t i = 0; i < left; i++) {
            const uint32_t update = active[i];
            slot[update] = UINT32_MAX;
            if (levels[update] <= level) continue;
            const bool is_right = node_index(all, update, level) & 1;
            memcpy(pairs + NODE * (2 * going + is_right), nodes + NODE * i, NODE);
            memcpy(pairs + NODE * (2 * going + !is_right), sibling(all, update, level), NODE);
            slot[update] = (uint32_t)going;
            active[going++] = update;
        }
        left = going;
        backend->hash_many(nodes, pairs, 2, left);
    }
    free(nodes);
    free(pairs);
    free(slot);
    free(active);
    return has_memory;
}

size_t merkle_check_updates(const poseidon_backend *backend, const merkle_updates *updates, uint32_t part, uint32_t parts) {
    const uint32_t count = updates->count;
    plan p = {.updates = updates, .first_failure = (size_t)count + 1};
    p.old_levels = calloc(count, sizeof *p.old_levels);
    p.new_levels = calloc(count, sizeof *p.new_levels);
    bool ok = p.old_levels && p.new_levels;
    for (uint32_t i = 0; ok && i < count; i++) ok = follow(&p, i);
    ok = ok && expect_new(&p, count - 1, updates->height, count, updates->new_root);
    ok = ok && climb_all(&p, backend, updates->olds, p.old_levels, p.olds, part, parts);
    ok = ok && climb_all(&p, backend, updates->news, p.new_levels, p.news, part, parts);
    for (uint32_t level = 0; level <= MERKLE_MOST_HEIGHT; level++) {
        free(p.olds[level].list);
        free(p.news[level].list);
    }
    free(p.old_levels);
    free(p.new_levels);
    return ok ? p.first_failure : SIZE_MAX;
}
