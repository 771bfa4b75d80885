/* gpu/abi.h - interface between the kernel and the library that drives GPUs (libgroth16_cuda.so), which the kernel opens at run
 * time.
 *
 * Plain C without CUDA, identical on both sides. The library exports one function, DEVICE_ABI_SYMBOL, which returns the table
 * below. It computes transforms and sums, most of the work of a proof. Blinding and the checks of a proof stay in the kernel.
 *
 * Scalars and coordinates are 32 bytes, little-endian, in Montgomery form with R = 2^256, below their modulus, unless stated
 * otherwise; points are x | y, with coefficient 0 first over Fp2. All functions are thread-safe, but a handle must be opened,
 * closed or destroyed by one thread at a time. `message` has DEVICE_ABI_MESSAGE bytes and receives an English sentence when a
 * call fails.
 */
#ifndef G16_GPU_ABI_H
#define G16_GPU_ABI_H

#include "groth16.h"

/* Increases with every change of this file that affects the other side. */
#define DEVICE_ABI_VERSION 9
#define DEVICE_ABI_SYMBOL "groth16_device_library"
#define DEVICE_ABI_MESSAGE 200

typedef enum device_abi_status {
    DEVICE_ABI_OK = 0,
    DEVICE_ABI_UNAVAILABLE = 1,
    DEVICE_ABI_OUT_OF_MEMORY = 2, /* of the device, or of the budget */
    DEVICE_ABI_LOST = 3,
    DEVICE_ABI_CANCELLED = 4,
    DEVICE_ABI_HOST_OUT_OF_MEMORY = 5,
    DEVICE_ABI_UNSATISFIED = 6 /* prove_inputs: a constraint fails */
} device_abi_status;

/* Representations of coordinates; the numbers are those of g16_point_format. */
#define DEVICE_ABI_R256 1u
#define DEVICE_ABI_R260_LOOSE 2u

/* A coset of 2^log2 points at which the quotient of a folded key is evaluated. Its point t is number residue + t * 2^(domain_log2 -
 * log2) of those of the domain, and its base is number first + t of Z. */
typedef struct device_abi_coset {
    uint32_t log2, residue, first;
} device_abi_coset;
#define DEVICE_ABI_COSETS 5

/* A proving key in host memory, read only during the call. With a folded key (docs/explanation/folded-keys.md) the bases of Z belong
 * to products of A and B at z_count points, those of K to any wires. */
typedef struct device_abi_key {
    uint32_t wires, public_wires; /* including the constant wire */
    uint32_t rows, domain_log2;   /* rows <= n = 2^domain_log2 */
    uint32_t a_count, b_count, k_count, z_count;
    uint32_t point_format;                /* of the four lists of points */
    uint32_t cosets_count;              /* 0: not folded */
    device_abi_coset cosets[DEVICE_ABI_COSETS]; /* z_count points together, by `first` */
    const uint32_t *a_wires, *b_wires;  /* wire of each base of A, of B */
    const uint32_t *k_wires;            /* of a folded key; NULL: public_wires, public_wires + 1, ... */
    const void *a, *k, *z;              /* z: bit-reversed */
    const void *b2;
    const void *roots;         /* n values psi^bitrev(i), psi of order 2n */
    uint8_t product_scale[32]; /* 1 / n^2 */
    uint32_t quotient_unit[8]; /* a plain number: 1 / (2n), or 1 / n^2 of a folded key */
} device_abi_key;

/* A solved witness; c is the product of a and b in every row. */
typedef struct device_abi_witness {
    const void *wires;  /* all wires */
    const void *a, *b;  /* all rows */
} device_abi_witness;

/* ---- witnesses solved on the GPU (gpu/chains.h) ----
 *
 * A chain is a sequence of rows, each of which solves a wire; no other chain reads its results. Chains of the same shape run the
 * same code. The low eight bits of a code word are the operation. Every operation produces one value, which replaces the oldest
 * one in the chain's ring buffer:
 * DEVICE_ABI_SUM: terms << 8; followed by a word per term, coefficient | source << 24
 * DEVICE_ABI_ROW: left << 8 | right << 16 | rest << 24, three sources: a = left, b = right, wire = a b - rest
 * DEVICE_ABI_ROW_NEGATED: the same, wire = rest - a b
 * A source below DEVICE_ABI_RING is a slot of the ring; the others are listed below. Each source in memory consumes the shape's
 * next place, in the order of the sources. A row consumes two more: its own number and that of its wire. */
#define DEVICE_ABI_RING 32u
#define DEVICE_ABI_SHIFTS 32u /* maximum per shape */
#define DEVICE_ABI_SUM 1u
#define DEVICE_ABI_SUM_TERMS (1u << 24) /* a sum has fewer terms */
#define DEVICE_ABI_ROW 2u
#define DEVICE_ABI_ROW_NEGATED 3u
#define DEVICE_ABI_FROM_WIRE 64u
#define DEVICE_ABI_FROM_A 65u
#define DEVICE_ABI_FROM_B 66u
#define DEVICE_ABI_FROM_ONE 67u  /* the constant one, in sums */
#define DEVICE_ABI_FROM_LEFT 68u /* right equals left */
#define DEVICE_ABI_FROM_NONE 69u /* there is no rest */
#define DEVICE_ABI_COEFFICIENT_BITS 24u

