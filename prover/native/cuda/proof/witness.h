/* cuda/proof/witness.h - a witness solved on the device: wires, a and b, from the inputs and the values that the CPU solved.
 *
 * gpu/abi.h defines chains and their code. One thread runs a chain. A block is one warp and runs chains of one shape, so its
 * threads execute the same operations on different wires. The latest values of a chain are in shared memory; all are stored to
 * wires, a and b. Then one thread per row evaluates the rows that only check.
 */
#ifndef CUDA_PROOF_WITNESS_H
#define CUDA_PROOF_WITNESS_H

#include "gpu/abi.h"
#include "cuda/field/fields.h"

#define WITNESS_THREADS 128

/* ---- the chains of a key ----------------------------------------------------------------------- */

typedef struct witness_key {
    device_owner owner;
    device_abi_chains chains; /* in device memory */
} witness_key;

/* Copies the chains. A queue that measures only counts their bytes. */
static inline void witness_key_load(device_queue *queue, witness_key *key, const device_abi_chains *chains) {
    device_abi_chains *on = &key->chains;
#define WITNESS_LOAD(type, array, count) \
    on->array = (const type *)device_own_copy(queue, &key->owner, chains->array, (count) * sizeof(type));
    *on = *chains;
    WITNESS_LOAD(device_abi_shape, shapes, chains->shapes_count)
    WITNESS_LOAD(device_abi_chain_block, blocks, chains->blocks_count)
    WITNESS_LOAD(uint32_t, code, chains->code_count)
    WITNESS_LOAD(uint32_t, shifts, chains->shifts_count)
    WITNESS_LOAD(device_abi_place, places, chains->places_count)
    WITNESS_LOAD(fr, coefficients, chains->coefficients_count)
    WITNESS_LOAD(device_abi_check, checks, chains->checks_count)
    WITNESS_LOAD(device_abi_term, terms, chains->terms_count)
    WITNESS_LOAD(uint32_t, parts[0].targets, (size_t)chains->parts[0].wires + chains->parts[0].rows)
    WITNESS_LOAD(uint32_t, parts[1].targets, (size_t)chains->parts[1].wires + chains->parts[1].rows)
#undef WITNESS_LOAD
}

/* ---- values that the CPU solved ----------------------------------------------------------------------- */

/* The vectors of a proof. */
typedef struct witness_vectors {
    fr *wires, *a, *b;
} witness_vectors;

typedef struct witness_place_arguments {
    witness_vectors to;
    const fr *values;        /* wires, then a, then b of the rows */
    const uint32_t *targets; /* wires, then rows */
    uint32_t wires, rows;
} witness_place_arguments;

DEVICE void witness_place(grid_place place, const witness_place_arguments *arguments, void *shared, uint32_t phase) {
    const uint64_t i = device_index(place), wires = arguments->wires, rows = arguments->rows;
    (void)shared;
    (void)phase;
    if (i < wires) {
        arguments->to.wires[arguments->targets[i]] = arguments->values[i];
    } else if (i < wires + rows) {
        arguments->to.a[arguments->targets[i]] = arguments->values[i];
    } else if (i < wires + 2 * rows) {
        arguments->to.b[arguments->targets[i - rows]] = arguments->values[i];
    }
}
KERNEL(witness_place, witness_place_arguments, WITNESS_THREADS, 1, 1)

/* ---- sums ------------------------------------------------------------------------------------------ */

/* sum += coefficient * value; the coefficients 0, 1, 2, -1, -2 have the numbers 0 to 4. */
DEVICE void witness_add_term(fr *sum, const fr *coefficients, uint32_t coefficient, const fr *value) {
    fr term = *value;
    if (coefficient >= 5) {
        const fr factor = coefficients[coefficient];
        fr_mul(&term, &term, &factor);
    } else if (coefficient == 2 || coefficient == 4) {
        fr_double(&term, &term);
    }
    if (coefficient == 3 || coefficient == 4) {
        fr_sub(sum, sum, &term);
    } else if (coefficient != 0) {
        fr_add(sum, sum, &term);
    }
}

/* ---- chains ---------------------------------------------------------------------------------------- */

typedef struct witness_chain_arguments {
    witness_vectors to;
    const device_abi_shape *shapes;
    const device_abi_chain_block *blocks;
    const uint32_t *code, *shifts;
    const device_abi_place *places;
    const fr *coefficients;
} witness_chain_arguments;

/* A running chain. In shared memory consecutive values of a thread are `threads` apart. */
typedef struct witness_chain {
    fr *ring;               /* [DEVICE_ABI_RING] */
    const uint32_t *shifts; /* [shifts] */
    const device_abi_place *next;
    uint32_t threads, slot; /* slot of the next value */
} witness_chain;

