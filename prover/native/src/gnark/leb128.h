/* gnark/leb128.h - variable-length unsigned integers below 2^32, the words of calldata in key files of format version 0.14: seven
 * bits per byte, least significant group first. */
#ifndef G16_GNARK_LEB128_H
#define G16_GNARK_LEB128_H

#include <stdint.h>

typedef struct leb128_words {
    const uint8_t *next, *end;
    uint64_t taken; /* words read so far */
} leb128_words;

/* Returns 1 and the next word; or 0 without consuming bytes when the data end early or the word has more than 32 bits. */
static inline int leb128_read(leb128_words *from, uint32_t *value) {
    const uint8_t *at = from->next;
    uint64_t word = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (at >= from->end) return 0;
        uint8_t byte = *at++;
        word |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80) continue;
        if (word > UINT32_MAX) return 0;
        *value = (uint32_t)word;
        from->next = at;
        from->taken++;
        return 1;
    }
    return 0;
}

#endif
