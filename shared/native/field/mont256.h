/* field/mont256.h - Montgomery arithmetic on four 64-bit limbs, R = 2^256.
 *
 * For odd moduli p < 2^254 - 1 (both BN254 fields): then 4p < R, the carry word of the interleaved product is always zero, and a
 * product of two values below 2p is below 2p before its final subtraction. Numbers are little-endian limb arrays.
 *
 * Contract of every function: inputs are below p unless stated otherwise; outputs are below p; r may alias inputs. Time does not
 * depend on values, except in functions whose name ends in _var.
 *
 * Three implementations of the same functions: plain C; x86-64 assembly with mulx, adcx and adox when MONT256_ADX is defined;
 * aarch64 assembly with mul and umulh when MONT256_A64 is defined. The including unit decides, so one program can contain two.
 */
#ifndef SHARED_FIELD_MONT256_H
#define SHARED_FIELD_MONT256_H

#include <stdint.h>
#include <string.h>

typedef unsigned __int128 mont256_wide;

/* A modulus p and -1/p mod 2^64. */
typedef struct mont256_modulus {
    uint64_t p[4];
    uint64_t inv;
    uint64_t zero; /* source operand of additions of a carry */
} mont256_modulus;

#ifdef G16_CHECKED
#include <assert.h>
#define MONT256_INVARIANT(condition) assert(condition)
#else
#define MONT256_INVARIANT(condition) ((void)0)
#endif

/* Returns -1, 0 or 1 when a is below, equal to or above b. */
static inline int mont256_compare_var(const uint64_t a[4], const uint64_t b[4]) {
    for (int i = 3; i >= 0; i--) {
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    }
    return 0;
}

static inline int mont256_is_zero(const uint64_t a[4]) { return (a[0] | a[1] | a[2] | a[3]) == 0; }

static inline int mont256_equal(const uint64_t a[4], const uint64_t b[4]) {
    return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
}

static inline uint64_t mont256_add_carry(uint64_t a, uint64_t b, uint64_t *carry) {
    mont256_wide t = (mont256_wide)a + b + *carry;
    *carry = (uint64_t)(t >> 64);
    return (uint64_t)t;
}

static inline uint64_t mont256_sub_borrow(uint64_t a, uint64_t b, uint64_t *borrow) {
    mont256_wide t = (mont256_wide)a - b - *borrow;
    *borrow = (uint64_t)(t >> 64) & 1;
    return (uint64_t)t;
}

/* r = a + b without reduction; the sum must fit 256 bits. */
static inline void mont256_add_lazy(uint64_t r[4], const uint64_t a[4], const uint64_t b[4]) {
    uint64_t carry = 0;
    for (int i = 0; i < 4; i++) r[i] = mont256_add_carry(a[i], b[i], &carry);
    MONT256_INVARIANT(carry == 0);
}

/* r = a - p if a >= p else a, for a < 2p. */
static inline void mont256_reduce_once(uint64_t r[4], const uint64_t a[4], const mont256_modulus *m) {
    uint64_t borrow = 0, d[4];
    for (int i = 0; i < 4; i++) d[i] = mont256_sub_borrow(a[i], m->p[i], &borrow);
    uint64_t keep = (uint64_t)0 - borrow;
    for (int i = 0; i < 4; i++) r[i] = (a[i] & keep) | (d[i] & ~keep);
    MONT256_INVARIANT(mont256_compare_var(r, m->p) < 0);
}

#ifdef MONT256_ADX

/* One row of the interleaved product: t += a * b[i], then t = (t + m*p) / 2^64, where m makes the low limb zero. Low halves use
 * the overflow chain, high halves the carry chain. Zero is loaded from memory, because `mov $0` may be scheduled to the only
 * multiplier port. Clearing both flags uses no port, and lets the chains of a row start before those of the row above have ended.
 * Each row leaves -1/p in rdx for its reduction. */
#define MONT256_ROW_FIRST                                                                                    \
    "xorl %%eax, %%eax\n\t"                                                                                  \
    "movq 0(%[b]), %%rdx\n\t"                                                                                \
    "mulx 0(%[a]), %[t0], %[t1]\n\t"                                                                         \
    "mulx 8(%[a]), %%rax, %[t2]\n\t"                                                                         \
    "adcx %%rax, %[t1]\n\t"                                                                                  \
    "mulx 16(%[a]), %%rax, %[t3]\n\t"                                                                        \
    "adcx %%rax, %[t2]\n\t"                                                                                  \
    "mulx 24(%[a]), %%rax, %[t4]\n\t"                                                                        \
    "movq 32(%[p]), %%rdx\n\t"                                                                               \
    "adcx %%rax, %[t3]\n\t"                                                                                  \
    "adcx 40(%[p]), %[t4]\n\t"

