/* r1cs/solver_impl.h - runs the program of a constraint system: from inputs to all wires and the vectors a, b, c.
 *
 * Slices run one after another, the components of a slice in parallel; then the rows that only check, in chunks. Expressions are
 * evaluated in their short forms (r1cs/constraint_system.h) as 512-bit sums of products with one reduction at the end. Values
 * that are needed again within a few rows are cached.
 */
#ifndef G16_R1CS_SOLVER_IMPL_H
#define G16_R1CS_SOLVER_IMPL_H

#include "base/status.h"
#include "base/thread_pool.h"
#include "field/fr.h"
#include "r1cs/constraint_system.h"

#define WITNESS_SOLVER_CHECKS_PER_TASK 512
#define WITNESS_SOLVER_POLL_EVERY 4096
#define WITNESS_SOLVER_NO_FAILURE UINT64_MAX
/* floor(2^512 / r^2): this many products fit the accumulator together with 256 bits of rest. */
#define WITNESS_SOLVER_PRODUCTS 27
/* floor(2^314 / r), for an approximate division by r. */
#define WITNESS_SOLVER_RECIPROCAL 0x15291d18988e8129ull

_Static_assert((CS_CACHED_EXPRESSIONS & (CS_CACHED_EXPRESSIONS - 1)) == 0, "slots are the low bits of a number");

typedef struct witness_solver_job {
    const constraint_system *cs;
    fr *wires, *a, *b, *c; /* c may be NULL */
    const g16_cancel *cancel;
    const uint32_t *program, *component_start; /* of the system, or of chains */
    uint32_t first_component;                  /* of the current slice */
    uint64_t first_failure; /* level << 32 | row of the failing row to report; atomic */
} witness_solver_job;

/* Cached values of expressions, by the low bits of their number. A value is cached only when all its wires are known, so it never
 * changes. */
typedef struct witness_solver_cache {
    uint32_t number[CS_CACHED_EXPRESSIONS]; /* expression + 1, 0 for an empty slot */
    fr value[CS_CACHED_EXPRESSIONS];
} witness_solver_cache;

/* ---- sums of products ------------------------------------------------------------------------- */

/* A sum of products: 64-bit limbs, and carries k5 to k7 into limbs 5 to 7, which are added at the end. Separate variables, so
 * that the compiler keeps them in registers. */
typedef struct witness_solver_low {
    uint64_t l0, l1, l2, l3, l4, l5, l6, l7, k5, k6, k7;
} witness_solver_low;

/* The part of the sum with weight 2^256. */
typedef struct witness_solver_plain {
    uint64_t p0, p1, p2, p3, p4;
} witness_solver_plain;

/* (l0 .. l4) += a * b; k += the carry. */
static inline __attribute__((always_inline)) void witness_solver_multiply(uint64_t *l0, uint64_t *l1, uint64_t *l2,
                                                                          uint64_t *l3, uint64_t *l4, uint64_t *k,
                                                                          const fr *a, uint64_t b) {
#ifdef MONT256_ADX
    uint64_t t;
    /* Low halves run on the carry chain, high halves on the overflow chain. */
    __asm__("xorl %%eax, %%eax\n\t"
            "mulx 0(%[a]), %%rax, %[t]\n\t"
            "adcx %%rax, %[l0]\n\t"
            "adox %[t], %[l1]\n\t"
            "mulx 8(%[a]), %%rax, %[t]\n\t"
            "adcx %%rax, %[l1]\n\t"
            "adox %[t], %[l2]\n\t"
            "mulx 16(%[a]), %%rax, %[t]\n\t"
            "adcx %%rax, %[l2]\n\t"
            "adox %[t], %[l3]\n\t"
            "mulx 24(%[a]), %%rax, %[t]\n\t"
            "adcx %%rax, %[l3]\n\t"
            "adox %[t], %[l4]\n\t"
            "movl $0, %%eax\n\t"
            "adcx %%rax, %[l4]\n\t"
            "adox %%rax, %[k]\n\t"
            "adcx %%rax, %[k]\n\t"
            : [l0] "+&r"(*l0), [l1] "+&r"(*l1), [l2] "+&r"(*l2), [l3] "+&r"(*l3), [l4] "+&r"(*l4), [k] "+&r"(*k),
              [t] "=&r"(t)
            : [a] "r"(a), "d"(b), "m"(*a)
            : "rax", "cc");
#else
    mont256_wide w = (mont256_wide)a->v[0] * b + *l0;
    *l0 = (uint64_t)w;
    w = (mont256_wide)a->v[1] * b + *l1 + (uint64_t)(w >> 64);
    *l1 = (uint64_t)w;
    w = (mont256_wide)a->v[2] * b + *l2 + (uint64_t)(w >> 64);
    *l2 = (uint64_t)w;
    w = (mont256_wide)a->v[3] * b + *l3 + (uint64_t)(w >> 64);
    *l3 = (uint64_t)w;
    w = (w >> 64) + *l4;
    *l4 = (uint64_t)w;
    *k += (uint64_t)(w >> 64);
#endif
}

