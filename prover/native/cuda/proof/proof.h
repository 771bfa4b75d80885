/* cuda/proof/proof.h - the sums of whole proofs on the device: a key in device memory, the memory of running proofs, and the
 * sequence of launches. The proofs of a batch share launches; a single proof is a batch of one.
 *
 * Three queues, which wait for each other only where results are needed:
 * quotient: copies a and b to the device, computes c as their products, transforms, digits of h, then K and Z in one
 * multiplication; of a folded key two transforms less, and products at points in the place of h
 * a: copies the wires to the device, computes their digits and the multiplication over A
 * b: computes the multiplication over B
 * For small domains, whose kernels take microseconds, a batch of the same size as the one before it is launched as one graph,
 * except for the copies to the device.
 */
#ifndef CUDA_PROOF_PROOF_H
#define CUDA_PROOF_PROOF_H

#include "gpu/abi.h"
#include "cuda/curve/points.h"
#include "cuda/msm/sums.h"
#include "cuda/ntt/transform.h"

/* ---- keys -------------------------------------------------------------------------------------- */

/* Where the products of A and B of a folded key are computed. */
typedef struct proof_points {
    uint32_t count, cosets_count; /* cosets_count 0: not folded */
    device_abi_coset cosets[DEVICE_ABI_COSETS];
} proof_points;

typedef struct proof_key {
    device_owner owner; /* of the arrays */
    uint32_t wires, public_wires, rows, domain_log2, k_count, z_count;
    uint32_t window_bits;
    const device_tuning *tuning; /* of the device */
    device_msm_plan a_plan, b_plan, kz_plan;
    ntt_plan transform;
    fr product_scale;
    uint32_t quotient_unit[LIMBS];
    proof_points points;
    fr *roots;
    uint32_t *a_wires, *b_wires, *k_wires; /* k_wires: NULL, unless the key is folded */
    g1_affine *a, *kz; /* kz: K, then Z. All three: the rows of a table */
    g2_affine *b2;
} proof_key;

static inline int proof_is_folded(const proof_key *key) { return key->points.cosets_count != 0; }

/* Returns the number of values per proof whose digits Z uses. */
static inline uint64_t proof_h_count(const proof_key *key) {
    return proof_is_folded(key) ? key->points.count : (uint64_t)1 << key->domain_log2;
}

static inline uint64_t proof_cost(const device_msm_plan *plan) {
    return 10 * device_msm_entries(plan) + 28 * device_msm_keys(plan);
}

/* Chooses one window for all lists, which share digits: the one with the fewest products, where a product in G2 counts as three.
 * Returns 0 when none fits. tuning must outlive the key. */
static inline int proof_key_plan(proof_key *key, const device_abi_key *data, uint32_t sets, const device_tuning *tuning) {
    uint64_t best = UINT64_MAX;
    const uint32_t kz_count = data->k_count + data->z_count;
    key->wires = data->wires;
    key->public_wires = data->public_wires;
    key->rows = data->rows;
    key->domain_log2 = data->domain_log2;
    key->k_count = data->k_count;
    key->z_count = data->z_count;
    key->points.count = data->z_count;
    key->points.cosets_count = data->cosets_count;
    memcpy(key->points.cosets, data->cosets, sizeof key->points.cosets);
    key->tuning = tuning;
    key->transform = ntt_plan_for(data->domain_log2, tuning);
    for (uint32_t bits = DEVICE_MSM_MIN_WINDOW; bits <= DEVICE_MSM_MAX_WINDOW; bits++) {
        const device_msm_plan a = device_msm_plan_of(data->a_count, bits, sets, tuning);
        const device_msm_plan b = device_msm_plan_of(data->b_count, bits, sets, tuning);
        const device_msm_plan kz = device_msm_plan_of(kz_count, bits, sets, tuning);
        const uint64_t cost = proof_cost(&a) + 3 * proof_cost(&b) + proof_cost(&kz);
        if (cost >= best || !device_msm_is_allowed(tuning, bits)) continue;
        if (!device_msm_fits(&a) || !device_msm_fits(&b) || !device_msm_fits(&kz)) continue;
        best = cost;
        key->window_bits = bits;
        key->a_plan = a;
        key->b_plan = b;
        key->kz_plan = kz;
    }
    return best != UINT64_MAX;
}

