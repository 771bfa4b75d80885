/* gnark/builder.c - see gnark/builder.h. */
#include "gnark/builder.h"

#include <stdlib.h>
#include <string.h>

#define NAME_LIMIT 4096
#define SCALAR_FIELD "30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001"

/* ---- memory --------------------------------------------------------------------------------- */

static int out_of_memory(cs_builder *builder) {
    return cbor_fail_at(&builder->reader, G16_OUT_OF_MEMORY, builder->reader.offset,
                        "no memory for the constraint system");
}

void *cs_allocate(cs_builder *builder, uint64_t count, size_t size) {
    void *memory = count <= SIZE_MAX / size ? calloc(count ? (size_t)count : 1, size) : NULL;
    if (!memory) out_of_memory(builder);
    return memory;
}

int cs_grow(cs_builder *builder, void **array, uint64_t *capacity, uint64_t needed, size_t size) {
    if (needed <= *capacity && *array) return 1; /* never NULL afterwards */
    uint64_t wanted = *capacity + *capacity / 2;
    if (wanted < needed) wanted = needed;
    if (wanted < 64) wanted = 64;
    void *memory = wanted <= SIZE_MAX / size ? realloc(*array, (size_t)wanted * size) : NULL;
    if (!memory) return out_of_memory(builder);
    *array = memory;
    *capacity = wanted;
    return 1;
}

int cs_cancelled(cs_builder *builder) {
    if (!g16_is_cancelled(builder->cancel)) return 0;
    cbor_fail_at(&builder->reader, G16_CANCELLED, 0, "cancelled while reading the constraint system");
    return 1;
}

/* ---- expressions, rows, hints ----------------------------------------------------------------- */

int cs_open_expression(cs_builder *builder, uint64_t count, cs_term **terms) {
    constraint_system *cs = builder->cs;
    void *array = cs->terms;
    int grown = cs_grow(builder, &array, &builder->terms_capacity, cs->terms_count + count, sizeof *cs->terms);
    cs->terms = array;
    *terms = cs->terms + cs->terms_count;
    return grown;
}

int cs_close_expression(cs_builder *builder, uint64_t count, uint32_t *number) {
    constraint_system *cs = builder->cs;
    const cs_term *terms = cs->terms + cs->terms_count;
    uint32_t oldest = cs->expressions > CS_SHARING_WINDOW ? cs->expressions - CS_SHARING_WINDOW : 0;
    for (uint32_t other = cs->expressions; other-- > oldest;) {
        uint64_t start = cs->expression_start[other];
        if (cs->expression_start[other + 1] - start == count &&
            memcmp(cs->terms + start, terms, (size_t)count * sizeof *terms) == 0) {
            *number = other;
            return 1;
        }
    }
    void *array = cs->expression_start;
    int grown = cs_grow(builder, &array, &builder->expressions_capacity, (uint64_t)cs->expressions + 2,
                        sizeof *cs->expression_start);
    cs->expression_start = array;
    if (!grown) return 0;
    if (cs->terms_count + count > UINT32_MAX || cs->expressions >= UINT32_MAX - 2) {
        return cbor_fail_at(&builder->reader, G16_UNSUPPORTED_KEY, builder->reader.offset,
                            "the constraint system has more than 2^32 distinct terms");
    }
    cs->expression_start[cs->expressions] = (uint32_t)cs->terms_count;
    *number = cs->expressions++;
    cs->terms_count += count;
    cs->expression_start[cs->expressions] = (uint32_t)cs->terms_count;
    return 1;
}

int cs_allocate_rows(cs_builder *builder, uint64_t count) {
    if (count == 0) return cbor_fail(&builder->reader, "the constraint system has no constraints");
    if (count >= CS_IS_HINT) return cbor_fail(&builder->reader, "the constraint system has 2^31 constraints or more");
    builder->cs->rows = cs_allocate(builder, count, sizeof *builder->cs->rows);
    if (!builder->cs->rows) return 0;
    builder->cs->constraints = (uint32_t)count;
    return 1;
}

