#include "merkle/updates.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NODE = 32 };
/* Paths that one thread hashes at the same time: the SIMD lanes of a hash. */
#define GROUP 8
#define NONE UINT32_MAX

/* The node of a climb at some level must have a value. Its failure is one of update `blamed`. */
typedef struct {
    const uint8_t *value;
    uint32_t blamed, next; /* next: of the same climb, or NONE */
    uint8_t level;
} expectation;

/* Hashing from the old or the new leaf of an update upwards to some level. */
typedef struct {
    uint32_t first; /* expectation, or NONE */
    uint8_t levels;
} climb;

/* A node of the tree that updates went through; 0 is the root and no child. */
typedef struct {
    uint32_t child[2], latest; /* latest: the last update that went through it */
} visited;

struct merkle_check {
    merkle_updates updates;
    climb *climbs; /* of the old leaves, then of the new ones */
    expectation *expectations;
    uint32_t *order; /* climbs with expectations, the highest first */
    uint32_t expected, room, ordered;
    uint32_t begun;       /* climbs that a thread has begun; atomic */
    size_t first_failure; /* atomic */
};

static const uint8_t *sibling(const merkle_updates *all, uint32_t update, uint32_t level) {
    return all->siblings[update % all->lists] + NODE * ((size_t)all->height * (update / all->lists) + level);
}

static uint32_t side(const merkle_updates *all, uint32_t update, uint32_t level) {
    return level < 64 ? all->indices[update] >> level & 1 : 0;
}

