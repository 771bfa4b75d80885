/* device_normal_impl.h - points of one group to affine coordinates; included once per group by device_normal.h, which defines FE, F(op),
 * AFFINE, XYZZ and C(name), and undefines them afterwards.
 *
 * A thread has the points thread, thread + threads, ... and inverts the product of their ZZZ once.
 */

typedef struct C(normal_arguments) {
    AFFINE *out;
    const XYZZ *points;
    FE *prefixes;         /* as many as points */
    uint64_t first, count; /* first: number of points[0] in the whole list, for its place */
    uint32_t order, half_log2;
} C(normal_arguments);

DEVICE void C(normal)(grid_place place, const C(normal_arguments) *arguments, void *shared, uint32_t phase) {
    const uint64_t start = device_index(place), step = (uint64_t)place.blocks * place.threads, count = arguments->count;
    FE product, zzz;
    (void)shared;
    (void)phase;
    if (start >= count) return;
    F(set_one)(&product);
    for (uint64_t i = start; i < count; i += step) {
        arguments->prefixes[i] = product;
        zzz = arguments->points[i].zzz;
        if (!F(is_zero)(&zzz)) F(mul)(&product, &product, &zzz);
    }
    F(inv)(&product, &product);
    for (uint64_t left = (count - start + step - 1) / step; left-- > 0;) {
        const uint64_t i = start + left * step;
        const XYZZ point = arguments->points[i];
        AFFINE r;
        if (F(is_zero)(&point.zzz)) {
            F(set_zero)(&r.x);
            F(set_zero)(&r.y);
        } else {
            const FE prefix = arguments->prefixes[i];
            FE inverse, square;
            F(mul)(&inverse, &product, &prefix);       /* 1/Z^3 */
            F(mul)(&product, &product, &point.zzz);
            F(mul)(&square, &inverse, &point.zz);      /* 1/Z */
            F(sqr)(&square, &square);
            F(mul)(&r.x, &point.x, &square);
            F(mul)(&r.y, &point.y, &inverse);
        }
        arguments->out[normal_place(arguments->first + i, arguments->order, arguments->half_log2)] = r;
    }
}
KERNEL(C(normal), C(normal_arguments), NORMAL_THREADS, 2, 1)

static inline void C(normal_run)(device_queue *queue, const C(normal_arguments) *arguments) {
    LAUNCH(queue, C(normal), device_blocks(arguments->count, NORMAL_THREADS * NORMAL_RUN), NORMAL_THREADS, 0, arguments);
}