/* low += a * b. The sum stays below 2^512, so limb 7 has no carry. */
static inline __attribute__((always_inline)) void witness_solver_accumulate(witness_solver_low *low, const fr *a,
                                                                            const fr *b) {
    uint64_t none = 0;
    witness_solver_multiply(&low->l0, &low->l1, &low->l2, &low->l3, &low->l4, &low->k5, a, b->v[0]);
    witness_solver_multiply(&low->l1, &low->l2, &low->l3, &low->l4, &low->l5, &low->k6, a, b->v[1]);
    witness_solver_multiply(&low->l2, &low->l3, &low->l4, &low->l5, &low->l6, &low->k7, a, b->v[2]);
    witness_solver_multiply(&low->l3, &low->l4, &low->l5, &low->l6, &low->l7, &none, a, b->v[3]);
    MONT256_INVARIANT(none == 0);
}

static inline __attribute__((always_inline)) void witness_solver_add_plain(witness_solver_plain *plain, uint64_t v0,
                                                                           uint64_t v1, uint64_t v2, uint64_t v3) {
    uint64_t carry = 0;
    plain->p0 = mont256_add_carry(plain->p0, v0, &carry);
    plain->p1 = mont256_add_carry(plain->p1, v1, &carry);
    plain->p2 = mont256_add_carry(plain->p2, v2, &carry);
    plain->p3 = mont256_add_carry(plain->p3, v3, &carry);
    plain->p4 += carry;
}

/* Moves the upper half of low to plain, which makes room for more products. */
static inline __attribute__((always_inline)) void witness_solver_fold(witness_solver_plain *plain,
                                                                      witness_solver_low *low) {
    uint64_t carry = 0;
    uint64_t l5 = mont256_add_carry(low->l5, low->k5, &carry);
    uint64_t l6 = mont256_add_carry(low->l6, low->k6, &carry);
    uint64_t l7 = mont256_add_carry(low->l7, low->k7, &carry);
    MONT256_INVARIANT(carry == 0);
    witness_solver_add_plain(plain, low->l4, l5, l6, l7);
    low->l4 = low->l5 = low->l6 = low->l7 = low->k5 = low->k6 = low->k7 = 0;
}

/* plain += coefficient * wire, for the coefficients 0, 1, 2, -1, -2 (numbers 0 to 4) and for the constant wire. */
static void witness_solver_add_simple(witness_solver_plain *plain, const fr *coefficients, const fr *wire, cs_term term) {
    fr value = *wire;
    if (term.coefficient == 0) return;
    if (term.wire == 0) {
        value = coefficients[term.coefficient];
    } else if (term.coefficient != 1) {
        if (term.coefficient > 2) fr_neg(&value, wire);
        if (term.coefficient != 3) fr_double(&value, &value);
    }
    witness_solver_add_plain(plain, value.v[0], value.v[1], value.v[2], value.v[3]);
}

