/* fold/bases_impl.h - computes the bases of a folded key from K and Z of a proving key; included by backend.c.
 *
 * The identities and names are those of docs/explanation/folded-keys.md: P the padding points of the domain, S the points where
 * the quotient is evaluated (key/fold_shape.h), V the polynomial that vanishes on P, L the linear map with L(X^k) = Z_k for k < n
 * - 1. Points are affine with R = 2^256 until the end. Sums over n points are transforms like those of ntt/transform_impl.h, with
 * the same table of roots. They need n / 2 * log2 n multiplications of points, which is nearly all of the time.
 */
#ifndef G16_FOLD_BASES_IMPL_H
#define G16_FOLD_BASES_IMPL_H

#include "fold/transform_impl.h"

/* ---- other steps ------------------------------------------------------------------ */

static void fold_step_scale(fold_job *job, size_t first, uint32_t count) {
    fold_scale(job->points + first, job->factors + first, count);
}

/* points[i] *= factors[i] */
static void fold_scale_list(fold_job *job, g1_affine *points, size_t count) {
    fold_run(job, fold_step_scale, points, count);
}

/* other[k] = points[k + shift] - other[k] */
static void fold_step_subtract(fold_job *job, size_t first, uint32_t count) {
    fold_add_lists(NULL, job->other + first, job->points + first + job->shift, job->other + first, count);
}

/* points[k] += other[k] */
static void fold_step_add(fold_job *job, size_t first, uint32_t count) {
    fold_add_lists(job->points + first, NULL, job->points + first, job->other + first, count);
}

/* other[k] = points[k + shift] - factor points[k] */
static void fold_divide(fold_job *job, g1_affine *other, g1_affine *points, fr factor, size_t shift, size_t count) {
    fold_copy(job, other, points, count);
    for (size_t k = 0; k < count && fold_continues(job, k); k++) job->factors[k] = factor;
    fold_scale_list(job, other, count);
    job->other = other;
    job->shift = shift;
    fold_run_light(job, fold_step_subtract, points, count);
}

/* sums[k] += factors[k] points[k]; changes points. */
static void fold_accumulate(fold_job *job, g1_affine *points) {
    fold_scale_list(job, points, job->n);
    job->other = points;
    fold_run_light(job, fold_step_add, job->sums, job->n);
}

/* ---- numbers ------------------------------------------------------------------------ */

static void fold_invert(fold_job *job, fr *values, size_t count) {
    fr *scratch = job->scratch, product = FR_ONE, t;
    for (size_t i = 0; i < count && fold_continues(job, i); i++) {
        scratch[i] = product;
        fr_mul(&product, &product, &values[i]);
    }
    fr_inv(&product, &product);
    for (size_t i = count; i-- > 0 && fold_continues(job, i);) {
        t = values[i];
        fr_mul(&values[i], &product, &scratch[i]);
        fr_mul(&product, &product, &t);
    }
}

/* values[i] = V(s omega^i) for i < count, where s is psi (odd), or 1 and count at most m. With d = n - m,
 * V(omega x) = omega^d V(x) (x - omega^(m-1)) / (x - omega^(n-1)). */
static void fold_vanishing(fold_job *job, int odd, size_t count) {
    const size_t n = job->n, m = job->key->cs.constraints;
    const fr step = fold_psi(job, 2 * (n - m)), above = fold_psi(job, 2 * (n - 1)), below = fold_psi(job, 2 * (m - 1));
    const fr start = odd ? fold_psi(job, 1) : FR_ONE;
    fr *values = job->vanishing, t, root;
    for (size_t i = 0; i + 1 < count && fold_continues(job, i); i++) {
        root = fold_psi(job, 2 * i + (odd ? 1 : 0));
        fr_sub(&values[i + 1], &root, &above);
    }
    values[0] = FR_ONE;
    fold_invert(job, values, count);
    for (size_t j = m; j < n && fold_continues(job, j); j++) {
        root = fold_psi(job, 2 * j);
        fr_sub(&t, &start, &root);
        fr_mul(&values[0], &values[0], &t);
    }
    for (size_t i = 0; i + 1 < count && fold_continues(job, i); i++) {
        root = fold_psi(job, 2 * i + (odd ? 1 : 0));
        fr_sub(&t, &root, &below);
        fr_mul(&t, &t, &step);
        fr_mul(&t, &t, &values[i]);
        fr_mul(&values[i + 1], &values[i + 1], &t);
    }
}

/* Returns 1 / (divisor n). */
static fr fold_fraction(const fold_job *job, uint64_t divisor) {
    fr r;
    fr_from_u64(&r, divisor * job->n);
    fr_inv(&r, &r);
    return r;
}

/* ---- T ------------------------------------------------------------------------------- */

