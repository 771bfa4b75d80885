/* ntt/small_roots_impl.h - one table of roots of unity shared by all keys with small domains; included by backend.c.
 *
 * The table of a domain is a prefix of the tables of all larger domains (ntt_fill_table). Sharing it saves a tenth of a small
 * key's memory. It is computed on first use, in 2 ms, and constant afterwards.
 */
#ifndef G16_NTT_SMALL_ROOTS_IMPL_H
#define G16_NTT_SMALL_ROOTS_IMPL_H

#include <pthread.h>

#include "ntt/transform_impl.h"

static fr small_roots_table[(size_t)1 << SMALL_ROOTS_LOG2];
static pthread_once_t small_roots_made = PTHREAD_ONCE_INIT;

static void small_roots_make(void) { ntt_fill_table(small_roots_table, SMALL_ROOTS_LOG2); }

static const fr *small_roots(void) {
    pthread_once(&small_roots_made, small_roots_make);
    return small_roots_table;
}

#endif
