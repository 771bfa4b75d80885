/* groth16/setup_impl.h - the trusted setup of a constraint system; included by backend.c.
 *
 * With Lagrange basis L_i over the domain (row i belongs to omega^i) and secrets tau, alpha, beta, gamma, delta:
 *   A_w = sum over rows of (coefficient of w on the left) * L_i(tau), B_w and C_w likewise,
 *   K_w = (beta A_w + alpha B_w + C_w) / delta, or / gamma for public wires,
 *   Z_j = tau^rev(j) (tau^n - 1) / delta.
 * Everything is computed as scalars first and then multiplied with the generators. Scalars are wiped.
 */
#ifndef G16_GROTH16_SETUP_IMPL_H
#define G16_GROTH16_SETUP_IMPL_H

#include "base/random.h"
#include "curve/pairing_impl.h"
#include "msm/sums_impl.h"
#include "ntt/transform_impl.h"
#include "key/points_impl.h"
#include "groth16/setup.h"

#define SETUP_CHUNK 4096

typedef struct setup_run {
    const struct g16_setup *setup;
    fr secrets[SETUP_SECRETS];
    fr *lagrange;      /* n */
    fr *columns[3];    /* A, B, C: one value per wire */
    fr *list;          /* scalars of the list that is multiplied next */
    fr factor;         /* of all scalars of the list */
    fr inverse;        /* 1/delta, later 1/gamma */
    uint32_t *progress;
    const g16_cancel *cancel;
} setup_run;

/* Reports progress in thousandths. */
static void setup_report(setup_run *run, uint32_t permille) {
    if (run->progress) __atomic_store_n(run->progress, permille, __ATOMIC_RELAXED);
}

static uint32_t setup_chunks(size_t count) { return (uint32_t)((count + SETUP_CHUNK - 1) / SETUP_CHUNK); }

/* Computes lagrange[i] = omega^i (tau^n - 1) / (n (tau - omega^i)) for one chunk; tau is not in the domain. */
static void setup_lagrange_chunk(void *argument, uint32_t chunk, uint32_t worker) {
    setup_run *run = argument;
    const uint32_t log2 = run->setup->domain_log2;
    const size_t n = (size_t)1 << log2, first = (size_t)chunk * SETUP_CHUNK;
    const size_t count = first + SETUP_CHUNK < n ? SETUP_CHUNK : n - first;
    fr *out = run->lagrange + first, omega, power;
    struct {
        fr difference, product, inverse, factor, prefixes[SETUP_CHUNK];
    } secret;
    const uint64_t exponent[4] = {first, 0, 0, 0};
    (void)worker;
    ntt_root(&omega, log2);
    fr_pow(&power, &omega, exponent);
    secret.product = FR_ONE;
    for (size_t i = 0; i < count; i++) {
        out[i] = power;
        fr_sub(&secret.difference, &run->secrets[SETUP_TAU], &power);
        secret.prefixes[i] = secret.product;
        fr_mul(&secret.product, &secret.product, &secret.difference);
        fr_mul(&power, &power, &omega);
    }
    secret.factor = run->secrets[SETUP_TAU];
    for (uint32_t i = 0; i < log2; i++) fr_sqr(&secret.factor, &secret.factor);
    fr_sub(&secret.factor, &secret.factor, &FR_ONE);
    fr_from_u64(&secret.inverse, n);
    fr_inv(&secret.inverse, &secret.inverse);
    fr_mul(&secret.factor, &secret.factor, &secret.inverse);
    fr_inv(&secret.product, &secret.product);
    for (size_t i = count; i-- > 0;) {
        fr_sub(&secret.difference, &run->secrets[SETUP_TAU], &out[i]);
        fr_mul(&secret.inverse, &secret.product, &secret.prefixes[i]);
        fr_mul(&secret.product, &secret.product, &secret.difference);
        fr_mul(&secret.inverse, &secret.inverse, &secret.factor);
        fr_mul(&out[i], &out[i], &secret.inverse);
    }
    os_random_wipe(&secret, sizeof secret);
}

