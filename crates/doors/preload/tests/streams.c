/* Uses streams on files of the store. */
#include <dirent.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

static int keep_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void *wait_for_bytes(void *pipe_end) {
    char byte;
    return (void *)read(*(int *)pipe_end, &byte, 1);
}

int main(int count, char **arguments) {
    if (count > 1) {
        char word[20];
        CHECK(scanf("%19s", word) == 1);
        printf("read %s\n", word);
        return 0;
    }
    FILE *file = fopen("/terrace/a", "w+");
    CHECK(file && fileno(file) > 2 && fprintf(file, "number %d\n", 42) == 10);
    rewind(file);
    int number;
    CHECK(fscanf(file, "number %d\n", &number) == 1 && number == 42);
    CHECK(fseek(file, -3, SEEK_END) == 0 && ftell(file) == 7 && fgetc(file) == '4');
    CHECK(fclose(file) == 0);

    file = fopen("/terrace/a", "a");
    CHECK(file && fputs("more\n", file) >= 0 && fclose(file) == 0);
    file = fopen("/terrace/a", "r");
    char *line = NULL;
    size_t room = 0;
    CHECK(getline(&line, &room, file) == 10 && getline(&line, &room, file) == 5 && strcmp(line, "more\n") == 0);
    CHECK(getline(&line, &room, file) == -1 && feof(file));
    CHECK(freopen("/terrace/b", "w", file) == file && fputs("reopened", file) >= 0 && fclose(file) == 0);
    CHECK(fopen("/terrace/none", "r") == NULL && fopen("/terrace/a", "wx") == NULL);

    char name[] = "/terrace/XXXXXX";
    int descriptor = mkstemp(name);
    CHECK(descriptor > 2 && write(descriptor, "12345", 5) == 5);
    file = fdopen(descriptor, "r+");
    char part[4] = "";
    CHECK(file && fseek(file, 1, SEEK_SET) == 0 && fread(part, 1, 3, file) == 3 && strcmp(part, "234") == 0);
    CHECK(fclose(file) == 0 && remove(name) == 0 && access(name, F_OK) == -1);

    struct dirent **entries;
    int found = scandir("/terrace", &entries, keep_visible, alphasort);
    CHECK(found == 2 && strcmp(entries[0]->d_name, "a") == 0 && strcmp(entries[1]->d_name, "b") == 0);

    glob_t names;
    CHECK(glob("/terrace/[ab]", 0, NULL, &names) == 0 && names.gl_pathv[2] == NULL);
    CHECK(strcmp(names.gl_pathv[1], "/terrace/b") == 0);

    int ends[2];
    pthread_t thread;
    void *result;
    CHECK(pipe(ends) == 0 && pthread_create(&thread, NULL, wait_for_bytes, &ends[0]) == 0);
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);

    file = popen("wc -c < /terrace/b", "r");
    CHECK(file && fscanf(file, "%d", &number) == 1 && number == 8 && pclose(file) == 0);

    CHECK(freopen("/terrace/out", "w", stdout) != NULL);
    puts("to the store");
    CHECK(printf("by printf %d\n", 7) == 12);
    return 0;
}
