/* msm/sums_group_impl.h - all that msm/sums_impl.h has once per group; it includes this file after it has defined the macros of a
 * group, which are undefined here. */
#include "msm/scratch_impl.h"
#include MSM_PAIR_ADDITION
#include "msm/group_impl.h"
#include "msm/table_group_impl.h"
#include "msm/multiples_group_impl.h"
#include "msm/fixed_base_impl.h"

#undef FIXED_BASE_BYTES
#undef FE
#undef F
#undef FE_ONE
#undef AFFINE
#undef XYZZ
#undef C
#undef MSM_KIND
#undef MSM_BETA
#undef MSM_SCALE
#undef MSM_NEGATE_PACKED
#undef MSM_DIVISOR
#undef MSM_QUOTIENT
#undef VE
#undef V
#undef VE_ONE
#undef MSM_X_BOUND
#undef MSM_Y_BOUND
#undef MSM_BLOCKS_AT_ONCE
