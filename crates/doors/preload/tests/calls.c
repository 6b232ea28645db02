// Calls that few programs make, or only those that were compiled with checks or for older C libraries.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#define MUST(holds) must(holds, #holds, __LINE__)

static void must(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: %s (errno %d: %s)\n", line, what, errno, strerror(errno));
        exit(1);
    }
}

static int fails(long result, int number) { return result == -1 && errno == number; }

// Each number that the compiler does not know needs the check at run time.
static volatile size_t length = 100, one = 1;

static void current_directory(void) {
    char path[PATH_MAX];
    int outside = open(".", O_RDONLY);
    MUST(mkdir("/terrace/d", 0755) == 0 && chdir("/terrace/d") == 0);
    MUST(getcwd(path, length) == path && strcmp(path, "/terrace/d") == 0);
    char *(*checked)(char *, size_t, size_t) = (char *(*)(char *, size_t, size_t))dlsym(RTLD_DEFAULT, "__getcwd_chk");
    MUST(checked(path, length, sizeof path) == path && strcmp(path, "/terrace/d") == 0);
    char *(*older)(char *) = (char *(*)(char *))dlsym(RTLD_DEFAULT, "getwd");
    strcpy(path, "none");
    MUST(older(path) == path && strcmp(path, "/terrace/d") == 0);
    MUST(fchdir(outside) == 0 && close(outside) == 0);
}

static void nodes(void) {
    struct stat found;
    dev_t device = 0;
    int (*older)(int, const char *, mode_t, dev_t *) = (int (*)(int, const char *, mode_t, dev_t *))dlsym(RTLD_DEFAULT, "__xmknod");
    int (*older_at)(int, int, const char *, mode_t, dev_t *) =
        (int (*)(int, int, const char *, mode_t, dev_t *))dlsym(RTLD_DEFAULT, "__xmknodat");
    MUST(older(0, "/terrace/node", S_IFREG | 0600, &device) == 0 && stat("/terrace/node", &found) == 0 && found.st_size == 0);
    MUST(fails(older(0, "/terrace/node", S_IFREG | 0600, &device), EEXIST));
    MUST(fails(older_at(0, AT_FDCWD, "/terrace/pipe", S_IFIFO | 0600, &device), EPERM));
    MUST(older(0, "node", S_IFIFO | 0600, &device) == 0 && stat("node", &found) == 0 && S_ISFIFO(found.st_mode) && unlink("node") == 0);
}

static void waiting(void) {
    int ends[2];
    MUST(pipe(ends) == 0);
    struct timespec no_time = {0, 0};
    int fd = open("/terrace/polled", O_CREAT | O_RDWR, 0600);
    struct pollfd all[2] = {{fd, POLLIN, 0}, {ends[0], POLLIN, 0}};
    MUST(ppoll(all, one + 1, NULL, NULL) == 1 && all[0].revents == POLLIN && all[1].revents == 0);
    int (*checked)(struct pollfd *, nfds_t, const struct timespec *, const void *, size_t) =
        (int (*)(struct pollfd *, nfds_t, const struct timespec *, const void *, size_t))dlsym(RTLD_DEFAULT, "__ppoll_chk");
    MUST(write(ends[1], "x", 1) == 1 && checked(all, 2, &no_time, NULL, sizeof all) == 2 && all[1].revents == POLLIN);
    MUST(close(fd) == 0);
}

