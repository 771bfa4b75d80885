/* groth16.h - the entire public C API of the Groth16/BN254 proving kernel.
 *
 * Laws that hold for every function:
 *
 *  1. Order of arguments: handle, outputs, inputs (each followed by its size),
 *     scratch memory, cancel flag, error record.
 *  2. Every function that can fail returns g16_status; outputs are meaningful only
 *     when it is G16_OK. Errors are values: no function aborts or prints.
 *  3. Scalars (Fr) and coordinates (Fp) cross this border as 32 bytes, big-endian,
 *     canonical (below the modulus). A value at or above the modulus is refused.
 *  4. Handles are immutable after creation and may be shared by threads. There is no
 *     global mutable state. One engine may run any number of calls at once; they share
 *     its threads. A key keeps the backend of the engine that loaded it; any engine may use it.
 *  5. Memory for a proof is the caller's (`scratch`); its size comes from
 *     g16_prove_scratch_bytes(). Only *_create and *_load allocate, and release on
 *     failure whatever they took; g16_solve and g16_quotient, which are for tests and audits,
 *     allocate for the time of the call.
 *  6. `cancel` may be NULL. Otherwise it is read between stages and between tasks of a
 *     stage; a non-zero value ends the call with G16_CANCELLED soon after.
 *  7. `error` may be NULL. Otherwise it is filled when the status is not G16_OK.
 *  8. Secrets (blinding factors, intermediate points that reveal them) are wiped.
 *
 * Key files are gnark's (generations 0.8 and 0.14) with Light Protocol's wrapper.
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
    G16_INVALID_ARGUMENT = 1,       /* a size, value or handle breaks the contract above */
    G16_OUT_OF_MEMORY = 2,          /* an allocation failed, or `scratch` is too small */
    G16_CANCELLED = 3,              /* the cancel flag was raised */
    G16_MALFORMED_KEY = 4,          /* a key file breaks its format; `offset` says where */
    G16_UNSUPPORTED_KEY = 5,        /* well-formed, but of a kind this kernel does not prove */
    G16_UNSATISFIED_CONSTRAINT = 6, /* the inputs break a constraint; `constraint` says which */
    G16_MALFORMED_PROOF = 7,        /* proof bytes are not points of the right groups */
    G16_PROOF_REJECTED = 8,         /* well-formed, but the pairing equation does not hold */
    G16_RANDOMNESS_UNAVAILABLE = 9, /* the operating system refused random bytes */
    G16_THREADS_UNAVAILABLE = 10,   /* the operating system refused to start threads */
    G16_DEVICE_UNAVAILABLE = 11,    /* no CUDA library, driver or GPU of that index; or one that this library was not built for */
    G16_DEVICE_OUT_OF_MEMORY = 12,  /* the GPU's memory, or the budget for it, does not hold the key or the proof */
    G16_DEVICE_LOST = 13            /* a launch, a copy or the GPU itself failed; the device must be opened again */
} g16_status;

#define G16_STATUS_COUNT 14

/* What went wrong and where. `message` is one zero-terminated English sentence without
 * line breaks that never contains input values. */
typedef struct g16_error {
    char message[256];
    uint64_t offset;     /* byte offset in the key file (G16_MALFORMED_KEY), else 0 */
    uint32_t constraint; /* row (G16_UNSATISFIED_CONSTRAINT), else 0 */
} g16_error;

typedef struct g16_engine g16_engine;
typedef struct g16_key g16_key;
typedef struct g16_vk g16_vk;

/* Non-zero asks a running call to stop. Read atomically, never written by the kernel. */
typedef int32_t g16_cancel;

/* Name of a status in lower case with underscores, e.g. "malformed_key". */
G16_API const char *g16_status_name(g16_status status);

/* Version of the kernel, e.g. "0.1.0". */
G16_API const char *g16_version(void);

/* ---- engine ------------------------------------------------------------------- */

