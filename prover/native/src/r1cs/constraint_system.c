/* r1cs/constraint_system.c - see r1cs/constraint_system.h. */
#include "r1cs/constraint_system.h"

#include <stdlib.h>
#include <string.h>

void constraint_system_free(constraint_system *cs) {
    free(cs->coefficients);
    free(cs->terms);
    free(cs->expression_start);
    free(cs->rows);
    free(cs->hints);
    free(cs->program);
    free(cs->component_start);
    free(cs->slice_start);
    cs_short_forms_free(&cs->short_forms);
    memset(cs, 0, sizeof *cs);
}

uint64_t constraint_system_bytes(const constraint_system *cs) {
    return (uint64_t)cs->coefficients_count * sizeof *cs->coefficients + cs->terms_count * sizeof *cs->terms +
           ((uint64_t)cs->expressions + 1) * sizeof *cs->expression_start +
           (uint64_t)cs->constraints * sizeof *cs->rows + (uint64_t)cs->hints_count * sizeof *cs->hints +
           (uint64_t)cs->instructions_count * sizeof *cs->program +
           ((uint64_t)cs->components + 1) * sizeof *cs->component_start +
           ((uint64_t)cs->slices + 1) * sizeof *cs->slice_start;
}

void cs_short_forms_free(cs_short_forms *forms) {
    free(forms->coefficients);
    free(forms->terms);
    free(forms->spans);
    memset(forms, 0, sizeof *forms);
}

uint64_t cs_short_forms_bytes(const cs_short_forms *forms, uint32_t expressions) {
    return (uint64_t)forms->coefficients_count * sizeof *forms->coefficients + forms->terms_count * sizeof *forms->terms +
           ((uint64_t)expressions + 1) * sizeof *forms->spans;
}
