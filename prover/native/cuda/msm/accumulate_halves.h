/* cuda/msm/accumulate_halves.h - the kernel that sums the pieces of buckets in G2 with two threads for a piece; included by
 * cuda/msm/group_impl.h for G2, and launched if the tuning selects it.
 */

/* All threads of a warp add as often as the one with the longest piece; pieces are ordered by length. */
DEVICE void g2_msm_accumulate_halves(grid_place place, const g2_msm_arguments *arguments, void *shared, uint32_t phase) {
    const msm_sort_memory *sort = &arguments->sort.memory;
    const uint64_t i = device_index(place) / 2;
    const msm_piece none = {0, 0, 0};
    (void)shared;
    (void)phase;
    if (half_is_idle(place.thread)) return;
    const msm_piece piece = i < sort->counts->pieces ? sort->pieces[i] : none;
    const uint32_t *entries = sort->sorted + piece.start, rounds = halves_maximum(piece.length);
    g2_half_affine base, next;
    g2_half_xyzz sum;
    memset(&next, 0, sizeof next);
    if (piece.length > 0) g2_half_load(&next, &arguments->bases[entries[0] >> 1], entries[0] & 1);
    g2_half_from_affine(&sum, &next);
    if (piece.length > 1) g2_half_load(&next, &arguments->bases[entries[1] >> 1], entries[1] & 1);
    for (uint32_t k = 1; k < rounds; k++) {
        base = next;
        if (k + 1 < piece.length) g2_half_load(&next, &arguments->bases[entries[k + 1] >> 1], entries[k + 1] & 1);
        g2_half_add_affine(&sum, &base, k < piece.length);
    }
    if (piece.length > 0) g2_half_store(&arguments->memory.sums[piece.place], &sum);
}
KERNEL(g2_msm_accumulate_halves, g2_msm_arguments, MSM_THREADS, MSM_HALVES_BLOCKS_PER_SM, 1)
