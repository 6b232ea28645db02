// Makes calls without a library between it and the kernel, and checks each answer.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#define MUST(holds) must(holds, #holds, __LINE__)

static void must(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: %s (errno %d: %s)\n", line, what, errno, strerror(errno));
        exit(1);
    }
}

static int fails(int result, int number) { return result == -1 && errno == number; }

int main(void) {
    char text[100];
    struct stat stat_of;
    MUST(mkdir("/terrace/d", 0750) == 0);
    MUST(fails(mkdir("/terrace/d", 0750), EEXIST));
    // A program that has io_uring falls back to calls without it.
    long parameters[32] = {0};
    MUST(fails(syscall(SYS_io_uring_setup, 1, parameters), ENOSYS));
    int fd = open("/terrace/d/f", O_CREAT | O_EXCL | O_RDWR, 0640);
    MUST(fd >= 0 && write(fd, "words\n", 6) == 6);
    MUST(fails(open("/terrace/d/f", O_CREAT | O_EXCL | O_RDWR, 0640), EEXIST));
    // Who opens a file that is being written sees what is written.
    int other = open("/terrace/./d//f", O_RDONLY);
    MUST(other >= 0 && read(other, text, sizeof text) == 6);
    MUST(stat("/terrace/d/f", &stat_of) == 0 && stat_of.st_size == 6 && (stat_of.st_mode & 07777) == 0640);
    MUST(fsync(fd) == 0 && close(fd) == 0 && close(other) == 0);
    MUST(access("/terrace/d/f", R_OK | W_OK) == 0 && fails(access("/terrace/d/none", F_OK), ENOENT));
    // Appended to, mapped, shortened.
    fd = open("/terrace/d/f", O_WRONLY | O_APPEND);
    MUST(fd >= 0 && write(fd, "more\n", 5) == 5 && close(fd) == 0);
    fd = open("/terrace/d/f", O_RDWR);
    char *mapped = mmap(NULL, 11, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(mapped != MAP_FAILED && memcmp(mapped, "words\nmore\n", 11) == 0);
    memcpy(mapped, "WORDS", 5);
    MUST(munmap(mapped, 11) == 0 && close(fd) == 0);
    MUST(truncate("/terrace/d/f", 8) == 0);
    fd = open("/terrace/d/f", O_RDONLY);
    MUST(read(fd, text, sizeof text) == 8 && memcmp(text, "WORDS\nmo", 8) == 0 && close(fd) == 0);
    // Attributes changed through descriptors, of a file that is written, of one that is read, and of a directory.
    fd = open("/terrace/d/a", O_CREAT | O_WRONLY, 0600);
    MUST(write(fd, "one", 3) == 3 && fchmod(fd, 0755) == 0 && fstat(fd, &stat_of) == 0 && (stat_of.st_mode & 07777) == 0755);
    struct timespec set[2] = {{5, 0}, {7, 900}};
    MUST(stat("/terrace/d/a", &stat_of) == 0 && (stat_of.st_mode & 07777) == 0755 && utimensat(AT_FDCWD, "/terrace/d/a", set, 0) == 0);
    MUST(fstat(fd, &stat_of) == 0 && stat_of.st_mtim.tv_sec == 7 && close(fd) == 0);
    MUST(stat("/terrace/d/a", &stat_of) == 0 && stat_of.st_mtim.tv_sec == 7 && stat_of.st_mtim.tv_nsec == 900 && stat_of.st_atim.tv_sec == 5);
    fd = open("/terrace/d/a", O_WRONLY);
    MUST(futimens(fd, set) == 0 && write(fd, "t", 1) == 1 && close(fd) == 0);
    MUST(stat("/terrace/d/a", &stat_of) == 0 && stat_of.st_mtim.tv_sec > 7 && stat_of.st_size == 3);
    fd = open("/terrace/d/a", O_RDONLY);
    MUST(fchmod(fd, 0640) == 0 && futimens(fd, set) == 0 && fstat(fd, &stat_of) == 0 && (stat_of.st_mode & 07777) == 0640);
    MUST(fails(ftruncate(fd, 1), EINVAL) && stat("/terrace/d/a", &stat_of) == 0 && (stat_of.st_mode & 07777) == 0640);
    MUST(stat_of.st_mtim.tv_sec == 7 && stat_of.st_size == 3 && fchown(fd, getuid(), getgid()) == 0);
    // The kernel gives the number of a closed file to the next one.
    other = open("/terrace/d/b", O_CREAT | O_WRONLY, 0600);
    MUST(close(fd) == 0 && write(other, "x", 1) == 1 && close(other) == 0 && (other = open("/terrace/d/c", O_CREAT | O_WRONLY, 0600)) >= 0);
    MUST(fchmod(other, 0777) == 0 && close(other) == 0 && stat("/terrace/d/c", &stat_of) == 0 && (stat_of.st_mode & 07777) == 0777);
    MUST(stat("/terrace/d/b", &stat_of) == 0 && (stat_of.st_mode & 07777) == 0600 && unlink("/terrace/d/b") == 0 && unlink("/terrace/d/c") == 0);
    fd = open("/terrace/d/a", O_RDONLY);
    // A descriptor for reading is opened once more, for writing.
    snprintf(text, sizeof text, "/proc/self/fd/%d", fd);
    int again = open(text, O_RDWR);
    MUST(again >= 0 && write(again, "TWO", 3) == 3 && close(again) == 0 && close(fd) == 0);
    fd = open("/terrace/d/a", O_RDONLY);
    MUST(read(fd, text, sizeof text) == 3 && memcmp(text, "TWO", 3) == 0 && close(fd) == 0);
    fd = open("/terrace/d", O_RDONLY | O_DIRECTORY);
    MUST(fchmod(fd, 0711) == 0 && close(fd) == 0 && stat("/terrace/d", &stat_of) == 0 && (stat_of.st_mode & 07777) == 0711);
    // Extended attributes, by a descriptor and by the path.
    fd = open("/terrace/d/a", O_WRONLY);
    MUST(fsetxattr(fd, "user.note", "value", 5, XATTR_CREATE) == 0 && fails(fsetxattr(fd, "user.note", "v", 1, XATTR_CREATE), EEXIST));
    MUST(fgetxattr(fd, "user.note", text, sizeof text) == 5 && write(fd, "T", 1) == 1 && close(fd) == 0);
    MUST(getxattr("/terrace/d/a", "user.note", text, sizeof text) == 5 && memcmp(text, "value", 5) == 0);
    MUST(fails(getxattr("/terrace/d/a", "user.note", text, 4), ERANGE) && fails(getxattr("/terrace/d/a", "user.none", text, 4), ENODATA));
    MUST(setxattr("/terrace/d/a", "user.b", "", 0, 0) == 0 && listxattr("/terrace/d/a", NULL, 0) == 17);
    MUST(listxattr("/terrace/d/a", text, sizeof text) == 17 && memcmp(text, "user.b\0user.note", 17) == 0);
    MUST(removexattr("/terrace/d/a", "user.b") == 0 && fails(setxattr("/terrace/d/a", "trusted.x", "", 0, 0), EOPNOTSUPP));
    // Cut to nothing and appended to, by one descriptor.
    fd = open("/terrace/d/a", O_WRONLY | O_APPEND);
    MUST(write(fd, "three", 5) == 5 && ftruncate(fd, 0) == 0 && write(fd, "four", 4) == 4 && ftruncate(fd, 3) == 0 && close(fd) == 0);
    fd = open("/terrace/d/a", O_RDONLY);
    MUST(read(fd, text, sizeof text) == 3 && memcmp(text, "fou", 3) == 0 && close(fd) == 0 && unlink("/terrace/d/a") == 0);
    // Names.
    MUST(rename("/terrace/d/f", "/terrace/d/g") == 0 && fails(stat("/terrace/d/f", &stat_of), ENOENT));
    MUST(fails(rename("/terrace/d/g", "elsewhere"), EXDEV) && fails(link("/terrace/d/g", "/terrace/l"), EPERM));
    MUST(symlink("d/g", "/terrace/link") == 0 && readlink("/terrace/link", text, sizeof text) == 3);
    MUST(stat("/terrace/link", &stat_of) == 0 && stat_of.st_size == 8);
    MUST(lstat("/terrace/link", &stat_of) == 0 && S_ISLNK(stat_of.st_mode));
    MUST(chmod("/terrace/link", 0600) == 0 && stat("/terrace/d/g", &stat_of) == 0 && (stat_of.st_mode & 07777) == 0600);
    struct timespec times[2] = {{1, 0}, {2, 500}};
    MUST(utimensat(AT_FDCWD, "/terrace/d/g", times, 0) == 0 && stat("/terrace/d/g", &stat_of) == 0);
    MUST(stat_of.st_mtim.tv_sec == 2 && stat_of.st_mtim.tv_nsec == 500);
#ifdef SYS_utime
    // Calls that the C library does not make any more, and newer processors do not have.
    struct utimbuf seconds = {3, 4};
    struct timeval micros[2] = {{5, 6}, {7, 8}};
    MUST(syscall(SYS_utime, "/terrace/link", &seconds) == 0 && stat("/terrace/d/g", &stat_of) == 0);
    MUST(stat_of.st_atim.tv_sec == 3 && stat_of.st_mtim.tv_sec == 4 && stat_of.st_mtim.tv_nsec == 0);
    MUST(syscall(SYS_utimes, "/terrace/d/g", micros) == 0 && stat("/terrace/d/g", &stat_of) == 0);
    MUST(stat_of.st_atim.tv_sec == 5 && stat_of.st_mtim.tv_sec == 7 && stat_of.st_mtim.tv_nsec == 8000);
    micros[1].tv_usec = 1000000;
    MUST(fails(syscall(SYS_futimesat, AT_FDCWD, "/terrace/d/g", micros), EINVAL));
    MUST(syscall(SYS_futimesat, AT_FDCWD, "/terrace/d/g", NULL) == 0 && stat("/terrace/d/g", &stat_of) == 0);
    MUST(stat_of.st_mtim.tv_sec > 1000000000);
#endif
    MUST(symlink("../outside", "/terrace/out") == 0 && fails(stat("/terrace/out", &stat_of), EXDEV) && unlink("/terrace/out") == 0);
    // A listing, and what is in it.
    DIR *stream = opendir("/terrace/d");
    int seen = 0;
    for (struct dirent *entry; stream && (entry = readdir(stream));) seen += strcmp(entry->d_name, "g") == 0;
    MUST(seen == 1 && fstatat(dirfd(stream), "g", &stat_of, 0) == 0 && stat_of.st_size == 8);
    MUST(fstatat(dirfd(stream), "../link", &stat_of, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(stat_of.st_mode));
    MUST(stat("/terrace/..", &stat_of) == 0 && S_ISDIR(stat_of.st_mode) && stat("/terrace/d/../link", &stat_of) == 0);
    MUST(fails(rmdir("/terrace/d"), ENOTEMPTY) && unlinkat(dirfd(stream), "g", 0) == 0 && closedir(stream) == 0);
    MUST(rmdir("/terrace/d") == 0 && unlink("/terrace/link") == 0);
    // A removed file is not placed.
    fd = open("/terrace/gone", O_CREAT | O_WRONLY, 0600);
    MUST(write(fd, "x", 1) == 1 && unlink("/terrace/gone") == 0 && close(fd) == 0);
    MUST(fails(open("/terrace/gone", O_RDONLY), ENOENT) && fails(open("/terrace/none/x", O_CREAT | O_WRONLY, 0600), ENOENT));
    // Other paths are the kernel's.
    MUST(stat("/terraces", &stat_of) == -1 && stat("/", &stat_of) == 0 && open("outside", O_CREAT | O_WRONLY, 0600) >= 0);
    // One that stays open is placed at the end.
    fd = open("/terrace/last", O_CREAT | O_WRONLY, 0600);
    MUST(write(fd, "last\n", 5) == 5);
    puts("all answers are right");
    return 7;
}
