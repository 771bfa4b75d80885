/* base/random.c - random bytes by getrandom(2), or from /dev/urandom where that call is missing. */
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/random.h>
#endif

/* The scalar field order, big-endian. */
static const uint8_t ORDER[32] = {0x30, 0x64, 0x4e, 0x72, 0xe1, 0x31, 0xa0, 0x29, 0xb8, 0x50, 0x45,
                                  0xb6, 0x81, 0x81, 0x58, 0x5d, 0x28, 0x33, 0xe8, 0x48, 0x79, 0xb9,
                                  0x70, 0x91, 0x43, 0xe1, 0xf5, 0x93, 0xf0, 0x00, 0x00, 0x01};

static int fill_from_device(uint8_t *out, size_t bytes) {
    int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    while (bytes) {
        ssize_t got = read(file, out, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        out += got;
        bytes -= (size_t)got;
    }
    close(file);
    return bytes == 0;
}

int os_random_fill(uint8_t *out, size_t bytes) {
#if defined(__linux__)
    while (bytes) {
        ssize_t got = getrandom(out, bytes, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fill_from_device(out, bytes);
        out += got;
        bytes -= (size_t)got;
    }
    return 1;
#else
    return fill_from_device(out, bytes);
#endif
}

g16_status os_random_scalar(uint8_t out[32]) {
    /* 254 bits are below r with probability 0.76, so 128 failures in a row mean a broken source. */
    for (int attempt = 0; attempt < 128; attempt++) {
        if (!os_random_fill(out, 32)) return G16_RANDOMNESS_UNAVAILABLE;
        out[0] &= 0x3f;
        if (memcmp(out, ORDER, 32) < 0) return G16_OK;
    }
    return G16_RANDOMNESS_UNAVAILABLE;
}

void os_random_wipe(void *memory, size_t bytes) {
    memset(memory, 0, bytes);
    __asm__ volatile("" : : "r"(memory) : "memory"); /* reads the zeros, for all that the compiler knows */
}
