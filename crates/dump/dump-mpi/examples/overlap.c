/* A computation that continues while its checkpoints are dumped: run it again, and it goes on where the last one was.
 *
 *   mpicc overlap.c -lterrace_dump -o overlap
 *   mpirun -n 4 ./overlap STORE STEPS [STEP IN WHOSE CHECKPOINT RANK 1 DIES [MICROSECONDS AFTER IT BEGINS]]
 *
 * STORE is the directory of this node's store; {node} in it stands for TERRACE_NODE. If FLOW_TO names a directory or a bucket that outlives the
 * nodes, each version flows there, too, and two of them stay. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <terrace_dump.h>
#include <time.h>

enum { CELLS = 300000 };

static double field[CELLS];
static int step;

static void must(terrace_dump_status status, const char *what)
{
    if (status != TERRACE_DUMP_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", what, terrace_dump_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void compute(int rank)
{
    int i;
    for (i = 0; i < CELLS; i++)
        field[i] += i + rank;
    step++;
}

static void check(int rank)
{
    int i;
    for (i = 0; i < CELLS; i++) {
        if (field[i] != (double)step * (i + rank)) {
            fprintf(stderr, "cell %d of rank %d is %f in step %d\n", i, rank, field[i], step);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

int main(int count, char **arguments)
{
    int rank, threads, last = atoi(arguments[2]), dies = count > 3 ? atoi(arguments[3]) : -1;
    struct timespec pause = {0, count > 4 ? 1000L * atoi(arguments[4]) : 0};
    terrace_checkpoints *checkpoints;
    int64_t version;
    bool ended, archived;

    MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &threads);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    must(terrace_dump_open(MPI_COMM_WORLD, arguments[1], &checkpoints), "opening");
    must(terrace_dump_set_replicas(checkpoints, 2), "replicas");
    must(terrace_dump_set_limit(checkpoints, 1), "limit");
    must(terrace_dump_set_flow(checkpoints, getenv("FLOW_TO"), 2), "flow");
    must(terrace_dump_protect(checkpoints, 0, field, sizeof field), "protecting");
    must(terrace_dump_protect(checkpoints, 1, &step, sizeof step), "protecting");

    must(terrace_dump_prepare(checkpoints), "preparing");

    if (terrace_dump_restart(checkpoints, "field", -1, NULL) == TERRACE_DUMP_STATUS_OK) {
        check(rank);
        must(terrace_dump_is_archived(checkpoints, &archived), "asking for the place");
        if (rank == 0)
            printf("goes on after step %d, from an archive: %d\n", step, archived);
    }
    while (step < last) {
        compute(rank);
        must(terrace_dump_begin(checkpoints, "field", -1), "beginning");
        if (step == dies && rank == 1) {
            nanosleep(&pause, NULL);
            raise(SIGKILL);
        }
        /* The next step changes the field while the copy is dumped, and talks to the other ranks. */
        MPI_Barrier(MPI_COMM_WORLD);
    }
    must(terrace_dump_wait(checkpoints, &version), "waiting");
    must(terrace_dump_test(checkpoints, &ended, NULL), "testing");
    check(rank);
    if (rank == 0)
        printf("step %d is version %d; ended: %d\n", step, (int)version, ended);
    /* A failed checkpoint harms none of those before. Only rank 2 names it otherwise, and all ranks are told. */
    must(terrace_dump_begin(checkpoints, rank == 2 ? "another" : "field", -1), "beginning");
    if (terrace_dump_wait(checkpoints, NULL) == TERRACE_DUMP_STATUS_INVALID && rank == 0)
        printf("refused: %s\n", terrace_dump_last_error());
    field[0] = -1;
    must(terrace_dump_restart(checkpoints, "field", version, NULL), "restarting");
    check(rank);
    terrace_dump_close(checkpoints);
    MPI_Finalize();
    return 0;
}
