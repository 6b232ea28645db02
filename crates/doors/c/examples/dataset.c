// Writes particles one by one, and reads one of their fields as an array.
//
//   cc dataset.c $(pkg-config --cflags --libs terrace) && ./a.out STORE

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

enum { N = 1000 };

struct particle {
    double x, y;
};

static const char *DECLARATION =
    "dataset { var particles [1000]struct { x, y float64 } }"
    "view whole { var particles = particles }"
    "view heights { var y [] { y } = particles }"
    "replica written { view whole }"
    "replica by_field { view heights }";

int main(int argc, char **argv) {
    terrace_store *store;
    terrace_dataset *dataset;
    must(terrace_open(argc > 1 ? argv[1] : "store", NULL, &store));
    must(terrace_dataset_add(store, "particles", DECLARATION, &dataset));
    printf("exists: %d\n",
           terrace_dataset_add(store, "particles", DECLARATION, &dataset) == TERRACE_STATUS_CONFLICT);

    static struct particle particles[N];
    for (int i = 0; i < N; i++) particles[i] = (struct particle){i, -i};
    must(terrace_dataset_write(dataset, "whole", 0, particles, sizeof particles));

    static double y[N];
    size_t read;
    uint64_t length;
    must(terrace_dataset_length(dataset, "heights", &length));
    must(terrace_dataset_read(dataset, "heights", 0, y, sizeof y, &read));
    printf("%d bytes of %d, y[7] = %g\n", (int)read, (int)length, y[7]);
    must(terrace_dataset_sync(dataset));

    char *views;
    must(terrace_dataset_views(dataset, &views));
    printf("views: %s\n", views);
    terrace_free(views);
    must(terrace_dataset_close(dataset));

    must(terrace_dataset_open(store, "particles", &dataset));
    must(terrace_dataset_close(dataset));
    must(terrace_dataset_remove(store, "particles"));
    printf("gone: %d\n", terrace_dataset_open(store, "particles", &dataset) == TERRACE_STATUS_NOT_FOUND);
    must(terrace_close(store));
    return 0;
}
