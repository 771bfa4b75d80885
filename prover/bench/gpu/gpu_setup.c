/* gpu_setup.c - makes a development key from a constraint system in few bytes (prover/bench/gpu/circuits.py has the format), with
 * the kernel alone: gpu_setup CIRCUIT KEY. The constraint system is written in gnark's format with integer columns that are not
 * packed; the secrets of the setup come from the operating system. gpu_setup fold KEY FOLDED writes a prepared key that is folded. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "groth16.h"

#define MAGIC "g16circ1"
#define HEADER_WORDS 4
#define LAGS 64

static void stop(const char *what, const char *why) {
    fprintf(stderr, "gpu_setup: %s: %s\n", what, why);
    exit(1);
}

static void *take(size_t bytes) {
    void *memory = calloc(1, bytes + 1);
    if (!memory) stop("memory", "there is too little");
    return memory;
}

/* ---- the file of a circuit ---- */

typedef struct reader {
    const uint8_t *data;
    size_t at, end;
} reader;

static const uint8_t *take_bytes(reader *in, size_t bytes) {
    if (bytes > in->end - in->at) stop("circuit", "the file is cut off");
    in->at += bytes;
    return in->data + in->at - bytes;
}

static uint32_t read_u32(reader *in) {
    uint32_t value;
    memcpy(&value, take_bytes(in, sizeof value), sizeof value);
    return value;
}

static uint32_t read_leb(reader *in) {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        const uint8_t byte = *take_bytes(in, 1);
        value |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    stop("circuit", "a number has more than 32 bits");
    return 0;
}

typedef struct numbers {
    uint32_t *values;
    size_t count;
} numbers;

static numbers read_list(reader *in) {
    uint32_t lags[LAGS];
    numbers list = {NULL, read_leb(in)};
    const uint32_t lags_count = read_leb(in);
    if (lags_count > LAGS) stop("circuit", "too many lags");
    for (uint32_t i = 0; i < lags_count; i++) lags[i] = read_leb(in);
    list.values = take(list.count * sizeof *list.values);
    for (size_t at = 0; at < list.count;) {
        const uint32_t position = read_leb(in), length = read_leb(in);
        if (length == 0 || length > list.count - at || position > lags_count) stop("circuit", "a run does not fit");
        const size_t lag = position ? lags[position - 1] : 0;
        if (position && (lag == 0 || 2 * lag > at)) stop("circuit", "a run begins too early");
        for (const size_t end = at + length; at < end; at++) {
            list.values[at] = position ? 2 * list.values[at - lag] - list.values[at - 2 * lag] : read_leb(in);
        }
    }
    return list;
}

/* ---- the constraint system in gnark's format ---- */

typedef struct bytes {
    uint8_t *data;
    size_t size, room;
} bytes;

static uint8_t *extend(bytes *out, size_t more) {
    if (out->size + more > out->room) {
        out->room = 2 * (out->size + more);
        out->data = realloc(out->data, out->room);
        if (!out->data) stop("memory", "there is too little");
    }
    out->size += more;
    return out->data + out->size - more;
}

static void append(bytes *out, const void *data, size_t size) { memcpy(extend(out, size), data, size); }
static void append_u64(bytes *out, uint64_t value) { append(out, &value, sizeof value); }

static size_t encode_leb(uint8_t *to, uint64_t value) {
    size_t size = 0;
    for (; value > 0x7f; value >>= 7) to[size++] = (uint8_t)(value | 0x80);
    to[size++] = (uint8_t)value;
    return size;
}

/* The last, incomplete units of a column: differences as LEB128, which fill each word from its most significant byte. */
static size_t small_words(uint8_t *to, const uint64_t *values, size_t count, size_t width) {
    const uint64_t mask = width == 4 ? 0xffffffff : UINT64_MAX;
    uint64_t previous = 0;
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size += encode_leb(to + size, (values[i] - previous) & mask);
        previous = values[i];
    }
    while (size % width) to[size++] = 0x80;
    for (size_t i = 0; i < size; i += width) {
        for (size_t j = 0; j < width / 2; j++) {
            const uint8_t byte = to[i + j];
            to[i + j] = to[i + width - 1 - j];
            to[i + width - 1 - j] = byte;
        }
    }
    return size / width;
}

static void append_word(bytes *out, uint64_t value, size_t width) { append(out, &value, width); }

