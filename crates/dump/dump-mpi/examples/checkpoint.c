/* A computation that checkpoints itself: run it again, and it goes on where the last checkpoint was.
 *
 *   mpicc checkpoint.c -lterrace_dump -o checkpoint
 *   mpirun -n 4 ./checkpoint STORE STEPS [STEP AT WHICH RANK 1 DIES]
 *
 * STORE is the directory of this node's store; {node} in it stands for TERRACE_NODE. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <terrace_dump.h>

enum { CELLS = 100000 };

static double field[CELLS];
static int step;

static void must(terrace_dump_status status, const char *what)
{
    if (status != TERRACE_DUMP_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", what, terrace_dump_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int count, char **arguments)
{
    int rank, last = count > 2 ? atoi(arguments[2]) : 3, dies = count > 3 ? atoi(arguments[3]) : -1, i;
    terrace_checkpoints *checkpoints;
    uint32_t version;

    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    must(terrace_dump_open(MPI_COMM_WORLD, arguments[1], &checkpoints), "opening");
    must(terrace_dump_set_replicas(checkpoints, 2), "replicas");
    must(terrace_dump_protect(checkpoints, 0, field, sizeof field), "protecting");
    must(terrace_dump_protect(checkpoints, 1, &step, sizeof step), "protecting");

    if (terrace_dump_restart(checkpoints, "field", -1, &version) == TERRACE_DUMP_STATUS_OK) {
        if (rank == 0)
            printf("goes on after step %d\n", step);
    } else if (rank == 0) {
        printf("begins: %s\n", terrace_dump_last_error());
    }
    while (step < last) {
        for (i = 0; i < CELLS; i++)
            field[i] += (i % 100 == step) ? rank + 1 : 1;
        step++;
        if (step == dies && rank == 1)
            raise(SIGKILL);
        must(terrace_dump_checkpoint(checkpoints, "field", -1, &version), "the checkpoint");
        if (rank == 0)
            printf("step %d is version %u\n", step, version);
    }
    for (i = 0; i < CELLS; i++) {
        if (field[i] != last + (i % 100 < last ? rank : 0))
            return fprintf(stderr, "cell %d of rank %d is %f\n", i, rank, field[i]), 1;
    }
    must(terrace_dump_unprotect(checkpoints, 1), "unprotecting");
    if (terrace_dump_restart(checkpoints, "field", -1, NULL) == TERRACE_DUMP_STATUS_INVALID && rank == 0)
        printf("all is well; without region 1 it is refused\n");
    terrace_dump_close(checkpoints);
    MPI_Finalize();
    return 0;
}
