/* key/key.h - the contents of the handles g16_engine, g16_key and g16_vk. */
#ifndef G16_KEY_KEY_H
#define G16_KEY_KEY_H

#include "base/backend.h"
#include "base/progress.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "base/types.h"
#include "msm/table.h"
#include "r1cs/constraint_system.h"
#include "key/wire_groups.h"

/* A forward-only view of a key file, and what reading it takes. */
typedef struct byte_reader {
    const uint8_t *data;
    size_t size;   /* of the whole file */
    size_t offset; /* next byte */
    thread_pool *pool;
    const g16_cancel *cancel;
    g16_error *error;
    g16_status status; /* G16_OK until an error occurs */
} byte_reader;

struct g16_engine {
    const g16_backend *backend;
    thread_pool *pool;
};

struct g16_vk {
    const g16_backend *backend;
    g16_format_version format_version;
    g1_affine alpha, beta, delta;
    g2_affine beta2, gamma2, delta2;
    uint32_t k_count; /* public wires, including the constant wire */
    g1_affine *k;
    fp12 alpha_beta; /* e(alpha, beta2), including the final exponentiation */
    pairing_lines gamma_lines, delta_lines; /* of gamma2 and delta2 */
};

/* Points of a proving key. A, B1 and B2 contain no points at infinity: entry i belongs to wire a_wires[i], b_wires[i]. */
typedef struct proving_key {
    g1_affine alpha, beta, delta;
    g2_affine beta2, delta2;
    uint32_t a_count, b_count, k_count, z_count;
    uint32_t *a_wires, *b_wires; /* in the order of key/wire_groups.h */
    g1_affine *a, *b1, *k, *z;   /* z in file order: entry j belongs to coefficient bitreverse(j) */
    g2_affine *b2;
    uint32_t domain_log2;
    const fr *twiddles; /* n values for ntt/transform_impl.h: psi^bitrev(i), psi of order 2n; for small domains shared by all keys */
    msm_plan tables; /* of the next three tables, which exist when it has windows */
    const g1_affine *table_a, *table_kz; /* table_kz: K and then Z, of a folded key fold_k and then fold_t */
    const g2_affine *table_b2;
    /* Of a folded key (key/fold_shape.h), which then needs neither k nor z: bases of wires, and of points of the quotient. */
    uint32_t fold_k_count, fold_t_count; /* 0: not folded */
    const uint32_t *fold_wires;          /* in the order of key/wire_groups.h */
    const g1_affine *fold_k, *fold_t;
} proving_key;

static inline int key_is_folded(const proving_key *pk) { return pk->fold_t_count != 0; }

static inline msm_table_counts key_table_counts(const proving_key *pk, uint64_t wires) {
    const uint64_t kz = key_is_folded(pk) ? (uint64_t)pk->fold_k_count + pk->fold_t_count : (uint64_t)pk->k_count + pk->z_count;
    const uint64_t h = key_is_folded(pk) ? pk->fold_t_count : pk->z_count;
    msm_table_counts counts = {pk->a_count, kz, pk->b_count, wires > h ? wires : h};
    return counts;
}

struct g16_key {
    const g16_backend *backend;
    g16_key_info info;
    proving_key pk;
    wire_groups groups; /* of A, B, and K (of a folded key fold_k) */
    constraint_system cs;
    g16_vk vk;
    int is_prepared; /* the arrays are in a mapped file, which outlives the key and is only read */
};

/* Groups the wires of a key by the lists that have a base for them. */
g16_status g16_key_group_wires(g16_key *key, g16_error *error);

/* Reorders A, B1 and B2 to the order of the groups of a folded key. */
g16_status g16_key_order_bases(g16_key *key, g16_error *error);

/* Returns the number of wires for which a folded key has a base of K: private ones, and public ones that occur in C. */
uint32_t g16_key_fold_count(const g16_key *key);
g16_status g16_key_fold_wires(const g16_key *key, uint32_t *wires, g16_error *error);

/* Fills in the members of key->info that follow from key->pk, key->cs and the size of the gnark file. */
void g16_key_fill_info(g16_key *key, uint64_t file_bytes);

#endif