typedef enum g16_backend_choice {
    G16_BACKEND_AUTO = 0,     /* the fastest this processor runs */
    G16_BACKEND_PORTABLE = 1, /* plain C */
    G16_BACKEND_ADX = 2,      /* x86-64 with mulx, adcx, adox */
    G16_BACKEND_IFMA = 3,     /* the same with AVX-512 IFMA for the multi-scalar multiplications */
    G16_BACKEND_AVX512 = 4,   /* the same with AVX-512 F, DQ and VL, where IFMA is missing */
    G16_BACKEND_AVX2 = 5      /* the same with AVX2 and FMA */
} g16_backend_choice;

/* threads: workers used by one call, the calling thread included; 0 = one per processor
 * available to this process. */
G16_API g16_status g16_engine_create(g16_engine **engine, uint32_t threads,
                                     g16_backend_choice backend, g16_error *error);
G16_API void g16_engine_destroy(g16_engine *engine);
G16_API const char *g16_engine_backend(const g16_engine *engine);
G16_API uint32_t g16_engine_threads(const g16_engine *engine);
/* Lets all calls of an engine together, those that run included, use so many threads at most: what is done meanwhile goes on to
 * the end of its task. 0: no limit, so that calls at once have a thread each beside the engine's. Results are the same. */
G16_API void g16_engine_set_active_threads(g16_engine *engine, uint32_t threads);

/* How a backend keeps the points of proving keys, x before y, limbs little-endian. Part of prepared keys, so numbers
 * are never used again for something else. */
typedef enum g16_point_form {
    G16_POINTS_R256 = 1,      /* Montgomery form with R = 2^256, below p */
    G16_POINTS_R260_LOOSE = 2 /* Montgomery form with R = 2^260, below 2p + 2^212 */
} g16_point_form;
G16_API g16_point_form g16_engine_point_form(const g16_engine *engine);

/* ---- keys --------------------------------------------------------------------- */

typedef enum g16_circuit_kind {
    G16_CIRCUIT_INCLUSION = 1,
    G16_CIRCUIT_NON_INCLUSION = 2,
    G16_CIRCUIT_COMBINED = 3,
    G16_CIRCUIT_BATCH_APPEND = 4,
    G16_CIRCUIT_BATCH_UPDATE = 5,
    G16_CIRCUIT_BATCH_ADDRESS_APPEND = 6,
    G16_CIRCUIT_OTHER = 7 /* a valid system whose inputs match none of the above */
} g16_circuit_kind;

typedef enum g16_generation { G16_GENERATION_0_8 = 1, G16_GENERATION_0_14 = 2 } g16_generation;

typedef struct g16_key_info {
    uint32_t kind;       /* g16_circuit_kind */
    uint32_t version;    /* 1 (height 26, separate public inputs), 2 (hashed input), 0 for G16_CIRCUIT_OTHER */
    uint32_t generation; /* g16_generation */
    uint32_t header[4];  /* wrapper fields in file order; batch wrappers use the first two */
    uint32_t header_words;
    uint32_t constraints, wires;
    uint32_t public_inputs; /* without the constant one-wire */
    uint32_t secret_inputs;
    uint32_t internal_wires;
    uint32_t coefficients, instructions, hints;
    uint64_t terms;                      /* of all linear expressions as the file stores them */
    uint64_t domain_size;                /* n, a power of two */
    uint64_t points_a, points_b, points_k, points_z;
    uint64_t proving_key_offset, verifying_key_offset, constraint_system_offset, file_bytes;
    uint64_t resident_bytes;             /* memory this handle owns */
    uint64_t mapped_bytes;               /* of a prepared file that it reads, else 0; file_bytes is its source's */
    uint64_t table_bytes;                /* of these, of precomputed tables */
    uint64_t fold_bytes;                 /* of these, of folded bases; 0: the key is not folded */
} g16_key_info;

/* Reads a whole key file from memory (map the file; it is read once and may be unmapped
 * afterwards). Every point is checked to be on its curve and in the group of order r, every
 * count against the bytes that remain, and the constraint system to be solvable. */
G16_API g16_status g16_key_load(g16_engine *engine, g16_key **key, const uint8_t *data, size_t size,
                                const g16_cancel *cancel, g16_error *error);
