// Asynchronous requests, walks through trees, and a library in the store.
#define _GNU_SOURCE
#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MUST(holds) must(holds, #holds, __LINE__)

static void must(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: %s (errno %d: %s)\n", line, what, errno, strerror(errno));
        exit(1);
    }
}

static volatile sig_atomic_t signals;
static sem_t told;

static void count_signal(int number, siginfo_t *info, void *context) { signals += info->si_value.sival_int; }
static void tell(union sigval value) { sem_post(value.sival_ptr); }

static void requests(void) {
    char text[20] = {0}, plain[20] = {0};
    int fd = open("/terrace/aio", O_CREAT | O_RDWR, 0600), other = open("other", O_CREAT | O_RDWR, 0600);
    struct sigaction action = {.sa_sigaction = count_signal, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGUSR1, &action, NULL) == 0 && sem_init(&told, 0, 0) == 0);
    struct aiocb write_one = {.aio_fildes = fd, .aio_buf = "0123456789", .aio_nbytes = 10, .aio_offset = 5};
    write_one.aio_sigevent = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 7};
    MUST(aio_write(&write_one) == 0);
    const struct aiocb *all[] = {&write_one};
    MUST(aio_suspend(all, 1, NULL) == 0 && aio_error(&write_one) == 0 && aio_return(&write_one) == 10 && signals == 7);
    struct aiocb read_one = {.aio_fildes = fd, .aio_buf = text, .aio_nbytes = 20, .aio_offset = 8};
    read_one.aio_sigevent = (struct sigevent){.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tell, .sigev_value.sival_ptr = &told};
    MUST(aio_read(&read_one) == 0 && sem_wait(&told) == 0 && aio_error(&read_one) == 0 && aio_return(&read_one) == 7);
    MUST(memcmp(text, "3456789", 7) == 0 && aio_cancel(fd, &read_one) == AIO_ALLDONE);
    MUST(aio_fsync(O_SYNC, &write_one) == 0 && aio_error(&write_one) == 0);
    // Requests for a file of the store and for an ordinary one, in one list.
    struct aiocb here = {.aio_fildes = fd, .aio_buf = "ab", .aio_nbytes = 2, .aio_lio_opcode = LIO_WRITE};
    struct aiocb there = {.aio_fildes = other, .aio_buf = "cd", .aio_nbytes = 2, .aio_lio_opcode = LIO_WRITE};
    struct aiocb *list[] = {&here, NULL, &there};
    MUST(lio_listio(LIO_WAIT, list, 3, NULL) == 0 && aio_return(&here) == 2 && aio_return(&there) == 2);
    MUST(pread(fd, text, 2, 0) == 2 && memcmp(text, "ab", 2) == 0 && pread(other, plain, 2, 0) == 2 && memcmp(plain, "cd", 2) == 0);
    struct aiocb wrong = {.aio_fildes = fd, .aio_buf = text, .aio_nbytes = 1, .aio_offset = -1};
    MUST(aio_read(&wrong) == 0 && aio_error(&wrong) == EINVAL && aio_return(&wrong) == -1);
    MUST(close(fd) == 0);
}

static char seen[500];
static int skips;

static int visit(const char *path, const struct stat *found, int kind, struct FTW *place) {
    char line[100];
    snprintf(line, sizeof line, "%s %d %d %lld;", path + place->base, kind, place->level, S_ISREG(found->st_mode) ? (long long)found->st_size : -1);
    strcat(seen, line);
    return skips && strcmp(path + place->base, "skip") == 0 ? FTW_SKIP_SUBTREE : FTW_CONTINUE;
}

static int count(const char *path, const struct stat *found, int kind) { return kind == FTW_F ? 0 : kind == FTW_D ? 0 : 9; }

static void walks(void) {
    MUST(mkdir("/terrace/t", 0755) == 0 && mkdir("/terrace/t/a", 0755) == 0 && mkdir("/terrace/t/skip", 0755) == 0);
    FILE *file = fopen("/terrace/t/a/f", "w");
    MUST(fputs("five!", file) > 0 && fclose(file) == 0 && fclose(fopen("/terrace/t/skip/g", "w")) == 0);
    MUST(symlink("a", "/terrace/t/z") == 0);
    skips = 1;
    MUST(nftw("/terrace/t", visit, 10, FTW_PHYS | FTW_ACTIONRETVAL) == 0);
    MUST(strcmp(seen, "t 1 0 -1;a 1 1 -1;f 0 2 5;skip 1 1 -1;z 4 1 -1;") == 0);
    seen[0] = skips = 0;
    MUST(nftw("/terrace/t", visit, 10, FTW_DEPTH | FTW_PHYS) == 0);
    MUST(strcmp(seen, "f 0 2 5;a 5 1 -1;g 0 2 0;skip 5 1 -1;z 4 1 -1;t 5 0 -1;") == 0);
    MUST(ftw("/terrace/t", count, 10) == 0 && ftw("/terrace/none", count, 10) == -1 && errno == ENOENT);
}

int main(void) {
    requests();
    walks();
    void *library = dlopen("/terrace/libanswer.so", RTLD_NOW);
    MUST(library != NULL && library == dlopen("/terrace/libanswer.so", RTLD_NOW));
    int (*answer)(void) = (int (*)(void))dlsym(library, "answer");
    MUST(answer != NULL && answer() == 42);
    MUST(dlopen("/terrace/none.so", RTLD_NOW) == NULL && strstr(dlerror(), "No such file") != NULL);
    MUST(dlopen("libm.so.6", RTLD_NOW) != NULL);
    puts("done");
    return 0;
}