#define MONT256_ROW(offset)                                                                                  \
    "xorl %%eax, %%eax\n\t"                                                                                  \
    "movq " offset "(%[b]), %%rdx\n\t"                                                                       \
    "mulx 0(%[a]), %%rax, %[t4]\n\t"                                                                         \
    "adox %%rax, %[t0]\n\t"                                                                                  \
    "adcx %[t4], %[t1]\n\t"                                                                                  \
    "mulx 8(%[a]), %%rax, %[t4]\n\t"                                                                         \
    "adox %%rax, %[t1]\n\t"                                                                                  \
    "adcx %[t4], %[t2]\n\t"                                                                                  \
    "mulx 16(%[a]), %%rax, %[t4]\n\t"                                                                        \
    "adox %%rax, %[t2]\n\t"                                                                                  \
    "adcx %[t4], %[t3]\n\t"                                                                                  \
    "mulx 24(%[a]), %%rax, %[t4]\n\t"                                                                        \
    "movq 32(%[p]), %%rdx\n\t"                                                                               \
    "adox %%rax, %[t3]\n\t"                                                                                  \
    "adcx 40(%[p]), %[t4]\n\t"                                                                               \
    "adox 40(%[p]), %[t4]\n\t"

#define MONT256_REDUCE                                                                                       \
    "imulq %[t0], %%rdx\n\t"                                                                                 \
    "xorl %%eax, %%eax\n\t"                                                                                  \
    "mulx 0(%[p]), %%rax, %[t5]\n\t"                                                                         \
    "adcx %[t0], %%rax\n\t"                                                                                  \
    "movq %[t5], %[t0]\n\t"                                                                                  \
    "adcx %[t1], %[t0]\n\t"                                                                                  \
    "mulx 8(%[p]), %%rax, %[t1]\n\t"                                                                         \
    "adox %%rax, %[t0]\n\t"                                                                                  \
    "adcx %[t2], %[t1]\n\t"                                                                                  \
    "mulx 16(%[p]), %%rax, %[t2]\n\t"                                                                        \
    "adox %%rax, %[t1]\n\t"                                                                                  \
    "adcx %[t3], %[t2]\n\t"                                                                                  \
    "mulx 24(%[p]), %%rax, %[t3]\n\t"                                                                        \
    "adox %%rax, %[t2]\n\t"                                                                                  \
    "adcx 40(%[p]), %[t3]\n\t"                                                                               \
    "adox %[t4], %[t3]\n\t"

#define MONT256_SUBTRACT_IF_ABOVE                                                                            \
    "movq %[t0], %%rax\n\t"                                                                                  \
    "subq 0(%[p]), %[t0]\n\t"                                                                                \
    "movq %[t1], %%rdx\n\t"                                                                                  \
    "sbbq 8(%[p]), %[t1]\n\t"                                                                                \
    "movq %[t2], %[t4]\n\t"                                                                                  \
    "sbbq 16(%[p]), %[t2]\n\t"                                                                               \
    "movq %[t3], %[t5]\n\t"                                                                                  \
    "sbbq 24(%[p]), %[t3]\n\t"                                                                               \
    "cmovc %%rax, %[t0]\n\t"                                                                                 \
    "cmovc %%rdx, %[t1]\n\t"                                                                                 \
    "cmovc %[t4], %[t2]\n\t"                                                                                 \
    "cmovc %[t5], %[t3]\n\t"

/* r = a * b / R mod p for a, b < 2p. */
static inline __attribute__((always_inline)) void mont256_mul(uint64_t r[4], const uint64_t a[4],
                                                              const uint64_t b[4], const mont256_modulus *m) {
    uint64_t t0, t1, t2, t3, t4, t5;
    __asm__(MONT256_ROW_FIRST MONT256_REDUCE MONT256_ROW("8") MONT256_REDUCE MONT256_ROW("16") MONT256_REDUCE
                MONT256_ROW("24") MONT256_REDUCE MONT256_SUBTRACT_IF_ABOVE
            : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [t5] "=&r"(t5)
            : [a] "r"(a), [b] "r"(b), [p] "r"(m), "m"(*(const uint64_t(*)[4])a), "m"(*(const uint64_t(*)[4])b), "m"(*m)
            : "rax", "rdx", "cc");
    r[0] = t0, r[1] = t1, r[2] = t2, r[3] = t3;
    MONT256_INVARIANT(mont256_compare_var(r, m->p) < 0);
}

