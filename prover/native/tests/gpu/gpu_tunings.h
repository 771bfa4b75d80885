/* gpu_tunings.h - texts of GROTH16_CUDA_TUNING with which every result must be the same: settings at their ends and in between, blocks,
 * tiles and pieces that divide nothing, and windows with tables and without. */
#ifndef G16_GPU_TUNINGS_H
#define G16_GPU_TUNINGS_H

static const char *const ODD_TUNING[] = {
    "window=5,sets=3,low_bits=1,tile=33,piece=3,threads=32,joins=1,reduce=1,level=1,"
    "ntt_last=1,ntt_levels=1,ntt_columns=0,ntt_threads=32,batch=3",
    "window=8,sets=0,low_bits=7,tile=1000,piece=1,threads=96,joins=7,reduce=7,level=3,"
    "ntt_last=3,ntt_levels=5,ntt_columns=1,ntt_threads=224,batch=5,g2=2",
    "window=3,sets=8,low_bits=0,tile=65536,piece=256,threads=64,joins=1031,reduce=2,level=4,"
    "ntt_last=7,ntt_levels=2,ntt_columns=2,ntt_threads=160,batch=1,g2=1",
    "piece=2,reduce=3,ntt_levels=3,g2=2", /* the rest is the plans' */
};
#define ODD_TUNINGS (sizeof ODD_TUNING / sizeof *ODD_TUNING)

#endif
