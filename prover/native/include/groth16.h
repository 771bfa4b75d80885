/* groth16.h - the entire public C API of the Groth16/BN254 proving kernel.
 *
 * Rules for every function:
 *
 *  1. Order of arguments: handle, outputs, inputs (each followed by its size),
 *     scratch memory, cancel flag, error record.
 *  2. Every function that can fail returns g16_status; outputs are valid only
 *     when it returns G16_OK. Errors are values: no function aborts or prints.
 *  3. Scalars (Fr) and coordinates (Fp) cross this interface as 32 bytes, big-endian,
 *     canonical (below the modulus). A value at or above the modulus is rejected.
 *  4. Handles are immutable after creation and may be shared by threads. There is no
 *     global mutable state. One engine may run any number of calls concurrently; they share
 *     its threads. A key keeps the backend of the engine that loaded it; any engine may use it.
 *  5. The caller provides the memory for a proof (`scratch`); g16_prove_scratch_bytes()
 *     returns its size. Only *_create and *_load allocate, and release everything on failure.
 *     g16_solve, which is meant for tests and audits, allocates temporary memory and releases
 *     it before it returns.
 *  6. `cancel` may be NULL. Otherwise it is read between stages and between tasks of a
 *     stage; once it is non-zero, the call soon returns G16_CANCELLED.
 *  7. `error` may be NULL. Otherwise it is filled when the status is not G16_OK.
 *  8. Secrets (blinding factors, intermediate points that reveal them) are wiped.
 *
 * Key files are gnark's, of format versions 0.8 and 0.14, with Light Protocol's wrapper.
 */
#ifndef G16_GROTH16_H
#define G16_GROTH16_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define G16_API __attribute__((visibility("default")))
#else
#define G16_API
#endif

typedef enum g16_status {
    G16_OK = 0,
    G16_INVALID_ARGUMENT = 1,       /* a size, value or handle violates the rules above */
    G16_OUT_OF_MEMORY = 2,          /* an allocation failed, or `scratch` is too small */
    G16_CANCELLED = 3,              /* the cancel flag was set */
    G16_MALFORMED_KEY = 4,          /* a key file violates its format at byte `offset` */
    G16_UNSUPPORTED_KEY = 5,        /* well-formed, but this kernel does not support it */
    G16_UNSATISFIED_CONSTRAINT = 6, /* the inputs violate constraint number `constraint` */
    G16_MALFORMED_PROOF = 7,        /* proof bytes do not encode points of the right groups */
    G16_PROOF_REJECTED = 8,         /* well-formed, but the pairing equation does not hold */
    G16_RANDOMNESS_UNAVAILABLE = 9, /* the operating system provides no random bytes */
    G16_THREADS_UNAVAILABLE = 10,   /* the operating system starts no further threads */
    G16_DEVICE_UNAVAILABLE = 11,    /* no CUDA library, driver or GPU with that index, or a GPU that the library was not built for */
    G16_DEVICE_OUT_OF_MEMORY = 12,  /* the key or the proof does not fit into the GPU's memory or the budget for it */
    G16_DEVICE_LOST = 13            /* a launch, a copy or the GPU failed; close the device and open it again */
} g16_status;

#define G16_STATUS_COUNT 14

/* Cause and position of a failure. `message` is one zero-terminated English sentence without
 * line breaks; it never contains input values. */
typedef struct g16_error {
    char message[256];
    uint64_t offset;     /* byte offset in the key file (G16_MALFORMED_KEY), else 0 */
    uint32_t constraint; /* row (G16_UNSATISFIED_CONSTRAINT), else 0 */
} g16_error;

typedef struct g16_engine g16_engine;
typedef struct g16_key g16_key;
typedef struct g16_vk g16_vk;

/* Cancel flag: a non-zero value requests that a running call stops. The kernel reads it atomically and never writes it. */
typedef int32_t g16_cancel;

/* Name of a status in lower case with underscores, e.g. "malformed_key". */
G16_API const char *g16_status_name(g16_status status);

/* Version of the kernel, e.g. "0.1.0". */
G16_API const char *g16_version(void);

/* ---- engine ------------------------------------------------------------------- */

typedef enum g16_backend_choice {
    G16_BACKEND_AUTO = 0,     /* the fastest that this CPU supports */
    G16_BACKEND_PORTABLE = 1, /* plain C */
    G16_BACKEND_ADX = 2,      /* x86-64 with mulx, adcx, adox */
    G16_BACKEND_IFMA = 3,     /* ADX, and AVX-512 IFMA for the multi-scalar multiplications */
    G16_BACKEND_AVX512 = 4,   /* ADX, and AVX-512 F, DQ and VL, for CPUs without IFMA */
    G16_BACKEND_AVX2 = 5,     /* ADX, and AVX2 and FMA */
    G16_BACKEND_AARCH64 = 6   /* aarch64 with mul and umulh in a fixed order */
} g16_backend_choice;