static void fail(merkle_check *check, size_t update) {
    size_t first = __atomic_load_n(&check->first_failure, __ATOMIC_RELAXED);
    while (update < first &&
           !__atomic_compare_exchange_n(&check->first_failure, &first, update, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static bool expect(merkle_check *check, uint32_t number, uint32_t level, uint32_t blamed, const uint8_t *value) {
    if (check->expected == check->room) {
        const uint32_t room = check->room ? 2 * check->room : 1024;
        expectation *list = realloc(check->expectations, room * sizeof *list);
        if (!list) return false;
        check->expectations = list;
        check->room = room;
    }
    climb *own = &check->climbs[number];
    check->expectations[check->expected] = (expectation){value, blamed, own->first, (uint8_t)level};
    own->first = check->expected++;
    if (level > own->levels) own->levels = (uint8_t)level;
    return true;
}

static bool expect_old(merkle_check *check, uint32_t update, uint32_t level, const uint8_t *value) {
    return expect(check, update, level, update, value);
}

static bool expect_new(merkle_check *check, uint32_t update, uint32_t level, uint32_t blamed, const uint8_t *value) {
    return expect(check, check->updates.count + update, level, blamed, value);
}

/* Compares the siblings of an update with the paths before it, from the root downwards; adds what must be hashed. nodes: those visited
 * so far, whose number is *used. */
static bool follow(merkle_check *check, uint32_t update, visited *nodes, uint32_t *used) {
    const merkle_updates *all = &check->updates;
    uint32_t node = 0, latest = update ? nodes[0].latest : NONE;
    nodes[0].latest = update;
    if (update == 0 && !expect_old(check, 0, all->height, all->old_root)) return false;
    for (uint32_t level = all->height; level-- > 0;) {
        uint32_t *next = &nodes[node].child[side(all, update, level)];
        const uint32_t before = *next ? nodes[*next].latest : NONE;
        if (latest != NONE) {
            const uint8_t *own = sibling(all, update, level), *other = sibling(all, latest, level);
            if (before == latest) {
                if (memcmp(own, other, NODE) != 0) fail(check, update);
            } else {
                if (!expect_new(check, latest, level, update, own)) return false;
                if (before == NONE && !expect_old(check, update, level, other)) return false;
                latest = before;
            }
        }
        if (!*next) *next = (*used)++;
        node = *next;
        nodes[node].latest = update;
    }
    /* The leaf itself was written before. */
    if (latest != NONE && memcmp(all->olds + NODE * (size_t)update, all->news + NODE * (size_t)latest, NODE) != 0) fail(check, update);
    return true;
}

static bool follow_all(merkle_check *check) {
    const merkle_updates *all = &check->updates;
    visited *nodes = calloc((size_t)all->count * all->height + 1, sizeof *nodes);
    uint32_t used = 1;
    bool ok = nodes != NULL;
    for (uint32_t i = 0; ok && i < all->count; i++) ok = follow(check, i, nodes, &used);
    free(nodes);
    return ok && expect_new(check, all->count - 1, all->height, all->count, all->new_root);
}

static void order_climbs(merkle_check *check) {
    for (uint32_t levels = MERKLE_MOST_HEIGHT + 1; levels-- > 0;) {
        for (uint32_t i = 0; i < 2 * check->updates.count; i++) {
            const climb *each = &check->climbs[i];
            if (each->first != NONE && each->levels == levels) check->order[check->ordered++] = i;
        }
    }
}

merkle_check *merkle_check_create(const merkle_updates *updates) {
    merkle_check *check = calloc(1, sizeof *check);
    if (!check) return NULL;
    check->updates = *updates;
    check->first_failure = (size_t)updates->count + 1;
    check->climbs = malloc(2 * (size_t)updates->count * sizeof *check->climbs);
    check->order = malloc(2 * (size_t)updates->count * sizeof *check->order);
    bool ok = check->climbs && check->order;
    for (uint32_t i = 0; ok && i < 2 * updates->count; i++) check->climbs[i] = (climb){NONE, 0};
    if (!ok || !follow_all(check)) {
        merkle_check_destroy(check);
        return NULL;
    }
    order_climbs(check);
    return check;
}

static void compare(merkle_check *check, const climb *each, uint32_t level, const uint8_t *node) {
    for (uint32_t i = each->first; i != NONE; i = check->expectations[i].next) {
        const expectation *expected = &check->expectations[i];
        if (expected->level == level && memcmp(node, expected->value, NODE) != 0) fail(check, expected->blamed);
    }
}

/* Hashes from at most GROUP leaves upwards, and compares at each level. */
static void climb_together(merkle_check *check, const poseidon_backend *backend, const uint32_t *numbers, uint32_t count) {
    const merkle_updates *all = &check->updates;
    uint8_t nodes[GROUP * NODE], pairs[GROUP * 2 * NODE];
    uint32_t active[GROUP], left = count;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t number = active[i] = numbers[i];
        const uint8_t *leaf = number < all->count ? all->olds + NODE * (size_t)number : all->news + NODE * (size_t)(number - all->count);
        memcpy(nodes + NODE * i, leaf, NODE);
    }
    for (uint32_t level = 0; left; level++) {
        uint32_t going = 0;
        for (uint32_t i = 0; i < left; i++) {
            const climb *each = &check->climbs[active[i]];
            const uint32_t update = active[i] % all->count;
            compare(check, each, level, nodes + NODE * i);
            if (each->levels <= level) continue;
            const uint32_t right = side(all, update, level);
            memcpy(pairs + NODE * (2 * going + right), nodes + NODE * i, NODE);
            memcpy(pairs + NODE * (2 * going + !right), sibling(all, update, level), NODE);
            active[going++] = active[i];
        }
        left = going;
        backend->hash_many(nodes, pairs, 2, left);
    }
}

void merkle_check_run(merkle_check *check, const poseidon_backend *backend) {
    for (;;) {
        const uint32_t first = __atomic_fetch_add(&check->begun, GROUP, __ATOMIC_RELAXED);
        if (first >= check->ordered) return;
        const uint32_t left = check->ordered - first;
        climb_together(check, backend, check->order + first, left < GROUP ? left : GROUP);
    }
}

size_t merkle_check_verdict(const merkle_check *check) {
    return check->first_failure;
}

void merkle_check_destroy(merkle_check *check) {
    free(check->climbs);
    free(check->expectations);
    free(check->order);
    free(check);
}
