/*
 * A program whose accounts pay rent, for tests: it handles the instruction that the Light SDK generates for its programs,
 * compress_accounts_idempotent, and hands other instructions on to the Light system program, signed by its authority.
 *
 * Source: forester/docs/reference/programs.md, "Accounts of other programs". Compiled for sBPF version 0 by
 * shared/localnet/tests/support/build_test_program.py: no globals, no calls but system calls.
 */

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;

typedef struct { u8 *key; u64 *lamports; u64 size; u8 *data; u8 *owner; u64 rent_epoch; u8 signs, writable, executable; } Info;
typedef struct { u8 *key; u8 writable, signs; } Meta;
typedef struct { u8 *program; Meta *metas; u64 count; u8 *data; u64 size; } Call;
typedef struct { const u8 *start; u64 size; } Part;

/* Hashes of the names of system calls, which the build replaces by relocations. */
#define INVOKE ((u64 (*)(const Call *, const Info *, u64, const void *, u64))0xa22b9c85L)
#define SHA256 ((u64 (*)(const Part *, u64, u8 *))0x11f49d86L)
#define KECCAK ((u64 (*)(const Part *, u64, u8 *))0xd7793abbL)
#define CLOCK ((u64 (*)(u64 *))0xd56b5fe9L)
#define RENT ((u64 (*)(u64 *))0xbf7188f6L)
#define FIND_ADDRESS ((u64 (*)(const Part *, u64, const u8 *, u8 *, u8 *))0x48504a38L)

#define HEAP 0x300000000UL
#define MAXIMUM_ACCOUNTS 48
#define REALLOCATION 10240
#define EPOCH_SLOTS 13500UL
#define INFO_BYTES 24

enum { PAYER, CONFIG, SPONSOR, AUTHORITY, OWN_ACCOUNTS };
enum { LIGHT_SYSTEM = OWN_ACCOUNTS, SIGNER, PACKED = OWN_ACCOUNTS + 6 };
enum { MALFORMED = 1, WRONG_CONFIG, WRONG_ACCOUNT, NO_AUTHORITY };

typedef struct {
    Info infos[MAXIMUM_ACCOUNTS];
    u64 *sizes[MAXIMUM_ACCOUNTS];
    Meta metas[MAXIMUM_ACCOUNTS];
    u8 scratch[256];
    u8 out[16384];
} Heap;

#define INLINE static inline __attribute__((always_inline))

INLINE void copy(u8 *to, const u8 *from, u64 size) {
    for (u64 i = 0; i < size; i++) ((volatile u8 *)to)[i] = from[i];
}

INLINE void zero(u8 *to, u64 size) {
    for (u64 i = 0; i < size; i++) ((volatile u8 *)to)[i] = 0;
}

INLINE int same(const u8 *a, const u8 *b, u64 size) {
    u8 difference = 0;
    for (u64 i = 0; i < size; i++) difference |= ((const volatile u8 *)a)[i] ^ b[i];
    return !difference;
}

INLINE u64 read(const u8 *from, u64 size) {
    u64 value = 0;
    for (u64 i = 0; i < size; i++) value |= (u64)((const volatile u8 *)from)[i] << (8 * i);
    return value;
}

INLINE u8 *put(u8 *to, u64 value, u64 size) {
    for (u64 i = 0; i < size; i++) ((volatile u8 *)to)[i] = (u8)(value >> (8 * i));
    return to + size;
}

INLINE u8 *put_bytes(u8 *to, const u8 *from, u64 size) {
    copy(to, from, size);
    return to + size;
}

/* Find the address of this program's signer, and its bump. */
INLINE u64 find_signer(const u8 *program, u8 *seed, u8 *address, u8 *bump) {
    put(seed, 0x7475615f697063UL, 7); /* "cpi_aut" */
    put(seed + 7, 0x797469726f68UL, 6);      /* "hority" */
    Part part = {seed, 13};
    return FIND_ADDRESS(&part, 1, program, address, bump);
}

/* Make a call that the signer of this program signs too. */
INLINE u64 invoke(const Call *call, const Info *infos, u64 count, u8 *seed, u8 *bump) {
    Part seeds[2] = {{seed, 13}, {bump, 1}};
    Part signers[1] = {{(u8 *)seeds, 2}};
    return INVOKE(call, infos, count, signers, 1);
}

