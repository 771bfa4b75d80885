/* gnark/schedule.c - determines which instructions may run in parallel.
 *
 * Instructions that solve wires are joined (union-find) when one reads a wire that the other solves; instructions that are not
 * joined may run in parallel. In some circuits nearly everything becomes joined: batch update feeds one hash chain from all its
 * leaves. There the program is cut by dependency level into a few slices that run one after another. Wires solved in earlier
 * slices join nothing, so the chain does not join the Merkle paths that it depends on.
 */
#include <stdlib.h>
#include <string.h>

#include "gnark/builder.h"
#include "gnark/steps.h"

/* Components with fewer instructions share a task. */
#define SMALLEST_TASK 256
/* A slice ends when a component exceeds 1/32 of all instructions. */
#define LARGEST_PART 32
#define MAX_SLICES 8

/* joined_to of an expression that no instruction has read yet, or that contains only inputs. */
#define UNREAD 0xffffffffu
#define ONLY_INPUTS 0xfffffffeu

typedef struct scheduler {
    cs_builder *builder;
    constraint_system *cs;
    const uint32_t *level; /* by place; CS_CHECK for checks */
    uint32_t levels, solvers;
    uint32_t *by_level;    /* [solvers] places by level, ascending within a level */
    uint32_t *level_start; /* [levels + 1] into by_level */
    uint32_t *joined_to;   /* [expressions] a place that is joined to all places that solve its wires */
    uint32_t *parent;      /* [instructions] union-find; the root is the lowest place of a set */
    uint32_t *size;        /* [instructions] of the root's set */
    uint32_t slices;
    uint32_t first_level[MAX_SLICES + 1]; /* of a slice; one extra entry marks the end */
    uint32_t largest;      /* largest component of the current slice */
} scheduler;

/* ---- union-find ------------------------------------------------------------------------------- */

static uint32_t root_of(scheduler *plan, uint32_t place) {
    uint32_t *parent = plan->parent;
    while (parent[place] != place) {
        parent[place] = parent[parent[place]]; /* path halving */
        place = parent[place];
    }
    return place;
}

static void join(scheduler *plan, uint32_t a, uint32_t b) {
    a = root_of(plan, a);
    b = root_of(plan, b);
    if (a == b) return;
    uint32_t root = a < b ? a : b, other = a < b ? b : a;
    plan->parent[other] = root;
    plan->size[root] += plan->size[other];
    if (plan->size[root] > plan->largest) plan->largest = plan->size[root];
}

static void join_expression(scheduler *plan, uint32_t place, uint32_t expression, uint32_t first_level) {
    const constraint_system *cs = plan->cs;
    uint32_t known = plan->joined_to[expression];
    if (known == ONLY_INPUTS) return;
    if (known != UNREAD) {
        if (plan->level[known] >= first_level) join(plan, place, known);
        return;
    }
    uint32_t before = place;
    int internal = 0;
    for (uint32_t t = cs->expression_start[expression]; t < cs->expression_start[expression + 1]; t++) {
        uint32_t solver = plan->builder->solved_by[cs->terms[t].wire];
        if (solver == CS_INPUT) continue;
        internal = 1;
        if (solver == before || plan->level[solver] < first_level) continue;
        join(plan, place, solver);
        before = solver;
    }
    plan->joined_to[expression] = internal ? place : ONLY_INPUTS;
}

static void join_instruction(scheduler *plan, uint32_t place, uint32_t first_level) {
    uint32_t instruction = plan->builder->order[place];
    if (instruction & CS_IS_HINT) {
        join_expression(plan, place, plan->cs->hints[instruction & ~CS_IS_HINT].input, first_level);
        return;
    }
    const cs_row *row = &plan->cs->rows[instruction];
    join_expression(plan, place, row->left, first_level);
    if (row->right != row->left) join_expression(plan, place, row->right, first_level);
    join_expression(plan, place, row->out, first_level);
}

/* ---- slices ----------------------------------------------------------------------------------- */

static int sort_by_level(scheduler *plan) {
    cs_builder *builder = plan->builder;
    for (uint32_t p = 0; p < builder->order_count; p++) {
        if (plan->level[p] == CS_CHECK) continue;
        plan->solvers++;
        if (plan->level[p] >= plan->levels) plan->levels = plan->level[p] + 1;
    }
    plan->by_level = cs_allocate(builder, plan->solvers, sizeof *plan->by_level);
    plan->level_start = cs_allocate(builder, (uint64_t)plan->levels + 2, sizeof *plan->level_start);
    if (!plan->by_level || !plan->level_start) return 0;
    uint32_t *next = plan->level_start + 1; /* one entry ahead while it is filled */
    for (uint32_t p = 0; p < builder->order_count; p++) {
        if (plan->level[p] != CS_CHECK) next[plan->level[p] + 1]++;
    }
    for (uint32_t l = 0; l < plan->levels; l++) next[l + 1] += next[l];
    for (uint32_t p = 0; p < builder->order_count; p++) {
        if (plan->level[p] != CS_CHECK) plan->by_level[next[plan->level[p]]++] = p;
    }
    return 1;
}

/* Joins all instructions level by level, in at most `most` slices. Returns the sum over slices of the largest component, a lower
 * bound of the instructions that must run one after another. */
