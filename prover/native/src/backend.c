/* backend.c - one backend: all files with field arithmetic in one translation unit, compiled for one CPU and inlined. Compiled
 * with G16_COMPILE_ and PORTABLE, ADX, AVX2, AVX512, IFMA or AARCH64; it exports only the table at the end. */
#if defined(G16_COMPILE_IFMA)
#define MONT256_ADX 1
#define G16_LANES 1
#define LANES_IFMA 1
#define G16_BACKEND_TABLE g16_backend_ifma
#define G16_BACKEND_NAME "ifma"
#define G16_BACKEND_TABLE_READ_COST 0.10
#define G16_BACKEND_POINT_FORMAT G16_POINTS_R260_LOOSE
#elif defined(G16_COMPILE_AVX512)
#define MONT256_ADX 1
#define G16_LANES 1
#define G16_BACKEND_TABLE g16_backend_avx512
#define G16_BACKEND_NAME "avx512"
#define G16_BACKEND_TABLE_READ_COST 0.03
#define G16_BACKEND_POINT_FORMAT G16_POINTS_R260_LOOSE
#elif defined(G16_COMPILE_AVX2)
#define MONT256_ADX 1
#define G16_LANES 1
#define LANES_AVX2 1
#define G16_BACKEND_TABLE g16_backend_avx2
#define G16_BACKEND_NAME "avx2"
#define G16_BACKEND_TABLE_READ_COST 0.03
#define G16_BACKEND_POINT_FORMAT G16_POINTS_R260_LOOSE
#elif defined(G16_COMPILE_ADX)
#define MONT256_ADX 1
#define G16_BACKEND_TABLE g16_backend_adx
#define G16_BACKEND_NAME "adx"
#define G16_BACKEND_TABLE_READ_COST 0.02
#define G16_BACKEND_POINT_FORMAT G16_POINTS_R256
#elif defined(G16_COMPILE_AARCH64)
#define MONT256_A64 1
#define G16_BACKEND_TABLE g16_backend_aarch64
#define G16_BACKEND_NAME "aarch64"
#define G16_BACKEND_TABLE_READ_COST 0.02
#define G16_BACKEND_POINT_FORMAT G16_POINTS_R256
#elif defined(G16_COMPILE_PORTABLE)
#define G16_BACKEND_TABLE g16_backend_portable
#define G16_BACKEND_NAME "portable"
#define G16_BACKEND_TABLE_READ_COST 0.02
#define G16_BACKEND_POINT_FORMAT G16_POINTS_R256
#else
#error "compile with -DG16_COMPILE_ and PORTABLE, ADX, AVX2, AVX512, IFMA or AARCH64"
#endif

/* Not sorted: inlining depends on the order of the functions. */
#include "base/backend.h"
#include "base/progress.h"
#include "msm/cut.h"
#include "key/key.h"

#include "field/fp.h"
#include "field/fp2.h"
#include "curve/g1.h"
#include "curve/g2.h"
#include "curve/encoding_impl.h"
#include "curve/pairing_impl.h"
#include "key/points_impl.h"
#include "ntt/transform_impl.h"
#include "ntt/small_roots_impl.h"
#include "r1cs/solver_impl.h"
#include "gpu/solver_part_impl.h"
#include "msm/sums_impl.h"
#include "key/tables_impl.h"
#include "fold/bases_impl.h"
#include "groth16/prove_impl.h"
#include "gpu/prove_impl.h"
#include "groth16/verify_impl.h"
#include "groth16/setup_impl.h"

const g16_backend G16_BACKEND_TABLE = {
    .name = G16_BACKEND_NAME,
#if defined(LANES_EMULATED)
    .emulated = 1,
#endif
    .point_format = G16_BACKEND_POINT_FORMAT,
    .read_proving_key = key_points_read_proving_key,
    .read_verifying_key = key_points_read_verifying_key,
    .is_domain = key_points_is_domain,
    .prepare_verifying_key = key_points_prepare_verifying_key,
    .write_verifying_key = key_points_write_verifying_key,
    .prepare_key = groth16_prepare_key,
    .small_roots = small_roots,
    .table_read_cost = G16_BACKEND_TABLE_READ_COST,
    .fill_tables = groth16_fill_tables,
    .fold = groth16_fold,
    .solve = witness_solver_solve,
    .read_inputs = witness_solver_read_inputs,
    .solve_part = witness_solver_solve_part,
    .prove_scratch_bytes = groth16_prove_scratch_bytes,
    .prove = groth16_prove,
    .device_key = groth16_device_key,
    .device_scratch_bytes = groth16_device_scratch_bytes,
    .device_prove = groth16_device_prove,
    .verify = groth16_verify,
    .setup = groth16_setup,
    .fr_to_bytes = witness_solver_to_bytes,
};
