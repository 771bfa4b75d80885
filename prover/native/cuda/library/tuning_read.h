/* cuda/library/tuning_read.h - parses GROTH16_CUDA_TUNING and checks the ranges. */
#ifndef CUDA_LIBRARY_TUNING_READ_H
#define CUDA_LIBRARY_TUNING_READ_H

#include <stdio.h>
#include <string.h>

#include "cuda/base/tuning.h"
#include "cuda/msm/plan.h"
#include "cuda/ntt/transform.h"

#define TUNING_WARP 32       /* blocks consist of whole warps */
#define TUNING_MIN_TILE 32   /* with smaller tiles a launch could exceed the maximum grid */
#define TUNING_MAX_TILE 65536
#define TUNING_MAX_JOINS 65535
#define TUNING_MAX_REDUCE 8
#define TUNING_MAX_LEVEL 4
#define TUNING_MAX_PROOFS 64
#define TUNING_SHOWN 12 /* characters shown of an unknown name; the message also lists all names */
#define TUNING_DIGITS 9

typedef struct tuning_range {
    const char *name;
    uint32_t least, most, step;
} tuning_range;

/* Indexed by device_setting. */
static const tuning_range TUNING_RANGES[DEVICE_SETTINGS] = {
    {"window", DEVICE_MSM_MIN_WINDOW, DEVICE_MSM_MAX_WINDOW, 1},
    {"sets", 0, DEVICE_MSM_MAX_SETS, 1},
    {"low_bits", 0, DEVICE_MSM_MAX_LOW_BITS, 1},
    {"tile", TUNING_MIN_TILE, TUNING_MAX_TILE, 1},
    {"piece", 1, DEVICE_MSM_MAX_PIECE, 1},
    {"threads", TUNING_WARP, DEVICE_MSM_THREADS, TUNING_WARP},
    {"joins", 1, TUNING_MAX_JOINS, 1},
    {"reduce", 1, TUNING_MAX_REDUCE, 1},
    {"level", 1, TUNING_MAX_LEVEL, 1},
    {"ntt_last", 1, NTT_LAST_LEVELS, 1},
    {"ntt_levels", 1, NTT_LEVELS, 1},
    {"ntt_columns", 0, NTT_COLUMNS_LOG2, 1},
    {"ntt_threads", TUNING_WARP, NTT_THREADS, TUNING_WARP},
    {"batch", 1, TUNING_MAX_PROOFS, 1},
    {"g2", 0, DEVICE_MSM_G2_HALVES, 1},
};

/* Writes the message for an unknown name; returns 0. */
static inline int tuning_refuse_name(const char *name, size_t length, char *message, size_t size) {
    char shown[TUNING_SHOWN + 1] = "";
    for (size_t i = 0; i < length && i < TUNING_SHOWN; i++) shown[i] = name[i] > ' ' && name[i] < 0x7f ? name[i] : '?';
    size_t used = (size_t)snprintf(message, size, DEVICE_TUNING_VARIABLE ": unknown %s; known:", shown);
    for (int i = 0; i < DEVICE_SETTINGS && used < size; i++) {
        used += (size_t)snprintf(message + used, size - used, " %s", TUNING_RANGES[i].name);
    }
    return 0;
}

/* problem: the error, which the message puts before the range. */
static inline int tuning_refuse(const tuning_range *range, const char *problem, uint32_t least, uint32_t most, char *message, size_t size) {
    char steps[32] = "";
    if (range->step > 1) snprintf(steps, sizeof steps, " in steps of %u", range->step);
    snprintf(message, size, DEVICE_TUNING_VARIABLE ": %s%s; it takes %u to %u%s", range->name, problem, least, most, steps);
    return 0;
}

static inline int tuning_read_one(device_tuning *tuning, const char *entry, size_t length, char *message, size_t size) {
    const char *equals = (const char *)memchr(entry, '=', length);
    const size_t name = equals ? (size_t)(equals - entry) : length, digits = equals ? length - name - 1 : 0;
    uint32_t value = 0, at = 0;
    while (at < DEVICE_SETTINGS && (strlen(TUNING_RANGES[at].name) != name || memcmp(TUNING_RANGES[at].name, entry, name) != 0)) at++;
    if (at == DEVICE_SETTINGS) return tuning_refuse_name(entry, name, message, size);
    const tuning_range *range = &TUNING_RANGES[at];
    int right = digits > 0 && digits <= TUNING_DIGITS;
    for (size_t i = 0; right && i < digits; i++) {
        const char digit = equals[1 + i];
        right = digit >= '0' && digit <= '9';
        value = 10 * value + (uint32_t)(digit - '0');
    }
    if (!right) return tuning_refuse(range, " has no number", range->least, range->most, message, size);
    if (value < range->least || value > range->most || value % range->step) {
        char problem[32];
        snprintf(problem, sizeof problem, "=%u is out of range", value);
        return tuning_refuse(range, problem, range->least, range->most, message, size);
    }
    if (device_is_tuned(tuning, (device_setting)at)) {
        return tuning_refuse(range, " is named twice", range->least, range->most, message, size);
    }
    tuning->values[at] = value;
    return 1;
}

/* Returns 1 when a setting is within the range that the window leaves it, or when one of both is not set. */
static inline int tuning_fits_window(const device_tuning *tuning, device_setting setting, uint32_t least, uint32_t most, char *message,
                                size_t size) {
    const uint32_t window = tuning->values[TUNING_WINDOW], value = tuning->values[setting];
    char problem[64];
    if (window == DEVICE_NOT_TUNED || value == DEVICE_NOT_TUNED || (value >= least && value <= most)) return 1;
    snprintf(problem, sizeof problem, "=%u does not go with window=%u", value, window);
    return tuning_refuse(&TUNING_RANGES[setting], problem, least, most, message, size);
}

/* text: NULL, or the value of the variable. Returns 0 with a message that names the setting and its range when the text is
 * invalid. */
static inline int device_tuning_read(device_tuning *tuning, const char *text, char *message, size_t size) {
    *tuning = device_untuned();
    while (text && *text) {
        const size_t length = strcspn(text, ",");
        if (!tuning_read_one(tuning, text, length, message, size)) return 0;
        text += length;
        if (*text && !*++text) return tuning_refuse_name("", 0, message, size); /* a trailing comma */
    }
    const uint32_t bits = tuning->values[TUNING_WINDOW] - 1; /* bits of a bucket number */
    return tuning_fits_window(tuning, TUNING_LOW_BITS, bits > DEVICE_MSM_MAX_LOW_BITS ? bits - DEVICE_MSM_MAX_LOW_BITS : 0,
                         device_msm_at_most(bits, DEVICE_MSM_MAX_LOW_BITS), message, size) &&
           tuning_fits_window(tuning, TUNING_REDUCE, 1, device_msm_at_most(bits, TUNING_MAX_REDUCE), message, size);
}

#endif
