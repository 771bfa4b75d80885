/* gpu/parts.c - divides the instructions that solve wires between the CPU and a GPU (gpu/chains.h).
 *
 * Dependencies are those of the short forms, which also read left sides of earlier rows. The system's program lists instructions
 * after all those that they read, so one pass in either direction computes depth or reachability. That of a prepared key may do
 * otherwise, and is refused.
 */
#include "gpu/parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/thread_pool.h"

#define NO_PLACE 0xffffffffu
/* Minimum number of instructions of a CPU task. */
#define SMALLEST_TASK 256
/* Final rows of one depth run on the CPU when their weight (number times depth) is less than 1/8 of the heaviest depth's. */
#define LIGHT_ENDS 8

/* Bits of `flags`. */
#define IS_READ 1u
#define ON_CPU 2u
#define IN_FIRST_PART 4u

typedef struct partition {
    const constraint_system *cs;
    uint32_t solvers;    /* number of solving instructions; a place is an index into cs->program */
    uint32_t *solved_at; /* [wires] place; NO_PLACE for inputs */
    uint32_t *row_at;    /* [constraints] place */
    uint32_t *depth;     /* [solvers] from 1 */
    uint8_t *flags;      /* [solvers] */
    uint32_t *parent;    /* [solvers] union-find; the root is the lowest place of a set */
    uint32_t *size;      /* [solvers] of the root's set */
    int is_disordered;   /* an instruction reads what a later one solves */
} partition;

/* ---- dependencies ----------------------------------------------------------------------------- */

typedef void (*visitor)(partition *, uint32_t place, uint32_t operand);

static inline __attribute__((always_inline)) void visit_expression(partition *c, uint32_t place, uint32_t expression, uint32_t solved,
                                                                   visitor visit) {
    const cs_short_forms *forms = &c->cs->short_forms;
    const cs_span span = forms->spans[expression];
    for (uint32_t t = span.start; t < span.end; t++) {
        const uint32_t wire = forms->terms[t].wire;
        if (wire == solved) continue;
        const uint32_t operand = wire < c->cs->wires ? c->solved_at[wire] : c->row_at[wire - c->cs->wires];
        if (operand != NO_PLACE) visit(c, place, operand);
    }
}

/* Calls visit for every instruction that this one reads; some are visited repeatedly. */
static inline __attribute__((always_inline)) void visit_operands(partition *c, uint32_t place, visitor visit) {
    const uint32_t instruction = c->cs->program[place];
    if (instruction & CS_IS_HINT) {
        visit_expression(c, place, c->cs->hints[instruction & ~CS_IS_HINT].input, NO_PLACE, visit);
        return;
    }
    const cs_row *row = &c->cs->rows[instruction];
    visit_expression(c, place, row->left, row->solved_wire, visit);
    if (row->right != row->left) visit_expression(c, place, row->right, row->solved_wire, visit);
    visit_expression(c, place, row->out, row->solved_wire, visit);
}

static inline void update_depth(partition *c, uint32_t place, uint32_t operand) {
    c->is_disordered |= operand >= place;
    c->flags[operand] |= IS_READ;
    if (c->depth[operand] >= c->depth[place]) c->depth[place] = c->depth[operand] + 1;
}

/* The CPU solves everything that it reads. What the GPU or the first part reads belongs to the first part if the CPU solves it. */
static inline void propagate_flags(partition *c, uint32_t place, uint32_t operand) {
    const uint8_t flags = c->flags[place];
    c->flags[operand] |= flags & ON_CPU ? flags & (ON_CPU | IN_FIRST_PART) : IN_FIRST_PART;
}

static uint32_t part_of(const partition *c, uint32_t place) {
    if (!(c->flags[place] & ON_CPU)) return CS_DEVICE_PART;
    return c->flags[place] & IN_FIRST_PART ? 0 : 1;
}

static uint32_t root_of(partition *c, uint32_t place) {
    uint32_t *parent = c->parent;
    while (parent[place] != place) {
        parent[place] = parent[parent[place]]; /* path halving */
        place = parent[place];
    }
    return place;
}

static inline void join(partition *c, uint32_t place, uint32_t operand) {
    if (part_of(c, place) != part_of(c, operand)) return;
    const uint32_t a = root_of(c, place), b = root_of(c, operand);
    if (a == b) return;
    const uint32_t root = a < b ? a : b, other = a < b ? b : a;
    c->parent[other] = root;
    c->size[root] += c->size[other];
}

/* ---- passes ----------------------------------------------------------------------------------- */

static void note_places(partition *c) {
    const constraint_system *cs = c->cs;
    memset(c->solved_at, 0xff, (size_t)cs->wires * sizeof *c->solved_at);     /* NO_PLACE */
    memset(c->row_at, 0xff, (size_t)cs->constraints * sizeof *c->row_at);     /* NO_PLACE */
    for (uint32_t p = 0; p < c->solvers; p++) {
        const uint32_t instruction = cs->program[p];
        if (instruction & CS_IS_HINT) {
            const cs_hint *hint = &cs->hints[instruction & ~CS_IS_HINT];
            for (uint32_t i = 0; i < hint->outputs; i++) c->solved_at[hint->first_output + i] = p;
        } else {
            c->solved_at[cs->rows[instruction].solved_wire] = p;
            c->row_at[instruction] = p;
        }
    }
}

/* Returns 1 for instructions that only the CPU can run: the GPU has no hints and no division. */
static int needs_processor(const constraint_system *cs, uint32_t instruction) {
    if (instruction & CS_IS_HINT) return 1;
    const cs_row *row = &cs->rows[instruction];
    return row->solves != CS_SOLVES_O || (row->solved_coefficient != 1 && row->solved_coefficient != 3);
}

