/* field/fp2_shared.h - arithmetic in Fp2 from that in Fp, one text for the CPU and the GPU.
 *
 * The including header defines the types fp and fp2, the functions of Fp, and HOT and COLD: the qualifiers of functions that must be
 * inlined, and of those that must not cost their callers registers; and FP2_OWN_MUL where it has its own fp2_mul().
 */

HOT void fp2_set_zero(fp2 *r) {
    fp_set_zero(&r->c0);
    fp_set_zero(&r->c1);
}
HOT void fp2_set_one(fp2 *r) {
    fp_set_one(&r->c0);
    fp_set_zero(&r->c1);
}
HOT void fp2_add(fp2 *r, const fp2 *a, const fp2 *b) {
    fp_add(&r->c0, &a->c0, &b->c0);
    fp_add(&r->c1, &a->c1, &b->c1);
}
HOT void fp2_sub(fp2 *r, const fp2 *a, const fp2 *b) {
    fp_sub(&r->c0, &a->c0, &b->c0);
    fp_sub(&r->c1, &a->c1, &b->c1);
}
HOT void fp2_neg(fp2 *r, const fp2 *a) {
    fp_neg(&r->c0, &a->c0);
    fp_neg(&r->c1, &a->c1);
}
HOT void fp2_double(fp2 *r, const fp2 *a) { fp2_add(r, a, a); }
HOT int fp2_is_zero(const fp2 *a) { return fp_is_zero(&a->c0) & fp_is_zero(&a->c1); }
HOT int fp2_equal(const fp2 *a, const fp2 *b) { return fp_equal(&a->c0, &b->c0) & fp_equal(&a->c1, &b->c1); }

#if !defined(FP2_OWN_MUL)
/* Karatsuba: three products. The sums stay below 2p, which fp_mul accepts. */
HOT void fp2_mul(fp2 *r, const fp2 *a, const fp2 *b) {
    fp sum_a, sum_b, low, high, mid;
    fp_add_lazy(&sum_a, &a->c0, &a->c1);
    fp_add_lazy(&sum_b, &b->c0, &b->c1);
    fp_mul(&low, &a->c0, &b->c0);
    fp_mul(&high, &a->c1, &b->c1);
    fp_mul(&mid, &sum_a, &sum_b);
    fp_sub(&r->c0, &low, &high);
    fp_sub(&mid, &mid, &low);
    fp_sub(&r->c1, &mid, &high);
}
#endif

/* (c0 + c1)(c0 - c1), 2*c0*c1. */
HOT void fp2_sqr(fp2 *r, const fp2 *a) {
    fp sum, difference, twice;
    fp_add_lazy(&sum, &a->c0, &a->c1);
    fp_sub(&difference, &a->c0, &a->c1);
    fp_add_lazy(&twice, &a->c0, &a->c0);
    fp_mul(&r->c1, &twice, &a->c1);
    fp_mul(&r->c0, &sum, &difference);
}

/* r = a conj(a) = c0^2 + c1^2, zero for 0 only. */
HOT void fp2_norm(fp *r, const fp2 *a) {
    fp square;
    fp_sqr(&square, &a->c0);
    fp_sqr(r, &a->c1);
    fp_add(r, r, &square);
}

/* r = 1/a = conj(a) / norm, 0 for 0. */
COLD void fp2_inv(fp2 *r, const fp2 *a) {
    fp norm, square;
    fp2_norm(&norm, a);
    fp_inv(&norm, &norm);
    fp_mul(&square, &a->c1, &norm);
    fp_mul(&r->c0, &a->c0, &norm);
    fp_neg(&r->c1, &square);
}
