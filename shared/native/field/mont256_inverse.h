/* field/mont256_inverse.h - modular inversion by division steps (Bernstein and Yang, "Fast constant-time gcd computation and
 * modular inversion", 2019), in the variable-time form: runs of zero bits are skipped.
 *
 * Numbers are signed with five limbs of 62 bits: value = sum limb[i] * 2^(62 i), limbs 0..3 in [0, 2^62), the top limb has the
 * sign. Each round executes 62 steps on the low words, collects them in a 2x2 matrix and applies the matrix to (f, g) exactly and
 * to (d, e) modulo p.
 */
#ifndef SHARED_FIELD_MONT256_INVERSE_H
#define SHARED_FIELD_MONT256_INVERSE_H

#include "field/mont256.h"

#define MONT256_MASK62 (((uint64_t)1 << 62) - 1)

typedef struct mont256_signed62 {
    int64_t v[5];
} mont256_signed62;

typedef struct mont256_matrix {
    int64_t u, v, q, r; /* (f, g) <- (u f + v g, q f + r g) / 2^62 */
} mont256_matrix;

static inline void mont256_to_signed62(mont256_signed62 *r, const uint64_t a[4]) {
    r->v[0] = (int64_t)(a[0] & MONT256_MASK62);
    r->v[1] = (int64_t)((a[0] >> 62 | a[1] << 2) & MONT256_MASK62);
    r->v[2] = (int64_t)((a[1] >> 60 | a[2] << 4) & MONT256_MASK62);
    r->v[3] = (int64_t)((a[2] >> 58 | a[3] << 6) & MONT256_MASK62);
    r->v[4] = (int64_t)(a[3] >> 56);
}

static inline void mont256_from_signed62(uint64_t r[4], const mont256_signed62 *a) {
    const uint64_t v0 = (uint64_t)a->v[0], v1 = (uint64_t)a->v[1], v2 = (uint64_t)a->v[2],
                   v3 = (uint64_t)a->v[3], v4 = (uint64_t)a->v[4];
    r[0] = v0 | v1 << 62;
    r[1] = v1 >> 2 | v2 << 60;
    r[2] = v2 >> 4 | v3 << 58;
    r[3] = v3 >> 6 | v4 << 56;
}

/* Executes 62 division steps on the low words of f (odd) and g; delta = -eta in the notation of the paper. */
static inline int64_t mont256_steps_var(mont256_matrix *m, int64_t eta, uint64_t f, uint64_t g) {
    uint64_t u = 1, v = 0, q = 0, r = 1;
    int left = 62;
    for (;;) {
        /* The sentinel bit limits the count of zeros to the remaining steps. */
        int zeros = __builtin_ctzll(g | (~(uint64_t)0 << left));
        g >>= zeros;
        u <<= zeros;
        v <<= zeros;
        eta -= zeros;
        left -= zeros;
        if (left == 0) break;
        if (eta < 0) {
            uint64_t t;
            eta = -eta;
            t = f, f = g, g = 0 - t;
            t = u, u = q, q = 0 - t;
            t = v, v = r, r = 0 - t;
        }
        /* Adds the multiple of f that clears as many low bits of g as there are steps before a swap: at most eta + 1, at most the
         * remaining steps, and at most five, because x = 3f ^ 2 inverts f mod 32. */
        int limit = eta + 1 > left ? left : (int)(eta + 1);
        if (limit > 5) limit = 5;
        uint64_t w = (0 - g * ((3 * f) ^ 2)) & (~(uint64_t)0 >> (64 - limit));
        g += f * w;
        q += u * w;
        r += v * w;
    }
    m->u = (int64_t)u, m->v = (int64_t)v, m->q = (int64_t)q, m->r = (int64_t)r;
    return eta;
}