/* r = a + b mod p. */
static inline __attribute__((always_inline)) void mont256_add(uint64_t r[4], const uint64_t a[4],
                                                              const uint64_t b[4], const mont256_modulus *m) {
    uint64_t t0 = a[0], t1 = a[1], t2 = a[2], t3 = a[3], u0, u1, u2, u3;
    __asm__("addq 0(%[b]), %[t0]\n\t"
            "adcq 8(%[b]), %[t1]\n\t"
            "adcq 16(%[b]), %[t2]\n\t"
            "adcq 24(%[b]), %[t3]\n\t"
            "movq %[t0], %[u0]\n\t"
            "movq %[t1], %[u1]\n\t"
            "movq %[t2], %[u2]\n\t"
            "movq %[t3], %[u3]\n\t"
            "subq 0(%[p]), %[t0]\n\t"
            "sbbq 8(%[p]), %[t1]\n\t"
            "sbbq 16(%[p]), %[t2]\n\t"
            "sbbq 24(%[p]), %[t3]\n\t"
            "cmovc %[u0], %[t0]\n\t"
            "cmovc %[u1], %[t1]\n\t"
            "cmovc %[u2], %[t2]\n\t"
            "cmovc %[u3], %[t3]\n\t"
            : [t0] "+&r"(t0), [t1] "+&r"(t1), [t2] "+&r"(t2), [t3] "+&r"(t3), [u0] "=&r"(u0), [u1] "=&r"(u1),
              [u2] "=&r"(u2), [u3] "=&r"(u3)
            : [b] "r"(b), [p] "r"(m), "m"(*(const uint64_t(*)[4])b), "m"(*m)
            : "cc");
    r[0] = t0, r[1] = t1, r[2] = t2, r[3] = t3;
}

/* r = a - b mod p. */
static inline __attribute__((always_inline)) void mont256_sub(uint64_t r[4], const uint64_t a[4],
                                                              const uint64_t b[4], const mont256_modulus *m) {
    uint64_t t0 = a[0], t1 = a[1], t2 = a[2], t3 = a[3], u0, u1, u2, u3;
    __asm__("subq 0(%[b]), %[t0]\n\t"
            "sbbq 8(%[b]), %[t1]\n\t"
            "sbbq 16(%[b]), %[t2]\n\t"
            "sbbq 24(%[b]), %[t3]\n\t"
            "sbbq %[u0], %[u0]\n\t"
            "movq %[u0], %[u1]\n\t"
            "movq %[u0], %[u2]\n\t"
            "movq %[u0], %[u3]\n\t"
            "andq 0(%[p]), %[u0]\n\t"
            "andq 8(%[p]), %[u1]\n\t"
            "andq 16(%[p]), %[u2]\n\t"
            "andq 24(%[p]), %[u3]\n\t"
            "addq %[u0], %[t0]\n\t"
            "adcq %[u1], %[t1]\n\t"
            "adcq %[u2], %[t2]\n\t"
            "adcq %[u3], %[t3]\n\t"
            : [t0] "+&r"(t0), [t1] "+&r"(t1), [t2] "+&r"(t2), [t3] "+&r"(t3), [u0] "=&r"(u0), [u1] "=&r"(u1),
              [u2] "=&r"(u2), [u3] "=&r"(u3)
            : [b] "r"(b), [p] "r"(m), "m"(*(const uint64_t(*)[4])b), "m"(*m)
            : "cc");
    r[0] = t0, r[1] = t1, r[2] = t2, r[3] = t3;
}

#elif defined(MONT256_A64)

/* aarch64 has one carry chain, so a row adds its low halves, then its high halves; each carry out goes where the other chain
 * ends. The low word of k * p only makes t0 zero: its carry is that t0 was not zero, which costs a comparison in place of a
 * product and an addition. A product has 64 multiplications and 67 other instructions, and 9 for the last subtraction. */