/* work = L(V X^k) by k, in natural order; zero from k = m - 1 on, where no quotient has coefficients. */
static void fold_strip(fold_job *job) {
    const uint32_t log2 = job->key->pk.domain_log2;
    const size_t n = job->n, m = job->key->cs.constraints;
    const fr scale = fold_fraction(job, 1);
    job->live = (fold_live){.work = n};
    fold_copy(job, job->work, job->z, n);
    fold_forward(job, job->work, log2);
    fold_vanishing(job, 0, m);
    for (size_t t = 0; t < n && fold_continues(job, t); t++) {
        const size_t i = (n - t) & (n - 1);
        if (i < m) {
            fr_mul(&job->factors[t], &job->vanishing[i], &scale);
        } else {
            job->factors[t] = FR_ZERO;
        }
    }
    fold_scale_list(job, job->work, n);
    fold_inverse(job, job->work, log2);
    fold_reverse(job, job->work, log2);
    memset(job->work + m - 1, 0, (n - m + 1) * sizeof *job->work);
}

/* Returns the factor that maps the interpolation at point t of part `part` to T, before inversion: 1 / (-2 V(x) times the product
 * of x^size - c over the other parts). */
static fr fold_denominator(const fold_job *job, uint32_t part, size_t t) {
    const fold_part *own = &job->shape.parts[part];
    const size_t j = own->residue + t * (job->n >> own->log2);
    fr r;
    fr_double(&r, &job->vanishing[j]);
    fr_neg(&r, &r);
    for (uint32_t i = 0; i < job->shape.parts_count; i++) {
        const fold_part *other = &job->shape.parts[i];
        if (i == part) continue;
        const fr power = fold_psi(job, (uint64_t)(2 * j + 1) << other->log2);
        const fr constant = fold_psi(job, (uint64_t)(2 * other->residue + 1) << other->log2);
        fr difference;
        fr_sub(&difference, &power, &constant);
        fr_mul(&r, &r, &difference);
    }
    return r;
}

/* Records which points the rest of the fold depends on: work, sums, `count` points, the part of the adjacent list that `others`
 * selects, and the first t entries of T. */
static void fold_part_live_points(fold_job *job, const g1_affine *points, size_t count, size_t others, size_t t) {
    const int swapped = points != job->spare;
    job->live = (fold_live){.work = job->shape.points, .sums = job->n, .t = t};
    job->live.spare = swapped ? others : count;
    job->live.second = swapped ? count : others;
}

/* Computes T for one part, and adds the part's share of sum over x of x^k T_x, times (2k + 2 - n) / n^2, to job->sums. */
static void fold_part_points(fold_job *job, uint32_t part) {
    const fold_part *own = &job->shape.parts[part];
    const size_t size = (size_t)1 << own->log2, n = job->n;
    const uint64_t base = 2 * (uint64_t)own->residue + 1;
    size_t length = job->shape.points;
    fold_copy(job, job->spare, job->work, length);
    g1_affine *points = job->spare, *other = job->spare + n;
    for (uint32_t i = 0; i < job->shape.parts_count; i++) {
        const fold_part *factor = &job->shape.parts[i];
        if (i == part) continue;
        const size_t shift = (size_t)1 << factor->log2;
        fold_part_live_points(job, points, length, length - shift, own->first);
        length -= shift;
        fold_divide(job, other, points, fold_psi(job, (2 * (uint64_t)factor->residue + 1) << factor->log2), shift, length);
        g1_affine *const result = other;
        other = points;
        points = result;
    }
    fr scale;
    fr_from_u64(&scale, size);
    fr_inv(&scale, &scale);
    for (size_t k = 0; k < size && fold_continues(job, k); k++) {
        const fr power = fold_psi(job, (2 * n - base) * k);
        fr_mul(&job->factors[k], &power, &scale);
    }
    fold_part_live_points(job, points, size, 0, own->first);
    fold_scale_list(job, points, size);
    fold_inverse(job, points, own->log2);
    for (size_t t = 0; t < size && fold_continues(job, t); t++) job->factors[ntt_reverse_bits(t, own->log2)] = fold_denominator(job, part, t);
    fold_invert(job, job->factors, size);
    fold_scale_list(job, points, size);
    for (size_t t = 0; t < size && fold_continues(job, t); t++) job->t[own->first + t] = points[ntt_reverse_bits(t, own->log2)];
    fold_part_live_points(job, points, size, 0, own->first + size);
    fold_forward(job, points, own->log2);
    fr square = fold_fraction(job, n);
    for (size_t k = 0; k < n && fold_continues(job, k); k++) {
        const fr power = fold_psi(job, base * k);
        fr weight, minus;
        fr_from_u64(&weight, 2 * k + 2);
        fr_from_u64(&minus, n);
        fr_sub(&weight, &weight, &minus);
        fr_mul(&weight, &weight, &square);
        fr_mul(&job->factors[k], &power, &weight);
        other[k] = points[k & (size - 1)];
    }
    fold_part_live_points(job, other, n, 0, own->first + size);
    fold_accumulate(job, other);
}

