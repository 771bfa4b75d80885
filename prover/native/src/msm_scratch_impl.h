/* msm_scratch_impl.h - what one worker keeps while it sums a window; included once per group, before the file that
 * says how pairs are added and what struct msm_shared holds. */

/* A pair that waits for its shared inversion. */
typedef struct C(msm_pair) {
    AFFINE p, q;
    AFFINE *sum;
    uint8_t negate_p, negate_q;
} C(msm_pair);

/* Memory of one worker for one window at a time. */
typedef struct C(msm_scratch) {
    C(msm_pair) *pairs;   /* MSM_PAIRS */
    struct C(msm_shared) *shared; /* msm_shared_bytes() */
    AFFINE *points;       /* MSM_SLAB */
    uint32_t *run_bucket; /* MSM_SLAB */
    uint32_t *run_length; /* MSM_SLAB */
    AFFINE *buckets;      /* plan.buckets + 1, place 0 unused: half 0, then both halves */
    AFFINE *second;       /* the same for half 1 */
    AFFINE *lines;        /* two-level sums: up to MSM_MAX_LINES */
    uint32_t *starts;     /* plan.buckets + 2 */
    uint32_t *entries;    /* msm_entries() */
    uint32_t pairs_count;
    int seen_infinity; /* some stored point may be infinity */
} C(msm_scratch);
