/* msm/multiples_group_impl.h - sums of a few multiples, for the blinding of proofs; included once per group, after
 * msm/group_impl.h. */

/* scalar * point, for a plain number of four words below r. */
typedef struct C(msm_multiple) {
    const uint64_t *scalar;
    const AFFINE *point;
} C(msm_multiple);

/* *sum = the sum of `count` multiples, at most MSM_MULTIPLES_MAX. The halves of all scalars share their doublings. Time depends on
 * the scalars. Cold: otherwise its size changes which products the compiler inlines in the pairing, which then takes 4 % longer. */
static __attribute__((cold)) void C(msm_multiples)(XYZZ *sum, const C(msm_multiple) *terms, uint32_t count) {
    const msm_plan plan = msm_plan_of_window(MSM_MULTIPLES_WINDOW);
    XYZZ multiples[MSM_MULTIPLES_MAX][2][MSM_MULTIPLES], own;
    int16_t digits[MSM_MULTIPLES_MAX][2][MSM_MAX_WINDOWS];
    uint64_t bias[2];
    glv_half halves[2];
    glv_bias(bias, &plan);
    for (uint32_t n = 0; n < count; n++) {
        glv_split(halves, terms[n].scalar);
        for (int half = 0; half < 2; half++) glv_digits(digits[n][half], 1, &halves[half], &plan, bias, 0);
        XYZZ *of_point = multiples[n][0], *of_image = multiples[n][1];
        C(xyzz_from_affine)(&of_point[0], terms[n].point);
        for (uint32_t i = 1; i < MSM_MULTIPLES; i++) C(xyzz_add_affine)(&of_point[i], &of_point[i - 1], terms[n].point);
        for (uint32_t i = 0; i < MSM_MULTIPLES; i++) {
            of_image[i] = of_point[i];
            MSM_SCALE(&of_image[i].x, &of_image[i].x, &MSM_BETA);
        }
    }
    C(xyzz_set_infinity)(sum);
    for (uint32_t w = plan.windows; w-- > 0;) {
        for (uint32_t i = 0; i < msm_window_bits(&plan, w); i++) C(xyzz_double)(sum, sum);
        for (uint32_t i = 0; i < 2 * count; i++) {
            const int32_t digit = digits[i / 2][i % 2][w];
            if (digit == 0) continue;
            own = multiples[i / 2][i % 2][msm_magnitude(digit) - 1];
            if (digit < 0) C(xyzz_neg)(&own, &own);
            C(xyzz_add)(sum, sum, &own);
        }
    }
    os_random_wipe(multiples, sizeof multiples);
    os_random_wipe(digits, sizeof digits);
    os_random_wipe(halves, sizeof halves);
    os_random_wipe(&own, sizeof own);
}
