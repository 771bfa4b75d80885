/* gpu/chains.c - builds the data that a GPU needs to solve a witness, and decides whether it should. */
#include "gpu/chains.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/thread_pool.h"
#include "gpu/parts.h"
#include "gpu/programs.h"

#define ROW_BYTES 96 /* a wire, a and b */
/* A product in a chain: a warp alone on its scheduler needs 128 wide multiply-adds of 4 clocks at 1.98 GHz, and some overhead. */
#define CHAIN_NS 300
/* A product on 16 CPUs, which take 20 ns each. */
#define PROCESSOR_NS 1.25
/* Of page-locked memory. */
#define BUS_BYTES_PER_NS 25

typedef struct chains_builder {
    const constraint_system *cs;
    cs_chains *chains;
    cs_parts parts;
    cs_programs programs;
    int forced;
    char *reason;
    /* Of checks. */
    device_abi_check *checks;
    device_abi_term *terms;
} chains_builder;

/* ---- cost ------------------------------------------------------------------------------------ */

/* Compares costs. Gain of solving on the GPU: the CPU's products, and rows that are not copied. Loss: `longest`, the products of
 * one chain, unless chains are forced. */
static int pays_off(const chains_builder *m, uint64_t products, uint64_t longest, uint64_t chains) {
    const double saved = (double)m->chains->device_rows * ROW_BYTES / BUS_BYTES_PER_NS;
    const double gained = (double)products * PROCESSOR_NS + saved, lost = m->forced ? 0 : (double)longest * CHAIN_NS;
    if (gained > lost) return 1;
    snprintf(m->reason, CS_CHAINS_REASON,
             "%llu chains of up to %llu steps take %.2f ms on the device, and the CPU and the bus no more than %.2f",
             (unsigned long long)chains, (unsigned long long)longest, 1e-6 * lost, 1e-6 * gained);
    return 0;
}

static int refuse(const chains_builder *m, const char *reason) {
    snprintf(m->reason, CS_CHAINS_REASON, "%s", reason);
    return 0;
}

/* ---- parts of the CPU ------------------------------------------------------------------------- */

/* Returns 0 when the wires do not fit 32 bits: a prepared key may solve a hint many times. */
static int count_targets(const constraint_system *cs, const uint32_t *program, uint32_t count, device_abi_part *part) {
    uint64_t wires = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (program[i] & CS_IS_HINT) {
            wires += cs->hints[program[i] & ~CS_IS_HINT].outputs;
        } else {
            wires++;
            part->rows++;
        }
    }
    part->wires = (uint32_t)wires;
    return wires <= UINT32_MAX;
}

static void write_targets(const constraint_system *cs, const uint32_t *program, uint32_t count, const device_abi_part *part,
                          uint32_t *targets) {
    uint32_t *wires = targets, *rows = targets + part->wires;
    for (uint32_t i = 0; i < count; i++) {
        if (program[i] & CS_IS_HINT) {
            const cs_hint *hint = &cs->hints[program[i] & ~CS_IS_HINT];
            for (uint32_t o = 0; o < hint->outputs; o++) *wires++ = hint->first_output + o;
        } else {
            *wires++ = cs->rows[program[i]].solved_wire;
            *rows++ = program[i];
        }
    }
}

static int count_parts(const chains_builder *m) {
    const cs_parts *parts = &m->parts;
    for (int i = 0; i < 2; i++) {
        const uint32_t start = parts->start[parts->first[i]], count = parts->start[parts->first[i + 1]] - start;
        if (!count_targets(m->cs, parts->program + start, count, &m->chains->device.parts[i])) {
            return refuse(m, "the CPU would have to solve too many wires");
        }
    }
    return 1;
}

