/* curve/encoding_impl.h - gnark's encodings of points.
 *
 * Coordinates are 32 bytes, big-endian, canonical; the imaginary part of an Fp2 value comes first. The two top bits of the first
 * byte give the encoding: 00 raw (x, y), 10 compressed with the smaller y, 11 compressed with the larger y, 01 compressed
 * infinity. Raw infinity is all zero bytes.
 */
#ifndef G16_CURVE_ENCODING_IMPL_H
#define G16_CURVE_ENCODING_IMPL_H

#include "curve/g1.h"
#include "curve/g2.h"
#include "curve/g2_subgroup_impl.h"
#include "curve/square_roots_impl.h"

#define G1_COMPRESSED_BYTES 32
#define G1_RAW_BYTES 64
#define G2_COMPRESSED_BYTES 64
#define G2_RAW_BYTES 128

typedef enum point_fault {
    POINT_GOOD = 0,
    POINT_NOT_CANONICAL,
    POINT_BAD_INFINITY,
    POINT_NO_ROOT,
    POINT_OFF_CURVE,
    POINT_OUTSIDE_SUBGROUP,
    POINT_AT_INFINITY
} point_fault;

/* Returns the predicate of an error message whose subject is a point. */
static const char *point_fault_text(point_fault fault) {
    switch (fault) {
    case POINT_GOOD: return "is good";
    case POINT_NOT_CANONICAL: return "has a coordinate at or above the modulus";
    case POINT_BAD_INFINITY: return "carries the infinity flag with other bits set";
    case POINT_NO_ROOT: return "has an x coordinate that no point of the curve has";
    case POINT_OFF_CURVE: return "is not on the curve";
    case POINT_OUTSIDE_SUBGROUP: return "is not in the group of order r";
    case POINT_AT_INFINITY: return "is the point at infinity";
    }
    return "is bad";
}

static inline int point_is_raw(uint8_t first) { return (first >> 6) == 0; }
static inline size_t g1_encoded_bytes(uint8_t first) {
    return point_is_raw(first) ? G1_RAW_BYTES : G1_COMPRESSED_BYTES;
}
static inline size_t g2_encoded_bytes(uint8_t first) {
    return point_is_raw(first) ? G2_RAW_BYTES : G2_COMPRESSED_BYTES;
}

/* ---- decoding --------------------------------------------------------------------- */

static int point_bytes_are_zero(const uint8_t *in, size_t count) {
    uint8_t any = 0;
    for (size_t i = 0; i < count; i++) any |= in[i];
    return any == 0;
}

/* Reads 32 bytes whose two top bits are flags; returns 0 when the coordinate is not canonical. */
static inline int point_coordinate(fp *r, const uint8_t in[32]) {
    uint64_t limbs[4];
    mont256_load_be(limbs, in);
    limbs[3] &= 0x3fffffffffffffff;
    if (mont256_compare_var(limbs, FP_MODULUS.p) >= 0) return 0;
    fp_from_limbs(r, limbs);
    return 1;
}

/* Raw points; infinity is all zero. */
static point_fault g1_decode_raw(g1_affine *r, const uint8_t in[64]) {
    if (!fp_from_bytes(&r->x, in) || !fp_from_bytes(&r->y, in + 32)) return POINT_NOT_CANONICAL;
    if (g1_affine_is_infinity(r)) return POINT_AT_INFINITY;
    return g1_affine_on_curve(r) ? POINT_GOOD : POINT_OFF_CURVE;
}

/* Does not check the order of the point. */
static point_fault g2_decode_raw_on_curve(g2_affine *r, const uint8_t in[128]) {
    if (!fp_from_bytes(&r->x.c1, in) || !fp_from_bytes(&r->x.c0, in + 32) ||
        !fp_from_bytes(&r->y.c1, in + 64) || !fp_from_bytes(&r->y.c0, in + 96)) {
        return POINT_NOT_CANONICAL;
    }
    if (g2_affine_is_infinity(r)) return POINT_AT_INFINITY;
    return g2_affine_on_curve(r) ? POINT_GOOD : POINT_OFF_CURVE;
}

static point_fault g2_decode_raw(g2_affine *r, const uint8_t in[128]) {
    const point_fault fault = g2_decode_raw_on_curve(r, in);
    if (fault != POINT_GOOD) return fault;
    return g2_in_subgroup(r) ? POINT_GOOD : POINT_OUTSIDE_SUBGROUP;
}

/* Decodes `count` consecutive points, raw or compressed; the caller has checked that all bytes are present. Returns the index of
 * the first faulty point and sets *fault, or returns count. Infinity is reported as POINT_AT_INFINITY and stored as (0, 0). */
static uint32_t g1_decode(g1_affine *r, const uint8_t *in, uint32_t count, point_fault *fault) {
    uint32_t first_fault = count;
    *fault = POINT_GOOD;
    for (uint32_t i = 0; i < first_fault;) {
        fp right[POINT_LANES] = {{{0}}}, root[POINT_LANES];
        uint32_t place[POINT_LANES], lanes = 0;
        uint8_t larger[POINT_LANES];
        for (; i < first_fault && lanes < POINT_LANES; i++) {
            unsigned form = in[0] >> 6;
            point_fault found = POINT_GOOD;
            if (form == 0) {
                found = g1_decode_raw(&r[i], in);
            } else if (form == 1) {
                memset(&r[i], 0, sizeof r[i]);
                found = in[0] == 0x40 && point_bytes_are_zero(in + 1, 31) ? POINT_AT_INFINITY : POINT_BAD_INFINITY;
            } else if (!point_coordinate(&r[i].x, in)) {
                found = POINT_NOT_CANONICAL;
            } else {
                fp_sqr(&right[lanes], &r[i].x);
                fp_mul(&right[lanes], &right[lanes], &r[i].x);
                fp_add(&right[lanes], &right[lanes], &G1_B);
                larger[lanes] = form & 1;
                place[lanes++] = i;
            }
            if (found != POINT_GOOD) {
                *fault = found;
                first_fault = i;
            }
            in += form == 0 ? G1_RAW_BYTES : G1_COMPRESSED_BYTES;
        }
        fp_sqrt_lanes(root, right);
        for (uint32_t j = 0; j < lanes; j++) {
            fp square;
            fp_sqr(&square, &root[j]);
            if (!fp_equal(&square, &right[j])) {
                *fault = POINT_NO_ROOT;
                return place[j];
            }
            if (fp_is_larger_half(&root[j]) != larger[j]) fp_neg(&root[j], &root[j]);
            r[place[j]].y = root[j];
        }
    }
    return first_fault;
}

