/* poseidon/lane_field.h - the field of Poseidon in the form of field/lanes52.h. */
#ifndef SHARED_POSEIDON_LANE_FIELD_H
#define SHARED_POSEIDON_LANE_FIELD_H

#include "field/lanes52.h"

static const lanes52_modulus POSEIDON_MODULUS = {
    {0x1f593f0000001, 0x4879b9709143e, 0x181585d2833e8, 0xa029b85045b68, 0x030644e72e131},
    {0x1f593efffffff, 0x4b4c6911b3c2e},
    {0x82e644ee4c3d2, 0xf93893c98b1de, 0xd46fe04d0a4c7, 0x8f0aad55e2a1f, 0x5ed0447de83},
    {0x74eccce9a797a, 0x16ddcc30bd8a4, 0x49ecd3539499e, 0xb23a6fcc592b8, 0x00e3bd49f6ee5}};
/* 2^520 mod r: a product with it converts a plain number to R = 2^260. */
static const uint64_t POSEIDON_TO_R260[5] = {0x0b852d16da6f5, 0xc621620cddce3, 0xaf1b95343ffb6, 0xc3c15e103e7c2, 0x00281528fa122};

#endif