static inline void proof_key_allocate(device_queue *queue, proof_key *key) {
    const size_t a = key->a_plan.count, b = key->b_plan.count, kz = key->kz_plan.count;
    key->roots = (fr *)device_own(queue, &key->owner, sizeof(fr) << key->domain_log2);
    key->a_wires = (uint32_t *)device_own(queue, &key->owner, a * sizeof(uint32_t));
    key->b_wires = (uint32_t *)device_own(queue, &key->owner, b * sizeof(uint32_t));
    key->k_wires = proof_is_folded(key) ? (uint32_t *)device_own(queue, &key->owner, key->k_count * sizeof(uint32_t)) : NULL;
    key->a = (g1_affine *)device_own(queue, &key->owner, key->a_plan.shifts * a * sizeof(g1_affine));
    key->kz = (g1_affine *)device_own(queue, &key->owner, key->kz_plan.shifts * kz * sizeof(g1_affine));
    key->b2 = (g2_affine *)device_own(queue, &key->owner, key->b_plan.shifts * b * sizeof(g2_affine));
}

static inline void proof_write_points(device_queue *queue, void *to, const void *points, size_t bytes, uint32_t form) {
    device_write(queue, to, points, bytes);
    if (form == DEVICE_ABI_R260_LOOSE) points_to_r256_run(queue, to, bytes);
}

/* Copies the key and computes its tables. */
static inline void proof_key_fill(device_queue *queue, proof_key *key, const device_abi_key *data) {
    const size_t a = key->a_plan.count, b = key->b_plan.count;
    memcpy(&key->product_scale, data->product_scale, sizeof key->product_scale);
    memcpy(key->quotient_unit, data->quotient_unit, sizeof key->quotient_unit);
    device_write(queue, key->roots, data->roots, sizeof(fr) << key->domain_log2);
    device_write(queue, key->a_wires, data->a_wires, a * sizeof(uint32_t));
    device_write(queue, key->b_wires, data->b_wires, b * sizeof(uint32_t));
    if (key->k_wires) device_write(queue, key->k_wires, data->k_wires, key->k_count * sizeof(uint32_t));
    proof_write_points(queue, key->a, data->a, a * sizeof(g1_affine), data->point_format);
    proof_write_points(queue, key->kz, data->k, key->k_count * sizeof(g1_affine), data->point_format);
    proof_write_points(queue, key->kz + key->k_count, data->z, key->z_count * sizeof(g1_affine), data->point_format);
    proof_write_points(queue, key->b2, data->b2, b * sizeof(g2_affine), data->point_format);
    g1_msm_table_run(queue, key->a, &key->a_plan);
    g1_msm_table_run(queue, key->kz, &key->kz_plan);
    g2_msm_table_run(queue, key->b2, &key->b_plan);
}

/* ---- products ------------------------------------------------------------------------------------ */

typedef struct proof_product_arguments {
    fr *c;
    const fr *a, *b;
    uint64_t count;
    uint32_t domain_log2;
    proof_points points; /* not folded: c = a b everywhere */
} proof_product_arguments;

/* Returns the index in a and b of value i of c. */
DEVICE uint64_t proof_product_place(const proof_product_arguments *arguments, uint64_t i) {
    const proof_points *points = &arguments->points;
    if (points->cosets_count == 0) return i;
    const uint64_t proof = i / points->count;
    const uint32_t point = (uint32_t)(i % points->count);
    uint32_t number = 0;
    DEVICE_UNROLL
    for (uint32_t k = 0; k < DEVICE_ABI_COSETS; k++) {
        const device_abi_coset coset = points->cosets[k];
        if (k < points->cosets_count && point >= coset.first) {
            number = coset.residue + ((point - coset.first) << (arguments->domain_log2 - coset.log2));
        }
    }
    return (proof << arguments->domain_log2) + number;
}

/* c = a b; of a folded key at its points, one proof after the other. */
DEVICE void proof_product(grid_place place, const proof_product_arguments *arguments, void *shared, uint32_t phase) {
    const uint64_t i = device_index(place);
    (void)shared;
    (void)phase;
    if (i >= arguments->count) return;
    const uint64_t from = proof_product_place(arguments, i);
    fr value = arguments->a[from];
    const fr factor = arguments->b[from];
    fr_mul(&value, &value, &factor);
    arguments->c[i] = value;
}
KERNEL(proof_product, proof_product_arguments, POINTS_THREADS, 4, 1)

