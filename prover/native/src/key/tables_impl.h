/* key/tables_impl.h - computes tables of the bases of a proving key in tasks; included by backend.c. */
#ifndef G16_KEY_TABLES_IMPL_H
#define G16_KEY_TABLES_IMPL_H

#include "msm/sums_impl.h"
#include "key/key.h"

/* B in G2; A, K and Z (of a folded key fold_k and fold_t) in G1; each in chunks. */
#define TABLES_LISTS 4

typedef struct tables_job {
    const proving_key *pk;
    const msm_plan *plan;
    g1_affine *a, *kz;
    g2_affine *b2;
    uint32_t first_chunk[TABLES_LISTS + 1];
    table_progress *progress;
} tables_job;

static void tables_counts(uint32_t counts[TABLES_LISTS], const proving_key *pk) {
    counts[0] = pk->b_count;
    counts[1] = pk->a_count;
    counts[2] = key_is_folded(pk) ? pk->fold_k_count : pk->k_count;
    counts[3] = key_is_folded(pk) ? pk->fold_t_count : pk->z_count;
}

static void tables_task(void *argument, uint32_t index, uint32_t worker) {
    const tables_job *job = argument;
    const proving_key *pk = job->pk;
    uint32_t counts[TABLES_LISTS];
    tables_counts(counts, pk);
    const size_t kz_width = (size_t)counts[2] + counts[3];
    const g1_affine *k = key_is_folded(pk) ? pk->fold_k : pk->k, *z = key_is_folded(pk) ? pk->fold_t : pk->z;
    uint32_t list = 0;
    (void)worker;
    while (index >= job->first_chunk[list + 1]) list++;
    const uint32_t first = (index - job->first_chunk[list]) * MSM_TABLE_CHUNK, left = counts[list] - first;
    const uint32_t count = left < MSM_TABLE_CHUNK ? left : MSM_TABLE_CHUNK;
    switch (list) {
    case 0: g2_msm_table_fill(job->b2, job->plan, pk->b2 + first, pk->b_count, first, count); break;
    case 1: g1_msm_table_fill(job->a, job->plan, pk->a + first, pk->a_count, first, count); break;
    case 2: g1_msm_table_fill(job->kz, job->plan, k + first, kz_width, first, count); break;
    default:
        g1_msm_table_fill(job->kz, job->plan, z + first, kz_width, (size_t)counts[2] + first, count);
        break;
    }
    const size_t bytes = (size_t)count * msm_plan_shifts(job->plan) * (list == 0 ? sizeof(g2_affine) : sizeof(g1_affine));
    table_progress_add(job->progress, bytes);
}

static g16_status groth16_fill_tables(const struct g16_key *key, thread_pool *pool, void *const tables[3],
                                      const msm_plan *plan, table_progress *progress, const g16_cancel *cancel) {
    const proving_key *pk = &key->pk;
    uint32_t counts[TABLES_LISTS];
    tables_counts(counts, pk);
    tables_job job = {.pk = pk, .plan = plan, .a = tables[0], .kz = tables[1], .b2 = tables[2], .progress = progress};
    for (uint32_t i = 0; i < TABLES_LISTS; i++) {
        job.first_chunk[i + 1] = job.first_chunk[i] + (counts[i] + MSM_TABLE_CHUNK - 1) / MSM_TABLE_CHUNK;
    }
    return thread_pool_for(pool, job.first_chunk[TABLES_LISTS], tables_task, &job, cancel);
}

#endif