/* Computes T when S is the whole coset: an inverse transform, and job->sums = Z_k / -2n. */
static void fold_whole(fold_job *job) {
    const uint32_t log2 = job->key->pk.domain_log2;
    const size_t n = job->n;
    fr scale = fold_fraction(job, 2);
    fr_neg(&scale, &scale);
    for (size_t k = 0; k < n && fold_continues(job, k); k++) {
        job->work[k] = job->z[ntt_reverse_bits(k, log2)];
        job->factors[k] = scale;
    }
    job->live = (fold_live){.work = n};
    fold_scale_list(job, job->work, n);
    fold_copy(job, job->sums, job->work, n);
    job->live = (fold_live){.work = n, .sums = n};
    for (size_t k = 0; k < n && fold_continues(job, k); k++) job->factors[k] = fold_psi(job, (2 * n - 1) * (uint64_t)k);
    fold_scale_list(job, job->work, n);
    fold_inverse(job, job->work, log2);
    for (size_t t = 0; t < n && fold_continues(job, t); t++) job->t[t] = job->work[ntt_reverse_bits(t, log2)];
}

static void fold_pruned(fold_job *job) {
    const uint32_t log2 = job->key->pk.domain_log2;
    const size_t n = job->n;
    fold_strip(job);
    fold_vanishing(job, 1, n);
    memset(job->sums, 0, n * sizeof *job->sums);
    for (uint32_t i = 0; i < job->shape.parts_count; i++) fold_part_points(job, i);
    const fr square = fold_fraction(job, n);
    for (size_t k = 0; k < n && fold_continues(job, k); k++) {
        fr weight;
        fr_from_u64(&weight, n - 1 - k);
        fr_neg(&weight, &weight);
        fr_mul(&job->factors[k], &weight, &square);
        job->work[k] = job->z[ntt_reverse_bits(k, log2)];
    }
    job->live = (fold_live){.work = n, .sums = n, .t = job->shape.points};
    fold_accumulate(job, job->work);
}

/* ---- K -------------------------------------------------------------------------------- */

/* The terms of the right-hand sides, row by row. Coefficients other than 1 and -1 use the scaled points in job->work. */
static int fold_unit(const constraint_system *cs, uint32_t coefficient) {
    return fr_equal(&cs->coefficients[coefficient], &FR_ONE) ? 1 : fr_equal(&cs->coefficients[coefficient], &cs->coefficients[3]) ? -1 : 0;
}

static void fold_subtract_rows(fold_job *job, g1_xyzz *sums) {
    const constraint_system *cs = &job->key->cs;
    const uint32_t log2 = job->key->pk.domain_log2;
    size_t waiting = 0, row = 0, done = 0;
    while (done < cs->constraints) { /* as many rows as fit the buffers */
        waiting = 0;
        for (row = done; row < cs->constraints && fold_continues(job, row); row++) {
            const uint32_t out = cs->rows[row].out, first = cs->expression_start[out], end = cs->expression_start[out + 1];
            if (waiting + (end - first) > 2 * job->n) break;
            for (uint32_t i = first; i < end; i++) {
                if (fold_unit(cs, cs->terms[i].coefficient)) continue;
                job->spare[waiting] = job->sums[ntt_reverse_bits(row, log2)];
                job->factors[waiting++] = cs->coefficients[cs->terms[i].coefficient];
            }
        }
        if (job->status != G16_OK) return;
        if (row == done) {
            job->status = G16_UNSUPPORTED_KEY;
            return;
        }
        fold_scale_list(job, job->spare, waiting);
        if (job->status != G16_OK) return;
        waiting = 0;
        for (; done < row && fold_continues(job, done); done++) {
            const uint32_t out = cs->rows[done].out;
            for (uint32_t i = cs->expression_start[out]; i < cs->expression_start[out + 1]; i++) {
                const int unit = fold_unit(cs, cs->terms[i].coefficient);
                g1_affine point = unit ? job->sums[ntt_reverse_bits(done, log2)] : job->spare[waiting++];
                if (unit >= 0) g1_affine_neg(&point, &point);
                g1_xyzz_add_affine(&sums[cs->terms[i].wire], &sums[cs->terms[i].wire], &point);
            }
        }
        if (job->status != G16_OK) return;
    }
}

