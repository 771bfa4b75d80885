#include "json/compact.h"

#include <stdbool.h>
#include <string.h>

/* State of a container that has not ended. */
enum { CONTAINER_IS_OBJECT = 1, CONTAINER_HAS_KEPT_MEMBER = 2 };

typedef struct {
    const char *start[JSON_COMPACT_MOST_NAMES];
    uint64_t of_length[JSON_COMPACT_MOST_NAME_BYTES + 1]; /* bit i: name i has this length */
} name_table;

typedef struct {
    const uint8_t *at, *end;
    uint8_t *out, *out_end;
    const uint8_t *run; /* bytes to keep that are not written yet: those before run_end */
    const uint8_t *run_end;
    bool keeping; /* false within a member that is omitted */
} scanner;

static const uint8_t COMMA = ',';

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        const json_compact_status tried = (call);                                                            \
        if (tried != JSON_COMPACT_OK) return tried;                                                          \
    } while (0)

static bool read_names(name_table *table, const char *names) {
    uint32_t count = 0;
    memset(table, 0, sizeof *table);
    while (*names) {
        const char *end = strchr(names, '\n');
        if (!end || count == JSON_COMPACT_MOST_NAMES || end - names > JSON_COMPACT_MOST_NAME_BYTES) return false;
        table->start[count] = names;
        table->of_length[end - names] |= UINT64_C(1) << count;
        count++;
        names = end + 1;
    }
    return true;
}

static bool is_kept(const name_table *table, const uint8_t *name, size_t size) {
    if (size > JSON_COMPACT_MOST_NAME_BYTES) return false;
    for (uint64_t left = table->of_length[size]; left; left &= left - 1) {
        if (memcmp(table->start[__builtin_ctzll(left)], name, size) == 0) return true;
    }
    return false;
}

static void write_run(scanner *scan) {
    const size_t size = (size_t)(scan->run_end - scan->run);
    memcpy(scan->out, scan->run, size);
    scan->out += size;
    scan->run = scan->run_end;
}

/* Neighbouring bytes of the text are written together. */
static json_compact_status put(scanner *scan, const uint8_t *bytes, size_t size) {
    if (!scan->keeping) return JSON_COMPACT_OK;
    if ((size_t)(scan->out_end - scan->out) < (size_t)(scan->run_end - scan->run) + size) return JSON_COMPACT_TOO_LONG;
    if (bytes != scan->run_end) {
        write_run(scan);
        scan->run = bytes;
    }
    scan->run_end = bytes + size;
    return JSON_COMPACT_OK;
}

/* Keeps the byte at scan->at, and advances past it. */
static json_compact_status put_next(scanner *scan) {
    const uint8_t *const byte = scan->at++;
    return put(scan, byte, 1);
}

/* Advances scan->at to the next byte that is no white space. */
static json_compact_status skip_blanks(scanner *scan) {
    const uint64_t blanks = UINT64_C(1) << ' ' | UINT64_C(1) << '\n' | UINT64_C(1) << '\t' | UINT64_C(1) << '\r';
    while (scan->at < scan->end && *scan->at <= ' ' && blanks >> *scan->at & 1) scan->at++;
    return scan->at < scan->end ? JSON_COMPACT_OK : JSON_COMPACT_TRUNCATED;
}

static bool is_digit(uint8_t byte) {
    return byte >= '0' && byte <= '9';
}

static bool is_hex_digit(uint8_t byte) {
    return is_digit(byte) || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f');
}

/* scan->at is after the backslash. */
static json_compact_status skip_escape(scanner *scan) {
    if (scan->at == scan->end) return JSON_COMPACT_TRUNCATED;
    const uint8_t kind = *scan->at;
    if (kind == 0 || !strchr("\"\\/bfnrtu", kind)) return JSON_COMPACT_MALFORMED;
    scan->at++;
    for (uint32_t digit = 0; kind == 'u' && digit < 4; digit++, scan->at++) {
        if (scan->at == scan->end) return JSON_COMPACT_TRUNCATED;
        if (!is_hex_digit(*scan->at)) return JSON_COMPACT_MALFORMED;
    }
    return JSON_COMPACT_OK;
}

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))
/* Not zero if one of eight bytes is below `limit`, at most 0x80. */
#define BELOW(bytes, limit) (((bytes) - EACH_BYTE(limit)) & ~(bytes) & EACH_BYTE(0x80))

/* Returns true if eight bytes are inside a string without escapes. */
static bool are_plain(const uint8_t *at) {
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    const uint64_t quotes = bytes ^ EACH_BYTE('"'), backslashes = bytes ^ EACH_BYTE('\\');
    return !(BELOW(bytes, 0x20) | BELOW(quotes, 1) | BELOW(backslashes, 1));
}

/* Advances from the opening quote to after the closing one. */
static json_compact_status skip_string(scanner *scan, bool *escaped) {
    *escaped = false;
    scan->at++;
    while (scan->at < scan->end) {
        if (scan->end - scan->at >= 8 && are_plain(scan->at)) {
            scan->at += 8;
            continue;
        }
        const uint8_t byte = *scan->at;
        if (byte < 0x20) return JSON_COMPACT_MALFORMED;
        scan->at++;
        if (byte == '"') return JSON_COMPACT_OK;
        if (byte == '\\') {
            *escaped = true;
            TRY(skip_escape(scan));
        }
    }
    return JSON_COMPACT_TRUNCATED;
}

