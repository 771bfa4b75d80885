"""Counts of instructions from a disassembly; bounds for the real kernels are in `integration/native`."""

from __future__ import annotations

from gpu_counts import Counts, read_counts

DISASSEMBLY = """
        code for sm_90
                Function : _Z8g1_thing_kernel3abc
        /*0000*/                   LDC R1, c[0x0][0x28] ;      /* 0x00000a00ff017b82 */
                                                               /* 0x000e220000000800 */
        /*0010*/                   STL.64 [R1], R2 ;           /* 0x0 */
        /*0020*/              @!P0 IMAD.WIDE.U32.X R4, P1, R6, R7, R4, P1 ;  /* 0x0 */
        /*0030*/                   IMAD.HI.U32 R4, R6, R7, R4 ;/* 0x0 */
        /*0040*/                   IMAD R4, R6, R7, RZ ;       /* 0x0 */
        /*0050*/               @P0 BRA 0x70 ;                  /* 0x0 */
        /*0060*/               @P1 BRA P2, 0x20 ;              /* 0x0 */
        /*0070*/                   EXIT ;                      /* 0x0 */
        /*0080*/                   BRA 0x80;                   /* 0x0 */
"""
RESOURCES = " Function _Z8g1_thing_kernel3abc:\n  REG:96 STACK:8 SHARED:0 LOCAL:0 CONSTANT[0]:592\n"


def test_counts__of_a_disassembly__are_of_the_whole_and_of_its_longest_loop() -> None:
    expected = Counts(
        code_bytes=0x90, registers=96, stack_bytes=8, slots=2.5, loop=5, loop_wide=1, loop_slots=2.5, loop_local=0
    )
    assert read_counts(DISASSEMBLY, RESOURCES) == {"g1_thing": expected}


def test_counts__of_a_kernel_without_a_loop__have_none() -> None:
    straight = DISASSEMBLY.replace("@P1 BRA P2, 0x20", "@P1 BRA P2, 0x70")
    assert read_counts(straight, RESOURCES)["g1_thing"].loop == 0
