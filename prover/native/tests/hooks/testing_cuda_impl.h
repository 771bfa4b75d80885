/* testing_cuda_impl.h - hooks over whole computations of the device: compiled for the host by testing_cuda_runs.c and for the GPU by
 * gpu_hooks.cu, which define T(name). Values cross as device memory holds them: 32 bytes, little-endian, Montgomery form; points
 * are x | y with the coefficient of 1 first, infinity all zero. Hooks return a device_status, or T_REFUSED for a shape that no plan
 * fits.
 */
#include "cuda/msm/sums.h"
#include "cuda/ntt/transform.h"
#include "cuda/proof/witness.h"
#include "cuda/library/tuning_read.h"

#define T_REFUSED (-1)
#define T_THREADS 64

/* Of all plans that follow. */
static device_tuning t_tuning;
static int t_is_tuned;

static const device_tuning *t_tuned(void) { return t_is_tuned ? &t_tuning : NULL; }

/* text: as of GROTH16_CUDA_TUNING, empty for none. message: DEVICE_ABI_MESSAGE bytes, for what is wrong with it. */
int32_t T(tune)(const char *text, char *message) {
    t_is_tuned = *text && device_tuning_read(&t_tuning, text, message, DEVICE_ABI_MESSAGE);
    return *text && !t_is_tuned ? T_REFUSED : 0;
}

/* Waits until the bytes have been copied. */
static void device_read(device_queue *queue, void *to_host, const void *from, size_t bytes) {
    device_read_later(queue, to_host, from, bytes);
    device_finish(queue);
}

/* ---- fields: what every thread computes of a and b -------------------------------------------- */

#define T_FIELD_RESULTS 6

