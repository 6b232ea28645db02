/* Heat in a rod, divided among the ranks: a program that knows nothing of checkpoints.
 *
 *   mpicc heat.c -o heat
 *   mpirun -n 4 terrace dump run heat --each 10 --restart -- ./heat STEPS
 *
 * Its state is on the heap, in static variables, and in local variables such as the number of the step. In step DIE_IN_STEP of the
 * environment, rank 1 dies after DIE_AFTER microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { CELLS = 40000, HISTORY = 64 };

/* A list that grows, one block for each entry. */
struct entry {
    double sum;
    struct entry *before;
};

static double source[CELLS];
static double history[HISTORY];
static int rank, ranks;
static MPI_Comm rod_ranks;

static void exchange(double *rod)
{
    int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(&rod[1], 1, MPI_DOUBLE, left, 0, &rod[CELLS + 1], 1, MPI_DOUBLE, right, 0, rod_ranks,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&rod[CELLS], 1, MPI_DOUBLE, right, 1, &rod[0], 1, MPI_DOUBLE, left, 1, rod_ranks,
                 MPI_STATUS_IGNORE);
}

static void die_in(int step)
{
    const char *dies = getenv("DIE_IN_STEP"), *after = getenv("DIE_AFTER");
    struct itimerval timer = {{0, 0}, {0, after ? atoi(after) : 1}};
    if (dies && atoi(dies) == step && rank == 1) {
        setitimer(ITIMER_REAL, &timer, NULL);
        if (!after)
            pause();
    }
}

int main(int count, char **arguments)
{
    double *rod, *next, *unused, local, sum = 0;
    struct entry *newest = NULL, *entry;
    char *name = strdup("rod");
    int step, i;

    MPI_Init(&count, &arguments);
    MPI_Comm_dup(MPI_COMM_WORLD, &rod_ranks);
    MPI_Comm_rank(rod_ranks, &rank);
    MPI_Comm_size(rod_ranks, &ranks);
    rod = calloc(CELLS + 2, sizeof *rod);
    next = calloc(CELLS + 2, sizeof *next);
    /* It is never touched, so no checkpoint has it. */
    unused = calloc(1 << 27, sizeof *unused);
    for (i = 0; i < CELLS; i++)
        source[i] = i % 100 == 0 ? 1.0 / (i + 1) : 0;
    for (step = 0; step < atoi(arguments[1]); step++) {
        exchange(rod);
        for (i = 1; i <= CELLS; i++)
            next[i] = rod[i] + 0.25 * (rod[i - 1] - 2 * rod[i] + rod[i + 1]) + source[i - 1] * (rank + 1);
        memcpy(&rod[1], &next[1], CELLS * sizeof *rod);
        for (local = 0, i = 1; i <= CELLS; i++)
            local += rod[i];
        MPI_Allreduce(&local, &sum, 1, MPI_DOUBLE, MPI_SUM, rod_ranks);
        history[step % HISTORY] = sum;
        entry = malloc(sizeof *entry);
        entry->sum = sum;
        entry->before = newest;
        newest = entry;
        die_in(step);
        MPI_Barrier(rod_ranks);
    }
    for (local = 0, i = 0, entry = newest; entry; entry = entry->before, i++)
        local += entry->sum * i;
    for (i = 0; i < HISTORY; i++)
        local += history[i];
    if (rank == 0)
        printf("%s after %d steps: %a, %a, %a\n", name, step, sum, local, unused[1 << 20]);
    MPI_Finalize();
    return 0;
}