/* Sums the columns of one side. Most coefficients are one. */
static void setup_column(void *argument, uint32_t side, uint32_t worker) {
    setup_run *run = argument;
    const constraint_system *cs = &run->setup->cs;
    fr *column = run->columns[side], product;
    (void)worker;
    for (uint32_t i = 0; i < cs->constraints; i++) {
        if (i % SETUP_CHUNK == 0 && g16_is_cancelled(run->cancel)) break;
        const cs_row *row = &cs->rows[i];
        const uint32_t expression = side == 0 ? row->left : side == 1 ? row->right : row->out;
        const fr *value = &run->lagrange[i];
        for (uint32_t t = cs->expression_start[expression]; t < cs->expression_start[expression + 1]; t++) {
            const cs_term term = cs->terms[t];
            if (term.coefficient == 0) continue;
            product = *value;
            if (term.coefficient != 1) fr_mul(&product, &product, &cs->coefficients[term.coefficient]);
            fr_add(&column[term.wire], &column[term.wire], &product);
        }
    }
    os_random_wipe(&product, sizeof product);
}

/* list[i] = (beta a + alpha b + c) * factor of wire first + i, for i in [start, end) */
static void setup_k_values(const setup_run *run, uint32_t first, uint32_t start, uint32_t end, const fr *factor) {
    fr t;
    for (uint32_t i = start; i < end; i++) {
        fr *r = &run->list[i];
        fr_mul(r, &run->secrets[SETUP_BETA], &run->columns[0][first + i]);
        fr_mul(&t, &run->secrets[SETUP_ALPHA], &run->columns[1][first + i]);
        fr_add(r, r, &t);
        fr_add(r, r, &run->columns[2][first + i]);
        fr_mul(r, r, factor);
    }
    os_random_wipe(&t, sizeof t);
}

/* ---- the file ----------------------------------------------------------------- */

static uint8_t *setup_put_u32(uint8_t *out, uint32_t value) {
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(value >> (24 - 8 * i));
    return out + 4;
}

static uint8_t *setup_put_u64(uint8_t *out, uint64_t value) {
    return setup_put_u32(setup_put_u32(out, (uint32_t)(value >> 32)), (uint32_t)value);
}

static void setup_write_head(const setup_run *run, uint8_t *file) {
    const struct g16_setup *s = run->setup;
    uint8_t *out = file;
    for (uint32_t i = 0; i < s->header_words; i++) out = setup_put_u32(out, s->header[i]);
    fr scalars[5];
    key_domain_scalars(scalars, s->domain_log2);
    out = setup_put_u64(out, (uint64_t)1 << s->domain_log2);
    for (int i = 0; i < 5; i++, out += 32) fr_to_bytes(out, &scalars[i]);
    *out = 1; /* the reader computes its tables */
    setup_put_u32(file + s->a_at, s->a_count);
    setup_put_u32(file + s->b_at, s->b_count);
    setup_put_u32(file + s->z_at, setup_z_count(s));
    setup_put_u32(file + s->k_at, setup_private_wires(s));
    setup_put_u32(file + s->b2_at, s->b_count);
    out = setup_put_u64(file + s->maps_at, s->cs.wires);
    out = setup_put_u64(out, s->cs.wires - s->a_count);
    out = setup_put_u64(out, s->cs.wires - s->b_count);
    for (uint32_t i = 0; i < s->cs.wires; i++) *out++ = !s->in_a[i];
    for (uint32_t i = 0; i < s->cs.wires; i++) *out++ = !s->in_b[i];
    setup_put_u32(out, 0);
    memcpy(file + s->system_at, s->system, s->system_bytes);
}

