/* key/prepared_load.c - loads a key whose arrays are sections of a mapped file. */
#include <stdlib.h>
#include <string.h>

#include "field/fp.h"
#include "r1cs/shorten.h"
#include "key/fold_shape.h"
#include "key/prepared_format.h"

/* Arrays, tables and folds, in this order. */
#define LOAD_TABLES PREPARED_ARRAYS
#define LOAD_FOLDS (LOAD_TABLES + PREPARED_TABLES)
#define LOAD_SECTIONS (LOAD_FOLDS + PREPARED_FOLDS)

typedef struct load_job {
    const prepared_directory *directory;
    g16_key *key;
    int check_points;
    const prepared_section *sections[LOAD_SECTIONS]; /* NULL for absent tables and folds */
    g16_status statuses[LOAD_SECTIONS];
    g16_error errors[LOAD_SECTIONS];
} load_job;

/* ---- sections --------------------------------------------------------------------------------- */

/* Finds the section of a type and requires `count` elements of this size. */
static g16_status require(const prepared_directory *directory, const prepared_section **found, prepared_type type,
                          size_t element_bytes, uint64_t count, uint32_t version, g16_error *error) {
    const prepared_section *section = prepared_find(directory, type);
    if (!section) {
        return g16_fail(error, G16_MALFORMED_KEY, 0, "prepared key: section %s is missing", prepared_type_name((uint32_t)type));
    }
    if (section->version != version) {
        return g16_fail(error, G16_UNSUPPORTED_KEY, section->offset, "prepared key: section %s has layout version %u",
                        prepared_type_name(section->type), section->version);
    }
    if (section->element_bytes != element_bytes || section->count != count) {
        return g16_fail(error, G16_MALFORMED_KEY, section->offset, "prepared key: section %s has a wrong size",
                        prepared_type_name(section->type));
    }
    *found = section;
    return G16_OK;
}

/* Copies a record after verifying its checksum. */
static g16_status read_record(const prepared_directory *directory, void *record, prepared_type type, size_t bytes,
                              g16_error *error) {
    const prepared_section *section = NULL;
    g16_status status = require(directory, &section, type, bytes, 1, PREPARED_SECTION_VERSION, error);
    if (status == G16_OK) status = prepared_check_section(directory, section, error);
    if (status == G16_OK) memcpy(record, directory->data + section->offset, bytes);
    return status;
}

/* Returns the layout version of tables that matches the other sections. */
static uint32_t table_version(const prepared_directory *directory) {
    const prepared_section *fold = prepared_find(directory, PREPARED_FOLD_K);
    return prepared_table_version(fold && fold->version == PREPARED_SECTION_VERSION);
}

static int is_known(const prepared_directory *directory, const prepared_section *section) {
    switch (section->type) {
#define CASE(section_type, ...) case section_type:
        PREPARED_EACH_RECORD(CASE)
        PREPARED_EACH_ARRAY(CASE, )
        return 1;
        PREPARED_EACH_TABLE(CASE, )
        return section->version == table_version(directory);
        PREPARED_EACH_FOLD(CASE, )
#undef CASE
        return section->version == PREPARED_SECTION_VERSION;
    default: return 0;
    }
}

/* Unknown sections are skipped unless they are flagged as required. */
static g16_status check_unknown(const prepared_directory *directory, g16_error *error) {
    for (uint32_t i = 0; i < directory->header.section_count; i++) {
        const prepared_section *section = &directory->sections[i];
        if (!is_known(directory, section) && section->flags & PREPARED_REQUIRED) {
            return g16_fail(error, G16_UNSUPPORTED_KEY, section->offset,
                            "prepared key: a section of type %u, which this kernel does not know, is required", section->type);
        }
    }
    return G16_OK;
}

/* ---- records ---------------------------------------------------------------------------------- */

