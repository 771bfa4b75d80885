/* groth16/prove_impl.h - a Groth16 proof (Groth 2016) with a gnark key; included by backend.c.
 *
 * With wires w:
 *   Ar  = alpha + sum w_i A_i
 *   Bs  = beta  + sum w_i B_i                     (in G2)
 *   Krs = sum_{private} w_i K_i + sum h_j Z_j
 * re-randomised by rho and sigma (docs/explanation/blinding.md):
 *   Ar / rho,   rho (Bs + sigma delta),   Krs + sigma Ar
 *
 * The witness is solved first. One job of tasks computes the rest: digits of w, quotient, digits of h, and a task per
 * multi-scalar multiplication and bucket set. A, B and K share the digits of w and their sort by bucket; K and Z share buckets. With three or more
 * threads the quotient (groth16/quotient_cut_impl.h) and windows (msm_cut_for()) are divided between them; the result does not
 * depend on that.
 * With a folded key (key/fold_shape.h) K covers all wires, and the sum of h_j Z_j is replaced by one over products of A and B at
 * points.
 * With tables of bases (msm/table.h) several windows share a bucket set, and the sums over A, over B in G2, and over K together with Z
 * read the tables instead of the bases.
 */
#ifndef G16_GROTH16_PROVE_IMPL_H
#define G16_GROTH16_PROVE_IMPL_H

#include "ntt/small_roots_impl.h"
#include "r1cs/solver_impl.h"
#include "groth16/prove_tasks_impl.h"

/* Elements per task of the preparation of a key. */
#define PREPARE_CHUNK_LOG2 12
#define PREPARE_CHUNK ((size_t)1 << PREPARE_CHUNK_LOG2)

typedef struct prepare_list {
    g1_affine *g1; /* or */
    g2_affine *g2; /* or, if both are NULL, the roots of unity */
    size_t count;
} prepare_list;

typedef struct prepare_job {
    prepare_list lists[6];
    fr *roots;
} prepare_job;

static size_t prepare_chunks(const prepare_list *list) { return (list->count + PREPARE_CHUNK - 1) / PREPARE_CHUNK; }

static void groth16_prepare_chunk(void *argument, uint32_t index, uint32_t worker) {
    const prepare_job *job = argument;
    const prepare_list *list = job->lists;
    size_t chunk = index;
    (void)worker;
    for (; chunk >= prepare_chunks(list); list++) chunk -= prepare_chunks(list);
    const size_t first = chunk * PREPARE_CHUNK, left = list->count - first, count = left < PREPARE_CHUNK ? left : PREPARE_CHUNK;
    if (list->g1) {
        g1_msm_to_stored(list->g1 + first, count);
    } else if (list->g2) {
        g2_msm_to_stored(list->g2 + first, count);
    } else if (first) {
        ntt_fill_table_part(job->roots, first, count);
    }
}

static g16_status groth16_prepare_key(struct g16_key *key, fr *roots, thread_pool *pool, const g16_cancel *cancel) {
    proving_key *pk = &key->pk;
    const prepare_job job = {{{pk->a, NULL, pk->a_count},
                              {pk->b1, NULL, pk->b_count},
                              {pk->k, NULL, pk->k_count},
                              {pk->z, NULL, pk->z_count},
                              {NULL, pk->b2, pk->b_count},
                              {NULL, NULL, roots ? (size_t)1 << pk->domain_log2 : 0}},
                             roots};
    size_t chunks = 0;
    for (uint32_t i = 0; i < 6; i++) chunks += prepare_chunks(&job.lists[i]);
    pk->twiddles = roots ? roots : small_roots();
    if (roots) ntt_fill_table(roots, PREPARE_CHUNK_LOG2); /* the domain is larger */
    return thread_pool_for(pool, (uint32_t)chunks, groth16_prepare_chunk, (void *)&job, cancel);
}

static size_t groth16_prove_scratch_bytes(const struct g16_key *key, uint32_t threads) {
    prove_state p;
    p.key = key;
    p.plan = prove_plan(key);
    return prove_lay_out(&p, arena_measure(), threads, threads) + ARENA_ALIGNMENT;
}

/* Plans the computation of the quotient for a number of threads, and where it and its digits are stored. */
static void prove_plan_quotient(prove_state *p, uint32_t threads) {
    const uint32_t log2 = p->key->pk.domain_log2;
    p->cut = quotient_cut_for(log2, p->folded, threads);
    p->h = p->folded && p->cut.passes ? p->c : p->a;
    p->h_digits = prove_h_digits(p, p->h_digits);
    if (p->cut.passes && !p->folded) quotient_product_scale(&p->product_scale, log2);
}

/* Proofs of large circuits with equal domains run one after the other: at the same time, the bases of their sums would displace each
 * other from the caches. */
#define PROVE_ALONE_LOG2 19

static uint32_t prove_series(const struct g16_key *key) {
    return key->pk.domain_log2 < PROVE_ALONE_LOG2 ? 0 : key->pk.domain_log2;
}

static g16_status groth16_prove(const struct g16_key *key, thread_pool *pool, uint8_t *proof, uint64_t *stage_ns,
                                const uint8_t *blinding_bytes, const uint8_t *inputs, size_t count, void *scratch,
                                size_t scratch_size, const g16_cancel *cancel, g16_error *error) {
    const uint32_t threads = thread_pool_threads(pool), share = thread_pool_share(pool, prove_series(key));
    fr blinding[2];
    g16_status status = prove_check_scratch(scratch_size, groth16_prove_scratch_bytes(key, threads), error);
    if (status == G16_OK) status = prove_read_blinding(blinding, blinding_bytes, error);
    if (status != G16_OK) return status;
    prove_state p;
    memset(&p, 0, sizeof p);
    p.key = key;
    prove_begin_blinding(&p.blinding, &key->pk, blinding);
    p.cancel = cancel;
    p.stage_ns = stage_ns;
    p.plan = prove_plan(key);
    prove_lay_out(&p, arena_over(scratch), threads, share);
    p.folded = key_is_folded(&key->pk);
    p.shape = fold_shape_for(key->cs.constraints, key->pk.domain_log2);
    prove_plan_quotient(&p, share);
    quotient_unit(p.h_unit, key->pk.domain_log2, p.folded);
    if (stage_ns) memset(stage_ns, 0, G16_STAGE_COUNT * sizeof *stage_ns);

    uint64_t start = prove_now_ns();
    /* a, b and c are not yet padded to the domain. */
    status = witness_solver_solve(&key->cs, pool, p.wires, p.a, p.b, p.folded ? NULL : p.c, inputs, count, cancel, error);
    if (status == G16_OK) {
        prove_add_time(&p, G16_STAGE_WITNESS, start);
        status = thread_pool_run(pool, p.tasks, prove_list_tasks(&p), prove_series(key), cancel);
        if (status == G16_OK) {
            start = prove_now_ns();
            status = prove_encode(&p.blinding, &p.base, proof, error);
            prove_add_time(&p, G16_STAGE_ASSEMBLE, start);
        } else {
            g16_fail(error, status, 0, "the proof was cancelled");
        }
    }
    /* With the sums before blinding, an attacker could test guesses of the witness against the proof. */
    os_random_wipe(p.sums.memory, p.sums.bytes);
    os_random_wipe(&p.base, sizeof p.base);
    os_random_wipe(&p.blinding, sizeof p.blinding);
    os_random_wipe(blinding, sizeof blinding);
    return status;
}

#endif