/* threads: threads that one call uses, including the calling thread; 0 = one per CPU
 * available to this process. Each concurrent call adds its calling thread. */
G16_API g16_status g16_engine_create(g16_engine **engine, uint32_t threads,
                                     g16_backend_choice backend, g16_error *error);
G16_API void g16_engine_destroy(g16_engine *engine);
G16_API const char *g16_engine_backend(const g16_engine *engine);
G16_API uint32_t g16_engine_threads(const g16_engine *engine);

/* Representation of a backend's proving-key points: x before y, limbs little-endian. The numbers are part of the prepared
 * key format and are never reused. */
typedef enum g16_point_format {
    G16_POINTS_R256 = 1,      /* Montgomery form with R = 2^256, below p */
    G16_POINTS_R260_LOOSE = 2 /* Montgomery form with R = 2^260, below 2p + 2^212 */
} g16_point_format;
G16_API g16_point_format g16_engine_point_format(const g16_engine *engine);

/* ---- keys --------------------------------------------------------------------- */

typedef enum g16_circuit_kind {
    G16_CIRCUIT_INCLUSION = 1,
    G16_CIRCUIT_NON_INCLUSION = 2,
    G16_CIRCUIT_COMBINED = 3,
    G16_CIRCUIT_BATCH_APPEND = 4,
    G16_CIRCUIT_BATCH_UPDATE = 5,
    G16_CIRCUIT_BATCH_ADDRESS_APPEND = 6,
    G16_CIRCUIT_OTHER = 7 /* a valid constraint system that matches none of the above */
} g16_circuit_kind;

typedef enum g16_format_version { G16_FORMAT_0_8 = 1, G16_FORMAT_0_14 = 2 } g16_format_version;

typedef struct g16_key_info {
    uint32_t kind;           /* g16_circuit_kind */
    uint32_t version;        /* 1 (height 26, separate public inputs), 2 (hashed input), 0 for G16_CIRCUIT_OTHER */
    uint32_t format_version; /* g16_format_version */
    uint32_t header[4];      /* wrapper fields in file order; wrappers of batch circuits have two */
    uint32_t header_words;
    uint32_t constraints, wires;
    uint32_t public_inputs; /* without the constant one-wire */
    uint32_t secret_inputs;
    uint32_t internal_wires;
    uint32_t coefficients, instructions, hints;
    uint64_t terms;                      /* terms of all linear expressions as stored in the file */
    uint64_t domain_size;                /* n, a power of two */
    uint64_t points_a, points_b, points_k, points_z;
    uint64_t proving_key_offset, verifying_key_offset, constraint_system_offset, file_bytes;
    uint64_t resident_bytes;             /* memory that this handle owns */
    uint64_t mapped_bytes;               /* mapped prepared file, else 0; file_bytes is then the size of the source key file */
    uint64_t table_bytes;                /* share of precomputed tables in these */
    uint64_t fold_bytes;                 /* share of folded bases in these; 0: the key is not folded */
} g16_key_info;

/* Loads a complete key file from memory. The file may be mapped; it is read once and may be
 * unmapped afterwards. Checks that every point is on its curve and in the group of order r, that
 * every count fits the remaining bytes, and that the constraint system is solvable. */
G16_API g16_status g16_key_load(g16_engine *engine, g16_key **key, const uint8_t *data, size_t size,
                                const g16_cancel *cancel, g16_error *error);
G16_API void g16_key_destroy(g16_key *key);
G16_API void g16_key_describe(const g16_key *key, g16_key_info *info);

/* Returns the verifying key of a key; valid until the key is destroyed. */
G16_API const g16_vk *g16_key_verifying_key(const g16_key *key);

/* Loads a separate verifying key: gnark's binary format, compressed or raw, of either format version. */
G16_API g16_status g16_vk_load(g16_engine *engine, g16_vk **vk, const uint8_t *data, size_t size,
                               g16_error *error);
G16_API void g16_vk_destroy(g16_vk *vk); /* only for handles from g16_vk_load */
G16_API uint32_t g16_vk_public_inputs(const g16_vk *vk);

typedef enum g16_encoding { G16_COMPRESSED = 1, G16_RAW = 2 } g16_encoding;