/* ---- a running batch ------------------------------------------------------------------------------- */

typedef enum proof_queue { PROOF_QUOTIENT, PROOF_A, PROOF_B } proof_queue;
#define PROOF_QUEUES 3

typedef enum proof_mark_name {
    PROOF_INPUTS, /* where the device solves the witness */
    PROOF_BEGUN,
    PROOF_FORK,
    PROOF_DIGITS,
    PROOF_H,
    PROOF_A_DONE,
    PROOF_B_DONE,
    PROOF_DONE
} proof_mark_name;
#define PROOF_MARKS 8

/* Domains up to 2^17 are proved by a graph: their kernels take microseconds. */
#define PROOF_GRAPH_LOG2 17

/* Above this domain a batch is one proof, which fills the GPU. */
#define PROOF_BATCH_LOG2 17

/* Sums of each proof of a batch: one page-locked block that starts with a. */
typedef struct proof_sums {
    g1_xyzz *a, *kz;
    g2_xyzz *b2;
} proof_sums;

/* The state of a running batch; reused by the next one. */
typedef struct proof_memory {
    device_owner owner; /* of the arrays */
    device_queue queues[PROOF_QUEUES];
    device_mark marks[PROOF_MARKS];
    device_graph graph;
    uint32_t graph_count; /* number of proofs of the graph */
    int without_graph;    /* capture failed or is disabled */
    uint32_t room, count; /* maximum number of proofs; proofs of the running batch */
    uint32_t before;      /* proofs of the previous batch; 0: there was none, or it was cancelled */
    device_msm_plan a_plan, b_plan, kz_plan; /* for `room` proofs */
    proof_sums sums;
    uint32_t *failures; /* failing rows of a witness that the device solved; page-locked */
    fr *wires, *a, *b, *c; /* of all proofs; a, b and c of domain size */
    int32_t *w_digits, *h_digits;
    msm_sort_memory a_sort, b_sort, kz_sort;
    g1_msm_memory a_sums, kz_sums;
    g2_msm_memory b2_sums;
} proof_memory;

/* Plans batches of `room` proofs. Returns 0 when they do not fit. */
static inline int proof_memory_plan(proof_memory *memory, const proof_key *key, uint32_t room) {
    memory->room = room;
    memory->a_plan = device_msm_plan_batch(key->a_plan, room, key->tuning);
    memory->b_plan = device_msm_plan_batch(key->b_plan, room, key->tuning);
    memory->kz_plan = device_msm_plan_batch(key->kz_plan, room, key->tuning);
    return device_msm_fits(&memory->a_plan) && device_msm_fits(&memory->b_plan) && device_msm_fits(&memory->kz_plan);
}

/* Call proof_memory_plan() first. */
static inline void proof_memory_allocate(device_queue *queue, proof_memory *memory, const proof_key *key) {
    const size_t n = (size_t)memory->room << key->domain_log2, wires = (size_t)memory->room * key->wires;
    const size_t windows = key->a_plan.windows;
    device_owner *owner = &memory->owner;
    memory->wires = (fr *)device_own(queue, owner, wires * sizeof(fr));
    memory->a = (fr *)device_own(queue, owner, n * sizeof(fr));
    memory->b = (fr *)device_own(queue, owner, n * sizeof(fr));
    memory->c = (fr *)device_own(queue, owner, n * sizeof(fr));
    memory->w_digits = (int32_t *)device_own(queue, owner, windows * wires * sizeof(int32_t));
    memory->h_digits = (int32_t *)device_own(queue, owner, windows * memory->room * proof_h_count(key) * sizeof(int32_t));
    msm_sort_allocate(queue, owner, &memory->a_sort, &memory->a_plan);
    msm_sort_allocate(queue, owner, &memory->b_sort, &memory->b_plan);
    msm_sort_allocate(queue, owner, &memory->kz_sort, &memory->kz_plan);
    g1_msm_allocate(queue, owner, &memory->a_sums, &memory->a_plan);
    g1_msm_allocate(queue, owner, &memory->kz_sums, &memory->kz_plan);
    g2_msm_allocate(queue, owner, &memory->b2_sums, &memory->b_plan);
}