/* r = (low / 2^256 + plain) mod r. The sum must have fewer than 2^32 terms. */
static inline void witness_solver_reduce(fr *r, witness_solver_plain *plain, witness_solver_low *low) {
    witness_solver_fold(plain, low);
    const uint64_t rest[4] = {low->l0, low->l1, low->l2, low->l3};
    uint64_t reduced[4];
    mont256_to_plain(reduced, rest, &FR_MODULUS);
    witness_solver_add_plain(plain, reduced[0], reduced[1], reduced[2], reduced[3]);
    /* Cuts off less than 2^250, a twelfth of r: the quotient is too small by at most one. */
    uint64_t top = plain->p4 << 6 | plain->p3 >> 58;
    uint64_t quotient = (uint64_t)(((mont256_wide)top * WITNESS_SOLVER_RECIPROCAL) >> 64);
    const uint64_t whole[4] = {plain->p0, plain->p1, plain->p2, plain->p3};
    uint64_t carry = 0, borrow = 0;
    for (int i = 0; i < 4; i++) {
        mont256_wide w = (mont256_wide)quotient * FR_MODULUS.p[i] + carry;
        carry = (uint64_t)(w >> 64);
        reduced[i] = mont256_sub_borrow(whole[i], (uint64_t)w, &borrow);
    }
    MONT256_INVARIANT(plain->p4 == carry + borrow);
    mont256_reduce_once(r->v, reduced, &FR_MODULUS);
}

static inline const fr *witness_solver_operand(const witness_solver_job *job, uint32_t wire) {
    const uint32_t wires = job->cs->wires;
    return wire < wires ? &job->wires[wire] : &job->a[wire - wires];
}

static inline void witness_solver_evaluate(fr *r, const witness_solver_job *job, uint32_t expression) {
    const cs_short_forms *forms = &job->cs->short_forms;
    const cs_span span = forms->spans[expression];
    const cs_term *term = forms->terms + span.start, *end = forms->terms + span.end;
    if (end - term == 1 && term->coefficient == 1) {
        *r = *witness_solver_operand(job, term->wire);
        return;
    }
    const fr *coefficients = forms->coefficients;
    witness_solver_low low = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    witness_solver_plain plain = {0, 0, 0, 0, 0};
    unsigned products = 0; /* in low since the last fold */
    for (; term < end; term++) {
        const fr *operand = witness_solver_operand(job, term->wire);
        if (term->coefficient < 5 || term->wire == 0) {
            witness_solver_add_simple(&plain, coefficients, operand, *term);
            continue;
        }
        if (products == WITNESS_SOLVER_PRODUCTS) {
            witness_solver_fold(&plain, &low);
            products = 0;
        }
        products++;
        witness_solver_accumulate(&low, operand, &coefficients[term->coefficient]);
    }
    witness_solver_reduce(r, &plain, &low);
}

/* Returns the value of an expression whose wires are all known; valid until the next call. */
static inline const fr *witness_solver_value(const witness_solver_job *job, witness_solver_cache *cache, uint32_t expression) {
    const cs_short_forms *forms = &job->cs->short_forms;
    const cs_span span = forms->spans[expression];
    const cs_term *term = forms->terms + span.start;
    if (span.end - span.start == 1 && term->coefficient == 1) return witness_solver_operand(job, term->wire);
    uint32_t slot = expression & (CS_CACHED_EXPRESSIONS - 1);
    if (cache->number[slot] != expression + 1) {
        witness_solver_evaluate(&cache->value[slot], job, expression);
        cache->number[slot] = expression + 1;
    }
    return &cache->value[slot];
}

/* ---- instructions ----------------------------------------------------------------------------- */

/* Records the failing row with the lowest level, and of those the lowest number. Rows of that level do not depend on the failed
 * one, so a solver that works level by level reports the same row. */
static inline void witness_solver_fail(witness_solver_job *job, uint32_t number) {
    uint64_t failure = (uint64_t)job->cs->rows[number].level << 32 | number;
    uint64_t known = __atomic_load_n(&job->first_failure, __ATOMIC_RELAXED);
    while (failure < known && !__atomic_compare_exchange_n(&job->first_failure, &known, failure, 0, __ATOMIC_RELAXED,
                                                           __ATOMIC_RELAXED)) {
    }
}