static g16_status read_info(g16_key *key, const prepared_directory *directory, g16_error *error) {
    prepared_info info;
    g16_status status = read_record(directory, &info, PREPARED_INFO, sizeof info, error);
    if (status == G16_OK) status = prepared_check_numbers(&info, error);
    if (status != G16_OK) return status;
    memcpy(key->info.header, info.header, sizeof info.header);
#define TAKE(number, member) key->member = info.number;
    PREPARED_EACH_NUMBER(TAKE)
#undef TAKE
    key->info.wires = info.wires;
    key->info.domain_size = (uint64_t)1 << info.domain_log2;
    key->info.points_a = info.a_count;
    key->info.points_b = info.b_count;
    key->info.points_k = info.k_count;
    key->info.points_z = info.z_count;
    return G16_OK;
}

/* Records of points consist of coordinates only. */
static g16_status check_coordinates(const void *record, size_t bytes, g16_error *error) {
    const fp *coordinates = record;
    for (size_t i = 0; i < bytes / sizeof *coordinates; i++) {
        if (mont256_compare_var(coordinates[i].v, FP_MODULUS.p) >= 0) {
            return g16_fail(error, G16_MALFORMED_KEY, 0, "prepared key: a coordinate is not below the modulus");
        }
    }
    return G16_OK;
}

static g16_status read_points(g16_key *key, const prepared_directory *directory, g16_error *error) {
    prepared_constants constants;
    prepared_verifying_key vk;
    g16_status status = read_record(directory, &constants, PREPARED_CONSTANTS, sizeof constants, error);
    if (status == G16_OK) status = check_coordinates(&constants, sizeof constants, error);
    if (status == G16_OK) status = read_record(directory, &vk, PREPARED_VERIFYING_KEY, sizeof vk, error);
    if (status == G16_OK) status = check_coordinates(&vk, sizeof vk, error);
    if (status != G16_OK) return status;
    key->pk.alpha = constants.alpha;
    key->pk.beta = constants.beta;
    key->pk.delta = constants.delta;
    key->pk.beta2 = constants.beta2;
    key->pk.delta2 = constants.delta2;
    key->vk.backend = key->backend;
    key->vk.format_version = (g16_format_version)key->info.format_version;
    key->vk.alpha = vk.alpha;
    key->vk.beta = vk.beta;
    key->vk.delta = vk.delta;
    key->vk.beta2 = vk.beta2;
    key->vk.gamma2 = vk.gamma2;
    key->vk.delta2 = vk.delta2;
    key->vk.alpha_beta = vk.alpha_beta;
    key->backend->prepare_verifying_key(&key->vk);
    return G16_OK;
}

/* ---- arrays ----------------------------------------------------------------------------------- */

/* Returns the contents of the section of a type, which becomes number `index` of the job; NULL with an error in *status, or when
 * *status has one already. */
static void *bind(load_job *job, uint32_t index, prepared_type type, size_t element_bytes, uint64_t count, uint32_t version,
                  g16_status *status, g16_error *error) {
    if (*status == G16_OK) *status = require(job->directory, &job->sections[index], type, element_bytes, count, version, error);
    return *status == G16_OK ? (void *)(uintptr_t)(job->directory->data + job->sections[index]->offset) : NULL;
}

/* Sets a pointer of the key to its section. Nothing is written through it. Tables have `shifts` elements per base, arrays one. */
#define BIND(type, name, member, elements) \
    key->member = bind(job, next++, type, sizeof *key->member, shifts * (elements), version, &status, error);

static g16_status bind_arrays(load_job *job, g16_error *error) {
    g16_key *key = job->key;
    const uint32_t version = PREPARED_SECTION_VERSION, shifts = 1;
    uint32_t next = 0;
    g16_status status = G16_OK;
    PREPARED_EACH_ARRAY(BIND, key)
    return status;
}