static inline void mont256_apply_exact(mont256_signed62 *f, mont256_signed62 *g, const mont256_matrix *m) {
    __int128 cf = (__int128)m->u * f->v[0] + (__int128)m->v * g->v[0];
    __int128 cg = (__int128)m->q * f->v[0] + (__int128)m->r * g->v[0];
    cf >>= 62;
    cg >>= 62;
    for (int i = 1; i < 5; i++) {
        const int64_t fi = f->v[i], gi = g->v[i];
        cf += (__int128)m->u * fi + (__int128)m->v * gi;
        cg += (__int128)m->q * fi + (__int128)m->r * gi;
        f->v[i - 1] = (int64_t)((uint64_t)cf & MONT256_MASK62);
        g->v[i - 1] = (int64_t)((uint64_t)cg & MONT256_MASK62);
        cf >>= 62;
        cg >>= 62;
    }
    f->v[4] = (int64_t)cf;
    g->v[4] = (int64_t)cg;
}

/* The same modulo p, keeping d and e in (-2p, p). inv62 = 1/p mod 2^62. */
static inline void mont256_apply_modular(mont256_signed62 *d, mont256_signed62 *e, const mont256_matrix *m,
                                         const mont256_signed62 *p, uint64_t inv62) {
    const int64_t sign_d = d->v[4] >> 63, sign_e = e->v[4] >> 63;
    /* Multiples of p that make the sums non-negative and their low 62 bits zero. */
    int64_t md = (m->u & sign_d) + (m->v & sign_e);
    int64_t me = (m->q & sign_d) + (m->r & sign_e);
    __int128 cd = (__int128)m->u * d->v[0] + (__int128)m->v * e->v[0];
    __int128 ce = (__int128)m->q * d->v[0] + (__int128)m->r * e->v[0];
    md -= (int64_t)((inv62 * (uint64_t)cd + (uint64_t)md) & MONT256_MASK62);
    me -= (int64_t)((inv62 * (uint64_t)ce + (uint64_t)me) & MONT256_MASK62);
    cd += (__int128)p->v[0] * md;
    ce += (__int128)p->v[0] * me;
    cd >>= 62;
    ce >>= 62;
    for (int i = 1; i < 5; i++) {
        const int64_t di = d->v[i], ei = e->v[i];
        cd += (__int128)m->u * di + (__int128)m->v * ei + (__int128)p->v[i] * md;
        ce += (__int128)m->q * di + (__int128)m->r * ei + (__int128)p->v[i] * me;
        d->v[i - 1] = (int64_t)((uint64_t)cd & MONT256_MASK62);
        e->v[i - 1] = (int64_t)((uint64_t)ce & MONT256_MASK62);
        cd >>= 62;
        ce >>= 62;
    }
    d->v[4] = (int64_t)cd;
    e->v[4] = (int64_t)ce;
}

/* r = d or -d mod p in [0, p), with the sign of f. */
static inline void mont256_normalise(mont256_signed62 *d, int64_t sign_f, const mont256_signed62 *p) {
    for (int pass = 0; pass < 2; pass++) {
        /* First to (-p, p), negated if f is -1, then to [0, p). */
        const int64_t add = d->v[4] >> 63;
        const int64_t negate = pass == 0 ? sign_f >> 63 : 0;
        int64_t carry = 0;
        for (int i = 0; i < 5; i++) {
            int64_t t = ((d->v[i] + (p->v[i] & add)) ^ negate) - negate + carry;
            carry = t >> 62;
            d->v[i] = i < 4 ? (int64_t)((uint64_t)t & MONT256_MASK62) : t;
        }
    }
}

/* r = 1/a mod p as plain numbers, 0 for 0; a is below p. Time depends on a. */
static inline void mont256_invert_var(uint64_t r[4], const uint64_t a[4], const mont256_modulus *modulus) {
    mont256_signed62 d = {{0, 0, 0, 0, 0}}, e = {{1, 0, 0, 0, 0}}, f, g, p;
    const uint64_t inv62 = (0 - modulus->inv) & MONT256_MASK62;
    mont256_to_signed62(&p, modulus->p);
    mont256_to_signed62(&g, a);
    f = p;
    int64_t eta = -1;
    while (g.v[0] | g.v[1] | g.v[2] | g.v[3] | g.v[4]) {
        mont256_matrix m;
        eta = mont256_steps_var(&m, eta, (uint64_t)f.v[0], (uint64_t)g.v[0]);
        mont256_apply_modular(&d, &e, &m, &p, inv62);
        mont256_apply_exact(&f, &g, &m);
    }
    mont256_normalise(&d, f.v[4], &p);
    mont256_from_signed62(r, &d);
}

#endif