static inline void witness_solver_hint(const witness_solver_job *job, const cs_hint *hint) {
    fr input;
    fr *outputs = job->wires + hint->first_output;
    witness_solver_evaluate(&input, job, hint->input);
    if (hint->kind == CS_HINT_INVERSE_OR_ZERO) {
        fr_inv(outputs, &input);
        return;
    }
    uint64_t limbs[4];
    fr_to_limbs(limbs, &input);
    for (uint32_t i = 0; i < hint->outputs; i++) outputs[i] = limbs[i / 64] >> (i % 64) & 1 ? FR_ONE : FR_ZERO;
}

/* wire = value / coefficient */
static inline void witness_solver_set(const witness_solver_job *job, const cs_row *row, const fr *value) {
    fr *wire = &job->wires[row->solved_wire];
    if (row->solved_coefficient == 1) {
        *wire = *value;
    } else if (row->solved_coefficient == 3) {
        fr_neg(wire, value);
    } else {
        fr inverse;
        fr_inv(&inverse, &job->cs->coefficients[row->solved_coefficient]);
        fr_mul(wire, value, &inverse);
    }
}

/* L * R = O with the unknown wire in one factor: `part` is that factor without the unknown, `other` the other factor. Computes
 * the term of the unknown and the whole factor. Returns 0 when 0 * unknown would have to be non-zero. */
static inline int witness_solver_divide(fr *term, fr *factor, const fr *part, const fr *other, const fr *out) {
    if (fr_is_zero(other)) {
        *term = FR_ZERO;
        *factor = *part;
        return fr_is_zero(out);
    }
    fr inverse;
    fr_inv(&inverse, other);
    fr_mul(factor, out, &inverse);
    fr_sub(term, factor, part);
    return 1;
}

static inline void witness_solver_row(witness_solver_job *job, witness_solver_cache *cache, uint32_t number) {
    const constraint_system *cs = job->cs;
    const cs_row *row = &cs->rows[number];
    fr *left = &job->a[number], *right = &job->b[number], out, term;
    if (row->solves == CS_SOLVES_O) {
        *left = *witness_solver_value(job, cache, row->left);
        *right = row->right == row->left ? *left : *witness_solver_value(job, cache, row->right);
        fr_mul(&out, left, right);
        term = out;
        if (cs->short_forms.spans[row->out].end - cs->short_forms.spans[row->out].start > 1) {
            fr rest;
            job->wires[row->solved_wire] = FR_ZERO; /* excludes the wire from the sum */
            witness_solver_evaluate(&rest, job, row->out);
            fr_sub(&term, &out, &rest);
        }
    } else {
        fr part;
        int unknown_left = row->solves == CS_SOLVES_L;
        fr *factor = unknown_left ? left : right, *other = unknown_left ? right : left;
        job->wires[row->solved_wire] = FR_ZERO;
        witness_solver_evaluate(&part, job, unknown_left ? row->left : row->right);
        *other = *witness_solver_value(job, cache, unknown_left ? row->right : row->left);
        out = *witness_solver_value(job, cache, row->out);
        if (!witness_solver_divide(&term, factor, &part, other, &out)) witness_solver_fail(job, number);
    }
    witness_solver_set(job, row, &term);
    if (job->c) job->c[number] = out;
}

static inline void witness_solver_check(witness_solver_job *job, witness_solver_cache *cache, uint32_t number) {
    const cs_row *row = &job->cs->rows[number];
    fr *left = &job->a[number], *right = &job->b[number], out, product;
    *left = *witness_solver_value(job, cache, row->left);
    *right = row->right == row->left ? *left : *witness_solver_value(job, cache, row->right);
    out = *witness_solver_value(job, cache, row->out);
    fr_mul(&product, left, right);
    if (!fr_equal(&product, &out)) witness_solver_fail(job, number);
    if (job->c) job->c[number] = out;
}

/* ---- tasks ------------------------------------------------------------------------------------ */

