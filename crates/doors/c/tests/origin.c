// Reads the origin of a store, and tries to change it: origin.c STORE FILE, where FILE is the origin's file of "data/far/a".

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <terrace.h>

enum { MOST_BYTES = 1000000 };
static char expected[MOST_BYTES], found[MOST_BYTES];

static void must(terrace_status status) {
    if (status != TERRACE_STATUS_OK) {
        fprintf(stderr, "%d: %s\n", (int)status, terrace_last_error());
        exit(1);
    }
}

static void refused(const char *what, terrace_status status) {
    printf("%s: %d\n", what, status == TERRACE_STATUS_INVALID && strstr(terrace_last_error(), "read-only") != NULL);
}

static int show(void *context, const char *key, const terrace_info *info) {
    (void)context;
    if (info->kind == TERRACE_KIND_FILE) printf("%s: %d bytes\n", key, (int)info->length);
    return 0;
}

int main(int argc, char **argv) {
    terrace_store *store;
    FILE *file = argc > 2 ? fopen(argv[2], "rb") : NULL;
    if (!file || fread(expected, 1, MOST_BYTES, file) != MOST_BYTES || fclose(file)) return 1;
    must(terrace_open(argv[1], NULL, &store));
    must(terrace_list(store, "data", show, NULL));

    size_t length;
    must(terrace_read(store, "data/far/a", 500000, found, 1000, &length));
    int same = length == 1000 && memcmp(found, expected + 500000, length) == 0;
    must(terrace_read(store, "data/far/a", 0, found, MOST_BYTES, &length));
    printf("read as by the origin: %d\n", same && length == MOST_BYTES && memcmp(found, expected, length) == 0);

    terrace_file *opened;
    must(terrace_file_open(store, "data/far/b/c", "r", &opened));
    must(terrace_file_read(opened, 0, found, MOST_BYTES, &length));
    printf("the file, too: %d\n", length == 6 && memcmp(found, "words\n", length) == 0);
    must(terrace_file_close(opened));

    char *json;
    must(terrace_locate(store, "data/far/a", &json));
    printf("stored: %d\n", strstr(json, "\"replicas\"") != NULL);
    terrace_free(json);

    refused("read-only", terrace_write_at(store, "data/far/a", 0, "x", 1, NULL, NULL));
    refused("not opened to write", terrace_file_open(store, "data/far/a", "r+", &opened));
    refused("not renamed", terrace_rename(store, "data/far/a", "elsewhere"));
    must(terrace_close(store));
    return 0;
}
