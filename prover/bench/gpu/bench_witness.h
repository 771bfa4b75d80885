/* bench_witness.h - time of the chains of a batch circuit, made up: as many rows and terms as the Merkle paths of the circuits have,
 * of random values. Included by gpu_bench.cu. */

/* Code of a chain that is being written; gpu/abi.h says what it means. */
typedef struct chain_writer {
    uint32_t *code, *numbers, *shifts;
    uint32_t words, places, values, products, rows;
} chain_writer;

#define WITNESS_CODE_ROOM 4096 /* words a level, at most */

static uint32_t chain_slot(const chain_writer *w, uint32_t age) { return (w->values - age) % DEVICE_ABI_RING; }

static void chain_place(chain_writer *w, uint32_t number, uint32_t shift) {
    w->numbers[w->places] = number;
    w->shifts[w->places++] = shift;
}

/* A sum of so many products of values before it, and a constant. */
static void chain_sum(chain_writer *w, uint32_t terms) {
    w->code[w->words++] = DEVICE_ABI_SUM | (terms + 1) << 8;
    w->code[w->words++] = 5 | DEVICE_ABI_FROM_ONE << DEVICE_ABI_COEFFICIENT_BITS;
    for (uint32_t i = 0; i < terms; i++) w->code[w->words++] = (6 + i) | chain_slot(w, 1 + 2 * i) << DEVICE_ABI_COEFFICIENT_BITS;
    w->products += terms;
    w->values++;
}

/* Row and wire have the same number behind the inputs. */
static void chain_row(chain_writer *w, uint32_t left, uint32_t right, uint32_t first_wire) {
    w->code[w->words++] = DEVICE_ABI_ROW | left << 8 | right << 16 | DEVICE_ABI_FROM_NONE << 24;
    if (left == DEVICE_ABI_FROM_WIRE) chain_place(w, w->rows % 8, 1);
    chain_place(w, w->rows, 0);
    chain_place(w, first_wire + w->rows++, 0);
    w->products++;
    w->values++;
}

/* x, then x^2, x^4, x^5. */
static void chain_box(chain_writer *w, uint32_t terms, uint32_t first_wire) {
    chain_sum(w, terms);
    chain_row(w, chain_slot(w, 1), DEVICE_ABI_FROM_LEFT, first_wire);
    chain_row(w, chain_slot(w, 1), DEVICE_ABI_FROM_LEFT, first_wire);
    chain_row(w, chain_slot(w, 1), chain_slot(w, 3), first_wire);
}

/* A level of a path: two selections, and Poseidon of two inputs with the short forms that the kernel finds. */
static void chain_level(chain_writer *w, uint32_t first_wire) {
    for (int i = 0; i < 2; i++) {
        chain_sum(w, 0);
        chain_row(w, DEVICE_ABI_FROM_WIRE, chain_slot(w, 1), first_wire);
    }
    for (int i = 0; i < 2 + 3 * 3; i++) chain_box(w, i < 2 ? 0 : 3, first_wire);
    for (int i = 0; i < 57; i++) chain_box(w, 5, first_wire);
    for (int i = 0; i < 4 * 3; i++) chain_box(w, i < 3 ? 5 : 3, first_wire);
}

static void witness_times(uint32_t chains, uint32_t levels) {
    const uint32_t first_wire = 8 * chains, rows_room = 242 * levels;
    chain_writer w = {(uint32_t *)calloc(WITNESS_CODE_ROOM * levels, 4), (uint32_t *)calloc(3 * rows_room, 4),
                      (uint32_t *)calloc(3 * rows_room, 4), 0, 0, 0, 0, 0};
    for (uint32_t i = 0; i < levels; i++) chain_level(&w, first_wire);
    device_abi_place *places = (device_abi_place *)calloc(w.places, sizeof *places);
    uint32_t *shifts = (uint32_t *)calloc(2 * chains, sizeof *shifts);
    const uint32_t blocks_count = (chains + DEVICE_ABI_CHAIN_THREADS - 1) / DEVICE_ABI_CHAIN_THREADS;
    device_abi_chain_block *blocks = (device_abi_chain_block *)calloc(blocks_count, sizeof *blocks);
    for (uint32_t i = 0; i < w.places; i++) {
        places[i].number = w.numbers[i];
        places[i].shift = w.shifts[i];
    }
    for (uint32_t c = 0; c < chains; c++) {
        shifts[c] = c * w.rows;
        shifts[chains + c] = c * 8;
    }
    for (uint32_t b = 0; b < blocks_count; b++) blocks[b].first = b * DEVICE_ABI_CHAIN_THREADS;
    const device_abi_shape shape = {chains, 0, w.words, 0, 0, 2};
    const uint32_t coefficients = 32;
    const size_t rows = (size_t)chains * w.rows;
    device_abi_chains made;
    memset(&made, 0, sizeof made);
    made.shapes_count = 1;
    made.blocks_count = blocks_count;
    made.code_count = w.words;
    made.places_count = w.places;
    made.shifts_count = 2 * chains;
    made.coefficients_count = coefficients;
    made.shapes = &shape;
    made.blocks = blocks;
    made.code = w.code;
    made.places = places;
    made.shifts = shifts;
    witness_key key;
    witness_room room;
    memset(&room, 0, sizeof room);
    memset(&key, 0, sizeof key);
    room.to.wires = (fr *)device_allocate(&queue, (first_wire + rows) * sizeof(fr));
    room.to.a = (fr *)device_allocate(&queue, rows * sizeof(fr));
    room.to.b = (fr *)device_allocate(&queue, rows * sizeof(fr));
    made.coefficients = calloc(coefficients, sizeof(fr));
    stop_on_failure();
    witness_key_load(&queue, &key, &made);
    random_values_kernel<<<(first_wire + 127) / 128, 128, 0, queue.stream>>>(room.to.wires, first_wire);
    random_values_kernel<<<1, 128, 0, queue.stream>>>((fr *)key.chains.coefficients, coefficients);
    const double ms = median_ms([&] { witness_chains_run(&queue, &key, &room); });
    /* A warp alone: a wide multiply-add of its 32 lanes takes a scheduler, of which a multiprocessor has four, so long. */
    const double bound = w.products * PRODUCT_STEPS * 32 * 4 * grid_that_fills(1) / imad_wide_rate() * 1e3;
    printf("{\"name\": \"gpu_witness\", \"chains\": %u, \"levels\": %u, \"rows\": %zu, \"products_of_a_chain\": %u, \"ms\": %.4f, "
           "\"predicted_ms\": %.4f, \"bound_ms\": %.4f, \"fraction\": %.3f}\n",
           chains, levels, rows, w.products, ms, w.products * MODEL_CHAIN_PRODUCT_MS, bound, bound / ms);
}