static inline size_t proof_sums_bytes(const proof_memory *memory) {
    return memory->room * (2 * sizeof(g1_xyzz) + sizeof(g2_xyzz));
}

/* Call proof_memory_plan() first. */
static inline void proof_queues_create(proof_memory *memory) {
    for (int i = 0; i < PROOF_QUEUES; i++) device_queue_create(&memory->queues[i]);
    for (int i = 0; i < PROOF_MARKS; i++) device_mark_create(&memory->queues[0], &memory->marks[i]);
    g1_xyzz *sums = (g1_xyzz *)device_host_allocate(proof_sums_bytes(memory) + sizeof *memory->failures);
    if (!sums) {
        if (memory->queues[0].status == DEVICE_OK) memory->queues[0].status = DEVICE_OUT_OF_MEMORY;
        return;
    }
    memory->sums.a = sums;
    memory->sums.kz = sums + memory->room;
    memory->sums.b2 = (g2_xyzz *)(sums + 2 * memory->room);
    memory->failures = (uint32_t *)(memory->sums.b2 + memory->room);
}

static inline void proof_queues_destroy(proof_memory *memory) {
    device_graph_release(&memory->graph);
    device_host_release(memory->sums.a);
    for (int i = 0; i < PROOF_MARKS; i++) device_mark_destroy(&memory->marks[i]);
    for (int i = 0; i < PROOF_QUEUES; i++) device_queue_destroy(&memory->queues[i]);
}

/* ---- sequence of launches ---------------------------------------------------------------------------- */

static inline void proof_mark(proof_memory *memory, proof_queue queue, proof_mark_name place) {
    device_mark_set(&memory->queues[queue], &memory->marks[place]);
}

static inline void proof_wait(proof_memory *memory, proof_queue queue, proof_mark_name place) {
    device_wait_for(&memory->queues[queue], &memory->marks[place]);
}

/* Copies the values of rows and clears the rest of the domain. */
static inline void proof_write_rows(device_queue *queue, fr *to, const void *values, const proof_key *key) {
    const size_t n = (size_t)1 << key->domain_log2;
    device_write(queue, to, values, key->rows * sizeof(fr));
    if (n > key->rows) device_zero(queue, to + key->rows, (n - key->rows) * sizeof(fr));
}

/* wires_queue: the queue that copies the wires. */
static inline void proof_upload(proof_memory *memory, const proof_key *key, const device_abi_witness *witnesses,
                                proof_queue wires_queue) {
    for (uint32_t i = 0; i < memory->count; i++) {
        const size_t rows = (size_t)i << key->domain_log2, wires = (size_t)i * key->wires;
        proof_write_rows(&memory->queues[PROOF_QUOTIENT], memory->a + rows, witnesses[i].a, key);
        proof_write_rows(&memory->queues[PROOF_QUOTIENT], memory->b + rows, witnesses[i].b, key);
        device_write(&memory->queues[wires_queue], memory->wires + wires, witnesses[i].wires, key->wires * sizeof(fr));
    }
}

/* The quotients in a; of a folded key, products at its points in c. */
static inline void proof_quotient(proof_memory *memory, const proof_key *key) {
    device_queue *queue = &memory->queues[PROOF_QUOTIENT];
    const uint64_t values = memory->count * proof_h_count(key);
    const proof_product_arguments product = {memory->c, memory->a, memory->b, values, key->domain_log2, key->points};
    msm_recode_arguments recode;
    memset(&recode, 0, sizeof recode);
    recode.digits = memory->h_digits;
    recode.values = proof_is_folded(key) ? memory->c : memory->a;
    recode.count = (uint32_t)values; /* a few digits of each proof may belong to no base */
    recode.window_bits = key->window_bits;
    recode.windows = key->kz_plan.windows;
    memcpy(recode.unit, key->quotient_unit, sizeof recode.unit);
    if (proof_is_folded(key)) {
        ntt_to_coset_run(queue, memory->a, key->roots, &key->transform, memory->count);
        ntt_to_coset_run(queue, memory->b, key->roots, &key->transform, memory->count);
    }
    LAUNCH(queue, proof_product, device_blocks(values, POINTS_THREADS), POINTS_THREADS, 0, &product);
    if (!proof_is_folded(key)) {
        ntt_quotient_run(queue, memory->a, memory->b, memory->c, key->roots, &key->transform, memory->count, &key->product_scale);
    }
    msm_recode_run(queue, &recode);
    proof_mark(memory, PROOF_QUOTIENT, PROOF_H);
}

