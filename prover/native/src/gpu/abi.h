/* gpu/abi.h - between the kernel and a library that computes on GPUs (libgroth16_cuda.so), which it opens at run time.
 *
 * Plain C without CUDA, the same for both sides. The library exports one function, DEVICE_ABI_SYMBOL, which returns the table
 * below. It sums what takes the time of a proof; witness, blinding and everything that decides what a proof is stay in the kernel.
 *
 * Scalars and coordinates are 32 bytes, little-endian, in Montgomery form with R = 2^256, below their modulus, unless said
 * otherwise; points are x | y, over Fp2 the coefficient of 1 first. All functions are thread-safe, but for one thread
 * at a time that opens, closes or destroys a handle. `message` has DEVICE_ABI_MESSAGE bytes and gets an English sentence
 * when a call fails.
 */
#ifndef G16_GPU_ABI_H
#define G16_GPU_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Changes with any change of this file that the other side could notice. */
#define DEVICE_ABI_VERSION 5
#define DEVICE_ABI_SYMBOL "groth16_device_library"
#define DEVICE_ABI_MESSAGE 200

typedef enum device_abi_status {
    DEVICE_ABI_OK = 0,
    DEVICE_ABI_UNAVAILABLE = 1,
    DEVICE_ABI_OUT_OF_MEMORY = 2, /* of the device, or of the budget */
    DEVICE_ABI_LOST = 3,
    DEVICE_ABI_CANCELLED = 4,
    DEVICE_ABI_HOST_OUT_OF_MEMORY = 5,
    DEVICE_ABI_UNSATISFIED = 6 /* prove_inputs: some row does not hold */
} device_abi_status;

typedef struct device_abi_info {
    char name[128];
    uint32_t index, capability_major, capability_minor, multiprocessors;
    uint32_t driver_version, runtime_version; /* 12040 = 12.4 */
    uint64_t memory_bytes, free_bytes, budget_bytes, used_bytes;
} device_abi_info;

/* How coordinates of points are stored; numbers of g16_point_form. */
#define DEVICE_ABI_R256 1u
#define DEVICE_ABI_R260_LOOSE 2u

/* A proving key in host memory, only read while a call lasts. */
typedef struct device_abi_key {
    uint32_t wires, public_wires; /* with the one-wire */
    uint32_t rows, domain_log2;   /* rows <= n = 2^domain_log2 */
    uint32_t a_count, b_count, k_count, z_count;
    uint32_t point_form;                /* of the five lists of points */
    const uint32_t *a_wires, *b_wires;  /* wire of each base of A; of B */
    const void *a, *b1, *k, *z;         /* k: of wires public_wires, public_wires + 1, ...; z: bit-reversed */
    const void *b2;
    const void *roots;         /* n values psi^bitrev(i), psi of order 2n */
    uint8_t product_scale[32]; /* 1 / n^2 */
    uint32_t quotient_unit[8]; /* 1 / (2n), a plain number */
} device_abi_key;

/* A solved witness: a and b, times each other, are c in every row. */
typedef struct device_abi_witness {
    const void *wires;  /* of all wires */
    const void *a, *b;  /* of all rows */
} device_abi_witness;

/* ---- witnesses that the device makes (gpu/chains.h) ----
 *
 * A chain is a list of rows that each solve a wire, in order, of which no other chain reads anything. Chains of one shape run the same
 * code. A word of code says what to do in its low eight bits; every operation makes one value, which takes the oldest one's slot in the
 * chain's ring:
 *   DEVICE_ABI_SUM           terms << 8; then a word a term, coefficient | source << 24
 *   DEVICE_ABI_ROW           left << 8 | right << 16 | rest << 24, three sources: a = left, b = right, wire = a b - rest
 *   DEVICE_ABI_ROW_NEGATED   the same, wire = rest - a b
 * A source below DEVICE_ABI_RING is a slot, the others are below. Each source of memory takes the shape's next place, in the order of
 * the sources, and a row two more: its own number, and its wire's. */
#define DEVICE_ABI_RING 32u
#define DEVICE_ABI_SHIFTS 32u /* of a shape, at most */
#define DEVICE_ABI_SUM 1u
#define DEVICE_ABI_ROW 2u
#define DEVICE_ABI_ROW_NEGATED 3u
#define DEVICE_ABI_FROM_WIRE 64u
#define DEVICE_ABI_FROM_A 65u
#define DEVICE_ABI_FROM_B 66u
#define DEVICE_ABI_FROM_ONE 67u  /* the constant one, in sums */
#define DEVICE_ABI_FROM_LEFT 68u /* the right side is the left one */
#define DEVICE_ABI_FROM_NONE 69u /* no rest */
#define DEVICE_ABI_COEFFICIENT_BITS 24u

/* A wire's or a row's number in the shape's first chain, and by which of the shape's shifts others differ. */
typedef struct device_abi_place {
    uint32_t number, shift;
} device_abi_place;

typedef struct device_abi_shape {
    uint32_t chains;
    uint32_t code_start, code_end;
    uint32_t places_start;
    uint32_t shifts_start, shifts; /* the one of a chain: at shifts_start + shift * chains + chain; added mod 2^32 */
} device_abi_shape;