#define T_FIELD_KERNEL(field)                                                                                   \
    typedef struct field##_results_arguments {                                                                  \
        field *out;                                                                                             \
        const field *in;                                                                                        \
        uint32_t count; /* pairs */                                                                             \
    } field##_results_arguments;                                                                                \
    DEVICE void field##_results(grid_place place, const field##_results_arguments *arguments, void *shared,     \
                                uint32_t phase) {                                                               \
        const uint64_t i = device_index(place);                                                                 \
        (void)shared;                                                                                           \
        (void)phase;                                                                                            \
        if (i >= arguments->count) return;                                                                      \
        const field a = arguments->in[2 * i], b = arguments->in[2 * i + 1];                                     \
        field *out = arguments->out + T_FIELD_RESULTS * i;                                                      \
        field r;                                                                                                \
        field##_add(&r, &a, &b);                                                                                \
        out[0] = r;                                                                                             \
        field##_sub(&r, &a, &b);                                                                                \
        out[1] = r;                                                                                             \
        field##_mul(&r, &a, &b);                                                                                \
        out[2] = r;                                                                                             \
        field##_neg(&r, &a);                                                                                    \
        out[3] = r;                                                                                             \
        field##_inv(&r, &a);                                                                                    \
        out[4] = r;                                                                                             \
        field##_mul_plain(r.v, &a, b.v);                                                                        \
        out[5] = r;                                                                                             \
    }                                                                                                           \
    KERNEL(field##_results, field##_results_arguments, T_THREADS, 1, 1)                                         \
    int32_t T(field##_results)(uint8_t *out, const uint8_t *in, uint32_t count) {                               \
        device_queue queue = T_QUEUE(0);                                                                        \
        field *given = (field *)device_allocate(&queue, 2 * count * sizeof(field));                             \
        field *results = (field *)device_allocate(&queue, T_FIELD_RESULTS * count * sizeof(field));             \
        const field##_results_arguments arguments = {results, given, count};                                    \
        device_write(&queue, given, in, 2 * count * sizeof(field));                                             \
        LAUNCH(&queue, field##_results, device_blocks(count, T_THREADS), T_THREADS, 0, &arguments);             \
        device_read(&queue, out, results, T_FIELD_RESULTS * count * sizeof(field));                             \
        device_release(given);                                                                                  \
        device_release(results);                                                                                \
        return (int32_t)queue.status;                                                                           \
    }

T_FIELD_KERNEL(fp)
T_FIELD_KERNEL(fr)

/* ---- groups ----------------------------------------------------------------------------------- */

/* Points (first + i) * generator, and sums of multi-scalar multiplications in affine form. */
#define T_GROUP_KERNELS(group)                                                                                  \
    typedef struct group##_multiples_arguments {                                                                \
        group##_affine *out, generator;                                                                         \
        uint32_t first, count;                                                                                  \
    } group##_multiples_arguments;                                                                              \
    DEVICE void group##_multiples(grid_place place, const group##_multiples_arguments *arguments, void *shared, \
                                  uint32_t phase) {                                                             \
        const uint64_t i = device_index(place);                                                                 \
        (void)shared;                                                                                           \
        (void)phase;                                                                                            \
        if (i >= arguments->count) return;                                                                      \
        const uint64_t scalar = arguments->first + (uint32_t)i;                                                 \
        group##_affine point = arguments->generator;                                                            \
        group##_xyzz sum;                                                                                       \
        group##_xyzz_mul_bits_var(&sum, &point, &scalar, 32);                                                   \
        group##_xyzz_to_affine(&point, &sum);                                                                   \
        arguments->out[i] = point;                                                                              \
    }                                                                                                           \
    KERNEL(group##_multiples, group##_multiples_arguments, T_THREADS, 1, 1)                                     \
    typedef struct group##_normal_arguments {                                                                   \
        group##_affine *out;                                                                                    \
        const group##_xyzz *in;                                                                                 \
    } group##_normal_arguments;                                                                                 \
    DEVICE void group##_normal(grid_place place, const group##_normal_arguments *arguments, void *shared,       \
                               uint32_t phase) {                                                                \
        const group##_xyzz sum = arguments->in[place.block];                                                    \
        group##_affine point;                                                                                   \
        (void)shared;                                                                                           \
        (void)phase;                                                                                            \
        group##_xyzz_to_affine(&point, &sum);                                                                   \
        arguments->out[place.block] = point;                                                                    \
    }                                                                                                           \
    KERNEL(group##_normal, group##_normal_arguments, 1, 1, 1)                                                   \
    int32_t T(multiples_##group)(uint8_t *out, const uint8_t *generator, uint32_t first, uint32_t count) {      \
        device_queue queue = T_QUEUE(0);                                                                        \
        group##_multiples_arguments arguments;                                                                  \
        arguments.out = (group##_affine *)device_allocate(&queue, count * sizeof(group##_affine));              \
        arguments.first = first;                                                                                \
        arguments.count = count;                                                                                \
        memcpy(&arguments.generator, generator, sizeof arguments.generator);                                    \
        LAUNCH(&queue, group##_multiples, device_blocks(count, T_THREADS), T_THREADS, 0, &arguments);           \
        device_read(&queue, out, arguments.out, count * sizeof(group##_affine));                                \
        device_release(arguments.out);                                                                          \
        return (int32_t)queue.status;                                                                           \
    }                                                                                                           \
    int32_t T(msm_##group)(uint8_t *out, const uint8_t *points, const uint8_t *values,                          \
                           const t_msm_shape *shape) {                                                          \
        device_queue queue = T_QUEUE(shape->order);                                                             \
        t_msm msm;                                                                                              \
        group##_msm_memory memory;                                                                              \
        const device_msm_plan room = t_plan(shape), plan = device_msm_plan_first(room, shape->multiplications); \
        const size_t points_bytes = plan.count * sizeof(group##_affine);                                        \
        const size_t sums_bytes = shape->multiplications * sizeof(group##_affine);                              \
        if (!device_msm_fits(&room)) return T_REFUSED;                                                          \
        memset(&memory, 0, sizeof memory);                                                                      \
        t_msm_begin(&queue, &msm, &room, &plan, values, shape->first_list);                                     \
        group##_msm_allocate(&queue, &msm.owner, &memory, &room);                                               \
        group##_affine *table = (group##_affine *)device_allocate(&queue, plan.shifts * points_bytes);          \
        group##_affine *sums = (group##_affine *)device_allocate(&queue, sums_bytes);                           \
        const group##_normal_arguments normal = {sums, memory.results};                                         \
        device_write(&queue, table, points, points_bytes);                                                      \
        group##_msm_table_run(&queue, table, &plan);                                                            \
        group##_msm_run(&queue, &msm.sort, table, &memory);                                                     \
        LAUNCH(&queue, group##_normal, plan.multiplications, 1, 0, &normal);                                    \
        device_read(&queue, out, sums, sums_bytes);                                                             \
        device_release_all(&msm.owner);                                                                                 \
        device_release(table);                                                                                  \
        device_release(sums);                                                                                   \
        return (int32_t)queue.status;                                                                           \
    }

typedef struct t_msm_shape {
    uint32_t count, first_list; /* bases, and how many of them are in the first of two lists */
    uint32_t window_bits, sets; /* 0: the plan's choice; 0: no table */
    uint32_t order;             /* device_order, on the host */
    uint32_t multiplications;   /* with the same bases: so many times the scalars, and sums */
    uint32_t room;              /* as many multiplications at least, for which the memory and the plan are */
} t_msm_shape;

/* Of all that there is room for. */
static device_msm_plan t_plan(const t_msm_shape *shape) {
    const device_tuning *tuning = t_tuned();
    const uint32_t sets = device_tuned(tuning, TUNING_SETS, shape->sets);
    const device_msm_plan plan = shape->window_bits ? device_msm_plan_of(shape->count, shape->window_bits, sets, tuning)
                                                    : device_msm_plan_for(shape->count, sets, tuning);
    return device_msm_plan_batch(plan, shape->room, tuning);
}

typedef struct t_msm {
    device_owner owner;
    msm_sort_arguments sort;
    fr *scalars;
    int32_t *digits;
    uint32_t *index;
} t_msm;

/* Digits of the scalars; the second list takes them from the last one backwards. */
static void t_msm_begin(device_queue *queue, t_msm *msm, const device_msm_plan *room, const device_msm_plan *plan,
                        const uint8_t *values, uint32_t first_list) {
    const uint32_t count = plan->count, second = count - first_list, all = plan->multiplications * count;
    uint32_t *backwards = (uint32_t *)malloc((second + 1) * sizeof(uint32_t));
    memset(msm, 0, sizeof *msm);
    msm->sort.plan = *plan;
    msm_sort_allocate(queue, &msm->owner, &msm->sort.memory, room);
    msm->scalars = (fr *)device_own(queue, &msm->owner, all * sizeof(fr));
    msm->digits = (int32_t *)device_own(queue, &msm->owner, device_msm_entries(plan) * sizeof(int32_t));
    msm->index = (uint32_t *)device_own(queue, &msm->owner, second * sizeof(uint32_t));
    for (uint32_t i = 0; backwards && i < second; i++) backwards[i] = count - 1 - i;
    if (!backwards) queue->status = DEVICE_OUT_OF_MEMORY;
    device_write(queue, msm->index, backwards, second * sizeof(uint32_t));
    device_write(queue, msm->scalars, values, all * sizeof(fr));
    const msm_recode_arguments recode = {msm->digits, msm->scalars, {1}, all, plan->window_bits, plan->windows};
    const msm_list first = {msm->digits, all, count, NULL, first_list}, rest = {msm->digits, all, count, msm->index, second};
    msm->sort.lists[0] = first;
    msm->sort.lists[1] = rest;
    msm_recode_run(queue, &recode);
    free(backwards);
}

T_GROUP_KERNELS(g1)
T_GROUP_KERNELS(g2)

/* Digits of scalar i in window w at digits[w * count + i]; returns the number of windows. */
int32_t T(digits)(int32_t *digits, const uint8_t *values, uint32_t count, uint32_t window_bits) {
    device_queue queue = T_QUEUE(0);
    const device_msm_plan plan = device_msm_plan_of(count, window_bits, 0, NULL);
    fr *scalars = (fr *)device_allocate(&queue, count * sizeof(fr));
    int32_t *out = (int32_t *)device_allocate(&queue, device_msm_entries(&plan) * sizeof(int32_t));
    const msm_recode_arguments arguments = {out, scalars, {1}, count, window_bits, plan.windows};
    device_write(&queue, scalars, values, count * sizeof(fr));
    msm_recode_run(&queue, &arguments);
    device_read(&queue, digits, out, device_msm_entries(&plan) * sizeof(int32_t));
    device_release(scalars);
    device_release(out);
    return queue.status == DEVICE_OK ? (int32_t)plan.windows : T_REFUSED;
}

/* ---- transforms ---------------------------------------------------------------------------------- */

typedef struct t_ntt_shape {
    uint32_t log2, last_levels, levels; /* levels 0: the plan's choice */
    uint32_t order;
    uint32_t transforms; /* one after another in memory */
} t_ntt_shape;

static size_t t_ntt_bytes(const t_ntt_shape *shape) { return (sizeof(fr) << shape->log2) * shape->transforms; }

static ntt_plan t_ntt_plan(const t_ntt_shape *shape) {
    return shape->levels ? ntt_plan_of(shape->log2, shape->last_levels, shape->levels) : ntt_plan_for(shape->log2, t_tuned());
}

/* What the plans decide, by the names of a tuning: of multiplications of the shape, and of a transform. first: stages of its first pass. */
typedef struct t_choices {
    uint32_t window, sets, low_bits, tile, piece, threads, joins, reduce, level;
    uint32_t ntt_passes, ntt_first, ntt_last, ntt_columns, ntt_threads;
} t_choices;

int32_t T(choices)(t_choices *choices, const t_msm_shape *shape, uint32_t log2) {
    const device_msm_plan plan = t_plan(shape);
    const ntt_plan transform = ntt_plan_for(log2, t_tuned());
    const t_choices found = {plan.window_bits, plan.sets,        plan.low_bits,   plan.tile,
                             plan.piece,       plan.threads,     plan.joins,      plan.reduce_log2,
                             plan.level_log2,  transform.passes, transform.levels[0], transform.levels[transform.passes - 1],
                             transform.columns_log2, transform.threads};
    *choices = found;
    return device_msm_fits(&plan) ? 0 : T_REFUSED;
}

/* step: 0 inverse, 1 forward, 2 forward to the coset; values in place. */
int32_t T(ntt)(uint8_t *values, const uint8_t *table, const t_ntt_shape *shape, uint32_t step) {
    device_queue queue = T_QUEUE(shape->order);
    const size_t bytes = t_ntt_bytes(shape), roots_bytes = sizeof(fr) << shape->log2;
    const ntt_plan plan = t_ntt_plan(shape);
    fr *a = (fr *)device_allocate(&queue, bytes), *roots = (fr *)device_allocate(&queue, roots_bytes);
    ntt_ends ends = ntt_plain_ends();
    if (step == 2) ends.read = NTT_READ_TO_COSET;
    device_write(&queue, a, values, bytes);
    device_write(&queue, roots, table, roots_bytes);
    ntt_run(&queue, a, roots, &plan, shape->transforms, step > 0, &ends);
    device_read(&queue, values, a, bytes);
    device_release(a);
    device_release(roots);
    return (int32_t)queue.status;
}

/* h: 2n times the coefficients, bit-reversed; values: a of all, b and c; scale: 1/n^2. */
int32_t T(quotient)(uint8_t *h, const uint8_t *values, const uint8_t *table, const uint8_t *scale,
                    const t_ntt_shape *shape) {
    device_queue queue = T_QUEUE(shape->order);
    const size_t bytes = t_ntt_bytes(shape), roots_bytes = sizeof(fr) << shape->log2;
    const ntt_plan plan = t_ntt_plan(shape);
    fr *lists[4], factor;
    memcpy(&factor, scale, sizeof factor);
    for (int i = 0; i < 4; i++) {
        lists[i] = (fr *)device_allocate(&queue, i < 3 ? bytes : roots_bytes);
        device_write(&queue, lists[i], i < 3 ? values + (size_t)i * bytes : table, i < 3 ? bytes : roots_bytes);
    }
    ntt_quotient_run(&queue, lists[0], lists[1], lists[2], lists[3], &plan, shape->transforms, &factor);
    device_read(&queue, h, lists[0], bytes);
    for (int i = 0; i < 4; i++) device_release(lists[i]);
    return (int32_t)queue.status;
}

/* ---- witnesses ------------------------------------------------------------------------------------- */

/* A whole witness: wires, then a and b of the domain. shape: wires, rows, log2 of the domain, order. Returns 0 for one that holds, 1 for
 * one that does not, 2 when the call was cancelled, and T_REFUSED when something failed. */
int32_t T(witness)(uint8_t *wires, uint8_t *a, uint8_t *b, const device_abi_chains *chains, const device_abi_inputs *inputs,
                   const uint32_t shape[4]) {
    device_queue queue = T_QUEUE(shape[3]);
    const size_t domain = sizeof(fr) << shape[2];
    fr *vectors[4];
    witness_key key;
    memset(&key, 0, sizeof key);
    for (int i = 0; i < 4; i++) vectors[i] = (fr *)device_allocate(&queue, i ? domain : shape[0] * sizeof(fr));
    const witness_room room = {{vectors[0], vectors[1], vectors[2]}, vectors[3], (uint64_t)1 << shape[2], shape[0], shape[1]};
    witness_key_load(&queue, &key, chains);
    uint32_t failures = 0;
    const int solved = witness_run(&queue, &key, &room, inputs, &failures);
    device_read(&queue, wires, vectors[0], shape[0] * sizeof(fr));
    device_read(&queue, a, vectors[1], domain);
    device_read(&queue, b, vectors[2], domain);
    for (int i = 0; i < 4; i++) device_release(vectors[i]);
    device_release_all(&key.owner);
    if (queue.status != DEVICE_OK) return T_REFUSED;
    return solved ? failures != 0 : 2;
}
