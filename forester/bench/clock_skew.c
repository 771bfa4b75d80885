/* Preloaded into a process, sets the clock of its machine wrong: seconds are added as the file CLOCK_SKEW has them,
   eight bytes in the machine's order, at any time. Time that passes (the monotonic clock) is not touched. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *skew;

__attribute__((constructor)) static void find(void) {
    const char *path = getenv("CLOCK_SKEW");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *seen = mmap(NULL, sizeof *skew, PROT_READ, MAP_SHARED, file, 0);
    if (seen != MAP_FAILED) skew = seen;
    close(file);
}

static int64_t seconds(void) { return skew == NULL ? 0 : *skew; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && clock == CLOCK_REALTIME) now->tv_sec += seconds();
    return status;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place != NULL) *place = now.tv_sec;
    return now.tv_sec;
}
