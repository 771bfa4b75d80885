#include "json/elements.h"

#include <string.h>

#include "field/fr.h"

enum { ELEMENT_BYTES = 32, ELEMENT_DIGITS = 2 * ELEMENT_BYTES };

typedef struct {
    const uint8_t *at, *end;
    uint8_t *out;
} reader;

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))
/* Bit 7 of each byte of `bytes`, which are below 0x80: the byte is at least `least`. */
#define AT_LEAST(bytes, least) ((bytes) + EACH_BYTE(0x80 - (least)))

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

/* Reads eight digits, the first in the lowest byte of `text`, to four bytes in the same order; *valid becomes false for other bytes. */
static uint32_t read_eight_digits(uint64_t text, bool *valid) {
    const uint64_t ascii = text & EACH_BYTE(0x7f), lower = ascii | EACH_BYTE(0x20);
    const uint64_t digits = AT_LEAST(ascii, '0') & ~AT_LEAST(ascii, '9' + 1);
    const uint64_t letters = AT_LEAST(lower, 'a') & ~AT_LEAST(lower, 'f' + 1) & EACH_BYTE(0x80);
    *valid &= ((digits | letters) & ~text & EACH_BYTE(0x80)) == EACH_BYTE(0x80);
    const uint64_t values = (ascii & EACH_BYTE(0x0f)) + 9 * (letters >> 7);
    uint64_t bytes = (values << 4 | values >> 8) & UINT64_C(0x00ff00ff00ff00ff);
    bytes = (bytes | bytes >> 8) & UINT64_C(0x0000ffff0000ffff);
    return (uint32_t)(bytes | bytes >> 16);
}

static bool read_digits(uint8_t *out, const uint8_t *digits) {
    bool valid = true;
    for (uint32_t i = 0; i < ELEMENT_DIGITS; i += 8) {
        uint64_t text;
        memcpy(&text, digits + i, sizeof text);
        const uint32_t bytes = read_eight_digits(text, &valid);
        memcpy(out + i / 2, &bytes, sizeof bytes);
    }
    uint64_t limbs[4];
    mont256_load_be(limbs, out);
    return valid && mont256_compare_var(limbs, FR_MODULUS.p) < 0;
}

static bool read_element(reader *in) {
    const size_t left = (size_t)(in->end - in->at);
    if (left < JSON_ELEMENT_LEAST_BYTES - 1 || memcmp(in->at, "\"0x", 3) != 0) return false;
    const uint8_t *digits = in->at + 3;
    const size_t most = left - 3 < ELEMENT_DIGITS + 1 ? left - 3 : ELEMENT_DIGITS + 1;
    /* Nearly all have 64 digits. If there are quotes in between, these are no digits. */
    const bool is_full = most > ELEMENT_DIGITS && digits[ELEMENT_DIGITS] == '"' && read_digits(in->out, digits);
    const uint8_t *quote = is_full ? digits + ELEMENT_DIGITS : memchr(digits, '"', most);
    if (!quote || quote == digits) return false;
    const size_t count = (size_t)(quote - digits);
    if (!is_full) {
        uint8_t padded[ELEMENT_DIGITS];
        memset(padded, '0', ELEMENT_DIGITS - count);
        memcpy(padded + ELEMENT_DIGITS - count, digits, count);
        if (!read_digits(in->out, padded)) return false;
    }
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