G16_API void g16_key_destroy(g16_key *key);
G16_API void g16_key_describe(const g16_key *key, g16_key_info *info);

/* The verifying key inside a key; lives as long as the key. */
G16_API const g16_vk *g16_key_verifying_key(const g16_key *key);

/* Reads a verifying key alone: gnark's binary form, compressed or raw, either generation. */
G16_API g16_status g16_vk_load(g16_engine *engine, g16_vk **vk, const uint8_t *data, size_t size,
                               g16_error *error);
G16_API void g16_vk_destroy(g16_vk *vk); /* only for handles from g16_vk_load */
G16_API uint32_t g16_vk_public_inputs(const g16_vk *vk);

typedef enum g16_encoding { G16_COMPRESSED = 1, G16_RAW = 2 } g16_encoding;

/* Bytes that g16_vk_write() produces. Compressed output is in the generation of the source
 * file; raw output (alpha, beta, beta2, gamma2, delta, delta2, count, K) likewise. */
G16_API size_t g16_vk_bytes(const g16_vk *vk, g16_encoding encoding);
G16_API g16_status g16_vk_write(const g16_vk *vk, uint8_t *out, size_t out_size, g16_encoding encoding,
                                g16_error *error);

/* ---- prepared keys -------------------------------------------------------------- */

/* A key in the form in which the kernel reads it, made to be mapped by any number of processes
 * (docs/reference/prepared-key-format.md). It serves backends of one point form. */
#define G16_PREPARED_VERSION 1

typedef struct g16_prepared_info {
    uint32_t version, point_form, sections;
    uint64_t file_bytes;
    uint64_t source_bytes;     /* of the key file that it was made from */
    uint8_t source_sha256[32];
} g16_prepared_info;

/* Bytes that g16_prepared_write() produces. table_bytes: room for tables of precomputed bases, which make proofs faster; the
 * best that fit are made, 0 for none. fold: not 0 for folded bases, with which the quotient takes less work. */
G16_API size_t g16_prepared_bytes(const g16_key *key, uint64_t table_bytes, int fold);

/* Where g16_prepared_write() keeps how far folding came, so that it can be continued after the process or the machine has stopped: a file,
 * mapped shared and writable, of g16_fold_checkpoint_bytes(), zeros at first. Every interval_ms (or later: keeping takes at most a
 * twentieth of the time) the state is written and synchronised, in two places by turns. 0: after every 256 points, for tests. */
typedef struct g16_fold_checkpoint {
    uint8_t *data; /* at the start of a page */
    size_t size;
    uint32_t interval_ms;
} g16_fold_checkpoint;

/* Twice 128 bytes for each place of the domain, or 192 to 304 where padding fills it in part. */
G16_API size_t g16_fold_checkpoint_bytes(const g16_key *key);

/* Thousandths of the folding that a checkpoint has kept; -1 where it holds nothing whole of this key, source and point form. */
G16_API int32_t g16_fold_checkpoint_permille(const g16_key *key, const uint8_t *data, size_t size, const uint8_t *source_sha256);

/* Writes the prepared form, the same bytes for the same key, table_bytes and fold. source_sha256: 32 bytes, the digest of the
 * file that the key was loaded from. checkpoint: NULL, or from where folding is continued, if it holds something of it, and where it is
 * kept. progress: NULL, or a cell that counts thousandths. Takes no memory but for folding: 450 bytes for each place of the domain
 * and 128 for each wire. */
G16_API g16_status g16_prepared_write(const g16_engine *engine, const g16_key *key, uint8_t *out, size_t size,
                                      uint64_t table_bytes, int fold, const uint8_t *source_sha256,
                                      const g16_fold_checkpoint *checkpoint, uint32_t *progress, const g16_cancel *cancel,
                                      g16_error *error);

/* Reads header and directory. data of this and the next two: aligned to 64 bytes. */
G16_API g16_status g16_prepared_describe(g16_prepared_info *info, const uint8_t *data, size_t size, g16_error *error);

