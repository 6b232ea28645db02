// Writes a field with requirements, reads it back, changes a range, and shows where it is.
//
//   cc replicate.c $(pkg-config --cflags --libs terrace) && ./a.out STORE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <terrace.h>

static void must(terrace_status status) {
    if (status != TERRACE_STATUS_OK) {
        fprintf(stderr, "%d: %s\n", (int)status, terrace_last_error());
        exit(1);
    }
}

enum { N = 200000 };

int main(int argc, char **argv) {
    static double field[N], back[N];
    for (int i = 0; i < N; i++) field[i] = i / 16;

    terrace_options application = {.requirements = "max_read_availability", .element = "f64"};
    terrace_store *store;
    must(terrace_open(argc > 1 ? argv[1] : "store", &application, &store));

    terrace_options operation = {
        .requirements = "min_storage", .ack = "replicated", .max_latency = 60, .size = sizeof operation};
    terrace_receipt receipt;
    must(terrace_replicate(store, "field", field, sizeof field, &operation, &receipt));
    printf("%llu bytes, %u replicas, %llu pending\n", (unsigned long long)receipt.bytes, receipt.have,
           (unsigned long long)receipt.owed);

    double changed[2] = {-1, -2};
    must(terrace_write_at(store, "field", 8 * sizeof(double), changed, sizeof changed, NULL, &receipt));
    must(terrace_wait(store, &receipt, "durable"));
    memcpy(field + 8, changed, sizeof changed);
    uint64_t place;
    must(terrace_append(store, "log", "a line\n", 7, NULL, &place, NULL));
    must(terrace_delete(store, "log"));

    // A copy shares the stored bytes, and stays as it is when the field changes.
    double first = 3;
    must(terrace_copy(store, "field", "copy"));
    must(terrace_write_at(store, "field", 0, &first, sizeof first, NULL, NULL));
    must(terrace_copy(store, "copy", "field"));
    must(terrace_delete(store, "copy"));
    printf("no such field: %d\n", terrace_copy(store, "copy", "field") == TERRACE_STATUS_NOT_FOUND);

    uint64_t length;
    size_t read;
    must(terrace_length(store, "field", &length));
    must(terrace_read(store, "field", 0, back, sizeof back, &read));
    if (length != sizeof field || read != sizeof field || memcmp(field, back, sizeof field)) return 2;

    char *json;
    must(terrace_locate(store, "field", &json));
    printf("located: %d\n", strstr(json, "\"present\"") != NULL);
    terrace_free(json);
    must(terrace_plan(store, "field", field, 1 << 20, &operation, &json));
    printf("planned: %d\n", strstr(json, "explanation") != NULL);
    terrace_free(json);

    size_t most = terrace_compressed_most(sizeof field), made, again;
    char *packed = malloc(most);
    must(terrace_compress("shuffle8+zstd-1", field, sizeof field, packed, most, &made));
    must(terrace_decompress(packed, made, back, sizeof back, &again));
    if (again != sizeof field || memcmp(field, back, sizeof field)) return 3;
    printf("compressed to less than a tenth: %d\n", made < sizeof field / 10);
    must(terrace_compress(NULL, field, sizeof field, packed, most, &made));
    must(terrace_decompress(packed, made, back, sizeof back, &again));
    if (memcmp(field, back, sizeof field)) return 4;

    // For tiers that the program describes. The memory has no room for it.
    terrace_tier tiers[] = {{.name = "memory", .read = 1e10, .write = 1e10, .room = 100},
                            {.name = "archive", .read = 2e7, .write = 1e7, .latency = 0.01}};
    terrace_compression wanted = {
        .size = sizeof wanted, .tiers = tiers, .tier_count = 2, .weights = "archival", .reads = 1};
    must(terrace_compress_for(&wanted, field, sizeof field, packed, most, &made, &json));
    must(terrace_decompress(packed, made, back, sizeof back, &again));
    if (memcmp(field, back, sizeof field)) return 5;
    printf("compressed for the archive: %d\n", strstr(json, "\"tier\":1") != NULL);
    terrace_free(json);

    // What goes wrong is a number and a sentence.
    packed[made - 1] ^= 1;
    printf("damaged: %d\n", terrace_decompress(packed, made, back, sizeof back, &again) == TERRACE_STATUS_UNREADABLE);
    printf("too short: %d\n", terrace_decompress(packed, made, back, 1, &again) == TERRACE_STATUS_TOO_SHORT);
    free(packed);
    terrace_options wrong = {.requirements = "max_speed"};
    printf("not understood: %d\n", terrace_replicate(store, "x", "x", 1, &wrong, NULL) == TERRACE_STATUS_INVALID);
    printf("why: %d\n", strstr(terrace_last_error(), "max_speed") != NULL);
    printf("null: %d\n", terrace_sync(NULL) == TERRACE_STATUS_INVALID);

    must(terrace_delete(store, "field"));
    printf("gone: %d\n", terrace_length(store, "field", &length) == TERRACE_STATUS_NOT_FOUND);
    must(terrace_sync(store));
    must(terrace_close(store));
    return 0;
}