static const struct known_hint {
    g16_format_version format_version;
    uint32_t id; /* FNV-1a of the name */
    cs_hint_kind kind;
    const char *name;
} KNOWN_HINTS[] = {
    {G16_FORMAT_0_8, 2224041163u, CS_HINT_BITS, "github.com/consensys/gnark/std/math/bits.NBits"},
    {G16_FORMAT_0_8, 2162097565u, CS_HINT_INVERSE_OR_ZERO, "github.com/consensys/gnark/backend/hint.InvZero"},
    {G16_FORMAT_0_14, 4115454955u, CS_HINT_BITS, "github.com/consensys/gnark/std/math/bits.nBits"},
    {G16_FORMAT_0_14, 2534161455u, CS_HINT_INVERSE_OR_ZERO,
     "github.com/consensys/gnark/constraint/solver.InvZeroHint"},
};

static const struct known_hint *known_hint(g16_format_version format_version, uint64_t id) {
    for (size_t i = 0; i < sizeof KNOWN_HINTS / sizeof *KNOWN_HINTS; i++) {
        if (KNOWN_HINTS[i].format_version == format_version && KNOWN_HINTS[i].id == id) return &KNOWN_HINTS[i];
    }
    return NULL;
}

int cs_add_hint(cs_builder *builder, uint32_t id, uint64_t inputs, uint32_t input, uint64_t first_output,
                uint64_t outputs, size_t offset) {
    constraint_system *cs = builder->cs;
    const struct known_hint *known = known_hint(builder->format_version, id);
    if (!known) {
        return cbor_fail_at(&builder->reader, G16_UNSUPPORTED_KEY, offset, "hint #%u: unknown hint id %u",
                            cs->hints_count, id);
    }
    uint64_t most = known->kind == CS_HINT_BITS ? CS_MAX_HINT_OUTPUTS : 1;
    if (inputs != 1 || outputs < 1 || outputs > most || first_output > UINT32_MAX - outputs) {
        return cbor_fail_at(&builder->reader, G16_MALFORMED_KEY, offset,
                            "hint #%u: %llu inputs and %llu outputs from wire %llu on do not suit the hint",
                            cs->hints_count, (unsigned long long)inputs, (unsigned long long)outputs,
                            (unsigned long long)first_output);
    }
    if (cs->hints_count >= CS_IS_HINT - 1) return cbor_fail(&builder->reader, "there are 2^31 hints or more");
    void *array = cs->hints;
    int grown =
        cs_grow(builder, &array, &builder->hints_capacity, (uint64_t)cs->hints_count + 1, sizeof *cs->hints);
    cs->hints = array;
    if (!grown) return 0;
    cs->hints[cs->hints_count++] =
        (cs_hint){.kind = known->kind, .input = input, .first_output = (uint32_t)first_output, .outputs = (uint32_t)outputs};
    builder->hint_outputs += outputs;
    return 1;
}

/* ---- parts of the CBOR body ------------------------------------------------------------------- */

static int read_public_names(cs_builder *builder) {
    uint64_t count;
    const uint8_t *text;
    size_t length, start = builder->reader.offset;
    if (!cbor_array(&builder->reader, 1, 0, &count, "Public")) return 0;
    if (count == 0 || count >= CS_IS_HINT) return cbor_fail(&builder->reader, "Public: %llu wires", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++) {
        if (!cbor_text(&builder->reader, NAME_LIMIT, &text, &length, "Public")) return 0;
        if (i == 0 && !cbor_text_is(text, length, "1")) {
            return cbor_fail_at(&builder->reader, G16_MALFORMED_KEY, start, "Public: the first wire is not the constant 1");
        }
    }
    builder->cs->public_wires = (uint32_t)count;
    return 1;
}

