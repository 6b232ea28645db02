// Uses handles, receipts and lengths that are none, and appends by threads: handles.c STORE, or handles.c STORE NAME to append only.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <terrace.h>

static terrace_store *store;
static const char *name = "x";

static void must(terrace_status status) {
    if (status != TERRACE_STATUS_OK) {
        fprintf(stderr, "%d: %s\n", (int)status, terrace_last_error());
        exit(1);
    }
}

static void *append(void *who) {
    for (int i = 0; i < 100; i++) {
        char line[64];
        int length = snprintf(line, sizeof line, "%s%d %d\n", name, *(int *)who, i);
        uint64_t offset;
        must(terrace_append(store, "log", line, (size_t)length, NULL, &offset, NULL));
    }
    return NULL;
}

static void append_by_threads(void) {
    pthread_t threads[4];
    int who[4] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, append, &who[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static void refused(const char *what, terrace_status status) {
    printf("%s: %d\n", what, status == TERRACE_STATUS_INVALID);
}

int main(int argc, char **argv) {
    must(terrace_open(argv[1], NULL, &store));
    if (argc > 2) {
        name = argv[2];
        append_by_threads();
        must(terrace_close(store));
        return 0;
    }
    terrace_receipt receipt, garbage;
    must(terrace_replicate(store, "a", "bytes", 5, NULL, &receipt));
    terrace_receipt copy = receipt;
    must(terrace_wait(store, &copy, "durable"));
    must(terrace_wait(store, &copy, "durable"));
    printf("durable: %d\n", copy.durable);
    memset(&garbage, 0, sizeof garbage);
    refused("empty receipt", terrace_wait(store, &garbage, "placed"));
    memset(&garbage, 0xa5, sizeof garbage);
    refused("garbage receipt", terrace_wait(store, &garbage, "placed"));
    receipt.generation += 1;
    refused("changed receipt", terrace_wait(store, &receipt, "durable"));
    printf("in words: %d\n", strstr(terrace_last_error(), "receipt") != NULL);
    refused("no receipt", terrace_wait(store, NULL, "placed"));

    uint64_t offset = 7;
    must(terrace_append(store, "a", " more", 5, NULL, &offset, &receipt));
    printf("appended at %d\n", (int)offset);
    must(terrace_wait(store, &receipt, "durable"));
    char back[16];
    size_t read;
    refused("write beyond the end of numbers", terrace_write_at(store, "a", UINT64_MAX - 1, "abcdef", 6, NULL, NULL));
    refused("write beyond 2^63", terrace_write_at(store, "a", (uint64_t)INT64_MAX - 2, "abcdef", 6, NULL, NULL));
    refused("read beyond 2^63", terrace_read(store, "a", UINT64_MAX, back, sizeof back, &read));
    refused("negative length", terrace_append(store, "a", "abc", (size_t)-1, NULL, NULL, NULL));
    refused("negative room", terrace_read(store, "a", 0, back, (size_t)-1, &read));
    refused("the store's own key", terrace_replicate(store, ".terrace/x", "x", 1, NULL, NULL));
    terrace_options options = {.tiers = "none", .max_latency = 60, .size = sizeof options};
    printf("no such tier: %d\n", terrace_replicate(store, "b", "x", 1, &options, NULL) == TERRACE_STATUS_FAILED);
    options.tiers = "a";
    must(terrace_replicate(store, "b", "x", 1, &options, NULL));
    options.max_latency = -1;
    refused("negative latency", terrace_replicate(store, "b", "x", 1, &options, NULL));
    // A program that was compiled with the first version of the header, where the structure ended with padding.
    struct {
        const char *requirements, *ack, *weights, *budget, *element;
        uint8_t replicas;
        char padding[7];
    } *first = malloc(sizeof *first);
    for (int fill = 0; fill < 256; fill += 85) {
        memset(first, 0, sizeof *first);
        first->replicas = 2;
        memset(first->padding, fill, sizeof first->padding);
        must(terrace_replicate(store, "b", "x", 1, (const terrace_options *)(const void *)first, &receipt));
        if (receipt.want != 2) return 2;
    }
    free(first);
    // A program that was compiled with a later version.
    struct {
        terrace_options known;
        uint64_t more;
    } later = {.known = {.tiers = "none", .size = sizeof later}, .more = 0};
    printf("known of later: %d\n", terrace_replicate(store, "b", "x", 1, &later.known, NULL) == TERRACE_STATUS_FAILED);
    later.known.tiers = "a";
    must(terrace_replicate(store, "b", "x", 1, &later.known, NULL));
    later.more = 1;
    refused("unknown of later", terrace_replicate(store, "b", "x", 1, &later.known, NULL));
    must(terrace_read(store, "a", 0, back, sizeof back, &read));
    printf("still %.*s\n", (int)read, back);

    terrace_file *file;
    terrace_stream *stream;
    terrace_dataset *dataset;
    refused("mode", terrace_file_open(store, "a", "rw", &file));
    must(terrace_file_open(store, "a", "r+", &file));
    refused("negative write", terrace_file_write(file, 0, "abc", (size_t)-1));
    refused("file beyond 2^63", terrace_file_write(file, UINT64_MAX - 1, "abcdef", 6));
    must(terrace_file_close(file));
    refused("file closed twice", terrace_file_close(file));
    refused("closed file", terrace_file_sync(file));
    refused("no function", terrace_list(store, "", NULL, NULL));
    refused("stream's name", terrace_stream_open(store, "../x", "placed", &stream));
    must(terrace_stream_open(store, "x", "placed", &stream));
    terrace_request request = {.destination = "../x", .offset = -1};
    refused("destination", terrace_stream_append(stream, &request, 1, NULL));
    request.destination = "x";
    request.offset = -2;
    refused("offset", terrace_stream_append(stream, &request, 1, NULL));
    refused("many requests", terrace_stream_append(stream, &request, (size_t)-1, NULL));
    must(terrace_stream_close(stream));
    refused("declaration", terrace_dataset_add(store, "x", "dataset {", &dataset));
    refused("no dataset", terrace_dataset_sync(NULL));

    terrace_tier tier = {.name = "disk", .read = 1e8, .write = 1e8};
    terrace_compression wanted = {.size = sizeof wanted, .tiers = &tier, .tier_count = 1, .reads = 1};
    char packed[64];
    size_t made;
    must(terrace_compress_for(&wanted, "bytes", 5, packed, sizeof packed, &made, NULL));
    refused("no compression", terrace_compress_for(NULL, "bytes", 5, packed, sizeof packed, &made, NULL));
    tier.room = 8;
    printf("no room: %d\n",
           terrace_compress_for(&wanted, "bytes", 5, packed, sizeof packed, &made, NULL) == TERRACE_STATUS_NO_SPACE);
    tier.read = 0;
    refused("no speed", terrace_compress_for(&wanted, "bytes", 5, packed, sizeof packed, &made, NULL));
    tier.read = 1e8;
    wanted.reads = -1;
    refused("fewer reads than none", terrace_compress_for(&wanted, "bytes", 5, packed, sizeof packed, &made, NULL));
    wanted.tier_count = 0;
    refused("no tiers", terrace_compress_for(&wanted, "bytes", 5, packed, sizeof packed, &made, NULL));
    wanted.size = 0;
    refused("no size", terrace_compress_for(&wanted, "bytes", 5, packed, sizeof packed, &made, NULL));

    terrace_store *other;
    must(terrace_open(argv[1], NULL, &other));
    must(terrace_close(store));
    refused("closed twice", terrace_close(store));
    refused("used after that", terrace_sync(store));
    refused("garbage handle", terrace_close((terrace_store *)(void *)&receipt));
    must(terrace_sync(other));
    must(terrace_close(other));
    must(terrace_close(NULL));
    return 0;
}