/* Sets the pointers to the folded bases, if the file has them in a known layout. */
static g16_status bind_folds(load_job *job, g16_error *error) {
    static const prepared_type types[PREPARED_FOLDS] = {PREPARED_FOLD_K, PREPARED_FOLD_T, PREPARED_FOLD_WIRES};
    const prepared_directory *directory = job->directory;
    g16_key *key = job->key;
    uint32_t found = 0, next = LOAD_FOLDS;
    for (uint32_t i = 0; i < PREPARED_FOLDS; i++) {
        const prepared_section *section = prepared_find(directory, types[i]);
        if (!section || section->version != PREPARED_SECTION_VERSION) continue;
        if (types[i] == PREPARED_FOLD_K) {
            if (section->count > key->cs.wires) return g16_fail(error, G16_MALFORMED_KEY, section->offset, "prepared key: section %s has a wrong size", prepared_type_name(section->type));
            key->pk.fold_k_count = (uint32_t)section->count;
        }
        found++;
    }
    if (found == 0) return G16_OK;
    if (found < PREPARED_FOLDS) return g16_fail(error, G16_MALFORMED_KEY, 0, "prepared key: some folded bases are missing");
    key->pk.fold_t_count = fold_shape_for(key->cs.constraints, key->pk.domain_log2).points;
    const uint32_t version = PREPARED_SECTION_VERSION, shifts = 1;
    g16_status status = G16_OK;
    PREPARED_EACH_FOLD(BIND, key)
    return status;
}

/* Reads the plan from a table's parameters; returns 0 when no table has it. */
static int read_plan(msm_plan *plan, const prepared_section *section, const msm_table_counts *counts) {
    const uint64_t sets = section->parameters[0], shifts = section->parameters[1];
    if (sets < 1 || sets > MSM_TABLE_MAX_SETS || shifts < 2 || shifts > MSM_TABLE_MAX_SHIFTS || section->parameters[2] != 0) return 0;
    *plan = msm_plan_of_sets((uint32_t)sets, (uint32_t)shifts);
    return msm_table_fits(plan, counts);
}

/* Sets the pointers to the tables, if the file has them in a known layout. Another backend with the same points may have made them;
 * they are not used where they save nothing on this one. */
static g16_status bind_tables(load_job *job, g16_error *error) {
    static const prepared_type types[PREPARED_TABLES] = {PREPARED_TABLE_A, PREPARED_TABLE_KZ, PREPARED_TABLE_B2};
    const prepared_directory *directory = job->directory;
    g16_key *key = job->key;
    proving_key *pk = &key->pk;
    const msm_table_counts counts = key_table_counts(pk, key->cs.wires);
    msm_plan plan = {0};
    const uint32_t version = prepared_table_version(key_is_folded(pk));
    uint32_t found = 0, next = LOAD_TABLES;
    for (uint32_t i = 0; i < PREPARED_TABLES; i++) {
        const prepared_section *section = prepared_find(directory, types[i]);
        if (!section || section->version != version) continue;
        msm_plan own;
        if (!read_plan(&own, section, &counts) || (found && (own.sets != plan.sets || own.windows != plan.windows))) {
            return g16_fail(error, G16_MALFORMED_KEY, section->offset, "prepared key: section %s has a shape that no table has",
                            prepared_type_name(section->type));
        }
        plan = own;
        found++;
    }
    if (found == 0) return G16_OK;
    if (found < PREPARED_TABLES) return g16_fail(error, G16_MALFORMED_KEY, 0, "prepared key: some tables are missing");
    const int is_used = msm_table_saves(&plan, &counts, key->backend->table_read_cost);
    const uint32_t shifts = msm_plan_shifts(&plan);
    g16_status status = G16_OK;
    PREPARED_EACH_TABLE(BIND, key)
    if (status == G16_OK && is_used) pk->tables = plan;
    return status;
}

#undef BIND

/* Returns 1 for sections that a service never reads; verifying them at load would page them in. No proof needs B in G1,
 * small domains share their roots, and K and Z of a folded key are replaced by folded bases. Point lists are checked even if tables
 * replace them on the CPU: a GPU copies the lists. */
static int is_spare(const g16_key *key, uint32_t type) {
    if (type == PREPARED_POINTS_B1) return 1;
    if (type == PREPARED_TWIDDLES) return key->pk.domain_log2 <= SMALL_ROOTS_LOG2;
    if (key_is_folded(&key->pk) && (type == PREPARED_POINTS_K || type == PREPARED_POINTS_Z)) return 1;
    return type >= PREPARED_TABLE_A && type <= PREPARED_TABLE_B2 && !key->pk.tables.windows;
}