static int build_parts(chains_builder *m) {
    const constraint_system *cs = m->cs;
    cs_chains *chains = m->chains;
    const cs_parts *parts = &m->parts;
    const uint32_t tasks = parts->first[CS_DEVICE_PART], instructions = parts->start[tasks];
    device_abi_part *part = chains->device.parts;
    const size_t targets = (size_t)part[0].wires + part[0].rows + part[1].wires + part[1].rows;
    chains->program = malloc(((size_t)instructions + 1) * sizeof *chains->program);
    chains->task_start = malloc(((size_t)tasks + 1) * sizeof *chains->task_start);
    chains->targets = malloc((targets + 1) * sizeof *chains->targets);
    if (!chains->program || !chains->task_start || !chains->targets) return 0;
    memcpy(chains->program, parts->program, (size_t)instructions * sizeof *chains->program);
    memcpy(chains->task_start, parts->start, ((size_t)tasks + 1) * sizeof *chains->task_start);
    for (int i = 0; i < 3; i++) chains->first_task[i] = parts->first[i];
    uint32_t *at = chains->targets;
    for (int i = 0; i < 2; i++) {
        const uint32_t start = parts->start[parts->first[i]];
        part[i].targets = at;
        write_targets(cs, parts->program + start, parts->start[parts->first[i + 1]] - start, &part[i], at);
        at += part[i].wires + part[i].rows;
    }
    return 1;
}

/* ---- chains ----------------------------------------------------------------------------------- */

/* A lower bound before any chain is encoded: a chain has at least as many products as rows, and all chains together at most as
 * many as there are terms. */
static int may_pay_off(const chains_builder *m) {
    const cs_parts *parts = &m->parts;
    uint32_t longest = 0;
    for (uint32_t c = parts->first[CS_DEVICE_PART]; c < parts->first[CS_PARTS]; c++) {
        const uint32_t rows = parts->start[c + 1] - parts->start[c];
        if (rows > longest) longest = rows;
    }
    if (longest == 0) return refuse(m, "no row can be solved on a GPU");
    return pays_off(m, m->cs->short_forms.terms_count + m->chains->device_rows, longest,
                       parts->first[CS_PARTS] - parts->first[CS_DEVICE_PART]);
}

static int write_chains(chains_builder *m) {
    const cs_parts *parts = &m->parts;
    int done = cs_programs_open(&m->programs, m->cs);
    for (uint32_t c = parts->first[CS_DEVICE_PART]; done && c < parts->first[CS_PARTS]; c++) {
        done = cs_programs_add(&m->programs, parts->program + parts->start[c], parts->start[c + 1] - parts->start[c]);
    }
    if (!done && m->programs.refused) refuse(m, m->programs.refused);
    return done;
}

static int by_products(const void *a, const void *b) {
    const cs_shape *x = a, *y = b;
    return x->products < y->products ? 1 : x->products > y->products ? -1 : 0;
}

/* Computes the sizes of the arrays of all shapes; returns 0 when one does not fit 32 bits. */
static int count_shapes(chains_builder *m) {
    device_abi_chains *device = &m->chains->device;
    uint64_t code = 0, places = 0, shifts = 0, blocks = 0;
    for (uint32_t i = 0; i < m->programs.shapes_count; i++) {
        const cs_shape *shape = &m->programs.shapes[i];
        code += shape->code_count;
        places += shape->places_count;
        shifts += (uint64_t)shape->shifts * shape->chains;
        blocks += (shape->chains + DEVICE_ABI_CHAIN_THREADS - 1) / DEVICE_ABI_CHAIN_THREADS;
        m->chains->chains += shape->chains;
        m->chains->products += shape->chains * shape->products;
    }
    m->chains->longest_products = m->programs.shapes[0].products;
    device->shapes_count = m->programs.shapes_count;
    device->code_count = (uint32_t)code;
    device->places_count = (uint32_t)places;
    device->shifts_count = (uint32_t)shifts;
    device->blocks_count = (uint32_t)blocks;
    return code <= UINT32_MAX && places <= UINT32_MAX && shifts <= UINT32_MAX;
}