#define WITNESS_CHAIN_SHARED (DEVICE_ABI_CHAIN_THREADS * (DEVICE_ABI_RING * sizeof(fr) + DEVICE_ABI_SHIFTS * sizeof(uint32_t)))

DEVICE uint32_t witness_number(witness_chain *chain) {
    const device_abi_place place = *chain->next++;
    return place.number + chain->shifts[place.shift * chain->threads];
}

DEVICE void witness_operand(fr *value, witness_chain *chain, const witness_vectors *from, uint32_t source) {
    if (source < DEVICE_ABI_RING) {
        *value = chain->ring[source * chain->threads];
        return;
    }
    const uint32_t number = witness_number(chain);
    const fr *values = source == DEVICE_ABI_FROM_WIRE ? from->wires : source == DEVICE_ABI_FROM_A ? from->a : from->b;
    *value = values[number];
}

DEVICE void witness_push(witness_chain *chain, const fr *value) {
    chain->ring[chain->slot * chain->threads] = *value;
    chain->slot = (chain->slot + 1) % DEVICE_ABI_RING;
}

/* Returns the position in the code after the sum. */
DEVICE const uint32_t *witness_sum(witness_chain *chain, const witness_chain_arguments *arguments, const uint32_t *code, uint32_t terms) {
    fr sum, value;
    fr_set_zero(&sum);
    for (uint32_t i = 0; i < terms; i++) {
        const uint32_t word = *code++, source = word >> DEVICE_ABI_COEFFICIENT_BITS;
        const uint32_t coefficient = word & ((1u << DEVICE_ABI_COEFFICIENT_BITS) - 1);
        if (source == DEVICE_ABI_FROM_ONE) {
            value = arguments->coefficients[coefficient];
            fr_add(&sum, &sum, &value);
        } else {
            witness_operand(&value, chain, &arguments->to, source);
            witness_add_term(&sum, arguments->coefficients, coefficient, &value);
        }
    }
    witness_push(chain, &sum);
    return code;
}

DEVICE void witness_row(witness_chain *chain, const witness_vectors *to, uint32_t word) {
    const uint32_t from_right = word >> 16 & 255, from_rest = word >> 24;
    fr left, right, product;
    witness_operand(&left, chain, to, word >> 8 & 255);
    right = left;
    if (from_right != DEVICE_ABI_FROM_LEFT) witness_operand(&right, chain, to, from_right);
    fr_mul(&product, &left, &right);
    if (from_rest != DEVICE_ABI_FROM_NONE) {
        const fr rest = chain->ring[from_rest * chain->threads];
        fr_sub(&product, &product, &rest);
    }
    if ((word & 255) == DEVICE_ABI_ROW_NEGATED) fr_neg(&product, &product);
    const uint32_t row = witness_number(chain);
    to->a[row] = left;
    to->b[row] = right;
    to->wires[witness_number(chain)] = product;
    witness_push(chain, &product);
}

DEVICE void witness_chains(grid_place place, const witness_chain_arguments *arguments, void *shared, uint32_t phase) {
    const device_abi_chain_block block = arguments->blocks[place.block];
    const device_abi_shape shape = arguments->shapes[block.shape];
    const uint32_t number = block.first + place.thread;
    (void)phase;
    if (number >= shape.chains) return;
    fr *const ring = (fr *)shared + place.thread;
    uint32_t *const shifts = (uint32_t *)((fr *)shared + DEVICE_ABI_RING * place.threads) + place.thread;
    for (uint32_t i = 0; i < shape.shifts; i++) {
        shifts[i * place.threads] = arguments->shifts[shape.shifts_start + (uint64_t)i * shape.chains + number];
    }
    witness_chain chain = {ring, shifts, arguments->places + shape.places_start, place.threads, 0};
    const uint32_t *code = arguments->code + shape.code_start, *const end = arguments->code + shape.code_end;
    while (code < end) {
        const uint32_t word = *code++;
        if ((word & 255) == DEVICE_ABI_SUM) {
            code = witness_sum(&chain, arguments, code, word >> 8);
        } else {
            witness_row(&chain, &arguments->to, word);
        }
    }
}
KERNEL(witness_chains, witness_chain_arguments, DEVICE_ABI_CHAIN_THREADS, 1, 1)

/* ---- checks ---------------------------------------------------------------------------------------- */

typedef struct witness_check_arguments {
    witness_vectors to;
    const device_abi_check *checks;
    const device_abi_term *terms;
    const fr *coefficients;
    uint32_t *failed; /* counts failing rows */
    uint32_t count, wires;
} witness_check_arguments;