#define MONT256_REDUCE_A64                                                                                   \
    "cmp %[t0], #1\n\t"                                                                                      \
    "mul %[x], %[k], %[p1]\n\t"                                                                              \
    "umulh %[y], %[k], %[p0]\n\t"                                                                            \
    "adcs %[t1], %[t1], %[x]\n\t"                                                                            \
    "mul %[x], %[k], %[p2]\n\t"                                                                              \
    "adcs %[t2], %[t2], %[x]\n\t"                                                                            \
    "mul %[x], %[k], %[p3]\n\t"                                                                              \
    "adcs %[t3], %[t3], %[x]\n\t"                                                                            \
    "umulh %[x], %[k], %[p1]\n\t"                                                                            \
    "adc %[t4], %[t4], xzr\n\t"                                                                              \
    "adds %[t0], %[t1], %[y]\n\t"                                                                            \
    "umulh %[y], %[k], %[p2]\n\t"                                                                            \
    "adcs %[t1], %[t2], %[x]\n\t"                                                                            \
    "umulh %[x], %[k], %[p3]\n\t"                                                                            \
    "adcs %[t2], %[t3], %[y]\n\t"                                                                            \
    "adc %[t3], %[t4], %[x]\n\t"

#define MONT256_ROW_FIRST_A64                                                                                \
    "mul %[t0], %[a0], %[b0]\n\t"                                                                            \
    "mul %[t1], %[a1], %[b0]\n\t"                                                                            \
    "mul %[k], %[t0], %[inv]\n\t"                                                                            \
    "umulh %[x], %[a0], %[b0]\n\t"                                                                           \
    "mul %[t2], %[a2], %[b0]\n\t"                                                                            \
    "adds %[t1], %[t1], %[x]\n\t"                                                                            \
    "umulh %[y], %[a1], %[b0]\n\t"                                                                           \
    "mul %[t3], %[a3], %[b0]\n\t"                                                                            \
    "adcs %[t2], %[t2], %[y]\n\t"                                                                            \
    "umulh %[x], %[a2], %[b0]\n\t"                                                                           \
    "umulh %[y], %[a3], %[b0]\n\t"                                                                           \
    "adcs %[t3], %[t3], %[x]\n\t"                                                                            \
    "adc %[t4], %[y], xzr\n\t"

#define MONT256_ROW_A64(b)                                                                                   \
    "mul %[x], %[a0], %[" b "]\n\t"                                                                          \
    "mul %[y], %[a1], %[" b "]\n\t"                                                                          \
    "adds %[t0], %[t0], %[x]\n\t"                                                                            \
    "mul %[x], %[a2], %[" b "]\n\t"                                                                          \
    "mul %[k], %[t0], %[inv]\n\t"                                                                            \
    "adcs %[t1], %[t1], %[y]\n\t"                                                                            \
    "mul %[y], %[a3], %[" b "]\n\t"                                                                          \
    "adcs %[t2], %[t2], %[x]\n\t"                                                                            \
    "umulh %[x], %[a0], %[" b "]\n\t"                                                                        \
    "adcs %[t3], %[t3], %[y]\n\t"                                                                            \
    "umulh %[y], %[a1], %[" b "]\n\t"                                                                        \
    "cset %w[t4], cs\n\t"                                                                                    \
    "adds %[t1], %[t1], %[x]\n\t"                                                                            \
    "umulh %[x], %[a2], %[" b "]\n\t"                                                                        \
    "adcs %[t2], %[t2], %[y]\n\t"                                                                            \
    "umulh %[y], %[a3], %[" b "]\n\t"                                                                        \
    "adcs %[t3], %[t3], %[x]\n\t"                                                                            \
    "adc %[t4], %[t4], %[y]\n\t"

/* (t0 .. t3) -= p if that is not negative; u0 .. u3 are the difference. */
#define MONT256_SUBTRACT_IF_ABOVE_A64                                                                        \
    "subs %[u0], %[t0], %[p0]\n\t"                                                                           \
    "sbcs %[u1], %[t1], %[p1]\n\t"                                                                           \
    "sbcs %[u2], %[t2], %[p2]\n\t"                                                                           \
    "sbcs %[u3], %[t3], %[p3]\n\t"                                                                           \
    "csel %[t0], %[t0], %[u0], cc\n\t"                                                                       \
    "csel %[t1], %[t1], %[u1], cc\n\t"                                                                       \
    "csel %[t2], %[t2], %[u2], cc\n\t"                                                                       \
    "csel %[t3], %[t3], %[u3], cc\n\t"

