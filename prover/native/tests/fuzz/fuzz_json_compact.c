/* fuzz_json_compact.c - the compaction of JSON, on arbitrary bytes.
 *
 * The first byte of an input is the size of the output buffer. The output must fit, must not be longer than the text,
 * and must not change when it is compacted again.
 */
#include <stdlib.h>
#include <string.h>

#include "json/compact.c"

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) abort();                                                                           \
    } while (0)

static const char names[] = "circuitType\nheight\nleaves\nroot\na\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    /* Buffers of the exact size, so that a byte too far is seen. */
    const size_t length = size - 1, room = data[0] == 255 ? length : data[0];
    uint8_t *text = malloc(length ? length : 1), *out = malloc(room ? room : 1), *again = malloc(room ? room : 1);
    REQUIRE(text && out && again);
    memcpy(text, data + 1, length);
    const uint8_t *result, *again_result;
    size_t written, place, written_again;
    const json_compact_status status = json_compact(out, room, &result, &written, text, length, names, &place);
    REQUIRE(status <= JSON_COMPACT_TOO_LONG && place <= length);
    if (status == JSON_COMPACT_OK) {
        REQUIRE(written <= room && written <= length && place == length);
        REQUIRE(result == out || (result >= text && result + written <= text + length));
        REQUIRE(json_compact(again, room, &again_result, &written_again, result, written, names, &place) == JSON_COMPACT_OK);
        REQUIRE(written_again == written && memcmp(result, again_result, written) == 0);
    }
    free(text);
    free(out);
    free(again);
    return 0;
}
