/* msm/scratch_impl.h - scratch memory of one worker for one window; included once per group, before the file that adds pairs and
 * defines struct msm_shared. */

/* A summand: the address of a stored point; bit 0 is set for its negative. */
typedef uintptr_t C(msm_operand);

static inline const AFFINE *C(msm_point)(C(msm_operand) operand) {
    return (const AFFINE *)(operand & ~(C(msm_operand))1);
}

static inline void C(msm_prefetch)(const AFFINE *point) {
    for (size_t line = 0; line < sizeof *point; line += 64) __builtin_prefetch((const char *)point + line);
}

/* Scratch memory of one worker, for one window at a time. */
typedef struct C(msm_scratch) {
    C(msm_operand) *operands; /* MSM_SLAB + MSM_OWNERS_STEP: summands; those of one sum are adjacent */
    uint32_t *owners;         /* MSM_SLAB + MSM_OWNERS_PADDING: number of the sum of each summand */
    C(msm_operand) *p, *q;    /* MSM_SLAB / 2 + MSM_PAIRS_PADDING: pairs of one tree level */
    struct C(msm_shared) *shared; /* msm_shared_bytes() */
    AFFINE *points;       /* MSM_SLAB + MSM_PAIRS_PADDING: sums of pairs */
    AFFINE *buckets;      /* those of a part + 1, index 0 unused: of half 0, then of both halves */
    AFFINE *second;       /* the same for half 1 */
    AFFINE *lines;        /* of the two-level bucket sum: up to 2 MSM_MAX_LINES */
    uint32_t *starts;     /* those of a part + 2 */
    uint32_t *entries;    /* one per scalar */
    int seen_infinity; /* some partial sum may be infinity */
} C(msm_scratch);