/* r = a * b / R mod p for a, b < 2p. */
static inline __attribute__((always_inline)) void mont256_mul(uint64_t r[4], const uint64_t a[4],
                                                              const uint64_t b[4], const mont256_modulus *m) {
    uint64_t t0, t1, t2, t3, t4, k, x, y;
    __asm__(MONT256_ROW_FIRST_A64 MONT256_REDUCE_A64 MONT256_ROW_A64("b1") MONT256_REDUCE_A64 MONT256_ROW_A64("b2")
                MONT256_REDUCE_A64 MONT256_ROW_A64("b3") MONT256_REDUCE_A64
            : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [k] "=&r"(k), [x] "=&r"(x),
              [y] "=&r"(y)
            : [a0] "r"(a[0]), [a1] "r"(a[1]), [a2] "r"(a[2]), [a3] "r"(a[3]), [b0] "r"(b[0]), [b1] "r"(b[1]), [b2] "r"(b[2]),
              [b3] "r"(b[3]), [p0] "r"(m->p[0]), [p1] "r"(m->p[1]), [p2] "r"(m->p[2]), [p3] "r"(m->p[3]), [inv] "r"(m->inv)
            : "cc");
    uint64_t u0, u1, u2, u3;
    __asm__(MONT256_SUBTRACT_IF_ABOVE_A64
            : [t0] "+&r"(t0), [t1] "+&r"(t1), [t2] "+&r"(t2), [t3] "+&r"(t3), [u0] "=&r"(u0), [u1] "=&r"(u1), [u2] "=&r"(u2),
              [u3] "=&r"(u3)
            : [p0] "r"(m->p[0]), [p1] "r"(m->p[1]), [p2] "r"(m->p[2]), [p3] "r"(m->p[3])
            : "cc");
    r[0] = t0, r[1] = t1, r[2] = t2, r[3] = t3;
    MONT256_INVARIANT(mont256_compare_var(r, m->p) < 0);
}

/* r = a + b mod p. */
static inline __attribute__((always_inline)) void mont256_add(uint64_t r[4], const uint64_t a[4],
                                                              const uint64_t b[4], const mont256_modulus *m) {
    uint64_t t0 = a[0], t1 = a[1], t2 = a[2], t3 = a[3], u0, u1, u2, u3;
    __asm__("adds %[t0], %[t0], %[b0]\n\t"
            "adcs %[t1], %[t1], %[b1]\n\t"
            "adcs %[t2], %[t2], %[b2]\n\t"
            "adc %[t3], %[t3], %[b3]\n\t" MONT256_SUBTRACT_IF_ABOVE_A64
            : [t0] "+&r"(t0), [t1] "+&r"(t1), [t2] "+&r"(t2), [t3] "+&r"(t3), [u0] "=&r"(u0), [u1] "=&r"(u1), [u2] "=&r"(u2),
              [u3] "=&r"(u3)
            : [b0] "r"(b[0]), [b1] "r"(b[1]), [b2] "r"(b[2]), [b3] "r"(b[3]), [p0] "r"(m->p[0]), [p1] "r"(m->p[1]),
              [p2] "r"(m->p[2]), [p3] "r"(m->p[3])
            : "cc");
    r[0] = t0, r[1] = t1, r[2] = t2, r[3] = t3;
}

/* r = a - b mod p. */
static inline __attribute__((always_inline)) void mont256_sub(uint64_t r[4], const uint64_t a[4],
                                                              const uint64_t b[4], const mont256_modulus *m) {
    uint64_t t0 = a[0], t1 = a[1], t2 = a[2], t3 = a[3], u0, u1, u2, u3;
    __asm__("subs %[t0], %[t0], %[b0]\n\t"
            "sbcs %[t1], %[t1], %[b1]\n\t"
            "sbcs %[t2], %[t2], %[b2]\n\t"
            "sbcs %[t3], %[t3], %[b3]\n\t"
            "csel %[u0], xzr, %[p0], cs\n\t"
            "csel %[u1], xzr, %[p1], cs\n\t"
            "csel %[u2], xzr, %[p2], cs\n\t"
            "csel %[u3], xzr, %[p3], cs\n\t"
            "adds %[t0], %[t0], %[u0]\n\t"
            "adcs %[t1], %[t1], %[u1]\n\t"
            "adcs %[t2], %[t2], %[u2]\n\t"
            "adc %[t3], %[t3], %[u3]\n\t"
            : [t0] "+&r"(t0), [t1] "+&r"(t1), [t2] "+&r"(t2), [t3] "+&r"(t3), [u0] "=&r"(u0), [u1] "=&r"(u1), [u2] "=&r"(u2),
              [u3] "=&r"(u3)
            : [b0] "r"(b[0]), [b1] "r"(b[1]), [b2] "r"(b[2]), [b3] "r"(b[3]), [p0] "r"(m->p[0]), [p1] "r"(m->p[1]),
              [p2] "r"(m->p[2]), [p3] "r"(m->p[3])
            : "cc");
    r[0] = t0, r[1] = t1, r[2] = t2, r[3] = t3;
}

