// Sends requests that `terrace flush - --stream results --to DIRECTORY` delivers, each exactly once.
//
//   cc stream.c $(pkg-config --cflags --libs terrace) && ./a.out STORE

#include <stdio.h>
#include <stdlib.h>
#include <terrace.h>

static void must(terrace_status status) {
    if (status != TERRACE_STATUS_OK) {
        fprintf(stderr, "%d: %s\n", (int)status, terrace_last_error());
        exit(1);
    }
}

int main(int argc, char **argv) {
    terrace_store *store;
    terrace_stream *stream;
    must(terrace_open(argc > 1 ? argv[1] : "store", NULL, &store));
    must(terrace_stream_open(store, "results", "placed", &stream));

    // All or none of them are accepted. The first one appends, the second one writes at an offset.
    size_t added;
    terrace_request requests[2] = {
        {.destination = "run/log", .offset = -1, .bytes = "a line\n", .length = 7, .producer = "rank 0", .sequence = 1},
        {.destination = "run/field", .offset = 4096, .bytes = "bytes", .length = 5, .producer = "rank 0", .sequence = 2},
    };
    must(terrace_stream_append(stream, requests, 2, &added));
    printf("added: %d\n", (int)added);
    // A program that does not know whether they were accepted sends them again.
    must(terrace_stream_append(stream, requests, 2, &added));
    printf("added again: %d\n", (int)added);

    uint64_t pending, bytes;
    must(terrace_stream_backlog(stream, &pending, &bytes));
    printf("pending: %d\n", (int)pending);
    must(terrace_stream_close(stream));
    must(terrace_close(store));
    return 0;
}
