/* Dumps a buffer of each rank by one call.
 *
 *   mpicc output.c -lterrace_dump -o output
 *   TERRACE_STORE=STORE mpirun -n 4 ./output
 *   TERRACE_STORE=STORE mpirun -n 4 terrace restore output 'out.{rank}' */
#include <stdio.h>
#include <string.h>
#include <terrace_dump.h>

int main(int count, char **arguments)
{
    static char buffer[100000];
    int rank;

    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memset(buffer, 'a' + rank, sizeof buffer);
    if (terrace_dump(MPI_COMM_WORLD, buffer, sizeof buffer, 2) != TERRACE_DUMP_STATUS_OK) {
        fprintf(stderr, "the dump: %s\n", terrace_dump_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (terrace_dump(MPI_COMM_WORLD, NULL, 1, 2) == TERRACE_DUMP_STATUS_INVALID && rank == 0)
        printf("without a buffer it is refused\n");
    MPI_Finalize();
    return 0;
}
