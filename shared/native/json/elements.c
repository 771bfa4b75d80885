#include "json/elements.h"

#include <string.h>

#include "field/fr.h"

enum { ELEMENT_BYTES = 32, ELEMENT_DIGITS = 2 * ELEMENT_BYTES };

typedef struct {
    const uint8_t *at, *end;
    uint8_t *out;
} reader;

#define NO_DIGIT 0x80
#define DIGITS(first, value)                                                                                         \
    [first] = value, [(first) + 1] = (value) + 1, [(first) + 2] = (value) + 2, [(first) + 3] = (value) + 3,          \
    [(first) + 4] = (value) + 4, [(first) + 5] = (value) + 5
/* Value of a digit plus one, 0 for other bytes. */
static const uint8_t DIGIT[256] = {DIGITS('0', 1), ['6'] = 7, ['7'] = 8, ['8'] = 9, ['9'] = 10, DIGITS('a', 11), DIGITS('A', 11)};

static void skip_blanks(reader *in) {
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\n' || *in->at == '\t' || *in->at == '\r')) in->at++;
}

/* Advances past a byte and the blanks around it; false when another one follows. */
static bool skip(reader *in, uint8_t byte) {
    skip_blanks(in);
    if (in->at == in->end || *in->at != byte) return false;
    in->at++;
    skip_blanks(in);
    return true;
}

static bool read_digits(uint8_t *out, const uint8_t *digits) {
    uint8_t missing = 0;
    for (uint32_t i = 0; i < ELEMENT_BYTES; i++) {
        const uint8_t high = (uint8_t)(DIGIT[digits[2 * i]] - 1), low = (uint8_t)(DIGIT[digits[2 * i + 1]] - 1);
        missing |= high | low;
        out[i] = (uint8_t)(high << 4 | low);
    }
    uint64_t limbs[4];
    mont256_load_be(limbs, out);
    return !(missing & NO_DIGIT) && mont256_compare_var(limbs, FR_MODULUS.p) < 0;
}

static bool read_element(reader *in) {
    const size_t left = (size_t)(in->end - in->at);
    if (left < JSON_ELEMENT_LEAST_BYTES - 1 || memcmp(in->at, "\"0x", 3) != 0) return false;
    const uint8_t *digits = in->at + 3;
    const uint8_t *quote = memchr(digits, '"', left - 3 < ELEMENT_DIGITS + 1 ? left - 3 : ELEMENT_DIGITS + 1);
    if (!quote || quote == digits) return false;
    uint8_t padded[ELEMENT_DIGITS];
    const size_t count = (size_t)(quote - digits);
    if (count < ELEMENT_DIGITS) {
        memset(padded, '0', ELEMENT_DIGITS - count);
        memcpy(padded + ELEMENT_DIGITS - count, digits, count);
        digits = padded;
    }
    if (!read_digits(in->out, digits)) return false;
    in->out += ELEMENT_BYTES;
    in->at = quote + 1;
    return true;
}

static bool read_row(reader *in, uint32_t *length) {
    *length = 0;
    if (!skip(in, '[')) return false;
    if (skip(in, ']')) return true;
    do {
        if (!read_element(in)) return false;
        ++*length;
    } while (skip(in, ','));
    return skip(in, ']');
}

bool json_elements(uint8_t *out, uint32_t *lengths, size_t *rows, const uint8_t *text, size_t size, bool nested) {
    reader in = {text, text + size, out};
    *rows = 0;
    if (!nested) {
        if (!read_row(&in, &lengths[(*rows)++])) return false;
    } else if (skip(&in, '[')) {
        if (!skip(&in, ']')) {
            do {
                if (!read_row(&in, &lengths[(*rows)++])) return false;
            } while (skip(&in, ','));
            if (!skip(&in, ']')) return false;
        }
    } else {
        return false;
    }
    return in.at == in.end;
}
