/* merkle/updates.h - checks consecutive replacements of leaves of one Merkle tree of Poseidon, of which only paths are known.
 *
 * The root over the old leaf of each update must be the root that the update before left. Hashes of whole paths would show it; this
 * hashes less. Where a path enters a subtree through which an earlier path went, that path has the values of the subtree's nodes, so
 * the rest is comparisons. The verdict is the same unless somebody knows a collision of the hash.
 * Thread-safe, stateless.
 */
#ifndef SHARED_MERKLE_UPDATES_H
#define SHARED_MERKLE_UPDATES_H

#include "poseidon/poseidon.h"

#define MERKLE_MOST_HEIGHT 64

/* Update i < count replaces the leaf at indices[i], whose siblings from the leaf upwards are `height` elements at siblings + 32 *
 * height * i. Bits of an index beyond the height do not count. */
typedef struct merkle_updates {
    uint32_t height; /* at most MERKLE_MOST_HEIGHT */
    uint32_t count;
    const uint64_t *indices;
    const uint8_t *olds, *news, *siblings, *old_root, *new_root;
} merkle_updates;

/* Returns the number of the first update that does not follow from those before, `count` if only the new root is another one, and
 * count + 1 if all holds. Checks what the updates i with i % parts == part must hash: the results' minimum over all parts is the
 * verdict. Elements are below r. Returns SIZE_MAX without memory. */
size_t merkle_check_updates(const poseidon_backend *backend, const merkle_updates *updates, uint32_t part, uint32_t parts);

#endif
