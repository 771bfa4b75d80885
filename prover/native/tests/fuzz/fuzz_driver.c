/* fuzz_driver.c - runs a libFuzzer target where the compiler has no libFuzzer.
 *
 *   fuzz_target [-runs=N] [-max_total_time=S] [-seed=S] [-max_len=N] [-artifact_prefix=P] corpus-dir-or-file...
 *
 * Flags are libFuzzer's; unknown ones are ignored with a note. Every corpus file runs once as it is, then
 * mutated ones until N runs or S seconds are over (default 100000 runs). With the same seed and
 * corpus the runs are the same. There is no coverage feedback: it finds shallow faults in seconds, libFuzzer finds deep ones.
 * When a run dies its input is left in <P>crash-<run>.
 */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* AddressSanitizer's, absent in other builds. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

typedef struct entry {
    uint8_t *data;
    size_t size;
} entry;

static struct {
    entry *corpus;
    size_t corpus_count;
    const char *artifact_prefix;
    /* The run in progress, for the report of a crash. */
    uint8_t *input;
    size_t input_size;
    unsigned long long run;
} driver;

static uint64_t random_state;

static uint64_t next_random(void) { /* xorshift64* (Vigna 2016) */
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1dull;
}

static size_t below(size_t bound) { return bound ? (size_t)(next_random() % bound) : 0; }

static void save_input(void) {
    char path[512];
    snprintf(path, sizeof path, "%scrash-%llu", driver.artifact_prefix, driver.run);
    FILE *file = fopen(path, "wb");
    if (!file) return;
    fwrite(driver.input, 1, driver.input_size, file);
    fclose(file);
    fprintf(stderr, "run %llu died; its %zu bytes are in %s\n", driver.run, driver.input_size, path);
}

static void on_signal(int number) {
    signal(number, SIG_DFL);
    save_input();
    raise(number);
}

static void *grown(void *memory, size_t size) {
    void *result = realloc(memory, size ? size : 1);
    if (!result) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return result;
}

static void add_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "cannot open %s\n", path);
        exit(1);
    }
    entry read = {NULL, 0};
    uint8_t block[4096];
    size_t count;
    while ((count = fread(block, 1, sizeof block, file)) > 0) {
        read.data = grown(read.data, read.size + count);
        memcpy(read.data + read.size, block, count);
        read.size += count;
    }
    fclose(file);
    driver.corpus = grown(driver.corpus, (driver.corpus_count + 1) * sizeof *driver.corpus);
    driver.corpus[driver.corpus_count++] = read;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void add_path(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) {
        fprintf(stderr, "no such file or directory: %s\n", path);
        exit(1);
    }
    if (!S_ISDIR(status.st_mode)) {
        add_file(path);
        return;
    }
    DIR *directory = opendir(path);
    if (!directory) exit(1);
    char **names = NULL;
    size_t count = 0;
    for (struct dirent *item; (item = readdir(directory)) != NULL;) {
        if (item->d_name[0] == '.') continue;
        size_t bytes = strlen(path) + strlen(item->d_name) + 2;
        names = grown(names, (count + 1) * sizeof *names);
        names[count] = grown(NULL, bytes);
        snprintf(names[count++], bytes, "%s/%s", path, item->d_name);
    }
    closedir(directory);
    if (count) qsort(names, count, sizeof *names, by_name); /* the same runs on every file system */
    for (size_t i = 0; i < count; i++) {
        if (stat(names[i], &status) == 0 && S_ISREG(status.st_mode)) add_file(names[i]);
        free(names[i]);
    }
    free(names);
}

/* ---- mutations -------------------------------------------------------------------------------- */

static const uint64_t INTERESTING[] = {0,          1,          2,          3,          0x17,       0x18,
                                       0x1f,       0x7f,       0x80,       0xff,       0x100,      0x7fff,
                                       0x8000,     0xffff,     0x10000,    0x7fffffff, 0x80000000, 0xffffffff,
                                       0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff};
#define INTERESTING_COUNT (sizeof INTERESTING / sizeof *INTERESTING)

/* Replaces data[at .. at + removed) by `added` bytes of `from` (may overlap with nothing of data). */
static size_t splice(uint8_t *data, size_t size, size_t limit, size_t at, size_t removed, const uint8_t *from, size_t added) {
    if (size - removed + added > limit) return size;
    memmove(data + at + added, data + at + removed, size - at - removed);
    if (added) memcpy(data + at, from, added);
    return size - removed + added;
}

static void overwrite_number(uint8_t *data, size_t size) {
    size_t width = (size_t)1 << below(4);
    if (size < width) return;
    size_t at = below(size - width + 1);
    uint64_t value = INTERESTING[below(INTERESTING_COUNT)];
    if (below(4) == 0) { /* a small step away from what is there */
        value = 0;
        for (size_t i = 0; i < width; i++) value |= (uint64_t)data[at + i] << (8 * i);
        value += below(9) - 4;
    }
    int big_endian = below(2) != 0;
    for (size_t i = 0; i < width; i++) data[at + i] = (uint8_t)(value >> (8 * (big_endian ? width - 1 - i : i)));
}

