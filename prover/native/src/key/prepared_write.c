/* key/prepared_write.c - writes a loaded key as a prepared file. Equal keys, table sizes and backends give equal bytes. */
#include <string.h>

#include "base/xxh64.h"
#include "key/fold_checkpoint.h"
#include "key/prepared_format.h"

/* Bytes copied between two checks of the cancel flag. */
#define COPY_BYTES ((size_t)1 << 20)

/* The contents of each section, and records that the key does not store. */
typedef struct prepared_plan {
    prepared_section sections[PREPARED_SECTIONS + PREPARED_TABLES + PREPARED_FOLDS];
    const void *data[PREPARED_SECTIONS]; /* tables and folded bases are computed in place */
    uint32_t count;                      /* of sections */
    msm_plan tables;                     /* no windows: no tables */
    prepared_section *folds;             /* NULL: not folded */
    proving_key pk;                      /* with the lists that tables are computed from */
    uint64_t work;                       /* total for progress: bytes, and the cost of folding */
    prepared_info info;
    prepared_constants constants;
    prepared_verifying_key verifying_key;
    size_t bytes; /* of the file */
} prepared_plan;

/* The inputs of a prepared file. */
typedef struct prepared_source {
    const g16_engine *engine;
    const g16_key *key;
    const uint8_t *sha256;
    const g16_fold_checkpoint *checkpoint; /* NULL: none */
} prepared_source;

static void fill_info(prepared_info *out, const g16_key *key) {
    memcpy(out->header, key->info.header, sizeof out->header);
#define FILL(number, member) out->number = key->member;
    PREPARED_EACH_NUMBER(FILL)
#undef FILL
}

static void fill_points(prepared_plan *plan, const g16_key *key) {
    plan->constants = (prepared_constants){.alpha = key->pk.alpha, .beta = key->pk.beta, .delta = key->pk.delta,
                                           .beta2 = key->pk.beta2, .delta2 = key->pk.delta2};
    plan->verifying_key = (prepared_verifying_key){.alpha = key->vk.alpha, .beta = key->vk.beta, .delta = key->vk.delta,
                                                   .beta2 = key->vk.beta2, .gamma2 = key->vk.gamma2,
                                                   .delta2 = key->vk.delta2, .alpha_beta = key->vk.alpha_beta};
}