DEVICE void witness_side(fr *sum, const witness_check_arguments *arguments, uint32_t start, uint32_t end) {
    fr_set_zero(sum);
    for (uint32_t i = start; i < end; i++) {
        const device_abi_term term = arguments->terms[i];
        const fr value = term.wire < arguments->wires ? arguments->to.wires[term.wire] : arguments->to.a[term.wire - arguments->wires];
        witness_add_term(sum, arguments->coefficients, term.coefficient, &value);
    }
}

/* Left sides that checks read belong to rows that solve a wire; no check writes those. */
DEVICE void witness_check(grid_place place, const witness_check_arguments *arguments, void *shared, uint32_t phase) {
    const uint64_t i = device_index(place);
    (void)shared;
    (void)phase;
    if (i >= arguments->count) return;
    const device_abi_check check = arguments->checks[i];
    fr left, right, out;
    witness_side(&left, arguments, check.start[0], check.end[0]);
    witness_side(&right, arguments, check.start[1], check.end[1]);
    witness_side(&out, arguments, check.start[2], check.end[2]);
    arguments->to.a[check.row] = left;
    arguments->to.b[check.row] = right;
    fr_mul(&left, &left, &right);
    if (!fr_equal(&left, &out)) device_add(arguments->failed, 1);
}
KERNEL(witness_check, witness_check_arguments, WITNESS_THREADS, 1, 1)

/* ---- a whole witness --------------------------------------------------------------------------------- */

/* Memory of a witness: vectors of n values, with `rows` rows in a and b, and n values of scratch memory. */
typedef struct witness_room {
    witness_vectors to;
    fr *work;
    uint64_t n;
    uint32_t wires, rows;
} witness_room;

static inline void witness_part_run(device_queue *queue, const witness_key *key, const witness_room *room, uint32_t part,
                                    fr *work, const void *values) {
    const device_abi_part *solved = &key->chains.parts[part];
    const uint64_t count = device_abi_part_values(solved);
    const witness_place_arguments arguments = {room->to, work, solved->targets, solved->wires, solved->rows};
    if (count) device_write(queue, work, values, count * sizeof(fr));
    LAUNCH(queue, witness_place, device_blocks(count, WITNESS_THREADS), WITNESS_THREADS, 0, &arguments);
}

static inline void witness_chains_run(device_queue *queue, const witness_key *key, const witness_room *room) {
    const device_abi_chains *chains = &key->chains;
    const witness_chain_arguments arguments = {room->to,       chains->shapes, chains->blocks,           chains->code,
                                               chains->shifts, chains->places, (const fr *)chains->coefficients};
    LAUNCH(queue, witness_chains, chains->blocks_count, DEVICE_ABI_CHAIN_THREADS, WITNESS_CHAIN_SHARED, &arguments);
}

/* Evaluates the rows that only check, and clears the rest of the domain. */
static inline void witness_checks_run(device_queue *queue, const witness_key *key, const witness_room *room, uint32_t *failed) {
    const device_abi_chains *chains = &key->chains;
    const witness_check_arguments arguments = {room->to, chains->checks,       chains->terms, (const fr *)chains->coefficients,
                                               failed,   chains->checks_count, room->wires};
    const size_t rest = (size_t)(room->n - room->rows) * sizeof(fr);
    device_zero(queue, failed, sizeof *failed);
    if (rest) {
        device_zero(queue, room->to.a + room->rows, rest);
        device_zero(queue, room->to.b + room->rows, rest);
    }
    LAUNCH(queue, witness_check, device_blocks(arguments.count, WITNESS_THREADS), WITNESS_THREADS, 0, &arguments);
}

/* Queues the solution of a whole witness. While chains run, inputs->rest() solves on the CPU. *failures, in page-locked memory, is the
 * number of failing rows once the queue is finished. Returns 0 when inputs->rest() cancelled the call; then the queue is finished.
 * Errors are recorded in the queue. */
static inline int witness_run(device_queue *queue, const witness_key *key, const witness_room *room, const device_abi_inputs *inputs,
                              uint32_t *failures) {
    fr *const second = room->work + device_abi_part_values(&key->chains.parts[0]);
    uint32_t *const failed = (uint32_t *)(room->work + room->n - 1);
    device_write(queue, room->to.wires, inputs->inputs, key->chains.inputs * sizeof(fr));
    witness_part_run(queue, key, room, 0, room->work, inputs->parts[0]);
    witness_chains_run(queue, key, room);
    if (!inputs->rest(inputs->context)) {
        device_finish(queue);
        return 0;
    }
    witness_part_run(queue, key, room, 1, second, inputs->parts[1]);
    witness_checks_run(queue, key, room, failed);
    device_read_later(queue, failures, failed, sizeof *failures);
    return 1;
}

#endif
