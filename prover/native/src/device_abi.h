/* device_abi.h - between the kernel and a library that computes on GPUs (libgroth16_cuda.so), which it opens at run time.
 *
 * Plain C without CUDA, the same for both sides. The library exports one function, DEVICE_ABI_SYMBOL, which returns the table
 * below. It sums what takes the time of a proof; witness, blinding and everything that decides what a proof is stay in the kernel.
 *
 * Scalars and coordinates are 32 bytes, little-endian, in Montgomery form with R = 2^256, below their modulus, unless said
 * otherwise; points are x | y, over Fp2 the coefficient of 1 first. All functions are thread-safe, but for one thread
 * at a time that opens, closes or destroys a handle. `message` has DEVICE_ABI_MESSAGE bytes and gets an English sentence
 * when a call fails.
 */
#ifndef G16_DEVICE_ABI_H
#define G16_DEVICE_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Changes with any change of this file that the other side could notice. */
#define DEVICE_ABI_VERSION 2
#define DEVICE_ABI_SYMBOL "groth16_device_library"
#define DEVICE_ABI_MESSAGE 200

typedef enum device_abi_status {
    DEVICE_ABI_OK = 0,
    DEVICE_ABI_UNAVAILABLE = 1,
    DEVICE_ABI_OUT_OF_MEMORY = 2, /* of the device, or of the budget */
    DEVICE_ABI_LOST = 3,
    DEVICE_ABI_CANCELLED = 4,
    DEVICE_ABI_HOST_OUT_OF_MEMORY = 5
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

/* Sums of wire times base in XYZZ coordinates: X, Y, ZZ, ZZZ; ZZ = 0 is infinity. b1 is left alone unless it was asked for. */
typedef struct device_abi_sums {
    uint64_t a[16], b1[16];
    uint64_t kz[16]; /* K and Z together */
    uint64_t b2[32];
} device_abi_sums;

/* Time between events on the device, in nanoseconds, of a batch as a whole. Parts of it overlap. */
typedef struct device_abi_times {
    uint64_t quotient, a, b1, b2, kz;
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
} device_abi_library;

typedef const device_abi_library *(*device_abi_entry)(void);

#endif
