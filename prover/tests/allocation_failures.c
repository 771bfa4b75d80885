/* Preloaded before libc: lets chosen allocations of the kernel fail. Only calls from the kernel's own library count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static atomic_long seen, first = -1;
static atomic_int lasting;

/* From now on call number `number` fails, and with `all` every later one; a negative number lets all pass. */
void fail_allocations(long number, int all) {
    atomic_store(&seen, 0);
    atomic_store(&lasting, all);
    atomic_store(&first, number);
}

/* Calls of the kernel since then. */
long allocations_seen(void) { return atomic_load(&seen); }

static int fails(void *caller) {
    Dl_info info;
    if (!dladdr(caller, &info) || !info.dli_fname || !strstr(info.dli_fname, "kernel/_native")) return 0;
    long number = atomic_fetch_add(&seen, 1), chosen = atomic_load(&first);
    return chosen >= 0 && (number == chosen || (number > chosen && atomic_load(&lasting)));
}

void *malloc(size_t size) {
    if (!fails(__builtin_return_address(0))) return __libc_malloc(size);
    errno = ENOMEM;
    return NULL;
}

void *calloc(size_t count, size_t size) {
    if (!fails(__builtin_return_address(0))) return __libc_calloc(count, size);
    errno = ENOMEM;
    return NULL;
}

void *realloc(void *memory, size_t size) {
    if (!fails(__builtin_return_address(0))) return __libc_realloc(memory, size);
    errno = ENOMEM;
    return NULL;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return fails(__builtin_return_address(0)) ? EAGAIN : real(thread, attributes, run, argument);
}
