// Writes files of numbers, one after the other.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    int done = open("done", O_WRONLY | O_APPEND);
    for (int file = 1; file < 1000; file++) {
        char path[50], line[20];
        snprintf(path, sizeof path, "/terrace/w/%d", file);
        FILE *stream = fopen(path, "w");
        for (int number = 0; number < 60000; number++) {
            if (fprintf(stream, "%d\n", number) < 0) return 1;
        }
        if (fclose(stream)) return 1;
        int length = snprintf(line, sizeof line, "%d\n", file);
        if (write(done, line, length) != length) return 1;
    }
    return 0;
}