/* Key files do not name their circuit. The batch circuits differ in the names of their secret inputs 3 and 4. */
static int read_secret_names(cs_builder *builder) {
    uint64_t count;
    int start_index = 0;
    if (!cbor_array(&builder->reader, 1, 1, &count, "Secret")) return 0;
    if (count >= CS_IS_HINT) return cbor_fail(&builder->reader, "Secret: %llu wires", (unsigned long long)count);
    builder->cs->batch_kind = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *text;
        size_t length;
        if (!cbor_text(&builder->reader, NAME_LIMIT, &text, &length, "Secret")) return 0;
        if (i == 3 && cbor_text_is(text, length, "TxHashes_0")) builder->cs->batch_kind = G16_CIRCUIT_BATCH_UPDATE;
        if (i == 3) start_index = cbor_text_is(text, length, "StartIndex");
        if (i == 4 && start_index && cbor_text_is(text, length, "OldLeaves_0")) {
            builder->cs->batch_kind = G16_CIRCUIT_BATCH_APPEND;
        }
        if (i == 4 && start_index && cbor_text_is(text, length, "LowElementValues_0")) {
            builder->cs->batch_kind = G16_CIRCUIT_BATCH_ADDRESS_APPEND;
        }
    }
    builder->cs->secret_wires = (uint32_t)count;
    return 1;
}

static int read_scalar_field(cs_builder *builder) {
    const uint8_t *text;
    size_t length, start = builder->reader.offset;
    if (!cbor_text(&builder->reader, NAME_LIMIT, &text, &length, "ScalarField")) return 0;
    if (cbor_text_is(text, length, SCALAR_FIELD)) return 1;
    return cbor_fail_at(&builder->reader, G16_UNSUPPORTED_KEY, start, "ScalarField is not the scalar field of BN254");
}

static int read_version(cs_builder *builder) {
    const char *expected = builder->format_version == G16_FORMAT_0_8 ? "0.8.0" : "0.14.0";
    const uint8_t *text;
    size_t length, start = builder->reader.offset;
    if (!cbor_text(&builder->reader, NAME_LIMIT, &text, &length, "GnarkVersion")) return 0;
    if (cbor_text_is(text, length, expected)) return 1;
    return cbor_fail_at(&builder->reader, G16_UNSUPPORTED_KEY, start, "GnarkVersion is not %s", expected);
}

static int read_hint_names(cs_builder *builder) {
    uint64_t count;
    if (!cbor_map(&builder->reader, 2, 1, &count, "MHintsDependencies")) return 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t id;
        const uint8_t *text;
        size_t length, start = builder->reader.offset;
        if (!cbor_unsigned(&builder->reader, UINT32_MAX, &id, "MHintsDependencies")) return 0;
        if (!cbor_text(&builder->reader, NAME_LIMIT, &text, &length, "MHintsDependencies")) return 0;
        const struct known_hint *known = known_hint(builder->format_version, id);
        if (!known || !cbor_text_is(text, length, known->name)) {
            return cbor_fail_at(&builder->reader, G16_UNSUPPORTED_KEY, start,
                                "MHintsDependencies: hint id %llu with its name is unknown", (unsigned long long)id);
        }
    }
    return 1;
}

int cs_read_unused_feature(cs_builder *builder, const char *what) {
    uint64_t pairs;
    size_t start = builder->reader.offset;
    if (!cbor_map(&builder->reader, 2, 0, &pairs, what)) return 0;
    for (uint64_t i = 0; i < pairs; i++) {
        const uint8_t *text;
        size_t length;
        unsigned major;
        uint64_t argument;
        if (!cbor_text(&builder->reader, NAME_LIMIT, &text, &length, what)) return 0;
        if (!cbor_head(&builder->reader, &major, &argument, what)) return 0;
        int empty = major == CBOR_SIMPLE ? argument == 20 || argument == 22 /* false, null */
                                         : major != CBOR_NEGATIVE && major != CBOR_TAG && argument == 0;
        if (!empty) return cbor_fail_at(&builder->reader, G16_UNSUPPORTED_KEY, start, "%s is not empty", what);
    }
    return 1;
}

static const char *const KEY_NAMES[CS_KEYS] = {
#define NAME(key, name) name,
    CS_EACH_KEY(NAME)
#undef NAME
};