static uint64_t cut(scheduler *plan, uint32_t most) {
    uint32_t limit = plan->solvers / LARGEST_PART + 1;
    uint64_t longest = 0;
    memset(plan->joined_to, 0xff, (size_t)plan->cs->expressions * sizeof *plan->joined_to); /* UNREAD */
    for (uint32_t p = 0; p < plan->builder->order_count; p++) {
        plan->parent[p] = p;
        plan->size[p] = 1;
    }
    plan->slices = plan->largest = 1;
    plan->first_level[0] = 0;
    for (uint32_t l = 0; l < plan->levels; l++) {
        if (plan->largest > limit && plan->slices < most) {
            longest += plan->largest;
            plan->first_level[plan->slices++] = l;
            plan->largest = 1;
        }
        for (uint32_t i = plan->level_start[l]; i < plan->level_start[l + 1]; i++) {
            join_instruction(plan, plan->by_level[i], plan->first_level[plan->slices - 1]);
        }
    }
    plan->first_level[plan->slices] = plan->levels;
    return longest + plan->largest;
}

/* ---- program ---------------------------------------------------------------------------------- */

typedef struct component {
    uint32_t slice, size, root;
} component;

/* By slice; within a slice larger components first, so that they start first. */
static int by_slice_and_size(const void *a, const void *b) {
    const component *x = a, *y = b;
    if (x->slice != y->slice) return x->slice < y->slice ? -1 : 1;
    if (x->size != y->size) return x->size < y->size ? 1 : -1;
    return x->root < y->root ? -1 : x->root > y->root;
}

static uint32_t slice_of(const scheduler *plan, uint32_t level) {
    uint32_t slice = 0;
    while (level >= plan->first_level[slice + 1]) slice++;
    return slice;
}

/* Numbers the tasks: task_of[root] for every component; small components share a task. */
static int number_tasks(scheduler *plan, uint32_t *task_of) {
    cs_builder *builder = plan->builder;
    constraint_system *cs = plan->cs;
    uint32_t count = 0, next = 0;
    for (uint32_t p = 0; p < builder->order_count; p++) count += plan->level[p] != CS_CHECK && plan->parent[p] == p;
    component *components = cs_allocate(builder, count, sizeof *components);
    cs->slice_start = cs_allocate(builder, (uint64_t)plan->slices + 1, sizeof *cs->slice_start);
    if (!components || !cs->slice_start) {
        free(components);
        return 0;
    }
    for (uint32_t p = 0; p < builder->order_count; p++) {
        if (plan->level[p] == CS_CHECK || plan->parent[p] != p) continue;
        components[next++] = (component){slice_of(plan, plan->level[p]), plan->size[p], p};
    }
    qsort(components, count, sizeof *components, by_slice_and_size);
    uint32_t tasks = 0, filled = 0;
    for (uint32_t c = 0; c < count; c++) {
        task_of[components[c].root] = tasks;
        filled += components[c].size;
        int last_of_slice = c + 1 == count || components[c + 1].slice != components[c].slice;
        if (filled < SMALLEST_TASK && !last_of_slice) continue;
        tasks++;
        filled = 0;
        if (last_of_slice) cs->slice_start[components[c].slice + 1] = tasks;
    }
    cs->slices = count ? plan->slices : 0;
    cs->components = tasks;
    free(components);
    return 1;
}

/* Sorts the instructions by task with a stable counting sort, which keeps the order of execution within a task. */
static int write_program(scheduler *plan, const uint32_t *task_of) {
    cs_builder *builder = plan->builder;
    constraint_system *cs = plan->cs;
    uint32_t count = builder->order_count;
    cs->program = cs_allocate(builder, count, sizeof *cs->program);
    cs->component_start = cs_allocate(builder, (uint64_t)cs->components + 2, sizeof *cs->component_start);
    if (!cs->program || !cs->component_start) return 0;
    uint32_t *next = cs->component_start + 1; /* one entry ahead while it is filled */
    for (uint32_t p = 0; p < count; p++) {
        if (plan->level[p] != CS_CHECK) next[task_of[root_of(plan, p)] + 1]++;
    }
    for (uint32_t t = 0; t < cs->components; t++) next[t + 1] += next[t];
    cs->checks_start = plan->solvers;
    uint32_t next_check = cs->checks_start;
    for (uint32_t p = 0; p < count; p++) {
        uint32_t *at = plan->level[p] == CS_CHECK ? &next_check : &next[task_of[root_of(plan, p)]];
        cs->program[(*at)++] = builder->order[p];
    }
    cs->instructions_count = count;
    return 1;
}

int cs_schedule(cs_builder *builder) {
    scheduler plan = {.builder = builder, .cs = builder->cs, .level = builder->place_level};
    uint32_t *task_of = cs_allocate(builder, builder->order_count, sizeof *task_of);
    plan.joined_to = cs_allocate(builder, builder->cs->expressions, sizeof *plan.joined_to);
    plan.parent = cs_allocate(builder, builder->order_count, sizeof *plan.parent);
    plan.size = cs_allocate(builder, builder->order_count, sizeof *plan.size);
    int done = task_of && plan.joined_to && plan.parent && plan.size && sort_by_level(&plan);
    if (done) {
        uint64_t whole = cut(&plan, 1);
        /* Each slice costs a barrier, so slices must shorten the sequential part by more than half. */
        if (whole > plan.solvers / LARGEST_PART && cut(&plan, MAX_SLICES) > whole / 2) cut(&plan, 1);
        done = number_tasks(&plan, task_of) && write_program(&plan, task_of);
    }
    free(task_of);
    free(plan.by_level);
    free(plan.level_start);
    free(plan.joined_to);
    free(plan.parent);
    free(plan.size);
    return done;
}
