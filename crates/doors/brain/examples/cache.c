// A cache of the blocks of files, in three directories: the brain decides where each block goes and how it is encoded, and the program moves
// the bytes.
//
//   cc cache.c $(pkg-config --cflags --libs terrace_brain) -o cache && ./cache FAST MIDDLE SLOW FILE...
//
// FAST may be in memory. Each directory has room for a number of bytes. If all are full, the oldest block leaves the cache. What was learned is in
// the file `brain` of the slow directory, for the next time.

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <terrace_brain.h>
#include <time.h>

enum { DIRECTORIES = 3, BLOCK_BYTES = 256 << 10, MAX_PIECES = 32, MAX_BLOCKS = 4096 };

struct part {
    terrace_brain_piece plan;
    uint32_t encoding;
    size_t stored;
};

struct block {
    const char *file;
    uint64_t offset;
    size_t length, parts;
    struct part part[MAX_PIECES];
};

// The blocks of the cache are those from `oldest` to `newest`.
static struct block blocks[MAX_BLOCKS];
static size_t oldest, newest;

static terrace_brain *brain;
static const char *directories[DIRECTORIES];
static uint64_t capacity[DIRECTORIES], used[DIRECTORIES];
static double expected_seconds, real_seconds;

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, terrace_brain_last_error());
    exit(1);
}

static void must(terrace_brain_status status) {
    if (status != TERRACE_BRAIN_STATUS_OK) fail("the brain");
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static FILE *open_part(const struct block *block, const struct part *part, const char *mode) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%zu.%u.%llu", directories[part->plan.target], (size_t)(block - blocks), part->plan.replica,
             (unsigned long long)part->plan.offset);
    if (!mode) {
        remove(path);
        return NULL;
    }
    FILE *file = fopen(path, mode);
    if (!file) fail(path);
    return file;
}

static uint64_t room(uint32_t target) {
    return used[target] < capacity[target] ? capacity[target] - used[target] : 0;
}

// Removes the oldest block, and tells the brain that its bytes are free.
static void evict(void) {
    struct block *block = &blocks[oldest++];
    for (size_t i = 0; i < block->parts; i++) {
        open_part(block, &block->part[i], NULL);
        uint32_t target = block->part[i].plan.target;
        used[target] -= block->part[i].stored;
        must(terrace_brain_update(brain, target, room(target), 0, 1));
    }
}

// Encodes a part, writes it, and reports how long that took.
static void write_part(struct block *block, struct part *part, const char *bytes) {
    static char encoded[BLOCK_BYTES];
    double begin = now();
    part->encoding = part->plan.encoding;
    must(terrace_brain_encode(&part->encoding, bytes + part->plan.offset, part->plan.length, encoded, sizeof encoded, &part->stored));
    double middle = now();
    // They may be more bytes than the plan expects.
    while (part->stored > room(part->plan.target) && oldest + 1 < newest) evict();
    FILE *file = open_part(block, part, "wb");
    if (fwrite(encoded, 1, part->stored, file) != part->stored || fclose(file)) fail("a part");
    double end = now();
    terrace_brain_outcome outcome = {.key = block->file, .target = part->plan.target, .encoding = part->plan.encoding, .length = part->plan.length,
                                     .stored = part->stored, .codec_seconds = middle - begin, .target_seconds = end - middle};
    must(terrace_brain_report(brain, &outcome));
    used[part->plan.target] += part->stored;
    expected_seconds += part->plan.write_seconds;
    real_seconds += end - begin;
}

// Reads a part into its place in the block, and reports how long that took.
static void read_part(const struct block *block, const struct part *part, char *bytes) {
    static char encoded[BLOCK_BYTES];
    double begin = now();
    FILE *file = open_part(block, part, "rb");
    if (fread(encoded, 1, sizeof encoded, file) != part->stored || fclose(file)) fail("a part");
    double middle = now();
    must(terrace_brain_decode(part->encoding, encoded, part->stored, bytes + part->plan.offset, part->plan.length));
    terrace_brain_outcome outcome = {.key = block->file, .target = part->plan.target, .encoding = part->plan.encoding, .length = part->plan.length,
                                     .stored = part->stored, .codec_seconds = now() - middle, .target_seconds = middle - begin, .was_read = 1};
    must(terrace_brain_report(brain, &outcome));
}

