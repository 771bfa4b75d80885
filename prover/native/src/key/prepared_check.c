/* key/prepared_check.c - checks that the numbers and indices of a prepared key stay within its arrays.
 *
 * Checksums detect accidents, not attacks, and the solver follows indices without checks. So a file with correct checksums is
 * still checked here: one pass over the wire lists and the constraint system, but not over the points. A key that passes is
 * memory-safe; whether its proofs are valid, the verification of each proof decides.
 */
#include <stdlib.h>

#include "field/fp.h"
#include "key/prepared_format.h"

#define MAX_DOMAIN_LOG2 (FR_TWO_ADICITY - 1)

static g16_status malformed(g16_error *error, const char *what) {
    return g16_fail(error, G16_MALFORMED_KEY, 0, "prepared key: %s", what);
}

/* ---- numbers -------------------------------------------------------------------------------- */

g16_status prepared_check_numbers(const prepared_info *info, g16_error *error) {
    if (info->format_version != G16_FORMAT_0_8 && info->format_version != G16_FORMAT_0_14) {
        return malformed(error, "the format version of the source is unknown");
    }
    if (info->header_words != 2 && info->header_words != 4) return malformed(error, "the wrapper has neither 2 nor 4 words");
    uint64_t wires = (uint64_t)info->public_wires + info->secret_wires + info->internal_wires;
    if (info->public_wires == 0 || wires != info->wires) return malformed(error, "the wires do not add up");
    if (info->verifying_k != info->public_wires || info->k_count != info->wires - info->public_wires ||
        info->a_count > info->wires || info->b_count > info->wires) {
        return malformed(error, "the counts of points do not fit the wires");
    }
    if (info->domain_log2 < 1 || info->domain_log2 > MAX_DOMAIN_LOG2) return malformed(error, "the domain is out of range");
    uint64_t domain = (uint64_t)1 << info->domain_log2;
    if (info->z_count != domain - 1 || info->constraints == 0 || info->constraints > domain) {
        return malformed(error, "the domain does not fit the constraints");
    }
    if (info->coefficients < 5 || info->terms > UINT32_MAX || info->expressions >= UINT32_MAX ||
        info->hints >= CS_IS_HINT || info->checks_start > info->instructions || info->components == UINT32_MAX ||
        info->slices == UINT32_MAX) {
        return malformed(error, "a count of the constraint system is out of range");
    }
    return G16_OK;
}

/* ---- values --------------------------------------------------------------------------------- */

static g16_status check_coefficients(const constraint_system *cs, g16_error *error) {
    fr expected[5] = {FR_ZERO, FR_ONE};
    fr_double(&expected[2], &expected[1]);
    fr_neg(&expected[3], &expected[1]);
    fr_neg(&expected[4], &expected[2]);
    for (int i = 0; i < 5; i++) {
        if (!fr_equal(&cs->coefficients[i], &expected[i])) return malformed(error, "coefficients 0 to 4 are not 0, 1, 2, -1, -2");
    }
    for (uint32_t i = 5; i < cs->coefficients_count; i++) {
        if (mont256_compare_var(cs->coefficients[i].v, FR_MODULUS.p) >= 0) {
            return malformed(error, "a coefficient is not below the modulus");
        }
    }
    return G16_OK;
}

static g16_status check_coordinates(const g1_affine *points, uint32_t count, g16_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        if (mont256_compare_var(points[i].x.v, FP_MODULUS.p) >= 0 || mont256_compare_var(points[i].y.v, FP_MODULUS.p) >= 0) {
            return malformed(error, "a coordinate of the verifying key is not below the modulus");
        }
    }
    return G16_OK;
}

/* ---- indices -------------------------------------------------------------------------------- */

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Wires are below the number of wires and distinct. */
static g16_status check_wires(const uint32_t *wires, uint32_t count, uint32_t limit, g16_error *error) {
    uint8_t *seen = calloc((size_t)limit + 1, 1);
    int fits = 1;
    if (!seen) return g16_fail(error, G16_OUT_OF_MEMORY, 0, "no memory for checking a prepared key");
    for (uint32_t i = 0; i < count && fits; i++) fits = wires[i] < limit && !seen[wires[i]]++;
    free(seen);
    return fits ? G16_OK : malformed(error, "a list of wires has one twice or a number that is too high");
}