/* Base i: K of its wire plus the sum of the wire; those of a chunk share an inversion. */
static void fold_step_wires(fold_job *job, size_t first, uint32_t count) {
    const struct g16_key *key = job->key;
    const uint32_t publics = key->cs.public_wires;
    fp prefix[FOLD_CHUNK], product = FP_ONE;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t wire = job->wires[first + i];
        g1_xyzz *sum = &job->wire_sums[wire];
        if (wire >= publics) {
            g1_affine k;
            g1_msm_from_stored(&k, &key->pk.k[wire - publics]);
            g1_xyzz_add_affine(sum, sum, &k);
        }
        if (g1_xyzz_is_infinity(sum)) {
            __atomic_store_n(&job->has_infinity, 1, __ATOMIC_RELAXED);
            return;
        }
        prefix[i] = product;
        fp_mul(&product, &product, &sum->zzz);
    }
    fp_inv(&product, &product);
    for (uint32_t i = count; i-- > 0;) {
        const g1_xyzz *sum = &job->wire_sums[job->wires[first + i]];
        g1_affine *out = &job->points[first + i];
        fp inverse, square;
        fp_mul(&inverse, &product, &prefix[i]); /* 1/Z^3 */
        fp_mul(&product, &product, &sum->zzz);
        fp_mul(&square, &inverse, &sum->zz);    /* 1/Z */
        fp_sqr(&square, &square);
        fp_mul(&out->x, &sum->x, &square);
        fp_mul(&out->y, &sum->y, &inverse);
    }
}

/* Computes K minus the contribution of C, for the given wires. */
static void fold_wires_points(fold_job *job, g1_affine *out, const uint32_t *wires, uint32_t count) {
    job->wires = wires;
    job->wire_sums = calloc(job->key->cs.wires, sizeof *job->wire_sums);
    if (!job->wire_sums) {
        job->status = G16_OUT_OF_MEMORY;
        return;
    }
    fold_subtract_rows(job, job->wire_sums);
    fold_run_light(job, fold_step_wires, out, count);
    if (job->status == G16_OK && job->has_infinity) job->status = G16_UNSUPPORTED_KEY;
    free(job->wire_sums);
}

/* Computes T, and Y in job->sums. */
static void fold_points(fold_job *job) {
    job->runs = 0;
    if (job->shape.points == job->n) {
        fold_whole(job);
    } else {
        fold_pruned(job);
    }
    job->live = (fold_live){.sums = job->n, .t = job->shape.points};
    fold_inverse(job, job->sums, job->key->pk.domain_log2);
}

static void fold_make(fold_job *job, g1_affine *k, const uint32_t *wires, uint32_t count) {
    const proving_key *pk = &job->key->pk;
    for (uint32_t i = 0; i < pk->z_count && fold_continues(job, i); i++) g1_msm_from_stored(&job->z[i], &pk->z[i]);
    memset(&job->z[job->n - 1], 0, sizeof *job->z); /* a quotient has no coefficient of X^(n-1) */
    fold_resume(job);
    fold_points(job);
    if (job->resumed) { /* the recorded run does not exist: the checkpoint is inconsistent */
        job->resumed = NULL;
        fold_points(job);
    }
    job->checkpoint = NULL; /* the sums of wires are not saved, and few of them need products */
    if (job->status == G16_OK) fold_wires_points(job, k, wires, count);
    for (uint32_t i = 0; i < job->shape.points && fold_continues(job, i); i++) {
        if (g1_affine_is_infinity(&job->t[i])) job->status = G16_UNSUPPORTED_KEY;
    }
    if (job->status != G16_OK) return;
    g1_msm_to_stored(k, count);
    g1_msm_to_stored(job->t, job->shape.points);
}

/* See base/backend.h. */
static g16_status groth16_fold(const struct g16_key *key, thread_pool *pool, struct fold_checkpoint *checkpoint, void *k, void *t,
                               const uint32_t *wires, uint32_t count, table_progress *progress, const g16_cancel *cancel) {
    fold_job job = {.key = key, .pool = pool, .cancel = cancel, .progress = progress, .checkpoint = checkpoint, .status = G16_OK};
    job.t = t;
    job.n = (size_t)1 << key->pk.domain_log2;
    job.shape = fold_shape_for(key->cs.constraints, key->pk.domain_log2);
    job.z = malloc(5 * job.n * sizeof *job.z);
    job.factors = malloc(4 * job.n * sizeof *job.factors);
    if (job.z && job.factors) {
        job.work = job.z + job.n;
        job.sums = job.work + job.n;
        job.spare = job.sums + job.n; /* twice n points */
        job.vanishing = job.factors + 2 * job.n;
        job.scratch = job.vanishing + job.n;
        fold_make(&job, k, wires, count);
    } else {
        job.status = G16_OUT_OF_MEMORY;
    }
    free(job.z);
    free(job.factors);
    return job.status;
}

#endif