static void put(const char *file, uint64_t offset, const char *bytes, size_t length) {
    if (newest == MAX_BLOCKS) fail("too many blocks");
    // Two replicas where there is room, in two directories. They may be in memory, since the files have the bytes, too.
    terrace_brain_request request = {.key = file, .offset = offset, .replicas = 2, .reads = 2, .allow_volatile = 1};
    terrace_brain_piece pieces[MAX_PIECES];
    terrace_brain_plan_size size;
    terrace_brain_status status;
    while ((status = terrace_brain_plan(brain, &request, bytes, length, pieces, MAX_PIECES, &size, NULL)) == TERRACE_BRAIN_STATUS_NO_SPACE) {
        if (oldest == newest) fail("no block fits");
        evict();
    }
    must(status);
    struct block *block = &blocks[newest++];
    *block = (struct block){.file = file, .offset = offset, .length = length, .parts = size.pieces};
    for (size_t i = 0; i < size.pieces; i++) {
        block->part[i].plan = pieces[i];
        write_part(block, &block->part[i], bytes);
    }
}

// Reads both replicas of a block, and compares them with the file.
static int is_same(const struct block *block) {
    static char bytes[BLOCK_BYTES], copies[MAX_PIECES][BLOCK_BYTES];
    FILE *file = fopen(block->file, "rb");
    if (!file || fseek(file, (long)block->offset, SEEK_SET) || fread(bytes, 1, block->length, file) != block->length) fail(block->file);
    fclose(file);
    uint32_t replicas = 0;
    for (size_t i = 0; i < block->parts; i++) {
        uint32_t replica = block->part[i].plan.replica;
        read_part(block, &block->part[i], copies[replica]);
        if (replica >= replicas) replicas = replica + 1;
    }
    for (uint32_t replica = 0; replica < replicas; replica++) {
        if (memcmp(bytes, copies[replica], block->length)) return 0;
    }
    return replicas > 0;
}

static void load(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return;
    static char saved[4 << 20];
    size_t length = fread(saved, 1, sizeof saved, file);
    fclose(file);
    terrace_brain_status status = terrace_brain_load(brain, saved, length);
    printf("%s\n", status == TERRACE_BRAIN_STATUS_OK ? "knows what was learned before" : terrace_brain_last_error());
}

static void save(const char *path) {
    size_t length = 0;
    terrace_brain_save(brain, NULL, 0, &length);
    char *saved = malloc(length);
    must(terrace_brain_save(brain, saved, length, &length));
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(saved, 1, length, file) != length || fclose(file)) fail(path);
    free(saved);
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "cache FAST MIDDLE SLOW FILE...\n");
        return 2;
    }
    terrace_brain_target targets[DIRECTORIES] = {
        {.tier = "memory", .read = 5e9, .write = 4e9, .latency = 2e-6, .free = 1 << 20, .lanes = 8},
        {.tier = "flash", .read = 5e8, .write = 3e8, .latency = 1e-4, .free = 3 << 20, .lanes = 8, .persistent = 1},
        {.tier = "disk", .read = 1.5e8, .write = 1e8, .latency = 5e-3, .free = 8 << 20, .persistent = 1},
    };
    for (int i = 0; i < DIRECTORIES; i++) {
        directories[i] = argv[1 + i];
        capacity[i] = targets[i].free;
    }
    must(terrace_brain_create(TERRACE_BRAIN_VERSION, targets, DIRECTORIES, &brain));
    char path[4096];
    snprintf(path, sizeof path, "%s/brain", directories[DIRECTORIES - 1]);
    load(path);

    double total = 0;
    for (int i = 4; i < argc; i++) {
        static char bytes[BLOCK_BYTES];
        FILE *file = fopen(argv[i], "rb");
        if (!file) fail(argv[i]);
        uint64_t offset = 0;
        for (size_t length; (length = fread(bytes, 1, sizeof bytes, file)) > 0; offset += length) put(argv[i], offset, bytes, length);
        fclose(file);
        total += (double)offset;
    }

    double raw = 0, stored[DIRECTORIES] = {0};
    size_t same = 0;
    for (size_t i = oldest; i < newest; i++) {
        raw += (double)blocks[i].length;
        for (size_t j = 0; j < blocks[i].parts; j++) stored[blocks[i].part[j].plan.target] += (double)blocks[i].part[j].stored;
        same += (size_t)is_same(&blocks[i]);
    }
    printf("%.2f MB were put in %.3f s, where %.3f s were expected\n", total / 1e6, real_seconds, expected_seconds);
    printf("%.2f MB are in the cache", raw / 1e6);
    for (int i = 0; i < DIRECTORIES; i++) printf(", %s %.2f MB", targets[i].tier, stored[i] / 1e6);
    printf("\nall blocks can be read: %s\n", same == newest - oldest ? "yes" : "no");

    char *json;
    must(terrace_brain_describe(brain, &json));
    printf("described: %s\n", strstr(json, "\"predictions\"") ? "yes" : "no");
    terrace_brain_free(json);
    save(path);
    must(terrace_brain_close(brain));
    return same == newest - oldest ? 0 : 1;
}
