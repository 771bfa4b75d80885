/* msm/scratch_impl.h - what one worker keeps while it sums a window; included once per group, before the file that
 * says how pairs are added and what struct msm_shared holds. */

/* A summand: the address of a stored point, plus 1 when its opposite is meant. */
typedef uintptr_t C(msm_operand);

static inline const AFFINE *C(msm_point)(C(msm_operand) operand) {
    return (const AFFINE *)(operand & ~(C(msm_operand))1);
}

static inline void C(msm_prefetch)(const AFFINE *point) {
    for (size_t line = 0; line < sizeof *point; line += 64) __builtin_prefetch((const char *)point + line);
}

/* Memory of one worker for one window at a time. */
typedef struct C(msm_scratch) {
    C(msm_operand) *operands; /* MSM_SLAB + MSM_OWNERS_STEP: summands, those of one sum side by side */
    uint32_t *owners;         /* MSM_SLAB + MSM_OWNERS_PADDING: the number of the sum that a summand belongs to */
    C(msm_operand) *p, *q;    /* MSM_SLAB / 2 + MSM_PAIRS_PADDING: pairs of one round */
    struct C(msm_shared) *shared; /* msm_shared_bytes() */
    AFFINE *points;       /* MSM_SLAB + MSM_PAIRS_PADDING: sums of pairs */
    AFFINE *buckets;      /* plan.buckets + 1, place 0 unused: half 0, then both halves */
    AFFINE *second;       /* the same for half 1 */
    AFFINE *lines;        /* two-level sums: up to 2 MSM_MAX_LINES */
    uint32_t *starts;     /* plan.buckets + 2 */
    uint32_t *entries;    /* one per scalar */
    int seen_infinity; /* some sum of the present trees may be infinity */
} C(msm_scratch);