/* Reads the next key; CS_KEYS if it is not in the set `known`. Refuses one that is in *seen. */
static int read_key(cs_builder *builder, uint32_t known, uint32_t *seen, cs_key *found) {
    const uint8_t *text;
    size_t length, start = builder->reader.offset;
    uint32_t key = 0;
    if (!cbor_text(&builder->reader, NAME_LIMIT, &text, &length, "key of the constraint system")) return 0;
    while (key < CS_KEYS && !(known >> key & 1 && cbor_text_is(text, length, KEY_NAMES[key]))) key++;
    if (key < CS_KEYS && *seen >> key & 1) {
        return cbor_fail_at(&builder->reader, G16_MALFORMED_KEY, start, "key %s occurs twice", KEY_NAMES[key]);
    }
    *seen |= (uint32_t)1 << key;
    *found = (cs_key)key;
    return 1;
}

int cs_read_body(cs_builder *builder, uint32_t required, uint32_t optional, int (*read)(void *file, cs_key key), void *file) {
    uint64_t pairs, count;
    uint32_t seen = 0;
    required |= CS_KEY_BIT(LOGS) - 1; /* the keys of both versions before debug data */
    optional |= CS_KEY_BIT(LEVELS) - 1;
    if (!cbor_map(&builder->reader, 2, 0, &pairs, "constraint system")) return 0;
    for (uint64_t i = 0; i < pairs; i++) {
        cs_key key = CS_KEYS;
        int done;
        if (!read_key(builder, required | optional, &seen, &key)) return 0;
        switch (key) {
        case CS_KEY_PUBLIC: done = read_public_names(builder); break;
        case CS_KEY_SECRET: done = read_secret_names(builder); break;
        case CS_KEY_SCALAR_FIELD: done = read_scalar_field(builder); break;
        case CS_KEY_VERSION: done = read_version(builder); break;
        case CS_KEY_HINT_NAMES: done = read_hint_names(builder); break;
        case CS_KEY_INTERNAL:
            done = cbor_unsigned(&builder->reader, CS_IS_HINT - 1, &count, "NbInternalVariables");
            if (done) builder->cs->internal_wires = (uint32_t)count;
            break;
        case CS_KEY_LOGS:
        case CS_KEY_DEBUG_MAP:
        case CS_KEY_DEBUG_INFO:
        case CS_KEY_SYMBOLS: done = cbor_skip(&builder->reader, 1, KEY_NAMES[key]); break;
        case CS_KEYS: done = cbor_skip(&builder->reader, 1, "unknown key"); break;
        default: done = read(file, key);
        }
        if (!done) return 0;
    }
    for (uint32_t key = 0; key < CS_KEYS; key++) {
        if ((required & ~seen) >> key & 1) return cbor_fail(&builder->reader, "key %s is missing", KEY_NAMES[key]);
    }
    return 1;
}

int cs_allocate_coefficients(cs_builder *builder, uint64_t count) {
    if (count < 5 || count > UINT32_MAX) {
        return cbor_fail(&builder->reader, "the coefficient table has %llu entries", (unsigned long long)count);
    }
    builder->cs->coefficients = cs_allocate(builder, count, sizeof *builder->cs->coefficients);
    if (!builder->cs->coefficients) return 0;
    builder->cs->coefficients_count = (uint32_t)count;
    return 1;
}

int cs_set_coefficient(cs_builder *builder, uint64_t index, const uint64_t limbs[4], size_t offset) {
    fr value;
    memcpy(value.v, limbs, sizeof value.v);
    if (mont256_compare_var(value.v, FR_MODULUS.p) >= 0) {
        return cbor_fail_at(&builder->reader, G16_MALFORMED_KEY, offset, "coefficient %llu is not below the modulus",
                            (unsigned long long)index);
    }
    if (index < 5) {
        fr expected[5] = {FR_ZERO, FR_ONE};
        fr_double(&expected[2], &expected[1]);
        fr_neg(&expected[3], &expected[1]);
        fr_neg(&expected[4], &expected[2]);
        if (!fr_equal(&value, &expected[index])) {
            return cbor_fail_at(&builder->reader, G16_MALFORMED_KEY, offset,
                                "coefficients 0 to 4 are not 0, 1, 2, -1, -2: entry %llu differs",
                                (unsigned long long)index);
        }
    }
    builder->cs->coefficients[index] = value;
    return 1;
}