static void witness_solver_component_task(void *argument, uint32_t index, uint32_t worker) {
    witness_solver_job *job = argument;
    const constraint_system *cs = job->cs;
    witness_solver_cache cache;
    (void)worker;
    memset(cache.number, 0, sizeof cache.number);
    index += job->first_component;
    for (uint32_t i = job->component_start[index]; i < job->component_start[index + 1]; i++) {
        uint32_t instruction = job->program[i];
        if (instruction & CS_IS_HINT) {
            witness_solver_hint(job, &cs->hints[instruction & ~CS_IS_HINT]);
        } else {
            witness_solver_row(job, &cache, instruction);
        }
        if (i % WITNESS_SOLVER_POLL_EVERY == 0 && g16_is_cancelled(job->cancel)) return;
    }
}

static void witness_solver_check_task(void *argument, uint32_t index, uint32_t worker) {
    witness_solver_job *job = argument;
    const constraint_system *cs = job->cs;
    witness_solver_cache cache;
    (void)worker;
    memset(cache.number, 0, sizeof cache.number);
    uint32_t start = cs->checks_start + index * WITNESS_SOLVER_CHECKS_PER_TASK, end = cs->instructions_count;
    if (end - start > WITNESS_SOLVER_CHECKS_PER_TASK) end = start + WITNESS_SOLVER_CHECKS_PER_TASK;
    for (uint32_t i = start; i < end; i++) witness_solver_check(job, &cache, cs->program[i]);
}

/* Reads the inputs to wires[0 .. public + secret); refuses values that are not canonical. */
static g16_status witness_solver_read_inputs(const constraint_system *cs, fr *wires, const uint8_t *inputs, size_t count,
                                             g16_error *error) {
    size_t expected = (size_t)cs->public_wires - 1 + cs->secret_wires;
    if (count != expected) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "the circuit has %zu inputs, but %zu were given", expected, count);
    }
    wires[0] = FR_ONE;
    for (size_t i = 0; i < count; i++) {
        if (!fr_from_bytes(&wires[1 + i], inputs + 32 * i)) {
            return g16_fail(error, G16_INVALID_ARGUMENT, 0, "input %zu is not below the modulus of the scalar field", i);
        }
    }
    return G16_OK;
}

static g16_status witness_solver_solve(const struct constraint_system *cs, thread_pool *pool, fr *wires, fr *a, fr *b,
                                       fr *c, const uint8_t *inputs, size_t count, const g16_cancel *cancel,
                                       g16_error *error) {
    witness_solver_job job = {cs, wires, a, b, c, cancel, cs->program, cs->component_start, 0, WITNESS_SOLVER_NO_FAILURE};
    g16_status status = witness_solver_read_inputs(cs, wires, inputs, count, error);
    if (status != G16_OK) return status;
    for (uint32_t slice = 0; slice < cs->slices && status == G16_OK; slice++) {
        job.first_component = cs->slice_start[slice];
        status = thread_pool_for(pool, cs->slice_start[slice + 1] - job.first_component, witness_solver_component_task, &job,
                                 cancel);
        if (g16_is_cancelled(cancel)) status = G16_CANCELLED; /* a task may have stopped early */
    }
    if (status == G16_OK) {
        uint32_t checks = cs->instructions_count - cs->checks_start;
        uint32_t tasks = checks / WITNESS_SOLVER_CHECKS_PER_TASK + (checks % WITNESS_SOLVER_CHECKS_PER_TASK != 0);
        status = thread_pool_for(pool, tasks, witness_solver_check_task, &job, cancel);
    }
    if (status != G16_OK) return g16_fail(error, status, 0, "cancelled while solving the witness");
    if (job.first_failure != WITNESS_SOLVER_NO_FAILURE) {
        uint32_t row = (uint32_t)job.first_failure;
        status = g16_fail(error, G16_UNSATISFIED_CONSTRAINT, 0,
                          "constraint system error: constraint #%u is not satisfied", row);
        if (error) error->constraint = row;
    }
    return status;
}

static void witness_solver_to_bytes(uint8_t *out, const fr *values, size_t count) {
    for (size_t i = 0; i < count; i++) fr_to_bytes(out + 32 * i, &values[i]);
}

#endif