/* Makes a key of a prepared file, which must stay readable and unchanged until the key is destroyed. Checks header,
 * directory and checksums, and that no index leads outside: whatever the file holds, a proof reads and writes only its
 * own memory. check_points: 0 leaves out the checksums of the long point lists, most of the file, where a fault can
 * only spoil a proof. G16_UNSUPPORTED_KEY: another version, another point form, or an unknown section that is
 * required. */
G16_API g16_status g16_prepared_load(g16_engine *engine, g16_key **key, const uint8_t *data, size_t size,
                                     int check_points, const g16_cancel *cancel, g16_error *error);

/* Compares all checksums. */
G16_API g16_status g16_prepared_verify(const uint8_t *data, size_t size, const g16_cancel *cancel, g16_error *error);

/* ---- proofs ------------------------------------------------------------------- */

/* Ar.x Ar.y | Bs.x1 Bs.x0 Bs.y1 Bs.y0 | Krs.x Krs.y; index 1 is the imaginary part. */
#define G16_PROOF_BYTES 256

typedef enum g16_stage {
    G16_STAGE_WITNESS = 0,
    G16_STAGE_QUOTIENT = 1,
    G16_STAGE_MSM_SORT = 2, /* the digits of the wires and their sort, which A, B and K share; 0 on a GPU, which times no event there */
    G16_STAGE_MSM_A = 3,
    G16_STAGE_MSM_B1 = 4,
    G16_STAGE_MSM_B2 = 5,
    G16_STAGE_MSM_K = 6,
    G16_STAGE_MSM_Z = 7,
    G16_STAGE_ASSEMBLE = 8
} g16_stage;
#define G16_STAGE_COUNT 9

/* Inputs of every function below: public inputs (without the one-wire), then secret inputs,
 * in the order of the circuit; `count` is their number, 32 bytes each. */

/* Bytes of scratch memory that one proof under this key needs on this engine. */
G16_API size_t g16_prove_scratch_bytes(const g16_engine *engine, const g16_key *key);

/* Produces a proof with fresh blinding from the operating system. stage_ns may be NULL or an
 * array of G16_STAGE_COUNT: nanoseconds per stage, summed over threads but for the witness, which is timed
 * as a whole. The proof is not verified here: call g16_verify() before you hand it out. */
G16_API g16_status g16_prove(g16_engine *engine, const g16_key *key, uint8_t *proof, uint64_t *stage_ns,
                             const uint8_t *inputs, size_t count, void *scratch, size_t scratch_size,
                             const g16_cancel *cancel, g16_error *error);

/* How a proof is blinded. Both give the same distribution of proofs (docs/explanation/blinding.md). */
typedef enum g16_blinding {
    /* Two values r and s, as gnark does: Ar and Bs carry r*delta and s*delta. */
    G16_BLINDING_CLASSICAL = 1,
    /* Two values rho != 0 and sigma that re-randomise the proof with r = s = 0; saves one multi-scalar
     * multiplication. g16_prove uses this form. */
    G16_BLINDING_RERANDOMISED = 2
} g16_blinding;

/* The same with given blinding values, 32 bytes each: reproducible, and NOT zero-knowledge when they are known or
 * repeated. For tests only. */
G16_API g16_status g16_prove_with_blinding(g16_engine *engine, const g16_key *key, uint8_t *proof,
                                           g16_blinding form, const uint8_t *first, const uint8_t *second,
                                           const uint8_t *inputs, size_t count, void *scratch, size_t scratch_size,
                                           const g16_cancel *cancel, g16_error *error);

/* Solves the witness. wires: info.wires values; a, b, c: info.constraints values each, may be
 * NULL. On an unsatisfied row the message is
 * "constraint system error: constraint #K is not satisfied" and error->constraint is K. */
G16_API g16_status g16_solve(g16_engine *engine, const g16_key *key, uint8_t *wires, uint8_t *a, uint8_t *b,
                             uint8_t *c, const uint8_t *inputs, size_t count, const g16_cancel *cancel,
                             g16_error *error);