static size_t mutate(uint8_t *data, size_t size, size_t limit) {
    uint8_t block[64];
    size_t at, count;
    switch (below(8)) {
    case 0: /* a bit */
        if (size) data[below(size)] ^= (uint8_t)(1u << below(8));
        return size;
    case 1: /* a byte */
        if (size) data[below(size)] = (uint8_t)next_random();
        return size;
    case 2:
    case 3: overwrite_number(data, size); return size;
    case 4: /* cut out */
        if (!size) return size;
        at = below(size);
        count = 1 + below(size - at < 64 ? size - at : 64);
        return splice(data, size, limit, at, count <= size - at ? count : size - at, NULL, 0);
    case 5: /* repeat a piece elsewhere */
        if (!size) return size;
        count = 1 + below(size < sizeof block ? size : sizeof block);
        memcpy(block, data + below(size - count + 1), count);
        return splice(data, size, limit, below(size + 1), 0, block, count);
    case 6: { /* a piece of another corpus entry, in the same place or any */
        if (!driver.corpus_count) return size;
        const entry *other = &driver.corpus[below(driver.corpus_count)];
        if (!other->size) return size;
        at = below(other->size);
        count = 1 + below(other->size - at);
        size_t place = below(2) && at <= size ? at : below(size + 1);
        size_t removed = below(2) ? (count < size - place ? count : size - place) : 0;
        return splice(data, size, limit, place, removed, other->data + at, count);
    }
    default: /* cut off */
        return below(4) ? size : below(size + 1);
    }
}

/* ---- runs ------------------------------------------------------------------------------------- */

static void run_input(void) {
    LLVMFuzzerTestOneInput(driver.input, driver.input_size);
    driver.run++;
}

static int number_flag(const char *argument, const char *name, unsigned long long *value) {
    size_t length = strlen(name);
    if (strncmp(argument, name, length) != 0 || argument[length] != '=') return 0;
    *value = strtoull(argument + length + 1, NULL, 10);
    return 1;
}

int main(int argc, char **argv) {
    unsigned long long runs = 100000, seconds = 0, seed = 1, limit = 0;
    int runs_given = 0;
    driver.artifact_prefix = "";
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') {
            add_path(argv[i]);
        } else if (number_flag(argv[i], "-runs", &runs)) {
            runs_given = runs != (unsigned long long)-1; /* libFuzzer's -1: without end */
        } else if (strncmp(argv[i], "-artifact_prefix=", 17) == 0) {
            driver.artifact_prefix = argv[i] + 17;
        } else if (!number_flag(argv[i], "-max_total_time", &seconds) && !number_flag(argv[i], "-seed", &seed) &&
                   !number_flag(argv[i], "-max_len", &limit)) {
            fprintf(stderr, "flag %s is ignored\n", argv[i]);
        }
    }
    if (seconds && !runs_given) runs = ~0ull;
    random_state = seed * 0x9e3779b97f4a7c15ull + 1;
    if (!random_state) random_state = 1;
    size_t largest = 4096;
    for (size_t i = 0; i < driver.corpus_count; i++) {
        if (driver.corpus[i].size * 2 > largest) largest = driver.corpus[i].size * 2;
    }
    if (limit) largest = (size_t)limit;
    driver.input = grown(NULL, largest);
    signal(SIGABRT, on_signal);
    signal(SIGFPE, on_signal);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(save_input);
    } else {
        signal(SIGSEGV, on_signal);
        signal(SIGBUS, on_signal);
        signal(SIGILL, on_signal);
    }
    time_t start = time(NULL);
    for (size_t i = 0; i < driver.corpus_count; i++) {
        driver.input_size = driver.corpus[i].size < largest ? driver.corpus[i].size : largest;
        memcpy(driver.input, driver.corpus[i].data, driver.input_size);
        run_input();
    }
    while (driver.run < runs) {
        if (seconds && driver.run % 64 == 0 && (unsigned long long)(time(NULL) - start) >= seconds) break;
        driver.input_size = 0;
        if (driver.corpus_count) {
            const entry *base = &driver.corpus[below(driver.corpus_count)];
            driver.input_size = base->size < largest ? base->size : largest;
            memcpy(driver.input, base->data, driver.input_size);
        }
        for (size_t steps = 1 + below(4); steps > 0; steps--) {
            driver.input_size = mutate(driver.input, driver.input_size, largest);
        }
        run_input();
    }
    fprintf(stderr, "%llu runs in %lld seconds, seed %llu\n", driver.run, (long long)(time(NULL) - start), seed);
    for (size_t i = 0; i < driver.corpus_count; i++) free(driver.corpus[i].data);
    free(driver.corpus);
    free(driver.input);
    return 0;
}