static json_compact_status skip_digits(scanner *scan) {
    if (scan->at == scan->end) return JSON_COMPACT_TRUNCATED;
    if (!is_digit(*scan->at)) return JSON_COMPACT_MALFORMED;
    while (scan->at < scan->end && is_digit(*scan->at)) scan->at++;
    return JSON_COMPACT_OK;
}

static json_compact_status skip_number(scanner *scan) {
    if (*scan->at == '-') scan->at++;
    if (scan->at < scan->end && *scan->at == '0') {
        scan->at++; /* a digit after it is refused by what follows a value */
    } else {
        TRY(skip_digits(scan));
    }
    if (scan->at < scan->end && *scan->at == '.') {
        scan->at++;
        TRY(skip_digits(scan));
    }
    if (scan->at < scan->end && (*scan->at | 0x20) == 'e') {
        scan->at++;
        if (scan->at < scan->end && (*scan->at == '+' || *scan->at == '-')) scan->at++;
        TRY(skip_digits(scan));
    }
    return JSON_COMPACT_OK;
}

static json_compact_status skip_word(scanner *scan, const char *word) {
    for (; *word; word++, scan->at++) {
        if (scan->at == scan->end) return JSON_COMPACT_TRUNCATED;
        if (*scan->at != (uint8_t)*word) return JSON_COMPACT_MALFORMED;
    }
    return JSON_COMPACT_OK;
}

/* Reads a value that is not a container. */
static json_compact_status read_plain_value(scanner *scan) {
    const uint8_t *const start = scan->at;
    bool escaped;
    switch (*start) {
        case '"': TRY(skip_string(scan, &escaped)); break;
        case 't': TRY(skip_word(scan, "true")); break;
        case 'f': TRY(skip_word(scan, "false")); break;
        case 'n': TRY(skip_word(scan, "null")); break;
        default: TRY(skip_number(scan));
    }
    return put(scan, start, (size_t)(scan->at - start));
}

/* Reads the name of a member and its colon; sets scan->keeping to false when the member is omitted. */
static json_compact_status read_name(scanner *scan, const name_table *table, uint8_t *container) {
    TRY(skip_blanks(scan));
    if (*scan->at != '"') return JSON_COMPACT_MALFORMED;
    const uint8_t *const start = scan->at;
    bool escaped;
    TRY(skip_string(scan, &escaped));
    const size_t size = (size_t)(scan->at - start);
    TRY(skip_blanks(scan));
    if (*scan->at != ':') return JSON_COMPACT_MALFORMED;
    const uint8_t *const colon = scan->at++;
    if (!escaped && !is_kept(table, start + 1, size - 2)) {
        scan->keeping = false;
        return JSON_COMPACT_OK;
    }
    if (*container & CONTAINER_HAS_KEPT_MEMBER) TRY(put(scan, &COMMA, 1));
    if (scan->keeping) *container |= CONTAINER_HAS_KEPT_MEMBER;
    TRY(put(scan, start, size));
    return put(scan, colon, 1);
}

static json_compact_status read_text(scanner *scan, const name_table *table) {
    uint8_t containers[JSON_COMPACT_MOST_DEPTH];
    size_t depth = 0, left_out_at = 0; /* depth at which the currently omitted member began */
    for (;;) {
        TRY(skip_blanks(scan));
        const uint8_t first = *scan->at;
        bool ended = true;
        if (first == '{' || first == '[') {
            if (depth == JSON_COMPACT_MOST_DEPTH) return JSON_COMPACT_TOO_DEEP;
            TRY(put_next(scan));
            containers[depth++] = first == '{' ? CONTAINER_IS_OBJECT : 0;
            TRY(skip_blanks(scan));
            ended = *scan->at == (first == '{' ? '}' : ']');
            if (ended) {
                TRY(put_next(scan));
                depth--;
            }
        } else {
            TRY(read_plain_value(scan));
        }
        while (ended) {
            if (depth == 0) return JSON_COMPACT_OK;
            if (left_out_at == depth) {
                scan->keeping = true;
                left_out_at = 0;
            }
            TRY(skip_blanks(scan));
            const uint8_t byte = *scan->at;
            const bool in_object = containers[depth - 1] & CONTAINER_IS_OBJECT;
            if (byte != ',' && byte != (in_object ? '}' : ']')) return JSON_COMPACT_MALFORMED;
            const uint8_t *const place = scan->at++;
            ended = byte != ',';
            if (ended) depth--;
            if (ended || !in_object) TRY(put(scan, place, 1));
        }
        if (containers[depth - 1] & CONTAINER_IS_OBJECT) {
            TRY(read_name(scan, table, &containers[depth - 1]));
            if (!scan->keeping && left_out_at == 0) left_out_at = depth;
        }
    }
}

json_compact_status json_compact(uint8_t *out, size_t room, const uint8_t **result, size_t *written, const uint8_t *text, size_t size,
                                 const char *names, size_t *place) {
    name_table table;
    scanner scan = {text, text + size, out, out + room, text, text, true};
    *result = text;
    *written = *place = 0;
    if (!read_names(&table, names)) return JSON_COMPACT_INVALID_NAMES;
    json_compact_status status = read_text(&scan, &table);
    if (status == JSON_COMPACT_OK) {
        if (scan.out == out) {
            *result = scan.run;
            *written = (size_t)(scan.run_end - scan.run);
        } else {
            write_run(&scan);
            *result = out;
            *written = (size_t)(scan.out - out);
        }
        if (skip_blanks(&scan) == JSON_COMPACT_OK) status = JSON_COMPACT_TRAILING;
    }
    *place = (size_t)(scan.at - text);
    return status;
}

size_t json_commas(const uint8_t *text, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < size; i++) count += text[i] == ',';
    return count;
}