/* The head of a block: values, and length in words with the head. */
static void append_head(bytes *out, uint64_t count, uint64_t words, size_t width) {
    if (width == 4) {
        append_word(out, count, 4);
        append_word(out, words + 2, 4);
    } else {
        append_word(out, count | (words + 1) << 32, 8);
    }
}

/* A column of words of `width` bytes; groups of whole units have all bits. */
static void append_column(bytes *out, const uint64_t *values, size_t count, size_t width) {
    const size_t bits = 8 * width, unit = 4 * bits, packed = count / unit * unit, rest = count - packed, start = out->size;
    size_t last = 0;
    append_u64(out, 0);
    if (packed) {
        last = 1 + packed / unit * (1 + unit);
        append_head(out, packed, last, width);
        append_word(out, values[0], width);
        for (size_t i = 0; i < packed; i++) {
            if (i % unit == 0) append_word(out, 0x01010101u * (uint32_t)bits, width);
            append_word(out, values[i], width);
        }
    }
    if (rest) {
        uint8_t *small = take(10 * rest + 16);
        last = small_words(small, values + packed, rest, width);
        append_head(out, rest, last, width);
        append(out, small, last * width);
        free(small);
    }
    if (!count) return;
    append_word(out, last + (width == 4 ? 2 : 1), width);
    const uint64_t words = (out->size - start - 8) / width;
    memcpy(out->data + start, &words, sizeof words);
}

typedef struct circuit {
    uint32_t header[HEADER_WORDS], header_words;
    reader body, coefficients;
    numbers words, is_hint, wires, levels;
} circuit;

static reader read_part(reader *in) {
    const uint32_t size = read_u32(in);
    return (reader){take_bytes(in, size), 0, size};
}

static circuit read_circuit(reader in) {
    circuit found = {0};
    if (memcmp(take_bytes(&in, 8), MAGIC, 8) != 0) stop("circuit", "this is no circuit");
    found.header_words = read_u32(&in);
    if (found.header_words > HEADER_WORDS) stop("circuit", "the header is too long");
    for (uint32_t i = 0; i < found.header_words; i++) found.header[i] = read_u32(&in);
    found.body = read_part(&in);
    found.coefficients = read_part(&in);
    numbers *const lists[] = {&found.words, &found.is_hint, &found.wires, &found.levels};
    for (int i = 0; i < 4; i++) *lists[i] = read_list(&in);
    if (found.wires.count != found.is_hint.count || found.levels.count != found.is_hint.count) stop("circuit", "lists differ in length");
    return found;
}

/* One column of instructions for each level. */
static void append_levels(bytes *out, const circuit *c) {
    const size_t count = c->levels.count;
    uint32_t depth = 0;
    for (size_t i = 0; i < count; i++) depth = c->levels.values[i] >= depth ? c->levels.values[i] + 1 : depth;
    size_t *starts = take((depth + 2) * sizeof *starts);
    uint64_t *order = take(count * sizeof *order);
    for (size_t i = 0; i < count; i++) starts[c->levels.values[i] + 2]++;
    for (uint32_t level = 2; level <= depth + 1; level++) starts[level] += starts[level - 1];
    for (size_t i = 0; i < count; i++) order[starts[c->levels.values[i] + 1]++] = i;
    append_u64(out, depth);
    for (uint32_t level = 0; level < depth; level++) append_column(out, order + starts[level], starts[level + 1] - starts[level], 4);
    free(starts);
    free(order);
}

static void append_instructions(bytes *out, const circuit *c) {
    const size_t count = c->is_hint.count;
    uint64_t *column = take(count * sizeof *column), constraints = 0, start = 0;
    for (size_t i = 0; i < count; i++) column[i] = !c->is_hint.values[i];
    append_column(out, column, count, 4);
    for (size_t i = 0; i < count; i++) {
        column[i] = constraints;
        constraints += !c->is_hint.values[i];
    }
    append_column(out, column, count, 4);
    for (size_t i = 0; i < count; i++) column[i] = c->wires.values[i];
    append_column(out, column, count, 4);
    for (size_t i = 0; i < count; i++) {
        if (start >= c->words.count) stop("circuit", "the instructions are cut off");
        column[i] = start;
        start += c->words.values[start];
    }
    append_column(out, column, count, 8);
    free(column);
}

static void append_words(bytes *out, const circuit *c) {
    append_u64(out, c->words.count);
    uint8_t *to = extend(out, 5 * c->words.count);
    size_t size = 0;
    for (size_t i = 0; i < c->words.count; i++) size += encode_leb(to + size, c->words.values[i]);
    out->size -= 5 * c->words.count - size;
}