static size_t rounded(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

static prepared_section *place(prepared_plan *plan, prepared_type type, size_t element_bytes, uint64_t count) {
    size_t bytes = element_bytes * (size_t)count;
    prepared_section *section = &plan->sections[plan->count++];
    section->type = (uint32_t)type;
    section->version = PREPARED_SECTION_VERSION;
    section->flags = PREPARED_REQUIRED;
    section->element_bytes = (uint32_t)element_bytes;
    section->count = count;
    section->offset = rounded(plan->bytes, bytes < PREPARED_PAGE ? PREPARED_ALIGNMENT : PREPARED_PAGE);
    plan->bytes = (size_t)section->offset + bytes;
    return section;
}

static void place_copy(prepared_plan *plan, prepared_type type, const void *data, size_t element_bytes, uint64_t count) {
    plan->data[plan->count] = data;
    place(plan, type, element_bytes, count);
}

/* A reader may ignore tables. */
static void place_table(prepared_plan *plan, prepared_type type, size_t element_bytes, uint64_t count) {
    prepared_section *section = place(plan, type, element_bytes, msm_plan_shifts(&plan->tables) * count);
    section->version = prepared_table_version(plan->folds != NULL);
    section->flags = 0;
    section->parameters[0] = plan->tables.sets;
    section->parameters[1] = msm_plan_shifts(&plan->tables);
}

static void make_plan(prepared_plan *plan, const g16_key *key, uint64_t table_bytes, int fold) {
    memset(plan, 0, sizeof *plan);
    plan->pk = key->pk;
    plan->pk.fold_k_count = plan->pk.fold_t_count = 0;
    if (fold) {
        plan->pk.fold_k_count = g16_key_fold_count(key);
        plan->pk.fold_t_count = fold_shape_for(key->cs.constraints, key->pk.domain_log2).points;
    }
    const msm_table_counts counts = key_table_counts(&plan->pk, key->cs.wires);
    plan->tables = msm_table_choose(&counts, table_bytes, key->backend->table_read_cost);
    fill_info(&plan->info, key);
    fill_points(plan, key);
    const uint32_t tables = plan->tables.windows ? PREPARED_TABLES : 0;
    const uint32_t sections = PREPARED_SECTIONS + tables + (fold ? PREPARED_FOLDS : 0);
    if (fold) plan->folds = &plan->sections[PREPARED_SECTIONS + tables];
    plan->bytes = sizeof(prepared_header) + sections * sizeof *plan->sections;
#define PLACE(type, name, record) place_copy(plan, type, &plan->record, sizeof plan->record, 1);
    PREPARED_EACH_RECORD(PLACE)
#undef PLACE
#define PLACE(type, name, member, elements) place_copy(plan, type, key->member, sizeof *key->member, elements);
    PREPARED_EACH_ARRAY(PLACE, key)
#undef PLACE
    if (plan->tables.windows) {
#define PLACE(type, name, member, elements) place_table(plan, type, sizeof *plan->member, elements);
        PREPARED_EACH_TABLE(PLACE, plan)
#undef PLACE
    }
    plan->work = plan->bytes;
    if (!fold) return;
#define PLACE(type, name, member, elements) place(plan, type, sizeof *plan->member, elements)->flags = 0;
    PREPARED_EACH_FOLD(PLACE, plan)
#undef PLACE
    const fold_shape shape = fold_shape_for(key->cs.constraints, key->pk.domain_log2);
    plan->work = plan->bytes + (key_is_folded(&key->pk) ? 0 : fold_work(&shape, key->pk.domain_log2) * FOLD_WORK_BYTES);
}

size_t g16_prepared_bytes(const g16_key *key, uint64_t table_bytes, int fold) {
    prepared_plan plan;
    make_plan(&plan, key, table_bytes, fold);
    return plan.bytes;
}

/* Copies a section; returns 0 when the flag was set. */
static int copy(uint8_t *out, const prepared_plan *plan, uint32_t index, uint32_t *progress, const g16_cancel *cancel) {
    const prepared_section *section = &plan->sections[index];
    const size_t bytes = (size_t)(section->count * section->element_bytes);
    for (size_t done = 0; done < bytes; done += COPY_BYTES) {
        if (g16_is_cancelled(cancel)) return 0;
        size_t piece = bytes - done < COPY_BYTES ? bytes - done : COPY_BYTES;
        memcpy(out + section->offset + done, (const uint8_t *)plan->data[index] + done, piece);
        if (progress) {
            uint64_t permille = (section->offset + done + piece) * 1000 / plan->work;
            __atomic_store_n(progress, (uint32_t)permille, __ATOMIC_RELAXED);
        }
    }
    return 1;
}

/* Computes the folded bases in place, or copies those that the key has. */
static g16_status fill_folds(uint8_t *out, prepared_plan *plan, const prepared_source *source, table_progress *progress,
                             const g16_cancel *cancel, g16_error *error) {
    const g16_key *const key = source->key;
    fold_checkpoint checkpoint;
    if (!plan->folds) return G16_OK;
    void *const k = out + plan->folds[0].offset, *const t = out + plan->folds[1].offset;
    uint32_t *const wires = (void *)(out + plan->folds[2].offset);
    plan->pk.fold_wires = wires;
    plan->pk.fold_k = k;
    plan->pk.fold_t = t;
    if (key_is_folded(&key->pk) && key->pk.fold_k_count == plan->pk.fold_k_count) {
        memcpy(wires, key->pk.fold_wires, plan->pk.fold_k_count * sizeof *wires);
        memcpy(k, key->pk.fold_k, plan->pk.fold_k_count * sizeof *key->pk.fold_k);
        memcpy(t, key->pk.fold_t, plan->pk.fold_t_count * sizeof *key->pk.fold_t);
        return G16_OK;
    }
    g16_status status = g16_key_fold_wires(key, wires, error);
    if (status == G16_OK && source->checkpoint) {
        status = fold_checkpoint_open(&checkpoint, key, source->checkpoint, source->sha256, error);
    }
    if (status != G16_OK) return status;
    status = key->backend->fold(key, source->engine->pool, source->checkpoint ? &checkpoint : NULL, k, t, wires,
                                plan->pk.fold_k_count, progress, cancel);
    if (status == G16_OK) return status;
    return g16_fail(error, status, 0, status == G16_CANCELLED       ? "cancelled while preparing a key"
                                      : status == G16_OUT_OF_MEMORY ? "no memory for folding a key"
                                          : "this key cannot be folded: a base would be infinity");
}

/* Computes the tables in place. */
static g16_status fill_tables(uint8_t *out, const prepared_plan *plan, const prepared_source *source, table_progress *progress,
                              const g16_cancel *cancel, g16_error *error) {
    const g16_key *const key = source->key;
    if (plan->tables.windows == 0) return G16_OK;
    void *tables[PREPARED_TABLES];
    for (uint32_t i = 0; i < PREPARED_TABLES; i++) tables[i] = out + plan->sections[PREPARED_SECTIONS + i].offset;
    g16_key bases = *key;
    bases.pk = plan->pk;
    const g16_status status = key->backend->fill_tables(&bases, source->engine->pool, tables, &plan->tables, progress, cancel);
    return status == G16_OK ? status : g16_fail(error, status, 0, "cancelled while preparing a key");
}

g16_status g16_prepared_write(const g16_engine *engine, const g16_key *key, uint8_t *out, size_t size,
                              uint64_t table_bytes, int fold, const uint8_t *source_sha256,
                              const g16_fold_checkpoint *checkpoint, uint32_t *progress, const g16_cancel *cancel,
                              g16_error *error) {
    const prepared_source source = {engine, key, source_sha256, checkpoint};
    prepared_plan plan;
    if (!engine || !key || !out || !source_sha256) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "an argument is missing");
    }
    make_plan(&plan, key, table_bytes, fold);
    if (size != plan.bytes) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "%zu bytes given for %zu of a prepared key", size, plan.bytes);
    }
    if (!key->backend->point_format) {
        return g16_fail(error, G16_UNSUPPORTED_KEY, 0, "the point representation of this backend has no number");
    }
    const size_t directory_bytes = plan.count * sizeof *plan.sections;
    size_t end = sizeof(prepared_header) + directory_bytes;
    for (uint32_t i = 0; i < plan.count; i++) {
        prepared_section *section = &plan.sections[i];
        memset(out + end, 0, (size_t)section->offset - end);
        if (i < PREPARED_SECTIONS && !copy(out, &plan, i, progress, cancel)) {
            return g16_fail(error, G16_CANCELLED, 0, "cancelled while preparing a key");
        }
        end = (size_t)(section->offset + section->count * section->element_bytes);
    }
    table_progress counter = {.permille = progress, .done = plan.sections[PREPARED_SECTIONS - 1].offset, .all = plan.work};
    g16_status status = fill_folds(out, &plan, &source, &counter, cancel, error);
    if (status == G16_OK) status = fill_tables(out, &plan, &source, &counter, cancel, error);
    if (status != G16_OK) return status;
    if (progress) __atomic_store_n(progress, 1000, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < plan.count; i++) {
        prepared_section *section = &plan.sections[i];
        const void *data = i < PREPARED_SECTIONS ? plan.data[i] : out + section->offset;
        section->checksum = xxh64(data, (size_t)(section->count * section->element_bytes));
    }
    prepared_header header = {
        .version = G16_PREPARED_VERSION,
        .byte_order = PREPARED_BYTE_ORDER,
        .file_bytes = plan.bytes,
        .header_bytes = sizeof header,
        .section_count = plan.count,
        .directory_offset = sizeof header,
        .directory_checksum = xxh64(plan.sections, directory_bytes),
        .point_format = (uint32_t)key->backend->point_format,
        .source_bytes = key->info.file_bytes,
    };
    memcpy(header.magic, PREPARED_MAGIC, sizeof header.magic);
    memcpy(header.source_sha256, source_sha256, sizeof header.source_sha256);
    header.checksum = xxh64(&header, offsetof(prepared_header, checksum));
    memcpy(out, &header, sizeof header);
    memcpy(out + sizeof header, plan.sections, directory_bytes);
    return G16_OK;
}