static inline void proof_digits(proof_memory *memory, const proof_key *key) {
    const uint32_t wires = memory->count * key->wires;
    const msm_recode_arguments recode = {memory->w_digits, memory->wires, {1}, wires, key->window_bits, key->a_plan.windows};
    proof_wait(memory, PROOF_A, PROOF_FORK);
    msm_recode_run(&memory->queues[PROOF_A], &recode);
    proof_mark(memory, PROOF_A, PROOF_DIGITS);
}

/* Describes one list of bases with the digits of the wires of the first plan.multiplications proofs. */
static inline msm_sort_arguments proof_list(const proof_memory *memory, const proof_key *key, device_msm_plan plan,
                                            const uint32_t *wires, const msm_sort_memory *sort) {
    const msm_list list = {memory->w_digits, (uint64_t)memory->count * key->wires, key->wires, wires, plan.count};
    msm_sort_arguments arguments;
    memset(&arguments, 0, sizeof arguments);
    arguments.plan = plan;
    arguments.lists[0] = list;
    arguments.memory = *sort;
    return arguments;
}

static inline void proof_a(proof_memory *memory, const proof_key *key) {
    const device_msm_plan plan = device_msm_plan_first(memory->a_plan, memory->count);
    const msm_sort_arguments sort = proof_list(memory, key, plan, key->a_wires, &memory->a_sort);
    g1_msm_run(&memory->queues[PROOF_A], &sort, key->a, &memory->a_sums);
    proof_mark(memory, PROOF_A, PROOF_A_DONE);
}

/* Copies sums to the host and wipes them on the device. */
static inline void proof_read_and_wipe(device_queue *queue, void *to_host, void *results, size_t bytes) {
    device_read_later(queue, to_host, results, bytes);
    device_zero(queue, results, bytes);
}

static inline void proof_b(proof_memory *memory, const proof_key *key) {
    const device_msm_plan plan = device_msm_plan_first(memory->b_plan, memory->count);
    const msm_sort_arguments sort = proof_list(memory, key, plan, key->b_wires, &memory->b_sort);
    proof_wait(memory, PROOF_B, PROOF_DIGITS);
    g2_msm_run(&memory->queues[PROOF_B], &sort, key->b2, &memory->b2_sums);
    proof_mark(memory, PROOF_B, PROOF_B_DONE);
}

static inline void proof_kz(proof_memory *memory, const proof_key *key) {
    const uint64_t h = proof_h_count(key);
    const device_msm_plan plan = device_msm_plan_first(memory->kz_plan, memory->count);
    const msm_list z = {memory->h_digits, memory->count * h, h, NULL, key->z_count};
    msm_sort_arguments sort = proof_list(memory, key, plan, key->k_wires, &memory->kz_sort);
    if (!proof_is_folded(key)) sort.lists[0].digits += key->public_wires;
    sort.lists[0].count = key->k_count;
    sort.lists[1] = z;
    proof_wait(memory, PROOF_QUOTIENT, PROOF_DIGITS);
    g1_msm_run(&memory->queues[PROOF_QUOTIENT], &sort, key->kz, &memory->kz_sums);
}

static inline void proof_read(proof_memory *memory) {
    device_queue *queue = &memory->queues[PROOF_QUOTIENT];
    proof_wait(memory, PROOF_QUOTIENT, PROOF_A_DONE);
    proof_wait(memory, PROOF_QUOTIENT, PROOF_B_DONE);
    proof_read_and_wipe(queue, memory->sums.a, memory->a_sums.results, memory->count * sizeof(g1_xyzz));
    proof_read_and_wipe(queue, memory->sums.b2, memory->b2_sums.results, memory->count * sizeof(g2_xyzz));
    proof_read_and_wipe(queue, memory->sums.kz, memory->kz_sums.results, memory->count * sizeof(g1_xyzz));
}

/* Computes the sums on the host from the data copied to the device. All queues start after and end before the quotient's. Returns
 * 0 when cancelled. */