/* Writes the single points: [alpha] [beta] [delta] in G1, [beta] [delta] in G2, and the verifying key without its K. */
static void setup_write_singles(const setup_run *run, uint8_t *file) {
    static const int in_g1[3] = {SETUP_ALPHA, SETUP_BETA, SETUP_DELTA};
    static const int in_g2[3] = {SETUP_BETA, SETUP_GAMMA, SETUP_DELTA};
    const struct g16_setup *s = run->setup;
    uint8_t g1[3][G1_COMPRESSED_BYTES], g2[3][G2_COMPRESSED_BYTES], *vk = file + s->vk_at;
    for (int i = 0; i < 3; i++) {
        uint64_t limbs[4];
        g1_xyzz p;
        g2_xyzz q;
        g1_affine p_affine;
        g2_affine q_affine;
        fr_to_limbs(limbs, &run->secrets[in_g1[i]]);
        g1_xyzz_mul_var(&p, &G1_GENERATOR, limbs);
        g1_xyzz_to_affine(&p_affine, &p);
        g1_encode_compressed(g1[i], &p_affine);
        fr_to_limbs(limbs, &run->secrets[in_g2[i]]);
        g2_xyzz_mul_var(&q, &G2_GENERATOR, limbs);
        g2_xyzz_to_affine(&q_affine, &q);
        g2_encode_compressed(g2[i], &q_affine);
        os_random_wipe(limbs, sizeof limbs);
        os_random_wipe(&p, sizeof p); /* the projective coordinates depend on the scalar's bits */
        os_random_wipe(&q, sizeof q);
    }
    memcpy(file + s->singles_at, g1, sizeof g1);
    memcpy(file + s->singles2_at, g2[0], sizeof g2[0]);
    memcpy(file + s->singles2_at + sizeof g2[0], g2[2], sizeof g2[2]);
    /* alpha1 beta1 beta2 gamma2 delta1 delta2 */
    memcpy(vk, g1, 2 * sizeof g1[0]), vk += 2 * sizeof g1[0];
    memcpy(vk, g2, 2 * sizeof g2[0]), vk += 2 * sizeof g2[0];
    memcpy(vk, g1[2], sizeof g1[2]), vk += sizeof g1[2];
    memcpy(vk, g2[2], sizeof g2[2]), vk += sizeof g2[2];
    vk = setup_put_u32(vk, s->cs.public_wires) + (size_t)s->cs.public_wires * G1_COMPRESSED_BYTES;
    setup_put_u64(vk, 0);
}

/* Copies the marked entries of a column to run->list. */
static uint32_t setup_squeeze(setup_run *run, const fr *column, const uint8_t *marks) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < run->setup->cs.wires; i++) {
        if (marks[i]) run->list[count++] = column[i];
    }
    return count;
}

static void setup_k_chunk(void *argument, uint32_t chunk, uint32_t worker) {
    setup_run *run = argument;
    const uint32_t private_wires = setup_private_wires(run->setup), start = chunk * SETUP_CHUNK;
    const uint32_t end = private_wires - start < SETUP_CHUNK ? private_wires : start + SETUP_CHUNK;
    (void)worker;
    setup_k_values(run, run->setup->cs.public_wires, start, end, &run->factor);
}

/* Computes powers of tau times the factor in bit-reversed order: list[j] = factor * tau^rev(j), for the j of one chunk. */
static void setup_z_chunk(void *argument, uint32_t chunk, uint32_t worker) {
    setup_run *run = argument;
    const uint32_t log2 = run->setup->domain_log2;
    const size_t first = (size_t)chunk * SETUP_CHUNK;
    fr *list = run->list + first, powers[FR_TWO_ADICITY], step = run->secrets[SETUP_TAU];
    (void)worker;
    for (uint32_t i = log2; i-- > 0;) { /* powers[s] = tau^(n / 2^(s+1)), for bit s of j */
        powers[i] = step;
        fr_sqr(&step, &step);
    }
    list[0] = run->factor;
    for (uint32_t bit = 0; bit < log2; bit++) {
        if (first >> bit & 1) fr_mul(&list[0], &list[0], &powers[bit]);
    }
    for (uint32_t bit = 0; bit < log2 && (size_t)1 << bit < SETUP_CHUNK; bit++) {
        for (size_t i = 0; i < (size_t)1 << bit; i++) fr_mul(&list[((size_t)1 << bit) + i], &list[i], &powers[bit]);
    }
    os_random_wipe(powers, sizeof powers);
    os_random_wipe(&step, sizeof step);
}

