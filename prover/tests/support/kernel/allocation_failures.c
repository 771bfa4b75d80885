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
void __libc_free(void *memory);

static atomic_long seen, live, first = -1;
static atomic_int lasting;

/* From now on call number `number` fails, and with `all` every later one; a negative number lets all pass. */
void fail_allocations(long number, int all) {
    atomic_store(&seen, 0);
    atomic_store(&lasting, all);
    atomic_store(&first, number);
}

/* Calls of the kernel since then. */
long allocations_seen(void) { return atomic_load(&seen); }

/* Blocks that the kernel took and has not given back, since the process began. */
long blocks_live(void) { return atomic_load(&live); }

static int is_kernel(void *caller) {
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "kernel/_native");
}

static int fails(void *caller) {
    if (!is_kernel(caller)) return 0;
    long number = atomic_fetch_add(&seen, 1), chosen = atomic_load(&first);
    return chosen >= 0 && (number == chosen || (number > chosen && atomic_load(&lasting)));
}

static void *counted(void *memory, void *caller) {
    if (memory && is_kernel(caller)) atomic_fetch_add(&live, 1);
    return memory;
}

void *malloc(size_t size) {
    void *caller = __builtin_return_address(0);
    if (!fails(caller)) return counted(__libc_malloc(size), caller);
    errno = ENOMEM;
    return NULL;
}

void *calloc(size_t count, size_t size) {
    void *caller = __builtin_return_address(0);
    if (!fails(caller)) return counted(__libc_calloc(count, size), caller);
    errno = ENOMEM;
    return NULL;
}

void *realloc(void *memory, size_t size) {
    void *caller = __builtin_return_address(0);
    if (!fails(caller)) return memory ? __libc_realloc(memory, size) : counted(__libc_realloc(NULL, size), caller);
    errno = ENOMEM;
    return NULL;
}

void free(void *memory) {
    if (memory && is_kernel(__builtin_return_address(0))) atomic_fetch_sub(&live, 1);
    __libc_free(memory);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return fails(__builtin_return_address(0)) ? EAGAIN : real(thread, attributes, run, argument);
}