static bytes system_of(const circuit *c) {
    bytes out = {0};
    uint64_t head[8] = {0, 0, 14, 0};
    append(&out, head, sizeof head);
    void (*const sections[3])(bytes *, const circuit *) = {append_levels, append_instructions, append_words};
    for (int i = 0; i < 3; i++) {
        const size_t start = out.size;
        sections[i](&out, c);
        head[4 + i] = out.size - start;
    }
    append(&out, c->body.data, c->body.end);
    head[7] = c->body.end;
    append(&out, c->coefficients.data, c->coefficients.end);
    head[0] = out.size - 32;
    memcpy(out.data, head, sizeof head);
    return out;
}

/* ---- the setup ---- */

static void must(const char *what, g16_status status, const g16_error *error) {
    if (status != G16_OK) stop(what, error->message);
}

static reader map_file(const char *path) {
    struct stat status;
    const int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &status) != 0) stop(path, "it cannot be read");
    void *data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (data == MAP_FAILED) stop(path, "it cannot be mapped");
    return (reader){data, 0, (size_t)status.st_size};
}

/* A file under another name until it is complete. */
typedef struct written {
    char part[4096];
    int file;
    size_t size;
    uint8_t *data;
} written;

static void write_begin(written *w, const char *path, size_t size) {
    if (snprintf(w->part, sizeof w->part, "%s.part", path) >= (int)sizeof w->part) stop(path, "the name is too long");
    w->file = open(w->part, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (w->file < 0 || ftruncate(w->file, (off_t)size) != 0) stop(w->part, "it cannot be written");
    w->size = size;
    w->data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, w->file, 0);
    if (w->data == MAP_FAILED) stop(w->part, "it cannot be mapped");
}

static void write_end(const written *w, const char *path) {
    if (munmap(w->data, w->size) != 0 || close(w->file) != 0 || rename(w->part, path) != 0) stop(path, "it cannot be written");
}

static void make_key(const char *path, g16_engine *engine, const circuit *c, const bytes *system) {
    g16_setup *setup;
    g16_error error;
    written w;
    must("constraint system",
         g16_setup_create(engine, &setup, system->data, system->size, c->header, c->header_words, NULL, &error), &error);
    write_begin(&w, path, g16_setup_key_bytes(setup));
    must("setup", g16_setup_run(engine, setup, w.data, w.size, NULL, NULL, NULL, &error), &error);
    write_end(&w, path);
    g16_setup_destroy(setup);
    printf("{\"name\": \"gpu_setup\", \"key\": \"%s\", \"bytes\": %zu, \"system_bytes\": %zu, \"instructions\": %zu}\n", path, w.size,
           system->size, c->is_hint.count);
}

/* Folds a key. */
static void make_folded(const char *path, g16_engine *engine, const char *source) {
    const uint8_t digest[32] = {0}; /* of no source: only this script reads the file */
    const reader file = map_file(source);
    g16_key *key;
    g16_error error;
    written w;
    must("key", g16_key_load(engine, &key, file.data, file.end, NULL, &error), &error);
    write_begin(&w, path, g16_prepared_bytes(key, 0, 1));
    must("folding", g16_prepared_write(engine, key, w.data, w.size, 0, 1, digest, NULL, NULL, NULL, &error), &error);
    write_end(&w, path);
    g16_key_destroy(key);
    printf("{\"name\": \"gpu_setup_folded\", \"key\": \"%s\", \"bytes\": %zu}\n", path, w.size);
}

int main(int argc, char **argv) {
    const int folds = argc == 4 && strcmp(argv[1], "fold") == 0;
    g16_engine *engine;
    g16_error error;
    if (!folds && argc != 3) {
        fprintf(stderr, "usage: gpu_setup CIRCUIT KEY\n       gpu_setup fold KEY FOLDED\n");
        return 2;
    }
    must("engine", g16_engine_create(&engine, 0, G16_BACKEND_AUTO, &error), &error);
    if (folds) {
        make_folded(argv[3], engine, argv[2]);
    } else {
        circuit c = read_circuit(map_file(argv[1]));
        const bytes system = system_of(&c);
        numbers *const lists[] = {&c.words, &c.is_hint, &c.wires, &c.levels};
        for (int i = 0; i < 4; i++) free(lists[i]->values);
        make_key(argv[2], engine, &c, &system);
        free(system.data);
    }
    g16_engine_destroy(engine);
    return 0;
}
