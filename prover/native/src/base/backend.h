/* base/backend.h - the table of functions that depend on how field arithmetic is compiled.
 *
 * backend.c is compiled once per backend; each copy exports one such table and nothing else. The functions belong to folders
 * above base/, so their types are only declared here; callers reach a function through the table without including its folder.
 * All functions are thread-safe and stateless.
 */
#ifndef G16_BASE_BACKEND_H
#define G16_BASE_BACKEND_H

#include "groth16.h"
#include "base/thread_pool.h"
#include "base/types.h"

struct g16_key;
struct g16_vk;
struct g16_setup;
struct fold_checkpoint;
struct constraint_system;
struct cs_chains;
struct msm_plan;
struct device_abi_key;
struct device_abi_sums;
struct device_abi_times;
struct device_abi_witness;
struct device_batch;
struct device_abi_inputs;
struct device_calls;
struct byte_reader;
struct table_progress;

typedef struct g16_backend {
    const char *name;
    int emulated; /* emulates another CPU's instructions, slowly, for tests; chosen by name only */
    g16_point_format point_format; /* of the key's points after prepare_key; a new representation needs a new number */

    /* key/points_impl.h: reads the proving key from the domain block up to the verifying key. Fills key->pk, whose arrays it
     * allocates, and key->info. key->info.format_version must be set. */
    g16_status (*read_proving_key)(struct g16_key *key, struct byte_reader *reader);
    /* Reads the verifying key. vk->format_version 0 (a separate file) means: detect the format version. */
    g16_status (*read_verifying_key)(struct g16_vk *vk, struct byte_reader *reader);
    /* Returns 1 when in[0 .. 40) is the beginning of a domain block: n, a power of two up to 2^28, then 1/n. */
    int (*is_domain)(const uint8_t *in);
    /* Computes what verification needs from the points of a verifying key; read_verifying_key does it, too. */
    void (*prepare_verifying_key)(struct g16_vk *vk);
    void (*write_verifying_key)(const struct g16_vk *vk, uint8_t *out, g16_encoding encoding);
    /* Sets pk->twiddles to small_roots() for domains up to 2^SMALL_ROOTS_LOG2, otherwise to `roots`, where it writes n values
     * (domain_log2 <= 27). Converts the points to the representation that this backend adds. */
    g16_status (*prepare_key)(struct g16_key *key, fr *roots, thread_pool *pool, const g16_cancel *cancel);
    /* Returns the roots of unity of all domains up to 2^SMALL_ROOTS_LOG2 (ntt/small_roots_impl.h). */
    const fr *(*small_roots)(void);
    /* The `read_cost` of msm/table.h, measured: memory waits are a larger share of a faster addition. */
    double table_read_cost;
    /* key/tables_impl.h: computes tables of shifted bases. tables: memory for A, for K with Z, and for B in G2. Returns
     * G16_CANCELLED when the flag was set. */
    g16_status (*fill_tables)(const struct g16_key *key, thread_pool *pool, void *const tables[3],
                              const struct msm_plan *plan, struct table_progress *progress, const g16_cancel *cancel);

    /* fold/bases_impl.h: computes the bases of a folded key as g1_affine in the key's point representation: k for `count` wires,
     * t for fold_shape_for(constraints, log2 n).points points. checkpoint: NULL, or state to resume from and to update. Returns
     * G16_CANCELLED, G16_OUT_OF_MEMORY, or G16_UNSUPPORTED_KEY when a base would be the point at infinity. */
    g16_status (*fold)(const struct g16_key *key, thread_pool *pool, struct fold_checkpoint *checkpoint, void *k, void *t,
                       const uint32_t *wires, uint32_t count, struct table_progress *progress, const g16_cancel *cancel);

    /* r1cs/solver_impl.h. inputs: canonical big-endian bytes. Fills wires[cs->wires] and a, b, c[cs->constraints] in Montgomery
     * form; c may be NULL. */
    g16_status (*solve)(const struct constraint_system *cs, thread_pool *pool, fr *wires, fr *a, fr *b, fr *c,
                        const uint8_t *inputs, size_t count, const g16_cancel *cancel, g16_error *error);
    /* read_inputs writes only the input wires. solve_part solves part 0 or 1 of a system whose chains a GPU solves (gpu/chains.h)
     * and copies the results to `values`; it returns 0 when the flag was set or a constraint fails. */
    g16_status (*read_inputs)(const struct constraint_system *cs, fr *wires, const uint8_t *inputs, size_t count, g16_error *error);
    int (*solve_part)(const struct cs_chains *chains, uint32_t part, const struct constraint_system *cs, thread_pool *pool, fr *wires,
                      fr *a, fr *b, fr *values, const g16_cancel *cancel);

    /* groth16/prove_impl.h. blinding: BLINDING_BYTES of groth16/blinding.h. */
    size_t (*prove_scratch_bytes)(const struct g16_key *key, uint32_t threads);
    g16_status (*prove)(const struct g16_key *key, thread_pool *pool, uint8_t *proof, uint64_t *stage_ns,
                        const uint8_t *blinding, const uint8_t *inputs, size_t count, void *scratch, size_t scratch_size,
                        const g16_cancel *cancel, g16_error *error);

    /* gpu/prove_impl.h: a batch of proofs with multi-scalar multiplications on a GPU. device_key fills in the GPU's view of a key. */
    void (*device_key)(const struct g16_key *key, struct device_abi_key *data);
    size_t (*device_scratch_bytes)(const struct g16_key *key, size_t size);
    g16_status (*device_prove)(const struct g16_key *key, thread_pool *pool, const struct device_calls *calls,
                               const struct device_batch *batch, uint64_t *stage_ns, void *scratch, size_t scratch_size,
                               const g16_cancel *cancel);

    /* groth16/verify_impl.h */
    g16_status (*verify)(const struct g16_vk *vk, thread_pool *pool, const uint8_t *proof, const uint8_t *public_inputs,
                         size_t count, g16_error *error);

    /* groth16/setup_impl.h. secrets: 5 * 32 bytes; writes the whole key file. */
    g16_status (*setup)(const struct g16_setup *setup, thread_pool *pool, uint8_t *file, const uint8_t *secrets, uint32_t *progress,
                        const g16_cancel *cancel, g16_error *error);

    void (*fr_to_bytes)(uint8_t *out, const fr *values, size_t count);
} g16_backend;

extern const g16_backend g16_backend_portable;
#if defined(__x86_64__)
extern const g16_backend g16_backend_adx;
extern const g16_backend g16_backend_avx2;
extern const g16_backend g16_backend_avx512;
extern const g16_backend g16_backend_ifma;
#elif defined(__aarch64__)
extern const g16_backend g16_backend_aarch64;
#endif

#endif