/* Coefficients h_0 .. h_{n-1} of the quotient polynomial in natural order (n = domain_size). */
G16_API g16_status g16_quotient(g16_engine *engine, const g16_key *key, uint8_t *h, const uint8_t *inputs,
                                size_t count, const g16_cancel *cancel, g16_error *error);

/* G16_OK: the proof holds for these public inputs. G16_PROOF_REJECTED: it does not. */
G16_API g16_status g16_verify(g16_engine *engine, const g16_vk *vk, const uint8_t *proof,
                              const uint8_t *public_inputs, size_t count, g16_error *error);

/* ---- proofs on a GPU ------------------------------------------------------------ */

/* The kernel solves the witness, blinds and assembles; a GPU does what takes the time. Same results, bit for bit, as
 * without one. GPUs are driven by a library that is opened at run time: `library` is its path. */
typedef struct g16_device g16_device;
typedef struct g16_device_key g16_device_key;

typedef struct g16_device_info {
    char name[128];
    uint32_t index, capability_major, capability_minor, multiprocessors;
    uint32_t driver_version, runtime_version; /* 12040 = 12.4 */
    uint64_t memory_bytes, free_bytes;        /* of the GPU, whoever uses it */
    uint64_t budget_bytes, used_bytes;        /* of this handle: keys and running proofs */
} g16_device_info;

/* No GPU is G16_OK with 0; no library or driver is G16_DEVICE_UNAVAILABLE, with the reason. */
G16_API g16_status g16_device_count(const char *library, uint32_t *count, g16_error *error);

/* budget_bytes: device memory to use at most; 0 for nine tenths of what is free. */
G16_API g16_status g16_device_open(g16_device **device, const char *library, uint32_t index, uint64_t budget_bytes,
                                   g16_error *error);
/* After its keys were destroyed. */
G16_API void g16_device_close(g16_device *device);
G16_API g16_status g16_device_describe(const g16_device *device, g16_device_info *info, g16_error *error);

/* Device memory that the key would take, and that each running proof under it takes besides when it is made alone. */
G16_API size_t g16_device_key_bytes(const g16_device *device, const g16_key *key);
G16_API size_t g16_device_proof_bytes(const g16_device *device, const g16_key *key);

/* Copies the bases of a key, folded or not, to the GPU. The key must outlive the result. */
G16_API g16_status g16_device_key_load(g16_device *device, g16_device_key **device_key, const g16_key *key,
                                       const g16_cancel *cancel, g16_error *error);
G16_API void g16_device_key_destroy(g16_device_key *key);

/* Who solves the witnesses of a key. A large circuit that falls into many chains of rows (Merkle paths) is solved on the GPU but for
 * hints and what has no width, so that little crosses the bus; where the processor is as fast, it solves all, and reason says why. */
typedef struct g16_device_witness {
    uint32_t on_device;
    uint32_t chains, shapes;                          /* chains of one shape differ in the numbers of wires alone */
    uint32_t device_rows, processor_rows, check_rows; /* that solve a wire on either side, and that only check */
    uint64_t products, longest_products;              /* of all chains, and of one */
    uint64_t bus_bytes;                               /* to the GPU for each proof: inputs, wires, a and b */
    char reason[160];
} g16_device_witness;

G16_API void g16_device_key_witness(const g16_device_key *key, g16_device_witness *witness);

/* Host memory that one proof needs. Where the library has page-locked memory of that size, as a rule, it works in that instead and
 * does not touch the caller's; up to four such buffers stay with a key. */
G16_API size_t g16_device_prove_scratch_bytes(const g16_engine *engine, const g16_device_key *key);

/* As g16_prove(); stage_ns is time between events on the GPU for what runs there, Z counted with K. Several threads may prove
 * on one device at once; a call waits while the budget does not hold its proof beside those that run. After G16_DEVICE_LOST
 * every call fails until the device was closed and opened again. */
