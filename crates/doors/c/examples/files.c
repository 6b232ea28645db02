// Writes files, lists, describes and renames them.
//
//   cc files.c $(pkg-config --cflags --libs terrace) && ./a.out STORE [CONFIGURATION]
//
// With the file of a configuration, it makes the store first.

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

struct count {
    int files;
    uint64_t bytes;
    int limit;
};

static int show(void *context, const char *key, const terrace_info *info) {
    struct count *count = context;
    if (info->kind == TERRACE_KIND_FILE) {
        printf("%s: %d bytes, mode %o\n", key, (int)info->length, (unsigned)info->mode);
        count->files++;
        count->bytes += info->length;
    }
    return count->limit > 0 && count->files == count->limit;
}

int main(int argc, char **argv) {
    terrace_store *store;
    if (argc > 2) must(terrace_init(argv[1], argv[2]));
    must(terrace_open(argc > 1 ? argv[1] : "store", NULL, &store));

    // Small writes are kept until there are enough of them, or the file is flushed.
    terrace_file *file;
    must(terrace_file_open(store, "run/table", "w+", &file));
    for (int i = 0; i < 1000; i++) {
        must(terrace_file_write(file, (uint64_t)i * sizeof i, &i, sizeof i));
    }
    int number;
    size_t read;
    must(terrace_file_read(file, 123 * sizeof number, &number, sizeof number, &read));
    printf("number 123: %d\n", number);
    must(terrace_file_truncate(file, 100 * sizeof number));
    must(terrace_file_sync(file));
    must(terrace_file_close(file));

    // Threads and processes may append to one file.
    uint64_t offset, length;
    must(terrace_file_open(store, "run/log", "a", &file));
    must(terrace_file_append(file, "begin\n", 6, NULL));
    must(terrace_file_append(file, "end\n", 4, &offset));
    must(terrace_file_length(file, &length));
    printf("appended at %d, now %d bytes\n", (int)offset, (int)length);
    must(terrace_file_flush(file));
    printf("not to be read: %d\n", terrace_file_read(file, 0, &number, 4, &read) == TERRACE_STATUS_INVALID);
    must(terrace_file_close(file));
    printf("exists: %d\n", terrace_file_open(store, "run/log", "wx", &file) == TERRACE_STATUS_CONFLICT);

    struct count all = {0, 0, 0}, first = {0, 0, 1};
    must(terrace_list(store, "run", show, &all));
    printf("%d files of %d bytes\n", all.files, (int)all.bytes);
    must(terrace_list(store, "", show, &first));

    terrace_info before, after;
    must(terrace_stat(store, "run/table", &before));
    must(terrace_rename(store, "run", "old"));
    must(terrace_stat(store, "old/table", &after));
    printf("the same object: %d\n", before.object == after.object && before.length == after.length);
    printf("gone: %d\n", terrace_stat(store, "run/table", &after) == TERRACE_STATUS_NOT_FOUND);

    must(terrace_delete(store, "old/table"));
    must(terrace_delete(store, "old/log"));
    must(terrace_close(store));
    return 0;
}