typedef struct setup_bases {
    g1_fixed_base g1;
    g2_fixed_base g2;
    uint8_t *worker_memory;
    size_t worker_bytes;
} setup_bases;

static g16_status setup_write_points(setup_run *run, const setup_bases *bases, thread_pool *pool, uint8_t *file,
                                     g16_error *error) {
    const struct g16_setup *s = run->setup;
    const uint32_t public_wires = s->cs.public_wires, private_wires = setup_private_wires(s);
    uint32_t zeros = 0, count;
    g16_status status;
#define WRITE(group, at, n)                                                                                                   \
    group##_fixed_base_write(&bases->group, file + (at), run->list, n, bases->worker_memory, bases->worker_bytes, pool, &zeros, \
                             run->cancel)
    count = setup_squeeze(run, run->columns[0], s->in_a);
    if ((status = WRITE(g1, s->a_at + 4, count)) != G16_OK) return status;
    setup_report(run, 350);
    count = setup_squeeze(run, run->columns[1], s->in_b);
    if ((status = WRITE(g1, s->b_at + 4, count)) != G16_OK) return status;
    setup_report(run, 450);
    if ((status = WRITE(g2, s->b2_at + 4, count)) != G16_OK) return status;
    setup_report(run, 700);
    fr_inv(&run->inverse, &run->secrets[SETUP_DELTA]);
    run->factor = run->inverse;
    if ((status = thread_pool_for(pool, setup_chunks(private_wires), setup_k_chunk, run, run->cancel)) != G16_OK) return status;
    if ((status = WRITE(g1, s->k_at + 4, private_wires)) != G16_OK) return status;
    setup_report(run, 850);
    run->factor = run->secrets[SETUP_TAU];
    for (uint32_t i = 0; i < s->domain_log2; i++) fr_sqr(&run->factor, &run->factor);
    fr_sub(&run->factor, &run->factor, &FR_ONE);
    fr_mul(&run->factor, &run->factor, &run->inverse);
    const uint32_t z_chunks = setup_chunks((size_t)1 << s->domain_log2);
    if ((status = thread_pool_for(pool, z_chunks, setup_z_chunk, run, run->cancel)) != G16_OK) return status;
    if ((status = WRITE(g1, s->z_at + 4, setup_z_count(s))) != G16_OK) return status;
    fr_inv(&run->inverse, &run->secrets[SETUP_GAMMA]);
    setup_k_values(run, 0, 0, public_wires, &run->inverse);
    const size_t k_at = s->vk_at + 3 * G1_COMPRESSED_BYTES + 3 * G2_COMPRESSED_BYTES + 4;
    status = WRITE(g1, k_at, public_wires);
#undef WRITE
    if (status == G16_OK && zeros) {
        return g16_fail(error, G16_UNSUPPORTED_KEY, 0, "%u wires take part in no constraint", zeros);
    }
    setup_report(run, 1000);
    return status;
}

static g16_status setup_scalars(setup_run *run, thread_pool *pool) {
    const size_t n = (size_t)1 << run->setup->domain_log2;
    g16_status status = thread_pool_for(pool, setup_chunks(n), setup_lagrange_chunk, run, run->cancel);
    setup_report(run, 50);
    if (status == G16_OK) status = thread_pool_for(pool, 3, setup_column, run, run->cancel);
    if (g16_is_cancelled(run->cancel)) status = G16_CANCELLED; /* a column may be incomplete */
    setup_report(run, 200);
    return status;
}