G16_API g16_status g16_device_prove(g16_engine *engine, g16_device_key *key, uint8_t *proof, uint64_t *stage_ns,
                                    const uint8_t *inputs, size_t count, void *scratch, size_t scratch_size,
                                    const g16_cancel *cancel, g16_error *error);

/* As g16_prove_with_blinding(). For tests only. */
G16_API g16_status g16_device_prove_with_blinding(g16_engine *engine, g16_device_key *key, uint8_t *proof,
                                                  g16_blinding form, const uint8_t *first, const uint8_t *second,
                                                  const uint8_t *inputs, size_t count, void *scratch,
                                                  size_t scratch_size, const g16_cancel *cancel, g16_error *error);

/* Proofs of the key that one call of g16_device_prove_many() makes at most on this device: 1 for domains above 2^17, of which one
 * proof fills a GPU, else a power of two up to 64 whose proofs take an eighth of the budget at most, or 1. */
G16_API size_t g16_device_batch_limit(const g16_device *device, const g16_key *key);

/* Host memory that a batch needs; page-locked memory takes its place as for a proof alone. */
G16_API size_t g16_device_prove_many_scratch_bytes(const g16_engine *engine, const g16_device_key *key, size_t batch);

/* Several proofs of one key, 1 to g16_device_batch_limit(), whose sums are made in the same launches: the same results as one by one.
 * proofs: batch times G16_PROOF_BYTES; inputs: batch pointers to count inputs each; statuses: one each; errors: NULL or one
 * each. A malformed or unsatisfied input fails alone: its status says so, the others are made, and the call is G16_OK. Whatever
 * ends the call otherwise is its result, and the status and error of every proof that had not failed before. The engine's
 * threads solve a witness each. Where another key has taken the memory, the batch is made in parts. stage_ns: as of
 * g16_device_prove(), of the whole batch. */
G16_API g16_status g16_device_prove_many(g16_engine *engine, g16_device_key *key, uint8_t *proofs, g16_status *statuses,
                                         uint64_t *stage_ns, const uint8_t *const *inputs, size_t count, size_t batch,
                                         void *scratch, size_t scratch_size, const g16_cancel *cancel, g16_error *errors);

/* The same with given blinding, first and second: batch times 32 bytes. For tests only. */
G16_API g16_status g16_device_prove_many_with_blinding(g16_engine *engine, g16_device_key *key, uint8_t *proofs,
                                                       g16_status *statuses, g16_blinding form, const uint8_t *first,
                                                       const uint8_t *second, const uint8_t *const *inputs, size_t count,
                                                       size_t batch, void *scratch, size_t scratch_size,
                                                       const g16_cancel *cancel, g16_error *errors);

/* ---- trusted setup ------------------------------------------------------------- */

/* A setup makes a key whose secrets existed in this process: good for development, tests and air-gapped
 * networks, not for circuits that others must trust. */
typedef struct g16_setup g16_setup;

/* Reads a constraint system (gnark's bytes of generation 0.14), which must stay readable until the setup is
 * destroyed. header: the 4 or 2 words of Light Protocol's wrapper. */
G16_API g16_status g16_setup_create(g16_engine *engine, g16_setup **setup, const uint8_t *system, size_t size,
                                    const uint32_t *header, uint32_t header_words, const g16_cancel *cancel,
                                    g16_error *error);
G16_API void g16_setup_destroy(g16_setup *setup);

/* Size of the key file, and where in it the verifying key begins (it ends where the system begins). */
G16_API size_t g16_setup_key_bytes(const g16_setup *setup);
G16_API size_t g16_setup_verifying_key_offset(const g16_setup *setup);

/* Writes the key file, generation 0.14. secrets: NULL to draw them from the operating system; or tau, alpha, beta,
 * gamma, delta, 32 bytes each, for tests. progress: NULL, or a cell that counts thousandths. */
G16_API g16_status g16_setup_run(g16_engine *engine, const g16_setup *setup, uint8_t *key_file, size_t size,
                                 const uint8_t *secrets, uint32_t *progress, const g16_cancel *cancel,
                                 g16_error *error);

#ifdef __cplusplus
}
#endif

#endif
