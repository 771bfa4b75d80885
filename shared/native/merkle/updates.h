/* merkle/updates.h - checks consecutive replacements of leaves of one Merkle tree of Poseidon, of which only paths are known.
 *
 * The root over the old leaf of each update must be the root that the update before left. Hashes of whole paths would show it; this
 * hashes less. Where a path enters a subtree through which an earlier path went, that path has the values of the subtree's nodes, so
 * the rest is comparisons. The verdict is the same unless somebody knows a collision of the hash.
 */
#ifndef SHARED_MERKLE_UPDATES_H
#define SHARED_MERKLE_UPDATES_H

#include "poseidon/poseidon.h"

#define MERKLE_MOST_HEIGHT 64

/* Update i < count replaces the leaf at indices[i], whose siblings from the leaf upwards are `height` elements at siblings[i % lists] +
 * 32 * height * (i / lists). Bits of an index beyond the height do not count. Elements are below r. */
typedef struct merkle_updates {
    uint32_t height; /* at most MERKLE_MOST_HEIGHT */
    uint32_t count;  /* at least 1, below 2^24 */
    uint32_t lists;  /* 1 or 2 */
    const uint64_t *indices;
    const uint8_t *olds, *news, *siblings[2], *old_root, *new_root;
} merkle_updates;

/* A check in progress. What it was created with must not change before it is destroyed. */
typedef struct merkle_check merkle_check;

/* Compares what needs no hash, and plans the hashes. Returns NULL without memory. */
merkle_check *merkle_check_create(const merkle_updates *updates);

/* Computes hashes until no other thread leaves any. Several threads may call it at the same time. */
void merkle_check_run(merkle_check *check, const poseidon_backend *backend);

/* After all calls of merkle_check_run() have returned: returns the number of the first update that does not follow from those before,
 * `count` if only the new root is another one, and count + 1 if all holds. */
size_t merkle_check_verdict(const merkle_check *check);

void merkle_check_destroy(merkle_check *check);

#endif
