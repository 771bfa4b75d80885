/* cuda/msm/accumulate_impl.h - the kernel that sums the pieces of buckets; included by cuda/msm/group_impl.h, which defines the name
 * ACCUMULATE and the addition ADD. */

DEVICE void ACCUMULATE(grid_place place, const C(msm_arguments) *arguments, void *shared, uint32_t phase) {
    const msm_sort_memory *sort = &arguments->sort.memory;
    const uint64_t i = device_index(place);
    (void)shared;
    (void)phase;
    if (i >= sort->counts->pieces) return;
    const msm_piece piece = sort->pieces[i];
    const uint32_t *entries = sort->sorted + piece.start;
    AFFINE base, next;
    XYZZ sum;
    C(msm_base)(&base, arguments->bases, entries[0]);
    C(xyzz_from_affine)(&sum, &base);
    if (piece.length > 1) C(msm_base)(&next, arguments->bases, entries[1]);
    for (uint32_t k = 1; k < piece.length; k++) {
        base = next;
        if (k + 1 < piece.length) C(msm_base)(&next, arguments->bases, entries[k + 1]);
        ADD(&sum, &sum, &base);
    }
    arguments->memory.sums[piece.place] = sum;
}
KERNEL(ACCUMULATE, C(msm_arguments), MSM_THREADS, MSM_BLOCKS_PER_SM, 1)