static int build_shapes(chains_builder *m) {
    device_abi_chains *device = &m->chains->device;
    qsort(m->programs.shapes, m->programs.shapes_count, sizeof *m->programs.shapes, by_products);
    if (!count_shapes(m)) return refuse(m, "the circuit has too many chains");
    device_abi_shape *shapes = malloc(device->shapes_count * sizeof *shapes);
    device_abi_chain_block *blocks = malloc(device->blocks_count * sizeof *blocks);
    uint32_t *code = malloc(device->code_count * sizeof *code), *shifts = malloc(device->shifts_count * sizeof *shifts);
    device_abi_place *places = malloc(device->places_count * sizeof *places);
    device->shapes = shapes;
    device->blocks = blocks;
    device->code = code;
    device->places = places;
    device->shifts = shifts;
    if (!shapes || !blocks || !code || !places || !shifts) return 0;
    uint32_t code_at = 0, places_at = 0, shifts_at = 0, block = 0;
    for (uint32_t i = 0; i < device->shapes_count; i++) {
        const cs_shape *shape = &m->programs.shapes[i];
        shapes[i] = (device_abi_shape){shape->chains, code_at, code_at + shape->code_count, places_at, shifts_at, shape->shifts};
        memcpy(code + code_at, shape->code, shape->code_count * sizeof *code);
        memcpy(places + places_at, shape->places, shape->places_count * sizeof *places);
        code_at += shape->code_count;
        places_at += shape->places_count;
        for (uint32_t s = 0; s < shape->shifts; s++) {
            for (uint32_t c = 0; c < shape->chains; c++) shifts[shifts_at++] = shape->shift_of[c][s];
        }
        for (uint32_t c = 0; c < shape->chains; c += DEVICE_ABI_CHAIN_THREADS) {
            blocks[block++] = (device_abi_chain_block){i, c};
        }
    }
    return 1;
}

/* ---- checks ----------------------------------------------------------------------------------- */

/* Writes the terms of an expression, unless an earlier check did: number[expression] is 1 + their index in the checks' terms. */
static void put_expression(chains_builder *m, uint32_t *number, uint32_t expression, uint32_t *start, uint32_t *end) {
    const cs_short_forms *forms = &m->cs->short_forms;
    const cs_span span = forms->spans[expression];
    const uint32_t count = span.end - span.start;
    device_abi_chains *device = &m->chains->device;
    if (!number[expression]) {
        number[expression] = 1 + device->terms_count;
        if (m->terms) {
            for (uint32_t t = 0; t < count; t++) {
                const cs_term term = forms->terms[span.start + t];
                m->terms[device->terms_count + t] = (device_abi_term){term.coefficient, term.wire};
            }
        }
        device->terms_count += count;
    }
    *start = number[expression] - 1;
    *end = *start + count;
}

/* When m->terms is NULL, terms are only counted. */
static void put_checks(chains_builder *m, uint32_t *number) {
    const constraint_system *cs = m->cs;
    m->chains->device.terms_count = 0;
    for (uint32_t i = cs->checks_start; i < cs->instructions_count; i++) {
        device_abi_check *check = &m->checks[i - cs->checks_start];
        const cs_row *row = &cs->rows[cs->program[i]];
        check->row = cs->program[i];
        put_expression(m, number, row->left, &check->start[0], &check->end[0]);
        put_expression(m, number, row->right, &check->start[1], &check->end[1]);
        put_expression(m, number, row->out, &check->start[2], &check->end[2]);
    }
}

static int build_checks(chains_builder *m) {
    const constraint_system *cs = m->cs;
    device_abi_chains *device = &m->chains->device;
    const size_t numbers = ((size_t)cs->expressions + 1) * sizeof(uint32_t);
    uint32_t *number = calloc(1, numbers);
    device->checks_count = cs->instructions_count - cs->checks_start;
    m->checks = malloc(((size_t)device->checks_count + 1) * sizeof *m->checks);
    device->checks = m->checks;
    if (number && m->checks) {
        put_checks(m, number);
        m->terms = malloc(((size_t)device->terms_count + 1) * sizeof *m->terms);
        if (m->terms) {
            memset(number, 0, numbers);
            put_checks(m, number);
        }
    }
    free(number);
    device->terms = m->terms;
    return m->terms != NULL;
}

