// Walks by `fts_read` through a tree, printed so that walks through equal trees print the same.
#define _GNU_SOURCE
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int by_name(const FTSENT **a, const FTSENT **b) { return strcmp((*a)->fts_name, (*b)->fts_name); }
static int backwards(const FTSENT **a, const FTSENT **b) { return by_name(b, a); }

static size_t root_length;

static void show(const FTSENT *entry, int options) {
    const char *path = entry->fts_path + (strlen(entry->fts_path) < root_length ? 0 : root_length);
    int has_stat = entry->fts_info != FTS_NS && entry->fts_info != FTS_NSOK && !(options & FTS_NOSTAT);
    long long size = has_stat && entry->fts_info != FTS_D && entry->fts_info != FTS_DP && entry->fts_info != FTS_DC && entry->fts_info != FTS_DOT ? entry->fts_statp->st_size : -1;
    // The C library leaves a slash behind the path of a directory whose children were asked for, and which was skipped.
    int length = strlen(path) - (*path && path[strlen(path) - 1] == '/');
    printf("%d %d [%.*s] [%s] %d %lld %ld %s\n", entry->fts_level, entry->fts_info, length, path, entry->fts_name, entry->fts_errno, size, entry->fts_number,
           entry->fts_info == FTS_DC ? entry->fts_cycle->fts_name : "");
    if (entry->fts_namelen != strlen(entry->fts_name) || strncmp(entry->fts_path, entry->fts_accpath, entry->fts_pathlen) || strcmp(entry->fts_accpath, entry->fts_path)) exit(9);
    if (entry->fts_level > 0 && entry->fts_parent->fts_level != entry->fts_level - 1) exit(8);
}

static void walk(char *const roots[], int options, int (*order)(const FTSENT **, const FTSENT **), int asks) {
    printf("-- %x\n", options);
    FTS *tree = fts_open(roots, options | FTS_NOCHDIR, order);
    if (!tree) {
        printf("error %d\n", errno);
        return;
    }
    if (asks)
        for (FTSENT *root = fts_children(tree, 0); root; root = root->fts_link) printf("root %s\n", root->fts_name + root_length);
    FTSENT *entry;
    int again = 0;
    while ((entry = fts_read(tree))) {
        show(entry, options);
        if (asks && entry->fts_info == FTS_D) {
            errno = 5;
            for (FTSENT *child = fts_children(tree, asks == 2 ? FTS_NAMEONLY : 0); child; child = child->fts_link) {
                printf("child %s %d %d\n", child->fts_name, asks == 2 ? 0 : child->fts_info, child->fts_level);
                child->fts_number = 7;
                if (strcmp(child->fts_name, "later") == 0 && fts_set(tree, child, FTS_SKIP)) exit(7);
            }
            if (errno) printf("errno %d\n", errno);
        }
        if (strcmp(entry->fts_name, "skipped") == 0 && fts_set(tree, entry, FTS_SKIP)) exit(6);
        if (asks && strcmp(entry->fts_name, "to_folder") == 0 && entry->fts_info == FTS_SL && fts_set(tree, entry, FTS_FOLLOW)) exit(5);
        if (asks && entry->fts_info == FTS_F && !again++ && fts_set(tree, entry, FTS_AGAIN)) exit(4);
    }
    printf("errno %d\n", errno);
    if (fts_close(tree)) exit(3);
}

int main(int, char **arguments) {
    char root[100], link[100], none[100], *one[] = {root, NULL}, *three[] = {root, none, link, NULL}, *empty[] = {root, "", NULL};
    root_length = strlen(arguments[1]);
    snprintf(root, sizeof root, "%s/tree", arguments[1]);
    snprintf(link, sizeof link, "%s/tree/to_folder", arguments[1]);
    snprintf(none, sizeof none, "%s/none", arguments[1]);
    int every[] = {FTS_PHYSICAL, FTS_LOGICAL, FTS_PHYSICAL | FTS_COMFOLLOW, FTS_PHYSICAL | FTS_SEEDOT, FTS_PHYSICAL | FTS_NOSTAT, FTS_LOGICAL | FTS_NOSTAT, FTS_PHYSICAL | FTS_XDEV};
    for (size_t at = 0; at < sizeof every / sizeof *every; at++)
        for (int asks = 0; asks < 3; asks++) {
            walk(one, every[at], by_name, asks);
            walk(three, every[at], backwards, asks);
        }
    walk(empty, FTS_PHYSICAL, by_name, 0);
    walk(one, 0x1000 | FTS_PHYSICAL, by_name, 0);
    // Some that end early.
    FTS *tree = fts_open(three, FTS_PHYSICAL, by_name);
    for (int steps = 0; steps < 9; steps++) fts_read(tree);
    fts_children(tree, 0);
    if (fts_close(tree)) return 2;
    tree = fts_open(three, FTS_LOGICAL, NULL);
    return fts_close(tree);
}