/* starts[0 .. count] begins with 0, is not decreasing and ends with `end`. */
static g16_status check_starts(const uint32_t *starts, uint32_t count, uint64_t end, const char *what, g16_error *error) {
    int rising = starts[0] == 0 && starts[count] == end;
    for (uint32_t i = 0; i < count; i++) rising &= starts[i] <= starts[i + 1];
    return rising ? G16_OK : malformed(error, what);
}

static g16_status check_terms(const constraint_system *cs, g16_error *error) {
    uint32_t wire = 0, coefficient = 0;
    for (uint64_t i = 0; i < cs->terms_count; i++) {
        wire = larger(wire, cs->terms[i].wire);
        coefficient = larger(coefficient, cs->terms[i].coefficient);
    }
    if (wire >= cs->wires || coefficient >= cs->coefficients_count) return malformed(error, "a term points outside");
    return G16_OK;
}

static g16_status check_rows(const constraint_system *cs, g16_error *error) {
    uint32_t expression = 0, wire = 0, coefficient = 0, solves = 0;
    for (uint32_t i = 0; i < cs->constraints; i++) {
        const cs_row *row = &cs->rows[i];
        expression = larger(larger(expression, row->left), larger(row->right, row->out));
        wire = larger(wire, row->solved_wire);
        coefficient = larger(coefficient, row->solved_coefficient);
        solves = larger(solves, row->solves);
    }
    if (expression >= cs->expressions || wire >= cs->wires || coefficient >= cs->coefficients_count ||
        solves > CS_SOLVES_O) {
        return malformed(error, "a row points outside");
    }
    return G16_OK;
}

static g16_status check_hints(const constraint_system *cs, g16_error *error) {
    const uint32_t inputs = cs->public_wires + cs->secret_wires;
    for (uint32_t i = 0; i < cs->hints_count; i++) {
        const cs_hint *hint = &cs->hints[i];
        const uint32_t most = hint->kind == CS_HINT_BITS ? CS_MAX_HINT_OUTPUTS : 1;
        if ((hint->kind != CS_HINT_BITS && hint->kind != CS_HINT_INVERSE_OR_ZERO) || hint->input >= cs->expressions ||
            hint->outputs < 1 || hint->outputs > most || hint->first_output < inputs ||
            (uint64_t)hint->first_output + hint->outputs > cs->wires) {
            return malformed(error, "a hint points outside");
        }
    }
    return G16_OK;
}

/* Hints are allowed only before checks_start. */
static g16_status check_program(const constraint_system *cs, g16_error *error) {
    uint32_t hint = 0, row = 0;
    int hints = 0;
    for (uint32_t i = 0; i < cs->instructions_count; i++) {
        const uint32_t instruction = cs->program[i];
        if (instruction & CS_IS_HINT && i < cs->checks_start) {
            hints = 1;
            hint = larger(hint, instruction & ~CS_IS_HINT);
        } else {
            row = larger(row, instruction);
        }
    }
    if (row >= cs->constraints || (hints && hint >= cs->hints_count)) return malformed(error, "an instruction points outside");
    return G16_OK;
}

g16_status prepared_check_array(const g16_key *key, prepared_type type, g16_error *error) {
    const constraint_system *cs = &key->cs;
    switch (type) {
    case PREPARED_VERIFYING_K: return check_coordinates(key->vk.k, key->vk.k_count, error);
    case PREPARED_WIRES_A: return check_wires(key->pk.a_wires, key->pk.a_count, cs->wires, error);
    case PREPARED_WIRES_B: return check_wires(key->pk.b_wires, key->pk.b_count, cs->wires, error);
    case PREPARED_FOLD_WIRES: return check_wires(key->pk.fold_wires, key->pk.fold_k_count, cs->wires, error);
    case PREPARED_COEFFICIENTS: return check_coefficients(cs, error);
    case PREPARED_TERMS: return check_terms(cs, error);
    case PREPARED_EXPRESSION_START:
        return check_starts(cs->expression_start, cs->expressions, cs->terms_count, "the expressions do not follow each other", error);
    case PREPARED_ROWS: return check_rows(cs, error);
    case PREPARED_HINTS: return check_hints(cs, error);
    case PREPARED_PROGRAM: return check_program(cs, error);
    case PREPARED_COMPONENT_START:
        return check_starts(cs->component_start, cs->components, cs->checks_start, "the components do not follow each other", error);
    case PREPARED_SLICE_START:
        return check_starts(cs->slice_start, cs->slices, cs->components, "the slices do not follow each other", error);
    default: return G16_OK;
    }
}