/* ---- building -------------------------------------------------------------------------------- */

/* Returns 1 when the parts fit a vector of the key's domain on the GPU, with one element to spare. */
static int fits_memory(const chains_builder *m, uint32_t domain_log2) {
    const uint64_t values = cs_chains_values(m->chains) - m->chains->device.inputs;
    if (values < (uint64_t)1 << domain_log2) return 1;
    return refuse(m, "the CPU would have to solve too many rows");
}

static int build(chains_builder *m, uint32_t domain_log2, const g16_cancel *cancel) {
    const constraint_system *cs = m->cs;
    device_abi_chains *device = &m->chains->device;
    if (!cs_parts_build(&m->parts, cs, cancel)) {
        return m->parts.is_disordered ? refuse(m, "the program solves a wire after an instruction that reads it") : 0;
    }
    device->inputs = cs->public_wires + cs->secret_wires;
    device->coefficients_count = cs->short_forms.coefficients_count;
    m->chains->device_rows = m->parts.start[m->parts.first[CS_PARTS]] - m->parts.start[m->parts.first[CS_DEVICE_PART]];
    if (!may_pay_off(m) || !count_parts(m) || !fits_memory(m, domain_log2) || !build_parts(m) || !write_chains(m) || !build_shapes(m)) return 0;
    if (!pays_off(m, m->chains->products, m->chains->longest_products, m->chains->chains)) return 0;
    fr *coefficients = malloc(device->coefficients_count * sizeof *coefficients);
    device->coefficients = coefficients;
    if (!coefficients) return 0;
    memcpy(coefficients, cs->short_forms.coefficients, device->coefficients_count * sizeof *coefficients);
    return build_checks(m) && !g16_is_cancelled(cancel);
}

g16_status cs_chains_build(cs_chains **chains, const constraint_system *cs, uint32_t domain_log2, int forced,
                          char reason[CS_CHAINS_REASON], const g16_cancel *cancel, g16_error *error) {
    chains_builder *m = calloc(1, sizeof *m);
    int made = 0;
    *chains = NULL;
    reason[0] = 0;
    if (m) {
        m->cs = cs;
        m->forced = forced;
        m->reason = reason;
        m->chains = calloc(1, sizeof *m->chains);
        made = m->chains && build(m, domain_log2, cancel);
        cs_programs_close(&m->programs);
        cs_parts_free(&m->parts);
        if (made) *chains = m->chains;
        if (!made && m->chains) cs_chains_free(m->chains);
    }
    free(m);
    if (made || reason[0]) return G16_OK;
    if (g16_is_cancelled(cancel)) return g16_fail(error, G16_CANCELLED, 0, "cancelled while loading a key");
    return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for the chains of a circuit");
}

void cs_chains_free_device_data(cs_chains *chains) {
    device_abi_chains *device = &chains->device;
    const void *const arrays[] = {device->shapes, device->blocks,       device->code,   device->places,
                                  device->shifts, device->coefficients, device->checks, device->terms};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free((void *)(uintptr_t)arrays[i]);
    device->shapes = NULL;
    device->blocks = NULL;
    device->code = NULL;
    device->places = NULL;
    device->shifts = NULL;
    device->coefficients = NULL;
    device->checks = NULL;
    device->terms = NULL;
}

void cs_chains_free(cs_chains *chains) {
    if (!chains) return;
    cs_chains_free_device_data(chains);
    free(chains->program);
    free(chains->task_start);
    free(chains->targets);
    free(chains);
}

uint64_t cs_chains_values(const cs_chains *chains) {
    const device_abi_part *parts = chains->device.parts;
    return chains->device.inputs + device_abi_part_values(&parts[0]) + device_abi_part_values(&parts[1]);
}