/* The same on the twist; every point is also checked to be in the subgroup of order r. */
static uint32_t g2_decode(g2_affine *r, const uint8_t *in, uint32_t count, point_fault *fault) {
    uint32_t first_fault = count;
    *fault = POINT_GOOD;
    for (uint32_t i = 0; i < first_fault;) {
        fp2 right[POINT_LANES] = {{{{0}}, {{0}}}}, root[POINT_LANES];
        uint32_t place[POINT_LANES], lanes = 0;
        uint8_t larger[POINT_LANES], good[POINT_LANES], inside[POINT_LANES];
        for (; i < first_fault && lanes < POINT_LANES; i++) {
            unsigned form = in[0] >> 6;
            point_fault found = POINT_GOOD;
            if (form == 0) {
                found = g2_decode_raw(&r[i], in);
            } else if (form == 1) {
                memset(&r[i], 0, sizeof r[i]);
                found = in[0] == 0x40 && point_bytes_are_zero(in + 1, 63) ? POINT_AT_INFINITY : POINT_BAD_INFINITY;
            } else if (!point_coordinate(&r[i].x.c1, in) || !fp_from_bytes(&r[i].x.c0, in + 32)) {
                found = POINT_NOT_CANONICAL;
            } else {
                fp2_sqr(&right[lanes], &r[i].x);
                fp2_mul(&right[lanes], &right[lanes], &r[i].x);
                fp2_add(&right[lanes], &right[lanes], &G2_B);
                larger[lanes] = form & 1;
                place[lanes++] = i;
            }
            if (found != POINT_GOOD) {
                *fault = found;
                first_fault = i;
            }
            in += form == 0 ? G2_RAW_BYTES : G2_COMPRESSED_BYTES;
        }
        fp2_sqrt_lanes(root, good, right);
        const g2_affine *points[POINT_LANES];
        for (uint32_t j = 0; j < lanes; j++) {
            if (fp2_is_larger_half(&root[j]) != larger[j]) fp2_neg(&root[j], &root[j]);
            r[place[j]].y = root[j];
            points[j] = &r[place[j]];
        }
        g2_in_subgroup_many(inside, points, lanes);
        for (uint32_t j = 0; j < lanes; j++) {
            if (good[j] && inside[j]) continue;
            *fault = good[j] ? POINT_OUTSIDE_SUBGROUP : POINT_NO_ROOT;
            return place[j];
        }
    }
    return first_fault;
}

/* ---- encoding --------------------------------------------------------------------- */

static void g1_encode_raw(uint8_t out[64], const g1_affine *p) {
    fp_to_bytes(out, &p->x);
    fp_to_bytes(out + 32, &p->y);
}

static void g2_encode_raw(uint8_t out[128], const g2_affine *p) {
    fp_to_bytes(out, &p->x.c1);
    fp_to_bytes(out + 32, &p->x.c0);
    fp_to_bytes(out + 64, &p->y.c1);
    fp_to_bytes(out + 96, &p->y.c0);
}

static void g1_encode_compressed(uint8_t out[32], const g1_affine *p) {
    fp_to_bytes(out, &p->x);
    out[0] |= g1_affine_is_infinity(p) ? 0x40 : fp_is_larger_half(&p->y) ? 0xc0 : 0x80;
}

static void g2_encode_compressed(uint8_t out[64], const g2_affine *p) {
    fp_to_bytes(out, &p->x.c1);
    fp_to_bytes(out + 32, &p->x.c0);
    out[0] |= g2_affine_is_infinity(p) ? 0x40 : fp2_is_larger_half(&p->y) ? 0xc0 : 0x80;
}

/* ---- proofs: Ar | Bs | Krs, raw (groth16.h) --------------------------------------- */

typedef struct groth16_proof {
    g1_affine ar, krs;
    g2_affine bs;
} groth16_proof;

/* Returns POINT_GOOD, or the fault and the name of the point that has it. The order of Bs is left to g2_in_subgroup. */
static point_fault groth16_proof_decode(groth16_proof *proof, const uint8_t in[G16_PROOF_BYTES], const char **which) {
    point_fault fault;
    *which = "Ar";
    if ((fault = g1_decode_raw(&proof->ar, in)) != POINT_GOOD) return fault;
    *which = "Krs";
    if ((fault = g1_decode_raw(&proof->krs, in + 192)) != POINT_GOOD) return fault;
    *which = "Bs";
    return g2_decode_raw_on_curve(&proof->bs, in + 64);
}

static void groth16_proof_encode(uint8_t out[G16_PROOF_BYTES], const groth16_proof *proof) {
    g1_encode_raw(out, &proof->ar);
    g2_encode_raw(out + 64, &proof->bs);
    g1_encode_raw(out + 192, &proof->krs);
}

#endif