/* Returns the number of bytes that g16_vk_write() writes. Compressed and raw output (alpha, beta,
 * beta2, gamma2, delta, delta2, count, K) have the format version of the source file. */
G16_API size_t g16_vk_bytes(const g16_vk *vk, g16_encoding encoding);
G16_API g16_status g16_vk_write(const g16_vk *vk, uint8_t *out, size_t out_size, g16_encoding encoding,
                                g16_error *error);

/* ---- prepared keys -------------------------------------------------------------- */

/* A prepared key is a key in the kernel's memory representation, for any number of processes to map
 * (docs/reference/prepared-key-format.md). It is valid for the backends of one point representation. */
#define G16_PREPARED_VERSION 1

typedef struct g16_prepared_info {
    uint32_t version, point_format, sections;
    uint64_t file_bytes;
    uint64_t source_bytes;     /* size of the key file that it was made from */
    uint8_t source_sha256[32];
} g16_prepared_info;

/* Returns the number of bytes that g16_prepared_write() writes. table_bytes: maximum size of tables of precomputed bases, which
 * make proofs faster; the best tables that fit are made; 0: no tables. fold: non-zero for folded bases, which reduce the work of
 * the quotient. */
G16_API size_t g16_prepared_bytes(const g16_key *key, uint64_t table_bytes, int fold);

/* Checkpoint of a folding, from which g16_prepared_write() continues after the process or the machine has stopped: a file of
 * g16_fold_checkpoint_bytes(), mapped shared and writable, initially zeros. The state is written and synchronised every interval_ms,
 * alternately to two positions; less often where saving would take more than a twentieth of the time. 0: after every 256 points,
 * for tests. */
typedef struct g16_fold_checkpoint {
    uint8_t *data; /* page-aligned */
    size_t size;
    uint32_t interval_ms;
} g16_fold_checkpoint;

/* Returns twice 128 bytes per domain element, or 192 to 304 where padding fills the domain in part. */
G16_API size_t g16_fold_checkpoint_bytes(const g16_key *key);

/* Returns the progress saved in a checkpoint in thousandths; -1 if it holds no complete state for this key, source and point
 * representation. */
G16_API int32_t g16_fold_checkpoint_permille(const g16_key *key, const uint8_t *data, size_t size, const uint8_t *source_sha256);

/* Writes the prepared key; equal key, table_bytes and fold give equal bytes. source_sha256: 32 bytes, the digest of the file that
 * the key was loaded from. checkpoint: NULL, or where folding saves its state and from where it continues if a state is saved.
 * progress: NULL, or a counter in thousandths. Folding allocates 450 bytes per domain element and 128 per wire; nothing else
 * allocates. */
G16_API g16_status g16_prepared_write(const g16_engine *engine, const g16_key *key, uint8_t *out, size_t size,
                                      uint64_t table_bytes, int fold, const uint8_t *source_sha256,
                                      const g16_fold_checkpoint *checkpoint, uint32_t *progress, const g16_cancel *cancel,
                                      g16_error *error);

/* Reads header and directory. In this call and the next two, data is aligned to 64 bytes. */
G16_API g16_status g16_prepared_describe(g16_prepared_info *info, const uint8_t *data, size_t size, g16_error *error);

/* Creates a key from a prepared file, which must stay readable and unchanged until the key is destroyed. Checks header,
 * directory, checksums and the range of every index: whatever the file contains, a proof reads and writes only its
 * own memory. check_points: 0 skips the checksums of points, tables and roots of unity, which are most of the file; a fault there
 * can only make a proof invalid. Sections that no proof on a CPU or a GPU reads are not checked. G16_UNSUPPORTED_KEY: the version
 * or point representation differs, or a required section is unknown. */
G16_API g16_status g16_prepared_load(g16_engine *engine, g16_key **key, const uint8_t *data, size_t size,
                                     int check_points, const g16_cancel *cancel, g16_error *error);

/* Verifies all checksums. */
G16_API g16_status g16_prepared_verify(const uint8_t *data, size_t size, const g16_cancel *cancel, g16_error *error);

/* ---- proofs ------------------------------------------------------------------- */

/* Ar.x Ar.y | Bs.x1 Bs.x0 Bs.y1 Bs.y0 | Krs.x Krs.y; index 1 is the imaginary part. */
#define G16_PROOF_BYTES 256