u64 entrypoint(u8 *input) {
    Heap *heap = (Heap *)HEAP;
    u64 count = *(u64 *)input;
    u8 *at = input + 8;
    if (count > MAXIMUM_ACCOUNTS) return MALFORMED;
    for (u64 i = 0; i < count; i++) {
        Info *info = &heap->infos[i];
        if (at[0] != 255) {
            *info = heap->infos[at[0]];
            heap->sizes[i] = heap->sizes[at[0]];
            at += 8;
        } else {
            u64 size = *(u64 *)(at + 80);
            info->key = at + 8;
            info->owner = at + 40;
            info->lamports = (u64 *)(at + 72);
            info->size = size;
            info->data = at + 88;
            info->signs = at[1];
            info->writable = at[2];
            info->executable = at[3];
            heap->sizes[i] = (u64 *)(at + 80);
            at += 88 + size + REALLOCATION;
            at = (u8 *)(((u64)at + 7) & ~7UL);
            info->rent_epoch = *(u64 *)at;
            at += 8;
        }
        heap->metas[i].key = info->key;
        heap->metas[i].writable = info->writable;
        heap->metas[i].signs = info->signs;
    }
    u64 size = *(u64 *)at;
    u8 *data = at + 8;
    u8 *program = data + size;
    u8 *seed = heap->scratch, *signer = heap->scratch + 16, *bump = heap->scratch + 48, *end = heap->scratch + 49;
    if (size < 8 || count < 3) return MALFORMED;
    if (find_signer(program, seed, signer, bump)) return NO_AUTHORITY;

    if (read(data, 8) != 0xb5715da478abec46UL) {
        /* Hand on: the Light system program, then the accounts of the call. */
        heap->metas[2].signs = 1;
        Call handed_on = {heap->infos[0].key, heap->metas + 1, count - 1, data, size};
        return invoke(&handed_on, heap->infos, count, seed, bump);
    }

    u8 *proof = data + 8;
    u64 proof_bytes = proof[0] ? 129 : 1;
    if (size < 8 + proof_bytes + 5) return MALFORMED;
    u64 closed = read(proof + proof_bytes, 4);
    u8 *rows = proof + proof_bytes + 4;
    if (closed == 0 || size != 8 + proof_bytes + 5 + closed * 10 || count < PACKED + closed) return MALFORMED;
    if (rows[closed * 10] != OWN_ACCOUNTS) return MALFORMED;
    Info *config = &heap->infos[CONFIG], *sponsor = &heap->infos[SPONSOR];
    if (!same(config->owner, program, 32) || config->size < 156) return WRONG_CONFIG;
    if (read(config->data, 8) != 0x676643746867694cUL) return WRONG_CONFIG; /* "LightCfg" */
    if (!same(config->data + 45, sponsor->key, 32) || !same(config->data + 77, heap->infos[AUTHORITY].key, 32)) return WRONG_CONFIG;
    u8 *tree = config->data + 124;

    u64 clock[5], rent[3];
    if (CLOCK(clock) || RENT(rent)) return MALFORMED;
    end[0] = 255;

    u8 *out = put(heap->out, 0xf0568b2f548022e4UL, 8);
    out = put(out, 1, 1);
    out = put(out, bump[0], 1);
    out = put_bytes(out, program, 32);
    out = put(out, 0, 8);
    out = put(out, 0, 6);
    out = put_bytes(out, proof, proof_bytes);
    out = put(out, 0, 4);
    out = put(out, closed, 4);
    for (u64 i = 0; i < closed; i++) {
        Info *account = &heap->infos[count - closed + i];
        u8 *info = account->data + 8, *row = rows + 10 * i;
        if (!same(account->owner, program, 32) || account->size < 8 + INFO_BYTES) return WRONG_ACCOUNT;
        if (read(account->data, 8) != 0x2174736574616470UL) return WRONG_ACCOUNT; /* "pdatest!" */
        u64 exempt = (128 + account->size) * rent[0] * 2, cost = read(info + 18, 2);
        u64 per_epoch = read(info + 16, 2) + account->size * info[20];
        u64 now = clock[0] / EPOCH_SLOTS + 1, claimed = read(info, 8) / EPOCH_SLOTS;
        u64 required = now > claimed ? now - claimed : 0;
        u64 kept = exempt + cost, available = *account->lamports > kept ? *account->lamports - kept : 0;
        if (available >= per_epoch * required) return 0; /* not due: nothing is done */

        out = put(out, 1, 1);
        Part parts[4] = {{account->key, 32}, {tree, 32}, {program, 32}, {end, 1}};
        KECCAK(parts, 4, out);
        out[0] = 0;
        out += 32;
        out = put(out, 1, 1);
        out = put(out, 0x00ffffffffffffffUL, 8);
        SHA256(parts, 1, out);
        out[0] = 0;
        out += 32;
        out = put_bytes(out, row + 3, 2); /* tree and queue */
        out = put_bytes(out, row + 5, 4); /* leaf */
        out = put_bytes(out, row + 2, 1); /* by index */
        out = put_bytes(out, row, 2);     /* root */
        out = put(out, 0, 8);
        out = put(out, 1, 1);
        out = put_bytes(out, account->data, 8);
        u8 *hash = out;
        out = put_bytes(out + 32, row + 9, 1);
        out = put(out, 0, 8);
        out = put(out, account->size - 8, 4);
        u8 *content = out;
        zero(out, INFO_BYTES);
        out[14] = 2; /* compressed */
        out = put_bytes(out + INFO_BYTES, info + INFO_BYTES, account->size - 8 - INFO_BYTES);
        Part whole[1] = {{content, account->size - 8}};
        SHA256(whole, 1, hash);
        hash[0] = 0;
    }
    out = put(out, 0, 8);

    /* The accounts of the call: payer, signer, the programs, and the packed ones. */
    Meta *metas = heap->metas + LIGHT_SYSTEM;
    metas[0] = heap->metas[PAYER];
    metas[1].signs = 1;
    u64 called = count - closed - LIGHT_SYSTEM;
    Call call = {heap->infos[LIGHT_SYSTEM].key, metas, called, heap->out, (u64)(out - heap->out)};
    u64 failed = invoke(&call, heap->infos, count, seed, bump);
    if (failed) return failed;
    for (u64 i = count - closed; i < count; i++) {
        Info *account = &heap->infos[i];
        *sponsor->lamports += *account->lamports;
        *account->lamports = 0;
        zero(account->data, account->size);
        *heap->sizes[i] = 0;
        zero(account->owner, 32);
    }
    return 0;
}