static void check_task(void *argument, uint32_t index, uint32_t worker) {
    load_job *job = argument;
    const prepared_section *section = job->sections[index];
    (void)worker;
    if (!section || is_spare(job->key, section->type)) return;
    if (!prepared_is_always_checked(section->type) && !job->check_points) return;
    job->statuses[index] = prepared_check_section(job->directory, section, &job->errors[index]);
    if (job->statuses[index] != G16_OK) return;
    job->statuses[index] = prepared_check_array(job->key, (prepared_type)section->type, &job->errors[index]);
}

static g16_status check_arrays(load_job *job, thread_pool *pool, const g16_cancel *cancel, g16_error *error) {
    const uint32_t count = LOAD_SECTIONS;
    g16_status status = thread_pool_for(pool, count, check_task, job, cancel);
    if (status != G16_OK) return g16_fail(error, status, 0, "cancelled while loading a prepared key");
    for (uint32_t i = 0; i < count; i++) {
        if (job->statuses[i] == G16_OK) continue;
        if (error) *error = job->errors[i];
        return job->statuses[i];
    }
    return G16_OK;
}

static g16_status load(load_job *job, thread_pool *pool, const uint8_t *data, size_t size,
                       const g16_cancel *cancel, g16_error *error) {
    g16_key *key = job->key;
    prepared_directory directory;
    g16_status status = prepared_read_directory(&directory, data, size, error);
    if (status == G16_OK) status = check_unknown(&directory, error);
    if (status != G16_OK) return status;
    if (!key->backend->point_format || directory.header.point_format != (uint32_t)key->backend->point_format) {
        return g16_fail(error, G16_UNSUPPORTED_KEY, 0, "prepared key: its points have representation %u, this backend needs %u",
                        directory.header.point_format, (uint32_t)key->backend->point_format);
    }
    job->directory = &directory;
    status = read_info(key, &directory, error);
    if (status == G16_OK) status = read_points(key, &directory, error);
    if (status == G16_OK) status = bind_arrays(job, error);
    if (status == G16_OK && key->pk.domain_log2 <= SMALL_ROOTS_LOG2) key->pk.twiddles = key->backend->small_roots();
    if (status == G16_OK) status = bind_folds(job, error);
    if (status == G16_OK) status = bind_tables(job, error);
    if (status == G16_OK) status = check_arrays(job, pool, cancel, error);
    if (status == G16_OK) status = constraint_system_shorten(&key->cs, cancel, error);
    if (status == G16_OK) status = g16_key_group_wires(key, error);
    if (status != G16_OK) return status;
    g16_key_fill_info(key, directory.header.source_bytes);
    key->info.resident_bytes = sizeof *key + wire_groups_bytes(&key->groups) + cs_short_forms_bytes(&key->cs.short_forms, key->cs.expressions);
    key->info.mapped_bytes = size;
    key->info.fold_bytes = (uint64_t)(key->pk.fold_k_count + (uint64_t)key->pk.fold_t_count) * sizeof(g1_affine) +
                           (uint64_t)key->pk.fold_k_count * sizeof(uint32_t);
    if (key->pk.tables.windows) {
        const msm_table_counts counts = key_table_counts(&key->pk, key->cs.wires);
        key->info.table_bytes = msm_table_bytes(&key->pk.tables, &counts);
    }
    return G16_OK;
}

g16_status g16_prepared_load(g16_engine *engine, g16_key **key, const uint8_t *data, size_t size,
                             int check_points, const g16_cancel *cancel, g16_error *error) {
    if (!engine || !key || !data) return g16_fail(error, G16_INVALID_ARGUMENT, 0, "an argument is missing");
    *key = NULL;
    g16_key *loaded = calloc(1, sizeof *loaded);
    load_job *job = calloc(1, sizeof *job);
    g16_status status = G16_OUT_OF_MEMORY;
    if (loaded && job) {
        loaded->backend = engine->backend;
        loaded->is_prepared = 1;
        job->key = loaded;
        job->check_points = check_points;
        status = load(job, engine->pool, data, size, cancel, error);
    } else {
        g16_fail(error, status, 0, "no memory for a key");
    }
    free(job);
    if (status == G16_OK) {
        *key = loaded;
    } else {
        g16_key_destroy(loaded);
    }
    return status;
}