/* The number of a wire or row in the shape's first chain, and the index of the shift by which other chains differ. */
typedef struct device_abi_place {
    uint32_t number, shift;
} device_abi_place;

typedef struct device_abi_shape {
    uint32_t chains;
    uint32_t code_start, code_end;
    uint32_t places_start;
    uint32_t shifts_start, shifts; /* shift `shift` of chain `chain` is at shifts_start + shift * chains + chain; it is added mod 2^32 */
} device_abi_shape;

/* Chains first, first + 1, ... of a shape; the last block may be incomplete. */
typedef struct device_abi_chain_block {
    uint32_t shape, first;
} device_abi_chain_block;
#define DEVICE_ABI_CHAIN_THREADS 32u

/* wire: numbers from the number of wires on denote left sides of rows. */
typedef struct device_abi_term {
    uint32_t coefficient, wire;
} device_abi_term;

/* A row that solves no wire; its sides are terms [start, end). */
typedef struct device_abi_check {
    uint32_t row;
    uint32_t start[3], end[3]; /* left, right, out */
} device_abi_check;

/* Wires and rows that the CPU solves, in two parts. The GPU needs the second part only after all chains have ended. */
typedef struct device_abi_part {
    uint32_t wires, rows;
    const uint32_t *targets; /* wires, then rows */
} device_abi_part;

typedef struct device_abi_chains {
    uint32_t inputs; /* wires 0, 1, ... that no row solves: the constant wire and the inputs */
    device_abi_part parts[2];
    uint32_t shapes_count, blocks_count, code_count, places_count, shifts_count, coefficients_count, checks_count, terms_count;
    const device_abi_shape *shapes;
    const device_abi_chain_block *blocks; /* longest first */
    const uint32_t *code;
    const device_abi_place *places;
    const uint32_t *shifts;
    const void *coefficients; /* 0, 1, 2, -1, -2 come first */
    const device_abi_check *checks;
    const device_abi_term *terms; /* of checks */
} device_abi_chains;

/* Returns the number of values in a part: its wires, then a and b of its rows. */
static inline uint64_t device_abi_part_values(const device_abi_part *part) { return part->wires + 2 * (uint64_t)part->rows; }

/* The inputs, and the values that the CPU solved. */
typedef struct device_abi_inputs {
    const void *inputs;   /* wires 0, 1, ... */
    const void *parts[2]; /* values; those of the second part are valid after rest() has returned 1 */
    int (*rest)(void *context); /* solves the second part; called once while the GPU works; returns 0 to cancel the call */
    void *context;
} device_abi_inputs;

/* Sums of wire times base in XYZZ coordinates: X, Y, ZZ, ZZZ; ZZ = 0 is infinity. */
typedef struct device_abi_sums {
    uint64_t a[16];
    uint64_t kz[16]; /* K and Z together */
    uint64_t b2[32];
} device_abi_sums;

/* Nanoseconds between events on the GPU, for a whole batch, added to what is there. The intervals overlap. */
typedef struct device_abi_times {
    uint64_t quotient, a, b2, kz;
    uint64_t witness; /* from the inputs to the last check, if the GPU solves witnesses */
} device_abi_times;

typedef struct device_abi_library {
    uint32_t version, bytes; /* DEVICE_ABI_VERSION, sizeof(device_abi_library) */
    /* Returns DEVICE_ABI_OK with 0 when there is no GPU. */
    device_abi_status (*count)(uint32_t *count, char *message);
    /* budget: bytes of device memory; 0: nine tenths of the free memory. */
    device_abi_status (*open)(void **device, uint32_t index, uint64_t budget, char *message);
    void (*close)(void *device); /* after its keys are destroyed */
    device_abi_status (*describe)(void *device, g16_device_info *info, char *message);
    void (*sizes)(void *device, const device_abi_key *key, g16_device_sizes *sizes);
    /* batch_limit: the limit of the loaded key; sizes() may return another one while other keys are loaded. table_limit: maximum
     * bytes of a key with tables; 0: no limit but the budget. cancel: NULL, or a flag that cancels the call when it is not 0. */
    device_abi_status (*key_load)(void *device, void **key, uint32_t *batch_limit, const device_abi_key *data, uint64_t table_limit,
                                  const int32_t *cancel, char *message);
    /* Returns the device memory of the key, its chains included. */
    uint64_t (*key_bytes)(void *key);
    void (*key_destroy)(void *key);
    /* Returns page-locked host memory, from which the GPU copies a witness without the CPU, or NULL. Must be given back. Any
     * other memory works as well, but more slowly. */
    void *(*staging_take)(void *key, uint64_t bytes);
    void (*staging_give_back)(void *key, void *memory);
    /* Proves a batch of proofs, up to the key's limit, in common launches; one entry of sums and witnesses per proof. */
    device_abi_status (*prove)(void *key, device_abi_sums *sums, device_abi_times *times, const device_abi_witness *witnesses,
                               uint32_t count, const int32_t *cancel, char *message);
    /* Loads the chains of the circuit into a key that no proof uses yet. */
    device_abi_status (*chains_load)(void *key, const device_abi_chains *chains, char *message);
    /* The same as prove for one proof from its inputs; the key must have chains. */
    device_abi_status (*prove_inputs)(void *key, device_abi_sums *sums, device_abi_times *times, const device_abi_inputs *inputs,
                                      const int32_t *cancel, char *message);
} device_abi_library;

typedef const device_abi_library *(*device_abi_entry)(void);

#endif