/* Chains first, first + 1, ... of a shape, as far as they exist. */
typedef struct device_abi_chain_block {
    uint32_t shape, first;
} device_abi_chain_block;
#define DEVICE_ABI_CHAIN_THREADS 32u

/* Wire: at and above the number of wires, the left side of a row. */
typedef struct device_abi_term {
    uint32_t coefficient, wire;
} device_abi_term;

/* A row that solves nothing; its sides are terms from start to end. */
typedef struct device_abi_check {
    uint32_t row;
    uint32_t start[3], end[3]; /* left, right, out */
} device_abi_check;

/* What the processor solves: wires and rows by number, in two parts. Of the second one the device needs nothing before all chains
 * have ended. */
typedef struct device_abi_part {
    uint32_t wires, rows;
    const uint32_t *targets; /* wires, then rows */
} device_abi_part;

typedef struct device_abi_chains {
    uint32_t inputs; /* wires 0, 1, ... that are no row's, the one-wire among them */
    device_abi_part parts[2];
    uint32_t shapes_count, blocks_count, code_count, places_count, shifts_count, coefficients_count, checks_count, terms_count;
    const device_abi_shape *shapes;
    const device_abi_chain_block *blocks; /* those that take longest first */
    const uint32_t *code;
    const device_abi_place *places;
    const uint32_t *shifts;
    const void *coefficients; /* 0, 1, 2, -1, -2 come first */
    const device_abi_check *checks;
    const device_abi_term *terms; /* of checks */
} device_abi_chains;

/* Values of a part: its wires, then a and then b of its rows. */
static inline uint64_t device_abi_part_values(const device_abi_part *part) { return part->wires + 2 * (uint64_t)part->rows; }

/* The inputs, and what the processor solved. */
typedef struct device_abi_inputs {
    const void *inputs;   /* wires 0, 1, ... */
    const void *parts[2]; /* values; of the second part when rest() has returned 1 */
    int (*rest)(void *context); /* called once while the device works; 0 ends the call as if it was cancelled */
    void *context;
} device_abi_inputs;

/* What decides where a witness is made. */
typedef struct device_abi_costs {
    double chain_ns;     /* a product in a chain */
    double processor_ns; /* a product on all processors that serve a GPU, per product */
    double bus_bytes;    /* a nanosecond */
} device_abi_costs;

/* Sums of wire times base in XYZZ coordinates: X, Y, ZZ, ZZZ; ZZ = 0 is infinity. b1 is left alone unless it was asked for. */
typedef struct device_abi_sums {
    uint64_t a[16], b1[16];
    uint64_t kz[16]; /* K and Z together */
    uint64_t b2[32];
} device_abi_sums;

/* Time between events on the device, in nanoseconds, of a batch as a whole. Parts of it overlap. */
typedef struct device_abi_times {
    uint64_t quotient, a, b1, b2, kz;
    uint64_t witness; /* from the inputs to a, b and the last check, where the device makes them */
} device_abi_times;

typedef struct device_abi_library {
    uint32_t version, bytes; /* DEVICE_ABI_VERSION, sizeof(device_abi_library) */
    /* No GPU is DEVICE_ABI_OK with 0. */
    device_abi_status (*count)(uint32_t *count, char *message);
    /* budget: bytes of device memory, 0 for nine tenths of what is free. */
    device_abi_status (*open)(void **device, uint32_t index, uint64_t budget, char *message);
    void (*close)(void *device); /* after its keys */
    device_abi_status (*describe)(void *device, device_abi_info *info, char *message);
    uint64_t (*key_bytes)(void *device, const device_abi_key *key);
    uint64_t (*proof_bytes)(void *device, const device_abi_key *key); /* of a proof alone */
    /* cancel: NULL, or a flag that ends the call when it is not 0. */
    device_abi_status (*key_load)(void *device, void **key, const device_abi_key *data, const int32_t *cancel, char *message);
    void (*key_destroy)(void *key);
    /* Host memory from which the device reads a witness without help, or NULL where there is none; to be given back. Any other memory
     * serves as well, more slowly. */
    void *(*staging_take)(void *key, uint64_t bytes);
    void (*staging_give_back)(void *key, void *memory);
    /* A batch of 1 to batch_limit() proofs, which go through the same launches; sums and witnesses: of each. */
    device_abi_status (*prove)(void *key, device_abi_sums *sums, device_abi_times *times, const device_abi_witness *witnesses,
                               uint32_t count, int with_b1, const int32_t *cancel, char *message);
    uint32_t (*batch_limit)(void *device, const device_abi_key *key);
    void (*costs)(void *device, device_abi_costs *costs);
    /* Gives a key that no proof uses yet the chains of its circuit. */
    device_abi_status (*chains_load)(void *key, const device_abi_chains *chains, char *message);
    /* The same as prove, under a key with chains. */
    device_abi_status (*prove_inputs)(void *key, device_abi_sums *sums, device_abi_times *times, const device_abi_inputs *inputs,
                                      int with_b1, const int32_t *cancel, char *message);
} device_abi_library;

typedef const device_abi_library *(*device_abi_entry)(void);

#endif
