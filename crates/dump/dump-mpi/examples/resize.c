/* A computation on an array that its ranks share: run it again with any number of ranks, and it goes on.
 *
 *   mpicc resize.c -lterrace_dump -o resize
 *   mpirun -n 4 ./resize STORE
 *   mpirun -n 3 ./resize STORE
 *
 * STORE is the directory of this node's store; {node} in it stands for TERRACE_NODE. */
#include <stdio.h>
#include <stdlib.h>
#include <terrace_dump.h>

enum { CELLS = 100003 };

static void must(terrace_dump_status status, const char *what)
{
    if (status != TERRACE_DUMP_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", what, terrace_dump_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int count, char **arguments)
{
    int rank, ranks, step = 0, first, cells, i;
    terrace_checkpoints *checkpoints;
    double *field;

    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    first = (int)((long)CELLS * rank / ranks);
    cells = (int)((long)CELLS * (rank + 1) / ranks) - first;
    field = calloc(cells, sizeof *field);

    must(terrace_dump_open(MPI_COMM_WORLD, arguments[1], &checkpoints), "opening");
    must(terrace_dump_set_replicas(checkpoints, 2), "replicas");
    /* The cells from the first one on are this rank's part; the step is the same everywhere. */
    must(terrace_dump_protect_part(checkpoints, 0, field, cells * sizeof *field, first * sizeof *field), "protecting");
    must(terrace_dump_protect_same(checkpoints, 1, &step, sizeof step), "protecting");
    if (terrace_dump_restart(checkpoints, "grid", -1, NULL) == TERRACE_DUMP_STATUS_OK && rank == 0)
        printf("%d ranks go on after step %d\n", ranks, step);

    step++;
    for (i = 0; i < cells; i++)
        field[i] += first + i;
    must(terrace_dump_checkpoint(checkpoints, "grid", -1, NULL), "the checkpoint");
    for (i = 0; i < cells; i++) {
        if (field[i] != (double)step * (first + i))
            return fprintf(stderr, "cell %d is %f in step %d\n", first + i, field[i], step), 1;
    }
    terrace_dump_close(checkpoints);
    free(field);
    MPI_Finalize();
    return 0;
}