static inline int proof_compute(proof_memory *memory, const proof_key *key, const int32_t *cancel) {
    proof_mark(memory, PROOF_QUOTIENT, PROOF_FORK);
    proof_quotient(memory, key);
    if (device_is_cancelled(cancel)) return 0;
    proof_digits(memory, key);
    proof_b(memory, key);
    if (device_is_cancelled(cancel)) return 0;
    proof_a(memory, key);
    if (device_is_cancelled(cancel)) return 0;
    proof_kz(memory, key);
    proof_read(memory);
    return 1;
}

/* Captures proof_compute() as a graph, which replaces the previous one. A failure does not affect the proof. */
static inline void proof_capture(proof_memory *memory, const proof_key *key) {
    device_queue *queue = &memory->queues[PROOF_QUOTIENT];
    device_graph_release(&memory->graph);
    if (device_capture_begin(queue, &memory->graph)) {
        proof_compute(memory, key, NULL);
        device_capture_end(queue, &memory->graph);
        for (int i = 0; i < PROOF_QUEUES; i++) {
            if (memory->queues[i].status != DEVICE_OK) device_graph_release(&memory->graph);
            memory->queues[i].status = DEVICE_OK;
        }
    }
    memory->graph_count = memory->count;
    memory->without_graph = !memory->graph.ready;
}

/* Returns 1 when there is a graph for this number of proofs, after capturing one if possible. One graph is kept, for the size
 * that last occurred twice in a row: by then all kernels are loaded, which cannot happen during a capture, and alternating sizes
 * cause no captures. */
static inline int proof_has_graph(proof_memory *memory, const proof_key *key) {
    if (memory->without_graph || key->domain_log2 > PROOF_GRAPH_LOG2) return 0;
    if (memory->graph.ready && memory->graph_count == memory->count) return 1;
    if (memory->before == memory->count) proof_capture(memory, key);
    return memory->graph.ready && memory->graph_count == memory->count;
}

/* A graph has no inner marks: its whole time is reported as that of K and Z. */
static inline void proof_times(const proof_memory *memory, device_abi_times *times, int by_graph) {
    const device_mark *marks = memory->marks;
    times->kz += device_nanoseconds(&marks[by_graph ? PROOF_BEGUN : PROOF_H], &marks[PROOF_DONE]);
    if (by_graph) return;
    times->quotient += device_nanoseconds(&marks[PROOF_BEGUN], &marks[PROOF_H]);
    times->a += device_nanoseconds(&marks[PROOF_DIGITS], &marks[PROOF_A_DONE]);
    times->b2 += device_nanoseconds(&marks[PROOF_DIGITS], &marks[PROOF_B_DONE]);
}

static inline void proof_copy_sums(const proof_memory *memory, device_abi_sums *sums) {
    for (uint32_t i = 0; i < memory->count; i++) {
        memcpy(sums[i].a, &memory->sums.a[i], sizeof sums[i].a);
        memcpy(sums[i].b2, &memory->sums.b2[i], sizeof sums[i].b2);
        memcpy(sums[i].kz, &memory->sums.kz[i], sizeof sums[i].kz);
    }
}

/* Proves a batch of `count` proofs, for which the memory has room. witnesses: NULL when they are on the device already. All queues
 * are empty on return. Returns 0 when cancelled. */
static inline int proof_run(proof_memory *memory, const proof_key *key, device_abi_sums *sums, device_abi_times *times,
                            const device_abi_witness *witnesses, uint32_t count, const int32_t *cancel) {
    int complete = 0;
    memory->count = count;
    const int by_graph = proof_has_graph(memory, key);
    proof_mark(memory, PROOF_QUOTIENT, PROOF_BEGUN);
    if (witnesses) proof_upload(memory, key, witnesses, by_graph ? PROOF_QUOTIENT : PROOF_A);
    if (!device_is_cancelled(cancel)) {
        if (by_graph) {
            device_graph_launch(&memory->queues[PROOF_QUOTIENT], &memory->graph);
            complete = 1;
        } else {
            complete = proof_compute(memory, key, cancel);
        }
        proof_mark(memory, PROOF_QUOTIENT, PROOF_DONE);
    }
    for (int i = 0; i < PROOF_QUEUES; i++) device_finish(&memory->queues[i]);
    memory->before = complete ? count : 0;
    if (complete) {
        proof_times(memory, times, by_graph);
        proof_copy_sums(memory, sums);
    }
    memset(memory->sums.a, 0, proof_sums_bytes(memory));
    return complete;
}

#endif