static int execute(int dir, const char *path, int flags) {
    char *arguments[] = {"printed", "by a child", NULL};
    pid_t child = fork();
    if (child == 0) {
        execveat(dir, path, arguments, environ, flags);
        _exit(errno);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void programs(void) {
    char buffer[1 << 16];
    int from = open("/proc/self/exe", O_RDONLY), to = open("/terrace/d/program", O_CREAT | O_WRONLY, 0755);
    ssize_t part;
    while ((part = read(from, buffer, sizeof buffer)) > 0) MUST(write(to, buffer, part) == part);
    MUST(close(from) == 0 && close(to) == 0 && symlink("program", "/terrace/d/link") == 0);
    int dir = open("/terrace/d", O_RDONLY | O_DIRECTORY), program = open("/terrace/d/program", O_RDONLY);
    MUST(execute(dir, "program", 0) == 40 && execute(AT_FDCWD, "/terrace/d/link", 0) == 40);
    MUST(execute(program, "", AT_EMPTY_PATH) == 40);
    MUST(execute(dir, "link", AT_SYMLINK_NOFOLLOW) == ELOOP && execute(dir, "none", 0) == ENOENT);
    MUST(execute(AT_FDCWD, "/bin/true", 0) == 0 && execute(open("/bin", O_RDONLY), "false", 0) == 1);
    MUST(close(dir) == 0 && close(program) == 0);
}

static int listed(int fd, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int printed = vdprintf(fd, format, arguments);
    va_end(arguments);
    return printed;
}

static void formatted(void) {
    char text[300] = {0};
    int fd = open("/terrace/text", O_CREAT | O_RDWR, 0600);
    MUST(dprintf(fd, "%d %s %.2f|", 42, "words", 2.5) == 14);
    // More than there are registers for.
    MUST(dprintf(fd, "%d%d%d%d%d%d%d%.0f%.0f%.0f%.0f%.0f%.0f%.0f%.0f%.0f%c", 1, 2, 3, 4, 5, 6, 7, 1., 2., 3., 4., 5., 6., 7., 8., 9., '|') == 17);
    MUST(listed(fd, "%s%ld", "listed", 7L) == 7);
    MUST(pread(fd, text, sizeof text, 0) == 38 && strcmp(text, "42 words 2.50|1234567123456789|listed7") == 0);
    int null = open("/dev/null", O_WRONLY), reading = open("/terrace/text", O_RDONLY);
    MUST(dprintf(null, "%d", 5) == 1 && fails(dprintf(reading, "%d", 5), EBADF) && close(reading) == 0 && close(fd) == 0);
    MUST(setlocale(LC_ALL, "C.UTF-8") != NULL);
    FILE *file = fopen("/terrace/wide", "w");
    MUST(fwprintf(file, L"%ls %d %.1f \u20ac%s\n", L"gr\u00fcn", 7, 0.5, "bytes") == 18 && fwprintf(file, L"none\n") == 5 && fclose(file) == 0);
    file = fopen("/terrace/wide", "r");
    MUST(fgets(text, sizeof text, file) && strcmp(text, "gr\u00fcn 7 0.5 \u20acbytes\n") == 0 && fgets(text, sizeof text, file) && strcmp(text, "none\n") == 0);
    MUST(fclose(file) == 0);
    // A stream of the C library's own, which has wide characters.
    file = fopen("wide", "w+");
    MUST(fwprintf(file, L"%d\n", 7) == 2 && fclose(file) == 0);
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[0], "printed") == 0) {
        return strcmp(arguments[1], "by a child") == 0 ? 40 : 41;
    }
    if (count > 1) {
        // `/tmp` is below the prefix: the file is the store's, so the kernel cannot read it.
        char text[10] = {0};
        FILE *file = tmpfile();
        MUST(file && fputs("words", file) >= 0 && fseek(file, 1, SEEK_SET) == 0 && fgets(text, 10, file) && strcmp(text, "ords") == 0);
        MUST(fails(syscall(SYS_pread64, fileno(file), text, 5, 0), EBADF) && fclose(file) == 0);
        return 0;
    }
    current_directory();
    nodes();
    waiting();
    programs();
    formatted();
    FILE *file = tmpfile();
    MUST(file && fputs("outside", file) >= 0 && fflush(file) == 0 && syscall(SYS_lseek, fileno(file), 0, SEEK_CUR) == 7 && fclose(file) == 0);
    // Through standard output, which goes to the store.
    MUST(freopen("/terrace/out", "w", stdout) != NULL && wprintf(L"%ls %d\n", L"wide \u20ac", 7) == 9);
    return 0;
}
