// Children whose files and directories are chosen by actions of `posix_spawn`.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(holds) must(holds, #holds, __LINE__)

static void must(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: %s (errno %d: %s)\n", line, what, errno, strerror(errno));
        exit(1);
    }
}

extern char **environ;
static posix_spawn_file_actions_t actions;

static void begin(void) { MUST(posix_spawn_file_actions_init(&actions) == 0); }

// Runs a program with the actions. Returns its exit code, or the error number as a negative one.
static int run(const char *path, char *const arguments[]) {
    pid_t child;
    int status, failed = posix_spawnp(&child, path, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed) return -failed;
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int shell(const char *script) { return run("sh", (char *[]){"sh", "-euc", (char *)script, NULL}); }
static int add_open(int fd, const char *path, int flags) { return posix_spawn_file_actions_addopen(&actions, fd, path, flags, 0640); }
static int add_copy(int from, int to) { return posix_spawn_file_actions_adddup2(&actions, from, to); }
static int add_chdir(const char *path) { return posix_spawn_file_actions_addchdir_np(&actions, path); }

static const char *contents(const char *path) {
    static char text[200];
    int fd = open(path, O_RDONLY);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    MUST(length >= 0 && close(fd) == 0);
    text[length] = 0;
    return text;
}

static void write_file(const char *path, const char *text) {
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0755);
    MUST(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

#define NEW (O_CREAT | O_TRUNC | O_WRONLY)

static void files(void) {
    begin();
    MUST(add_open(1, "/terrace/out", NEW) == 0 && add_copy(1, 2) == 0);
    MUST(shell("echo out; echo error >&2; /bin/echo again; /bin/echo last >&2") == 0);
    MUST(strcmp(contents("/terrace/out"), "out\nerror\nagain\nlast\n") == 0);
    // The file was made by this process, and another one wrote it: both know its length.
    begin();
    MUST(add_open(0, "/terrace/out", O_RDONLY) == 0 && add_open(1, "/terrace/out", O_WRONLY | O_APPEND) == 0);
    MUST(add_open(7, "/terrace/seven", NEW | O_EXCL) == 0);
    MUST(shell("read first; echo $first $first; head -c 100 >&7; stat -c %a /terrace/seven >&7") == 0);
    MUST(strcmp(contents("/terrace/out"), "out\nerror\nagain\nlast\nout out\n") == 0);
    MUST(strcmp(contents("/terrace/seven"), "error\nagain\nlast\nout out\n640\n") == 0);
    // The child has numbers that this process has not, and none of those that were closed for it.
    int shared = open("/terrace/shared", O_CREAT | O_RDWR, 0600);
    MUST(write(shared, "parent ", 7) == 7);
    begin();
    MUST(add_copy(shared, 5) == 0 && posix_spawn_file_actions_addclosefrom_np(&actions, 6) == 0);
    MUST(add_open(1, "/terrace/behind", NEW) == 0 && add_copy(1, 60) == 0 && add_copy(5, 1) == 0);
    MUST(posix_spawn_file_actions_addclose(&actions, 5) == 0);
    MUST(shell("echo child; echo behind > /dev/fd/60; test ! -e /dev/fd/5") == 0);
    MUST(lseek(shared, 0, SEEK_CUR) == 13 && close(shared) == 0);
    MUST(strcmp(contents("/terrace/shared"), "parent child\n") == 0 && strcmp(contents("/terrace/behind"), "behind\n") == 0);
}

static void directories(void) {
    MUST(mkdir("/terrace/d", 0755) == 0 && mkdir("/terrace/d/e", 0755) == 0);
    write_file("/terrace/d/e/program", "#!/bin/sh\npwd -P\necho \"$@\" > ../written\n");
    begin();
    MUST(add_chdir("/terrace/d") == 0 && add_chdir("e") == 0 && add_open(1, "printed", NEW) == 0);
    MUST(run("./program", (char *[]){"./program", "one", "two", NULL}) == 0);
    MUST(strcmp(contents("/terrace/d/e/printed"), "/terrace/d/e\n") == 0 && strcmp(contents("/terrace/d/written"), "one two\n") == 0);
    // The directory of a descriptor, its own and another number.
    int directory = open("/terrace/d/e", O_RDONLY | O_DIRECTORY);
    begin();
    MUST(add_copy(directory, 40) == 0 && posix_spawn_file_actions_addfchdir_np(&actions, 40) == 0 && add_open(1, "../printed", NEW) == 0);
    MUST(shell("pwd -P") == 0 && strcmp(contents("/terrace/d/printed"), "/terrace/d/e\n") == 0);
    begin();
    MUST(add_open(41, "/terrace/d", O_RDONLY | O_DIRECTORY) == 0 && posix_spawn_file_actions_addfchdir_np(&actions, 41) == 0);
    MUST(shell("pwd -P > here; test -d e") == 0 && close(directory) == 0 && strcmp(contents("/terrace/d/here"), "/terrace/d\n") == 0);
    // Out of the store and into it again; this process is below the prefix meanwhile, and stays there.
    MUST(chdir("/terrace/d") == 0);
    begin();
    MUST(add_chdir("/") == 0 && add_open(1, "terrace/d/again", NEW) == 0 && add_chdir("/terrace/d/../d/e") == 0 && add_open(0, "../here", O_RDONLY) == 0);
    MUST(shell("cat; pwd") == 0 && strcmp(contents("again"), "/terrace/d\n/terrace/d/e\n") == 0);
    begin();
    MUST(add_chdir("/tmp") == 0 && shell("test $(pwd -P) = /tmp; test -e /terrace/d/again; test ! -e again") == 0);
    MUST(strcmp(getcwd(NULL, 0), "/terrace/d") == 0 && chdir("/") == 0);
}

static void errors(void) {
    begin();
    MUST(add_open(1, "/terrace/none/out", NEW) == 0 && shell("true") == -ENOENT);
    begin();
    MUST(add_open(1, "/terrace/d", NEW) == 0 && shell("true") == -EISDIR);
    begin();
    MUST(add_open(1, "/terrace/out", NEW | O_EXCL) == 0 && shell("true") == -EEXIST);
    begin();
    MUST(add_chdir("/terrace/out") == 0 && shell("true") == -ENOTDIR);
    begin();
    MUST(add_chdir("/terrace/none") == 0 && shell("true") == -ENOENT);
    // Nothing of them is open here.
    int next = dup(0);
    MUST(next == 3 && close(next) == 0);
}

// The kernel lets no other process look at the files of one that has changed its user.
static void as_nobody(void) {
    MUST(setresuid(65534, 65534, 65534) == 0 && prctl(PR_GET_DUMPABLE) == 0);
    begin();
    MUST(add_open(1, "/terrace/nobodys", NEW) == 0 && shell("id -u") == 0 && strcmp(contents("/terrace/nobodys"), "65534\n") == 0);
    begin();
    MUST(run("/terrace/echo", (char *[]){"echo", "by nobody", NULL}) == 0);
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "nobody") == 0) {
        as_nobody();
        return 0;
    }
    files();
    directories();
    errors();
    puts("done");
    return 0;
}