typedef enum g16_stage {
    G16_STAGE_WITNESS = 0,
    G16_STAGE_QUOTIENT = 1,
    G16_STAGE_MSM_SORT = 2, /* digits of the wires and their sort, shared by A, B and K; 0 on a GPU, where no event is timed there */
    G16_STAGE_MSM_A = 3,
    G16_STAGE_MSM_B1 = 4, /* always 0: no proof needs the sum over B in G1 */
    G16_STAGE_MSM_B2 = 5,
    G16_STAGE_MSM_K = 6, /* also the sum over Z, which shares its buckets */
    G16_STAGE_MSM_Z = 7, /* with tables the sort of the digits of the quotient, otherwise 0 */
    G16_STAGE_ASSEMBLE = 8
} g16_stage;
#define G16_STAGE_COUNT 9

/* `inputs` of every function below: public inputs (without the one-wire), then secret inputs,
 * in the order of the circuit, 32 bytes each; `count` is their number. */

/* Returns the bytes of scratch memory that one proof of this key needs on this engine. */
G16_API size_t g16_prove_scratch_bytes(const g16_engine *engine, const g16_key *key);

/* Creates a proof. stage_ns: NULL, or an array of G16_STAGE_COUNT nanoseconds, summed over threads, except for the witness,
 * which is wall-clock time. blinding: NULL for random values from the operating system; or, for tests only, rho, which is not zero,
 * and sigma, 32 bytes each (docs/explanation/blinding.md), with which the proof is reproducible, and NOT zero-knowledge if they are
 * known or repeated. The proof is not verified: call g16_verify() before you publish it. */
G16_API g16_status g16_prove(g16_engine *engine, const g16_key *key, uint8_t *proof, uint64_t *stage_ns,
                             const uint8_t *blinding, const uint8_t *inputs, size_t count, void *scratch,
                             size_t scratch_size, const g16_cancel *cancel, g16_error *error);

/* Solves the witness. wires: info.wires values; a, b, c: info.constraints values each, may be
 * NULL. If a row is not satisfied, the message is
 * "constraint system error: constraint #K is not satisfied" and error->constraint is K. */
G16_API g16_status g16_solve(g16_engine *engine, const g16_key *key, uint8_t *wires, uint8_t *a, uint8_t *b,
                             uint8_t *c, const uint8_t *inputs, size_t count, const g16_cancel *cancel,
                             g16_error *error);

/* Verifies a proof. G16_OK: it is valid for these public inputs. G16_PROOF_REJECTED: it is not. */
G16_API g16_status g16_verify(g16_engine *engine, const g16_vk *vk, const uint8_t *proof,
                              const uint8_t *public_inputs, size_t count, g16_error *error);

/* ---- proofs on a GPU ------------------------------------------------------------ */

/* The kernel solves the witness, blinds and assembles; a GPU computes the transforms and sums, which take most of the time.
 * Results equal those of the CPU bit for bit. `library` is the path of the library that drives GPUs; it is opened at run time. */
typedef struct g16_device g16_device;
typedef struct g16_device_key g16_device_key;

typedef struct g16_device_info {
    char name[128];
    uint32_t index, capability_major, capability_minor, multiprocessors;
    uint32_t driver_version, runtime_version; /* 12040 = 12.4 */
    uint64_t memory_bytes, free_bytes;        /* of the GPU, for all processes */
    uint64_t budget_bytes, used_bytes;        /* of this handle, for keys and running proofs */
} g16_device_info;

/* Counts GPUs. Without a GPU: G16_OK and 0; without library or driver: G16_DEVICE_UNAVAILABLE and the reason. */
G16_API g16_status g16_device_count(const char *library, uint32_t *count, g16_error *error);

/* Opens a GPU. budget_bytes: maximum device memory to use; 0: nine tenths of the free memory. */
G16_API g16_status g16_device_open(g16_device **device, const char *library, uint32_t index, uint64_t budget_bytes,
                                   g16_error *error);
/* Closes a GPU; destroy its keys first. */
G16_API void g16_device_close(g16_device *device);
G16_API g16_status g16_device_describe(const g16_device *device, g16_device_info *info, g16_error *error);

/* What a key with its tables would need on a device now. batch_limit: the maximum number of proofs in one call of
 * g16_device_prove(): 1 for domains above 2^17, where one proof fills a GPU, else the largest power of two up to 64 whose proofs need
 * at most an eighth of the budget, or 1. */
typedef struct g16_device_sizes {
    uint64_t key_bytes;   /* device memory of the key, without the chains of its witness */
    uint64_t proof_bytes; /* additional memory of each proof of it that is made alone */
    uint32_t batch_limit;
} g16_device_sizes;

G16_API void g16_device_key_sizes(const g16_device *device, const g16_key *key, g16_device_sizes *sizes);

/* Copies the bases of a key, folded or not, to the GPU. The key must outlive the device key. table_limit: maximum device memory of
 * the key with its tables; a key for which that is too little gets none; 0: no limit but the budget. */
