/* proof_tasks.c - the processor time of each task of a proof, cut for given numbers of threads but run on one
 * (recording_thread_pool.c). prover/bench/schedule.py says what it would take on as many processors.
 *
 * Usage: proof_tasks <key, or prepared key> <inputs, 32 bytes each> <rounds> <threads>...
 * Writes one JSON object per number of threads: the shortest times of the rounds, of what is no task ("serial_ns"), and of all
 * tasks, job after job and entry after entry. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording_thread_pool.h"

static void check(g16_status status, const g16_error *error) {
    if (status == G16_OK) return;
    fprintf(stderr, "proof_tasks: %s: %s\n", g16_status_name(status), error->message);
    exit(1);
}

static const uint8_t *map_file(const char *path, size_t *size) {
    struct stat facts;
    const int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &facts) != 0) {
        perror(path);
        exit(1);
    }
    *size = (size_t)facts.st_size;
    const void *data = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    close(file);
    return data;
}

static void print_tasks(const recorded_task *tasks, size_t count, uint64_t serial_ns, uint32_t threads, const char *backend) {
    printf("{\"threads\": %" PRIu32 ", \"backend\": \"%s\", \"serial_ns\": %" PRIu64 ", \"jobs\": [", threads, backend, serial_ns);
    for (size_t i = 0; i < count; i++) {
        const int new_job = i == 0 || tasks[i].job != tasks[i - 1].job;
        if (new_job) printf("%s[", i ? "]}], " : "");
        if (new_job || tasks[i].entry != tasks[i - 1].entry) {
            printf("%s{\"entry\": %" PRIu32 ", \"group\": %" PRIu32 ", \"after\": %" PRIu32 ", \"ns\": [%" PRIu64, new_job ? "" : "]}, ",
                   tasks[i].entry, tasks[i].group, tasks[i].after, tasks[i].ns);
        } else {
            printf(", %" PRIu64, tasks[i].ns);
        }
    }
    printf("%s]}\n", count ? "]}]" : "");
    fflush(stdout);
}

static void measure(const g16_key *key, const uint8_t *inputs, size_t inputs_count, uint32_t threads, int rounds) {
    g16_engine *engine;
    g16_error error;
    recorded_task *shortest = NULL;
    size_t count = 0;
    uint64_t serial_ns = UINT64_MAX;
    uint8_t proof[G16_PROOF_BYTES];
    check(g16_engine_create(&engine, threads, G16_BACKEND_AUTO, &error), &error);
    const size_t size = g16_prove_scratch_bytes(engine, key);
    void *scratch = malloc(size);
    if (!scratch) exit(1);
    for (int round = 0; round < rounds; round++) {
        const recorded_task *tasks;
        recorded_reset();
        const uint64_t start = recorded_now_ns();
        check(g16_prove(engine, key, proof, NULL, inputs, inputs_count, scratch, size, NULL, &error), &error);
        uint64_t rest = recorded_now_ns() - start;
        count = recorded_tasks(&tasks);
        if (round == 0) {
            shortest = malloc((count + 1) * sizeof *shortest);
            if (!shortest) exit(1);
            memcpy(shortest, tasks, count * sizeof *tasks);
        }
        for (size_t i = 0; i < count; i++) {
            rest -= tasks[i].ns;
            if (tasks[i].ns < shortest[i].ns) shortest[i].ns = tasks[i].ns;
        }
        if (rest < serial_ns) serial_ns = rest;
    }
    print_tasks(shortest, count, serial_ns, threads, g16_engine_backend(engine));
    free(shortest);
    free(scratch);
    g16_engine_destroy(engine);
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: proof_tasks <key> <inputs> <rounds> <threads>...\n");
        return 2;
    }
    size_t key_size, inputs_size;
    const uint8_t *key_data = map_file(argv[1], &key_size), *inputs = map_file(argv[2], &inputs_size);
    g16_engine *engine;
    g16_key *key;
    g16_error error;
    g16_prepared_info prepared;
    check(g16_engine_create(&engine, 1, G16_BACKEND_AUTO, &error), &error);
    if (g16_prepared_describe(&prepared, key_data, key_size, NULL) == G16_OK) {
        check(g16_prepared_load(engine, &key, key_data, key_size, 0, NULL, &error), &error);
    } else {
        check(g16_key_load(engine, &key, key_data, key_size, NULL, &error), &error);
    }
    for (int i = 4; i < argc; i++) measure(key, inputs, inputs_size / 32, (uint32_t)atoi(argv[i]), atoi(argv[3]));
    g16_key_destroy(key);
    g16_engine_destroy(engine);
    return 0;
}
