// Calls by their numbers, as programs make them that have to run with old C libraries, and a function of a name that the library has, too.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MUST(holds) must(holds, #holds, __LINE__)

static void must(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: %s (errno %d: %s)\n", line, what, errno, strerror(errno));
        exit(1);
    }
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    return syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

int main(void) {
    char text[10] = {0};
    struct statx found;
    struct stat old;
    struct iovec two[] = {{"ab", 2}, {"cd", 2}}, in = {text, 4};
    int fd = syscall(SYS_openat, AT_FDCWD, "/terrace/f", O_CREAT | O_RDWR, 0640);
    MUST(fd >= 0 && syscall(SYS_pwritev, fd, two, 2, 1, 0) == 4 && syscall(SYS_pwritev2, fd, two, 1, 5, 0, 0) == 2);
    MUST(syscall(SYS_preadv, fd, &in, 1, 1, 0) == 4 && strcmp(text, "abcd") == 0 && syscall(SYS_preadv2, fd, &in, 1, 3, 0, 0) == 4 && strcmp(text, "cdab") == 0);
    struct open_how how = {.flags = O_RDONLY};
    int by_how = syscall(SYS_openat2, AT_FDCWD, "/terrace/f", &how, sizeof how);
    MUST(by_how >= 0 && pread(by_how, text, 4, 1) == 4 && memcmp(text, "abcd", 4) == 0 && close(by_how) == 0);
    MUST(syscall(SYS_openat2, AT_FDCWD, "/terrace/f", &how, sizeof how - 1) == -1 && errno == EINVAL);
    MUST(syscall(SYS_openat2, AT_FDCWD, "/terrace/f", NULL, sizeof how) == -1 && errno == EFAULT);
    how.resolve = RESOLVE_BENEATH;
    MUST(syscall(SYS_openat2, AT_FDCWD, "/terrace/f", &how, sizeof how) == -1 && errno == ENOSYS);
    how = (struct open_how){.flags = O_CREAT | O_EXCL | O_WRONLY, .mode = 0640};
    MUST((by_how = syscall(SYS_openat2, AT_FDCWD, "/terrace/how", &how, sizeof how)) >= 0 && write(by_how, "x", 1) == 1 && close(by_how) == 0);
    MUST(syscall(SYS_openat2, AT_FDCWD, "/terrace/how", &how, sizeof how) == -1 && errno == EEXIST && unlink("/terrace/how") == 0);
    how = (struct open_how){.flags = O_RDONLY};
    MUST((by_how = syscall(SYS_openat2, AT_FDCWD, "/dev/zero", &how, sizeof how)) >= 0 && close(by_how) == 0);
    MUST(syscall(SYS_statx, AT_FDCWD, "/terrace/f", 0, STATX_ALL, &found) == 0 && found.stx_size == 7);
    MUST(syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_ALL, &found) == 0 && found.stx_size == 7);
    MUST(syscall(SYS_newfstatat, AT_FDCWD, "/terrace/f", &old, 0) == 0 && old.st_size == 7);
    MUST(syscall(SYS_faccessat2, AT_FDCWD, "/terrace/f", R_OK, 0) == 0 && syscall(SYS_faccessat2, AT_FDCWD, "/terrace/none", R_OK, 0) == -1 && errno == ENOENT);
    int other = syscall(SYS_dup, fd), copy = open("copy", O_CREAT | O_RDWR, 0600);
    MUST(write(other, "w", 1) == 1 && syscall(SYS_lseek, copy, 0, SEEK_CUR) == 0 && syscall(SYS_copy_file_range, fd, NULL, copy, NULL, 9, 0) == 6);
    MUST(pread(copy, text, 6, 0) == 6 && memcmp(text, "abcdab", 6) == 0);
    MUST(syscall(SYS_dup3, copy, other, 0) == other && write(other, "outside", 7) == 7 && fstat(copy, &old) == 0 && old.st_size == 13);
    // A number that was closed is the next file's.
    MUST(syscall(SYS_close, fd) == 0 && open("/dev/zero", O_RDONLY) == fd && read(fd, text, 4) == 4 && text[0] == 0 && close(fd) == 0);
    fd = open("/terrace/f", O_RDWR);
    MUST(syscall(SYS_close_range, fd, fd, 0) == 0 && open("/dev/zero", O_RDONLY) == fd && read(fd, text, 4) == 4 && text[0] == 0);
    MUST(rename("/terrace/f", "/terrace/g") == 0 && renameat2(AT_FDCWD, "/terrace/g", AT_FDCWD, "/terrace/h", 0) == 0 && stat("/terrace/h", &old) == 0);
    // Those that are the kernel's.
    MUST(syscall(SYS_getpid) == getpid() && syscall(SYS_openat, AT_FDCWD, "/none", O_RDONLY, 0) == -1 && errno == ENOENT);
    puts("done");
    return 0;
}
