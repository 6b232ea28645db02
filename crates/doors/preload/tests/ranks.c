// A file for each rank, and one file of all ranks, written at offsets.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 10000, ROUNDS = 20 };

static void must(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "wrong: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void fill(char *block, int rank, int round) {
    for (int at = 0; at < BLOCK; at++) block[at] = (char)(at * 7 + rank * 31 + round);
}

static void each(const char *folder, int rank) {
    char path[200], block[BLOCK];
    snprintf(path, sizeof path, "%s/rank.%d", folder, rank);
    FILE *file = fopen(path, "w");
    must(file != NULL, "opening a file of its own");
    for (int round = 0; round < ROUNDS; round++) {
        fill(block, rank, round);
        must(fwrite(block, 1, BLOCK, file) == BLOCK, "writing to it");
    }
    must(fclose(file) == 0, "closing it");
}

static void shared(const char *folder, int rank, int ranks) {
    char path[200], block[BLOCK], read[BLOCK];
    snprintf(path, sizeof path, "%s/all", folder);
    MPI_File file;
    MPI_Status status;
    must(!MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "opening the file of all");
    for (int round = 0; round < ROUNDS; round++) {
        fill(block, rank, round);
        MPI_Offset at = (MPI_Offset)(round * ranks + rank) * BLOCK;
        // By itself, together with the others, and without waiting.
        MPI_Request request;
        switch (round % 3) {
        case 0: must(!MPI_File_write_at(file, at, block, BLOCK, MPI_CHAR, &status), "writing at an offset"); break;
        case 1: must(!MPI_File_write_at_all(file, at, block, BLOCK, MPI_CHAR, &status), "writing together"); break;
        default:
            must(!MPI_File_iwrite_at(file, at, block, BLOCK, MPI_CHAR, &request), "beginning to write");
            must(!MPI_Wait(&request, &status), "waiting for it");
        }
    }
    must(!MPI_File_sync(file), "syncing");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    for (int round = 0; round < ROUNDS; round++) {
        int other = (rank + 1 + round) % ranks;
        fill(block, other, round);
        MPI_Offset at = (MPI_Offset)(round * ranks + other) * BLOCK;
        must(!MPI_File_read_at(file, at, read, BLOCK, MPI_CHAR, &status), "reading at an offset");
        must(memcmp(block, read, BLOCK) == 0, "the bytes of another rank");
    }
    // A strided view, for which ranks exchange bytes before they write.
    MPI_Datatype stride;
    MPI_Type_vector(ROUNDS, 100, 100 * ranks, MPI_CHAR, &stride);
    MPI_Type_commit(&stride);
    MPI_Offset start = (MPI_Offset)ROUNDS * ranks * BLOCK;
    must(!MPI_File_set_view(file, start + rank * 100, MPI_CHAR, stride, "native", MPI_INFO_NULL), "setting a view");
    fill(block, rank, 0);
    must(!MPI_File_write_all(file, block, ROUNDS * 100, MPI_CHAR, &status), "writing by a view");
    must(!MPI_File_seek(file, 0, MPI_SEEK_SET), "seeking");
    memset(read, 0, sizeof read);
    must(!MPI_File_read_all(file, read, ROUNDS * 100, MPI_CHAR, &status), "reading by a view");
    must(memcmp(block, read, ROUNDS * 100) == 0, "the bytes of a view");
    MPI_Offset size;
    must(!MPI_File_get_size(file, &size) && size == start + ROUNDS * ranks * 100, "the file's size");
    must(!MPI_File_close(&file), "closing the file of all");
    MPI_Type_free(&stride);
}

int main(int count, char **arguments) {
    int rank, ranks;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    each(arguments[1], rank);
    if (count > 2) shared(arguments[1], rank, ranks);
    MPI_Finalize();
    if (rank == 0) printf("%d ranks\n", ranks);
    return 0;
}