G16_API g16_status g16_device_key_load(g16_device *device, g16_device_key **device_key, const g16_key *key, uint64_t table_limit,
                                       const g16_cancel *cancel, g16_error *error);
G16_API void g16_device_key_destroy(g16_device_key *key);

/* Returns the device memory of a loaded key, with its tables and the chains of its witness. */
G16_API uint64_t g16_device_key_bytes(const g16_device_key *key);

/* Returns the batch limit of a loaded key. Other keys that are loaded at the same time can make it differ from that of
 * g16_device_key_sizes(). */
G16_API uint32_t g16_device_key_batch_limit(const g16_device_key *key);

/* Division of a key's witness between CPU and GPU. The GPU solves a large circuit with many independent chains of rows (Merkle
 * paths), except for hints and serial rows, so that little data crosses the bus. Where the CPU is as fast, it solves all rows, and
 * `reason` explains that. */
typedef struct g16_device_witness {
    uint32_t on_device;
    uint32_t chains, shapes;                          /* chains of one shape differ only in their wire numbers */
    uint32_t device_rows, processor_rows, check_rows; /* rows that solve a wire on the GPU or on the CPU; rows that only check */
    uint64_t products, longest_products;              /* of all chains, and of the longest */
    uint64_t bus_bytes;                               /* copied to the GPU per proof: inputs, wires, a and b */
    char reason[160];
} g16_device_witness;

G16_API void g16_device_key_witness(const g16_device_key *key, g16_device_witness *witness);

/* Returns the host memory that a batch of proofs needs. The library normally uses page-locked memory instead and leaves the
 * caller's untouched; a key keeps up to four such buffers. */
G16_API size_t g16_device_prove_scratch_bytes(const g16_device_key *key, size_t batch);

/* Creates one proof of a key or several, up to its batch limit, whose sums share their launches; the bytes of a proof do not depend
 * on the others. proofs: batch times G16_PROOF_BYTES; blinding: as in g16_prove(), batch times 64 bytes; inputs: batch pointers to
 * count inputs each; statuses: one per proof; errors: NULL or one per proof. A malformed or unsatisfied input affects only its own
 * status: the other proofs are created, and the call returns G16_OK. Any other failure is the call's result and the status and error
 * of every proof that had not failed before. A proof alone has all threads for its witness, else each thread solves one witness at a
 * time. Where other keys occupy the memory, the batch is computed in parts. stage_ns: as in g16_prove(), for the whole batch; for
 * work on the GPU, the time between events there, with Z included in K. Several threads may prove on one device at once; a call
 * waits while the budget has no room for it in addition to running ones. After G16_DEVICE_LOST every call fails until the device has
 * been closed and opened again. */
G16_API g16_status g16_device_prove(g16_engine *engine, g16_device_key *key, uint8_t *proofs, g16_status *statuses,
                                    uint64_t *stage_ns, const uint8_t *blinding, const uint8_t *const *inputs, size_t count,
                                    size_t batch, void *scratch, size_t scratch_size, const g16_cancel *cancel,
                                    g16_error *errors);

/* ---- trusted setup ------------------------------------------------------------- */

/* A setup creates a key whose secrets existed in this process: suitable for development, tests and air-gapped
 * networks, not for circuits that others must trust. */
typedef struct g16_setup g16_setup;

/* Reads a constraint system in gnark's format, version 0.14. It must stay readable until the setup is
 * destroyed. header: the 4 or 2 words of Light Protocol's wrapper. */
G16_API g16_status g16_setup_create(g16_engine *engine, g16_setup **setup, const uint8_t *system, size_t size,
                                    const uint32_t *header, uint32_t header_words, const g16_cancel *cancel,
                                    g16_error *error);
G16_API void g16_setup_destroy(g16_setup *setup);

/* Return the size of the key file and the offset of its verifying key, which the constraint system follows. */
G16_API size_t g16_setup_key_bytes(const g16_setup *setup);
G16_API size_t g16_setup_verifying_key_offset(const g16_setup *setup);

/* Writes the key file, format version 0.14. secrets: NULL for random secrets from the operating system; or tau, alpha, beta,
 * gamma, delta, 32 bytes each, for tests. progress: NULL, or a counter in thousandths. */
G16_API g16_status g16_setup_run(g16_engine *engine, const g16_setup *setup, uint8_t *key_file, size_t size,
                                 const uint8_t *secrets, uint32_t *progress, const g16_cancel *cancel,
                                 g16_error *error);

#ifdef __cplusplus
}
#endif

#endif