#else /* portable C */

/* r = a * b / R mod p for a, b < 2p. Coarsely integrated operand scanning (Koc, Acar, Kaliski
 * 1996) without the carry word, which 4p < R makes superfluous. */
static inline void mont256_mul(uint64_t r[4], const uint64_t a[4], const uint64_t b[4],
                               const mont256_modulus *m) {
    uint64_t t[5] = {0, 0, 0, 0, 0};
    for (int i = 0; i < 4; i++) {
        mont256_wide w = 0;
        for (int j = 0; j < 4; j++) {
            w += (mont256_wide)a[j] * b[i] + t[j];
            t[j] = (uint64_t)w;
            w >>= 64;
        }
        t[4] = (uint64_t)w;
        uint64_t k = t[0] * m->inv;
        w = (mont256_wide)k * m->p[0] + t[0];
        w >>= 64;
        for (int j = 1; j < 4; j++) {
            w += (mont256_wide)k * m->p[j] + t[j];
            t[j - 1] = (uint64_t)w;
            w >>= 64;
        }
        w += t[4];
        t[3] = (uint64_t)w;
        MONT256_INVARIANT((uint64_t)(w >> 64) == 0);
    }
    mont256_reduce_once(r, t, m);
}

/* r = a + b mod p. */
static inline void mont256_add(uint64_t r[4], const uint64_t a[4], const uint64_t b[4], const mont256_modulus *m) {
    uint64_t t[4];
    mont256_add_lazy(t, a, b);
    mont256_reduce_once(r, t, m);
}

/* r = a - b mod p. */
static inline void mont256_sub(uint64_t r[4], const uint64_t a[4], const uint64_t b[4], const mont256_modulus *m) {
    uint64_t borrow = 0, carry = 0, t[4];
    for (int i = 0; i < 4; i++) t[i] = mont256_sub_borrow(a[i], b[i], &borrow);
    uint64_t mask = (uint64_t)0 - borrow;
    for (int i = 0; i < 4; i++) r[i] = mont256_add_carry(t[i], m->p[i] & mask, &carry);
}

#endif

/* r = -a mod p. */
static inline void mont256_neg(uint64_t r[4], const uint64_t a[4], const mont256_modulus *m) {
    uint64_t borrow = 0, t[4];
    uint64_t mask = (uint64_t)0 - (uint64_t)(mont256_is_zero(a) == 0);
    for (int i = 0; i < 4; i++) t[i] = mont256_sub_borrow(m->p[i] & mask, a[i], &borrow);
    memcpy(r, t, sizeof t);
}

/* r = a / 2 mod p. */
static inline void mont256_halve(uint64_t r[4], const uint64_t a[4], const mont256_modulus *m) {
    uint64_t mask = (uint64_t)0 - (a[0] & 1), carry = 0, t[4];
    for (int i = 0; i < 4; i++) t[i] = mont256_add_carry(a[i], m->p[i] & mask, &carry);
    for (int i = 0; i < 3; i++) r[i] = (t[i] >> 1) | (t[i + 1] << 63);
    r[3] = (t[3] >> 1) | (carry << 63);
}

/* r = a / R mod p, the plain value of a Montgomery form, for a < 2p. */
static inline void mont256_to_plain(uint64_t r[4], const uint64_t a[4], const mont256_modulus *m) {
    static const uint64_t unit[4] = {1, 0, 0, 0};
    mont256_mul(r, a, unit, m);
}

/* Converts 32 big-endian bytes to limbs without reduction. */
static inline void mont256_load_be(uint64_t r[4], const uint8_t in[32]) {
    for (int i = 0; i < 4; i++) {
        uint64_t w = 0;
        for (int j = 0; j < 8; j++) w = (w << 8) | in[8 * (3 - i) + j];
        r[i] = w;
    }
}

static inline void mont256_store_be(uint8_t out[32], const uint64_t a[4]) {
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 8; j++) out[8 * (3 - i) + j] = (uint8_t)(a[i] >> (56 - 8 * j));
    }
}

#endif
