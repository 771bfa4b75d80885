/* device_msm.h - multi-scalar multiplications over G1 and G2 on the device. */
#ifndef G16_DEVICE_MSM_H
#define G16_DEVICE_MSM_H

#include "device_groups.h"
#include "device_msm_sort.h"

#define MSM_THREADS DEVICE_MSM_THREADS /* at most */
#define MSM_JOIN_LOG2 6 /* sums of a block lie in shared memory */
#define MSM_JOIN_THREADS (1u << MSM_JOIN_LOG2)

#define AFFINE g1_affine
#define XYZZ g1_xyzz
#define C(name) g1_##name
#define MSM_BLOCKS_PER_SM 4
#define MSM_REDUCE_BLOCKS_PER_SM 3
#include "device_msm_group_impl.h"
#undef AFFINE
#undef XYZZ
#undef C
#undef MSM_BLOCKS_PER_SM
#undef MSM_REDUCE_BLOCKS_PER_SM

#define AFFINE g2_affine
#define XYZZ g2_xyzz
#define C(name) g2_##name
#define MSM_BLOCKS_PER_SM 2
#define MSM_REDUCE_BLOCKS_PER_SM 2
#include "device_msm_group_impl.h"
#undef AFFINE
#undef XYZZ
#undef C
#undef MSM_BLOCKS_PER_SM
#undef MSM_REDUCE_BLOCKS_PER_SM

#endif