/* Marks the instructions that the CPU keeps regardless of what they read. Returns 0 when out of memory. */
static int mark_cpu_instructions(partition *c) {
    uint32_t deepest = 0;
    for (uint32_t p = 0; p < c->solvers; p++) {
        if (c->depth[p] > deepest) deepest = c->depth[p];
        if (needs_processor(c->cs, c->cs->program[p])) c->flags[p] |= ON_CPU;
    }
    uint64_t *weight = calloc((size_t)deepest + 1, sizeof *weight), heaviest = 0;
    if (!weight) return 0;
    for (uint32_t p = 0; p < c->solvers; p++) {
        if (c->flags[p] & (IS_READ | ON_CPU)) continue;
        weight[c->depth[p]] += c->depth[p];
        if (weight[c->depth[p]] > heaviest) heaviest = weight[c->depth[p]];
    }
    for (uint32_t p = 0; p < c->solvers; p++) {
        if (c->flags[p] & (IS_READ | ON_CPU)) continue;
        if (weight[c->depth[p]] < heaviest / LIGHT_ENDS) c->flags[p] |= ON_CPU;
    }
    free(weight);
    return 1;
}

static int assign_parts(partition *c, const g16_cancel *cancel) {
    note_places(c);
    for (uint32_t p = 0; p < c->solvers; p++) {
        c->depth[p] = 1;
        visit_operands(c, p, update_depth);
    }
    if (c->is_disordered || g16_is_cancelled(cancel) || !mark_cpu_instructions(c)) return 0;
    for (uint32_t p = c->solvers; p-- > 0;) visit_operands(c, p, propagate_flags);
    if (g16_is_cancelled(cancel)) return 0;
    for (uint32_t p = 0; p < c->solvers; p++) {
        c->parent[p] = p;
        c->size[p] = 1;
    }
    for (uint32_t p = 0; p < c->solvers; p++) visit_operands(c, p, join);
    return !g16_is_cancelled(cancel);
}

/* ---- components ------------------------------------------------------------------------------- */

typedef struct component {
    uint32_t part, size, root;
} component;

/* By part; within a part larger components first, so that they start first. */
static int by_part_and_size(const void *a, const void *b) {
    const component *x = a, *y = b;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    if (x->size != y->size) return x->size < y->size ? 1 : -1;
    return x->root < y->root ? -1 : x->root > y->root;
}

/* Numbers the components; from here on c->size[root] is the number. Small components of the CPU share a number. */
static int number_components(partition *c, cs_parts *parts) {
    uint32_t count = 0, next = 0, part = 0, filled = 0;
    for (uint32_t p = 0; p < c->solvers; p++) count += c->parent[p] == p;
    component *list = malloc(((size_t)count + 1) * sizeof *list);
    parts->start = calloc((size_t)count + 2, sizeof *parts->start);
    if (!list || !parts->start) {
        free(list);
        return 0;
    }
    for (uint32_t p = 0; p < c->solvers; p++) {
        if (c->parent[p] == p) list[next++] = (component){part_of(c, p), c->size[p], p};
    }
    qsort(list, count, sizeof *list, by_part_and_size);
    next = 0;
    for (uint32_t i = 0; i < count; i++) {
        while (part < list[i].part) parts->first[++part] = next;
        c->size[list[i].root] = next;
        filled += list[i].size;
        const int last = i + 1 == count || list[i + 1].part != part;
        if (part != CS_DEVICE_PART && filled < SMALLEST_TASK && !last) continue;
        parts->start[++next] = filled; /* sizes, summed below */
        filled = 0;
    }
    while (part < CS_PARTS) parts->first[++part] = next;
    for (uint32_t i = 0; i < next; i++) parts->start[i + 1] += parts->start[i];
    free(list);
    return 1;
}

/* A stable counting sort: within a component the order of execution stays. */
static int write_parts(partition *c, cs_parts *parts) {
    const uint32_t count = parts->first[CS_PARTS];
    uint32_t *next = malloc(((size_t)count + 1) * sizeof *next);
    parts->program = malloc(((size_t)c->solvers + 1) * sizeof *parts->program);
    const int done = next && parts->program;
    if (done) {
        memcpy(next, parts->start, ((size_t)count + 1) * sizeof *next);
        for (uint32_t p = 0; p < c->solvers; p++) parts->program[next[c->size[root_of(c, p)]]++] = c->cs->program[p];
    }
    free(next);
    return done;
}

int cs_parts_build(cs_parts *parts, const constraint_system *cs, const g16_cancel *cancel) {
    partition c = {.cs = cs, .solvers = cs->checks_start};
    memset(parts, 0, sizeof *parts);
    c.solved_at = malloc(((size_t)cs->wires + 1) * sizeof *c.solved_at);
    c.row_at = malloc(((size_t)cs->constraints + 1) * sizeof *c.row_at);
    c.depth = calloc((size_t)c.solvers + 1, sizeof *c.depth);
    c.flags = calloc((size_t)c.solvers + 1, sizeof *c.flags);
    c.parent = malloc(((size_t)c.solvers + 1) * sizeof *c.parent);
    c.size = malloc(((size_t)c.solvers + 1) * sizeof *c.size);
    int done = c.solved_at && c.row_at && c.depth && c.flags && c.parent && c.size;
    done = done && assign_parts(&c, cancel) && number_components(&c, parts) && write_parts(&c, parts);
    free(c.solved_at);
    free(c.row_at);
    free(c.depth);
    free(c.flags);
    free(c.parent);
    free(c.size);
    if (!done) cs_parts_free(parts);
    parts->is_disordered = c.is_disordered;
    return done;
}

void cs_parts_free(cs_parts *parts) {
    free(parts->program);
    free(parts->start);
    memset(parts, 0, sizeof *parts);
}
