/* prepared_write.c - a loaded key as the bytes of a prepared file. The same key gives the same bytes. */
#include <string.h>

#include "prepared_format.h"
#include "xxh64.h"

/* Copied between two looks at the cancel flag. */
#define COPY_BYTES ((size_t)1 << 20)

/* What goes into each section, and the records that have no place inside the key. */
typedef struct prepared_plan {
    prepared_section sections[PREPARED_SECTIONS];
    const void *data[PREPARED_SECTIONS];
    prepared_info info;
    prepared_constants constants;
    prepared_verifying_key verifying_key;
    size_t bytes; /* of the file */
} prepared_plan;

static void fill_info(prepared_info *out, const g16_key *key) {
    const constraint_system *cs = &key->cs;
    const g16_key_info *info = &key->info;
    out->generation = info->generation;
    out->header_words = info->header_words;
    memcpy(out->header, info->header, sizeof out->header);
    out->wires = cs->wires;
    out->public_wires = cs->public_wires;
    out->secret_wires = cs->secret_wires;
    out->internal_wires = cs->internal_wires;
    out->constraints = cs->constraints;
    out->coefficients = cs->coefficients_count;
    out->expressions = cs->expressions;
    out->hints = cs->hints_count;
    out->instructions = cs->instructions_count;
    out->components = cs->components;
    out->slices = cs->slices;
    out->checks_start = cs->checks_start;
    out->levels = cs->levels;
    out->batch_kind = cs->batch_kind;
    out->domain_log2 = key->pk.domain_log2;
    out->verifying_k = key->vk.k_count;
    out->a_count = key->pk.a_count;
    out->b_count = key->pk.b_count;
    out->k_count = key->pk.k_count;
    out->z_count = key->pk.z_count;
    out->terms = cs->terms_count;
    out->file_terms = cs->file_terms;
    out->proving_key_offset = info->proving_key_offset;
    out->verifying_key_offset = info->verifying_key_offset;
    out->constraint_system_offset = info->constraint_system_offset;
}

static void fill_points(prepared_plan *plan, const g16_key *key) {
    plan->constants = (prepared_constants){.alpha = key->pk.alpha, .beta = key->pk.beta, .delta = key->pk.delta,
                                           .beta2 = key->pk.beta2, .delta2 = key->pk.delta2};
    plan->verifying_key = (prepared_verifying_key){.alpha = key->vk.alpha, .beta = key->vk.beta, .delta = key->vk.delta,
                                                   .beta2 = key->vk.beta2, .gamma2 = key->vk.gamma2,
                                                   .delta2 = key->vk.delta2, .alpha_beta = key->vk.alpha_beta};
}

static size_t rounded(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

static void place(prepared_plan *plan, uint32_t *next, prepared_type type, const void *data, size_t element_bytes,
                  uint64_t count) {
    size_t bytes = element_bytes * (size_t)count;
    prepared_section *section = &plan->sections[*next];
    section->type = (uint32_t)type;
    section->version = PREPARED_SECTION_VERSION;
    section->flags = PREPARED_REQUIRED;
    section->element_bytes = (uint32_t)element_bytes;
    section->count = count;
    section->offset = rounded(plan->bytes, bytes < PREPARED_PAGE ? PREPARED_ALIGNMENT : PREPARED_PAGE);
    plan->data[*next] = data;
    plan->bytes = (size_t)section->offset + bytes;
    ++*next;
}

static void make_plan(prepared_plan *plan, const g16_key *key) {
    uint32_t next = 0;
    memset(plan, 0, sizeof *plan);
    fill_info(&plan->info, key);
    fill_points(plan, key);
    plan->bytes = sizeof(prepared_header) + sizeof plan->sections;
    place(plan, &next, PREPARED_INFO, &plan->info, sizeof plan->info, 1);
    place(plan, &next, PREPARED_CONSTANTS, &plan->constants, sizeof plan->constants, 1);
    place(plan, &next, PREPARED_VERIFYING_KEY, &plan->verifying_key, sizeof plan->verifying_key, 1);
#define PLACE(type, member, count) place(plan, &next, type, key->member, sizeof *key->member, count);
    PREPARED_EACH_ARRAY(PLACE, key)
#undef PLACE
}

size_t g16_prepared_bytes(const g16_key *key) {
    prepared_plan plan;
    make_plan(&plan, key);
    return plan.bytes;
}

/* Copies a section; returns 0 when the flag was raised. */
static int copy(uint8_t *out, const prepared_plan *plan, uint32_t index, uint32_t *progress, const g16_cancel *cancel) {
    const prepared_section *section = &plan->sections[index];
    const size_t bytes = (size_t)(section->count * section->element_bytes);
    for (size_t done = 0; done < bytes; done += COPY_BYTES) {
        if (g16_is_cancelled(cancel)) return 0;
        size_t piece = bytes - done < COPY_BYTES ? bytes - done : COPY_BYTES;
        memcpy(out + section->offset + done, (const uint8_t *)plan->data[index] + done, piece);
        if (progress) {
            uint64_t permille = (section->offset + done + piece) * 1000 / plan->bytes;
            __atomic_store_n(progress, (uint32_t)permille, __ATOMIC_RELAXED);
        }
    }
    return 1;
}

g16_status g16_prepared_write(const g16_key *key, uint8_t *out, size_t size, const uint8_t *source_sha256,
                              uint32_t *progress, const g16_cancel *cancel, g16_error *error) {
    prepared_plan plan;
    if (!key || !out || !source_sha256) return g16_fail(error, G16_INVALID_ARGUMENT, 0, "an argument is missing");
    make_plan(&plan, key);
    if (size != plan.bytes) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "%zu bytes given for %zu of a prepared key", size, plan.bytes);
    }
    if (!key->backend->point_form) {
        return g16_fail(error, G16_UNSUPPORTED_KEY, 0, "this backend keeps points in a form that has no number");
    }
    size_t end = sizeof(prepared_header) + sizeof plan.sections;
    for (uint32_t i = 0; i < PREPARED_SECTIONS; i++) {
        prepared_section *section = &plan.sections[i];
        memset(out + end, 0, (size_t)section->offset - end);
        if (!copy(out, &plan, i, progress, cancel)) {
            return g16_fail(error, G16_CANCELLED, 0, "cancelled while preparing a key");
        }
        end = (size_t)(section->offset + section->count * section->element_bytes);
        section->checksum = xxh64(plan.data[i], end - (size_t)section->offset);
    }
    prepared_header header = {
        .version = G16_PREPARED_VERSION,
        .byte_order = PREPARED_BYTE_ORDER,
        .file_bytes = plan.bytes,
        .header_bytes = sizeof header,
        .section_count = PREPARED_SECTIONS,
        .directory_offset = sizeof header,
        .directory_checksum = xxh64(plan.sections, sizeof plan.sections),
        .point_form = (uint32_t)key->backend->point_form,
        .source_bytes = key->info.file_bytes,
    };
    memcpy(header.magic, PREPARED_MAGIC, sizeof header.magic);
    memcpy(header.source_sha256, source_sha256, sizeof header.source_sha256);
    header.checksum = xxh64(&header, offsetof(prepared_header, checksum));
    memcpy(out, &header, sizeof header);
    memcpy(out + sizeof header, plan.sections, sizeof plan.sections);
    return G16_OK;
}
