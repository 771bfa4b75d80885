/* testing_pairing_impl.h - hooks over point encodings and pairings; signature and rules of
 * testing_field_impl.h. */

/* ---- encoding -------------------------------------------------------------------------------- */

/* in: points of G1 back to back as gnark writes them. out: x | y of each that was read. Returns the number of points
 * read before the first fault times 256, plus the point_fault. */
T_HOOK(t_encoding, g1_decode) {
    g1_affine points[64];
    uint32_t count = 0;
    point_fault fault;
    for (size_t at = 0; at < in_size; at += g1_encoded_bytes(in[at])) {
        if (count == 64 || g1_encoded_bytes(in[at]) > in_size - at) return T_BAD_SIZE;
        count++;
    }
    uint32_t read = g1_decode(points, in, count, &fault);
    for (uint32_t i = 0; i < read; i++) g1_affine_write(out + 64 * i, &points[i]);
    return (int32_t)(read << 8 | (uint32_t)fault);
}

T_HOOK(t_encoding, g2_decode) {
    g2_affine points[64];
    uint32_t count = 0;
    point_fault fault;
    for (size_t at = 0; at < in_size; at += g2_encoded_bytes(in[at])) {
        if (count == 64 || g2_encoded_bytes(in[at]) > in_size - at) return T_BAD_SIZE;
        count++;
    }
    uint32_t read = g2_decode(points, in, count, &fault);
    for (uint32_t i = 0; i < read; i++) g2_affine_write(out + 128 * i, &points[i]);
    return (int32_t)(read << 8 | (uint32_t)fault);
}

/* in: x | y. out: compressed | raw. */
T_HOOK(t_encoding, g1_encode) {
    g1_affine p;
    if (in_size != 64) return T_BAD_SIZE;
    if (!g1_affine_read(&p, in)) return T_NOT_CANONICAL;
    g1_encode_compressed(out, &p);
    g1_encode_raw(out + 32, &p);
    return 0;
}

T_HOOK(t_encoding, g2_encode) {
    g2_affine p;
    if (in_size != 128) return T_BAD_SIZE;
    if (!g2_affine_read(&p, in)) return T_NOT_CANONICAL;
    g2_encode_compressed(out, &p);
    g2_encode_raw(out + 64, &p);
    return 0;
}

/* in: up to 31 points of the twist, tested one by one and together. Bit i of the answer says that point i has order r. */
T_HOOK(t_encoding, g2_in_subgroup) {
    g2_affine points[31];
    const g2_affine *at[31] = {NULL};
    uint8_t inside[31];
    uint32_t count = (uint32_t)(in_size / 128);
    int32_t answer = 0;
    (void)out;
    if (in_size % 128 || count > 31) return T_BAD_SIZE;
    for (uint32_t i = 0; i < count; i++) {
        if (!g2_affine_read(&points[i], in + 128 * i)) return T_NOT_CANONICAL;
        at[i] = &points[i];
    }
    g2_in_subgroup_many(inside, at, count);
    for (uint32_t i = 0; i < count; i++) {
        if (inside[i] != g2_in_subgroup(&points[i])) return T_ALIASING;
        answer |= (int32_t)inside[i] << i;
    }
    return answer;
}

/* in: a proof of 256 bytes. out: the same, encoded again. Returns the point_fault. */
T_HOOK(t_encoding, proof) {
    groth16_proof proof;
    const char *which;
    if (in_size != G16_PROOF_BYTES) return T_BAD_SIZE;
    point_fault fault = groth16_proof_decode(&proof, in, &which);
    if (fault == POINT_GOOD && !g2_in_subgroup(&proof.bs)) fault = POINT_OUTSIDE_SUBGROUP;
    if (fault == POINT_GOOD) groth16_proof_encode(out, &proof);
    return (int32_t)fault;
}

/* out: the text of a fault, zero-terminated. */
T_HOOK(t_encoding, fault_text) {
    if (in_size != 1) return T_BAD_SIZE;
    const char *text = point_fault_text((point_fault)in[0]);
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

/* ---- pairing --------------------------------------------------------------------------------- */

/* in: up to PAIRING_MAX pairs of a point of G1 and a point of G2 (x | y each). out: the product of their pairings, by way of the
 * points and by way of the lines of all points but the first. */
T_HOOK(t_pairing, product) {
    g1_affine p[PAIRING_MAX];
    g2_affine q[PAIRING_MAX];
    size_t pairs = in_size / 192;
    fp12 r;
    if (in_size % 192 || pairs > PAIRING_MAX) return T_BAD_SIZE;
    for (size_t i = 0; i < pairs; i++) {
        if (!g1_affine_read(&p[i], in + 192 * i) || !g2_affine_read(&q[i], in + 192 * i + 64)) return T_NOT_CANONICAL;
    }
    pairing_product(&r, p, q, (uint32_t)pairs);
    fp12_write(out, &r);

    pairing_lines lines[PAIRING_MAX];
    pairing_fixed fixed[PAIRING_MAX];
    uint32_t count = 0;
    fp12 same;
    for (size_t i = 1; i < pairs; i++) {
        pairing_lines_of(&lines[i], &q[i]);
        count += (uint32_t)pairing_fixed_of(&fixed[count], &lines[i], &p[i]);
    }
    pairing_miller_loop(&same, p, q, pairs ? 1 : 0, fixed, count);
    pairing_final_exponentiation(&same, &same);
    return fp12_equal(&r, &same) ? 0 : T_ALIASING;
}

T_HOOK(t_pairing, final_exponentiation) {
    fp12 a, r;
    if (in_size != sizeof a) return T_BAD_SIZE;
    if (!fp12_read(&a, in)) return T_NOT_CANONICAL;
    pairing_final_exponentiation(&r, &a);
    fp12_write(out, &r);
    return 0;
}

/* Negation, conjugation and psi of a point of the twist agree in both coordinate systems. out: psi(p). */
T_HOOK(t_pairing, psi) {
    g2_affine p, r, same;
    g2_xyzz s;
    if (in_size != 128) return T_BAD_SIZE;
    if (!g2_affine_read(&p, in)) return T_NOT_CANONICAL;
    g2_psi(&r, &p);
    g2_xyzz_from_affine(&s, &p);
    g2_psi_xyzz(&s, &s);
    g2_xyzz_to_affine(&same, &s);
    g2_affine_write(out, &r);
    return g2_affine_equal(&r, &same) ? 0 : T_ALIASING;
}

/* The generators. out: x | y of G1, then of G2. */
T_HOOK(t_pairing, generators) {
    (void)in;
    if (in_size != 0) return T_BAD_SIZE;
    g1_affine_write(out, &G1_GENERATOR);
    g2_affine_write(out + 64, &G2_GENERATOR);
    return 0;
}