static g16_status setup_bases_create(setup_bases *bases, const struct g16_setup *s, thread_pool *pool, const g16_cancel *cancel) {
    const size_t g1_count = (size_t)s->a_count + s->b_count + s->cs.wires + setup_z_count(s);
    bases->worker_bytes = g1_fixed_base_worker_bytes();
    if (bases->worker_bytes < g2_fixed_base_worker_bytes()) bases->worker_bytes = g2_fixed_base_worker_bytes();
    bases->worker_memory = malloc(bases->worker_bytes * thread_pool_threads(pool));
    if (!bases->worker_memory) return G16_OUT_OF_MEMORY;
    g16_status status = g1_fixed_base_create(&bases->g1, &G1_GENERATOR, g1_count, pool, cancel);
    if (status == G16_OK) status = g2_fixed_base_create(&bases->g2, &G2_GENERATOR, s->b_count, pool, cancel);
    return status;
}

/* The memory of workers has digits of secret scalars, as addresses in the tables. */
static void setup_bases_release(setup_bases *bases, const thread_pool *pool) {
    if (bases->worker_memory) os_random_wipe(bases->worker_memory, bases->worker_bytes * thread_pool_threads(pool));
    free(bases->worker_memory);
    free(bases->g1.table);
    free(bases->g2.table);
}

/* Reads tau, alpha, beta, gamma, delta: canonical big-endian bytes, none zero. */
static g16_status setup_read_secrets(setup_run *run, const uint8_t *secrets, g16_error *error) {
    for (int i = 0; i < SETUP_SECRETS; i++) {
        if (!fr_from_bytes(&run->secrets[i], secrets + 32 * i) || fr_is_zero(&run->secrets[i])) {
            return g16_fail(error, G16_INVALID_ARGUMENT, 0, "secret %d of the setup is zero or not below r", i);
        }
    }
    fr on_domain = run->secrets[SETUP_TAU];
    for (uint32_t i = 0; i < run->setup->domain_log2; i++) fr_sqr(&on_domain, &on_domain);
    const int is_inside = fr_equal(&on_domain, &FR_ONE);
    os_random_wipe(&on_domain, sizeof on_domain);
    return is_inside ? g16_fail(error, G16_INVALID_ARGUMENT, 0, "tau is in the domain") : G16_OK;
}

static g16_status setup_write(setup_run *run, thread_pool *pool, uint8_t *file, g16_error *error) {
    const struct g16_setup *s = run->setup;
    const size_t n = (size_t)1 << s->domain_log2, wires = s->cs.wires;
    const size_t list = n > wires ? n : wires, values = n + 3 * wires + list;
    setup_bases bases;
    memset(&bases, 0, sizeof bases);
    fr *memory = calloc(values, sizeof *memory);
    if (!memory) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "the setup needs %zu bytes", values * sizeof *memory);
    run->lagrange = memory;
    for (int i = 0; i < 3; i++) run->columns[i] = memory + n + (size_t)i * wires;
    run->list = memory + n + 3 * wires;

    setup_write_head(run, file);
    setup_write_singles(run, file);
    g16_status status = setup_scalars(run, pool);
    if (status == G16_OK) status = setup_bases_create(&bases, s, pool, run->cancel);
    if (status == G16_OK) status = setup_write_points(run, &bases, pool, file, error);
    if (status == G16_CANCELLED) g16_fail(error, status, 0, "the setup was cancelled");
    if (status == G16_OUT_OF_MEMORY) g16_fail(error, status, 0, "no memory for the tables of the setup");
    os_random_wipe(memory, values * sizeof *memory);
    free(memory);
    setup_bases_release(&bases, pool);
    return status;
}

/* Writes a key file. secrets: see setup_read_secrets. */
static g16_status groth16_setup(const struct g16_setup *s, thread_pool *pool, uint8_t *file, const uint8_t *secrets,
                                uint32_t *progress, const g16_cancel *cancel, g16_error *error) {
    setup_run run = {.setup = s, .progress = progress, .cancel = cancel};
    g16_status status = setup_read_secrets(&run, secrets, error);
    if (status == G16_OK) status = setup_write(&run, pool, file, error);
    os_random_wipe(&run, sizeof run);
    return status;
}

#endif
