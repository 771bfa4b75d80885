/* cuda/msm/sums.h - multi-scalar multiplications over G1 and G2 on the device. */
#ifndef CUDA_MSM_SUMS_H
#define CUDA_MSM_SUMS_H

#include "cuda/curve/groups.h"
#include "cuda/curve/halves.h"
#include "cuda/msm/sort.h"

#define MSM_THREADS DEVICE_MSM_THREADS /* maximum */
#define MSM_JOIN_LOG2 6 /* the sums of a block are in shared memory */
#define MSM_JOIN_THREADS (1u << MSM_JOIN_LOG2)
#define MSM_TAIL_LOG2 10 /* nodes of a set that are added at once */
#define MSM_PARTS_LOG2 4 /* their sums, MSM_TAIL_LOG2 + 2, rounded up */

#define AFFINE g1_affine
#define XYZZ g1_xyzz
#define C(name) g1_##name
#define MSM_BLOCKS_PER_SM 4
#define MSM_REDUCE_BLOCKS_PER_SM 3
#include "cuda/msm/group_impl.h"

#define AFFINE g2_affine
#define XYZZ g2_xyzz
#define C(name) g2_##name
#define MSM_BLOCKS_PER_SM 2
#define MSM_REDUCE_BLOCKS_PER_SM 2
#define MSM_ADD_OUT_OF_LINE g2_small_xyzz_add_affine
#define MSM_HALVES_BLOCKS_PER_SM 4
#include "cuda/msm/group_impl.h"

#endif
