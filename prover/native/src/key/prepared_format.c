/* key/prepared_format.c - header and directory of prepared key files, and their checksums. */
#include "key/prepared_format.h"

#include <string.h>

#include "base/xxh64.h"

const char *prepared_type_name(uint32_t type) {
    switch (type) {
#define CASE(section_type, name, ...) case section_type: return name;
        PREPARED_EACH_RECORD(CASE)
        PREPARED_EACH_ARRAY(CASE, )
        PREPARED_EACH_TABLE(CASE, )
        PREPARED_EACH_FOLD(CASE, )
#undef CASE
    default: return "unknown section";
    }
}

/* ---- header and directory -------------------------------------------------------------------- */

static g16_status malformed(g16_error *error, uint64_t offset, const char *what) {
    return g16_fail(error, G16_MALFORMED_KEY, offset, "prepared key: %s", what);
}

static g16_status read_header(prepared_header *header, const uint8_t *data, size_t size, g16_error *error) {
    if (size < sizeof *header) return malformed(error, 0, "the file is shorter than its header");
    memcpy(header, data, sizeof *header);
    if (memcmp(header->magic, PREPARED_MAGIC, sizeof header->magic) != 0) {
        return malformed(error, 0, "the file does not begin with the format's mark");
    }
    /* Checked before the checksum, which another version may compute differently. */
    if (header->byte_order != PREPARED_BYTE_ORDER || header->version != G16_PREPARED_VERSION) {
        return g16_fail(error, G16_UNSUPPORTED_KEY, 0, "prepared key: format version %u or byte order is not the one of this kernel",
                        header->version);
    }
    if (xxh64(header, offsetof(prepared_header, checksum)) != header->checksum) {
        return malformed(error, 0, "the header does not have its checksum");
    }
    if (header->file_bytes != size) return malformed(error, 0, "the file does not have the size that its header states");
    if (header->header_bytes != sizeof *header || header->directory_offset != sizeof *header ||
        header->section_count > PREPARED_MAX_SECTIONS ||
        header->section_count > (size - sizeof *header) / sizeof(prepared_section)) {
        return malformed(error, 0, "the header places the directory outside");
    }
    return G16_OK;
}

/* Types and offsets ascend, so no type occurs twice and no sections overlap. */
static g16_status check_entries(const prepared_directory *directory, g16_error *error) {
    uint64_t end = sizeof directory->header + directory->header.section_count * sizeof(prepared_section);
    uint32_t previous = 0;
    for (uint32_t i = 0; i < directory->header.section_count; i++) {
        const prepared_section *section = &directory->sections[i];
        uint64_t place = sizeof directory->header + i * sizeof *section;
        if (section->type <= previous) return malformed(error, place, "the types of the sections do not ascend");
        if (section->offset % PREPARED_ALIGNMENT || section->offset < end || section->offset > directory->size) {
            return malformed(error, place, "a section is misplaced");
        }
        if (section->element_bytes == 0 ||
            section->count > (directory->size - section->offset) / section->element_bytes) {
            return malformed(error, place, "a section passes the end of the file");
        }
        previous = section->type;
        end = section->offset + section->count * section->element_bytes;
    }
    return G16_OK;
}

g16_status prepared_read_directory(prepared_directory *directory, const uint8_t *data, size_t size, g16_error *error) {
    const uint16_t one = 1;
    if (*(const uint8_t *)&one != 1) {
        return g16_fail(error, G16_UNSUPPORTED_KEY, 0, "prepared keys need a little-endian CPU");
    }
    if ((uintptr_t)data % PREPARED_ALIGNMENT) {
        return g16_fail(error, G16_INVALID_ARGUMENT, 0, "a prepared key must be aligned to %d bytes", PREPARED_ALIGNMENT);
    }
    g16_status status = read_header(&directory->header, data, size, error);
    if (status != G16_OK) return status;
    directory->data = data;
    directory->size = size;
    size_t bytes = directory->header.section_count * sizeof(prepared_section);
    memcpy(directory->sections, data + sizeof directory->header, bytes);
    if (xxh64(directory->sections, bytes) != directory->header.directory_checksum) {
        return malformed(error, sizeof directory->header, "the directory does not have its checksum");
    }
    return check_entries(directory, error);
}

const prepared_section *prepared_find(const prepared_directory *directory, prepared_type type) {
    for (uint32_t i = 0; i < directory->header.section_count; i++) {
        if (directory->sections[i].type == (uint32_t)type) return &directory->sections[i];
    }
    return NULL;
}

g16_status prepared_check_section(const prepared_directory *directory, const prepared_section *section,
                                  g16_error *error) {
    size_t bytes = (size_t)(section->count * section->element_bytes);
    if (xxh64(directory->data + section->offset, bytes) == section->checksum) return G16_OK;
    return g16_fail(error, G16_MALFORMED_KEY, section->offset, "prepared key: section %s (type %u) does not have its checksum",
                    prepared_type_name(section->type), section->type);
}

/* ---- public functions ------------------------------------------------------------------------ */

g16_status g16_prepared_describe(g16_prepared_info *info, const uint8_t *data, size_t size, g16_error *error) {
    prepared_directory directory;
    if (!info || !data) return g16_fail(error, G16_INVALID_ARGUMENT, 0, "an argument is missing");
    g16_status status = prepared_read_directory(&directory, data, size, error);
    if (status != G16_OK) return status;
    info->version = directory.header.version;
    info->point_format = directory.header.point_format;
    info->sections = directory.header.section_count;
    info->file_bytes = directory.header.file_bytes;
    info->source_bytes = directory.header.source_bytes;
    memcpy(info->source_sha256, directory.header.source_sha256, sizeof info->source_sha256);
    return G16_OK;
}

g16_status g16_prepared_verify(const uint8_t *data, size_t size, const g16_cancel *cancel, g16_error *error) {
    prepared_directory directory;
    if (!data) return g16_fail(error, G16_INVALID_ARGUMENT, 0, "an argument is missing");
    g16_status status = prepared_read_directory(&directory, data, size, error);
    for (uint32_t i = 0; status == G16_OK && i < directory.header.section_count; i++) {
        if (g16_is_cancelled(cancel)) return g16_fail(error, G16_CANCELLED, 0, "cancelled while verifying a prepared key");
        status = prepared_check_section(&directory, &directory.sections[i], error);
    }
    return status;
}
