// One thread writes to the store, whose engine opens files meanwhile; another one must get the lowest number that is free, each time.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int is_done;

static void *write_much(void *argument) {
    int fd = *(int *)argument;
    static char bytes[1 << 20];
    for (int i = 0; i < 160; i++) {
        bytes[i] = i;
        if (pwrite(fd, bytes, sizeof bytes, (off_t)i << 20) != sizeof bytes || (i % 4 == 0 && fsync(fd) != 0)) {
            perror("a write");
            exit(1);
        }
    }
    is_done = 1;
    return NULL;
}

int main(void) {
    int fd = open("/terrace/much", O_CREAT | O_RDWR, 0600), lowest = dup(0), higher = 0, lost = 0;
    pthread_t thread;
    if (fd < 0 || close(lowest) != 0 || pthread_create(&thread, NULL, write_much, &fd) != 0) return 2;
    while (!is_done) {
        int copy = dup(0);
        higher += copy != lowest;
        // The engine does not wait for all opens, so its number may be a higher one.
        close(open("/dev/null", O_RDONLY));
        close(copy);
        // To a number that the engine may have for a moment: the copy must stay.
        lost += dup2(0, lowest) != lowest || fcntl(lowest, F_GETFD) < 0 || close(lowest) != 0;
    }
    pthread_join(thread, NULL);
    printf("%d higher, %d lost\n", higher, lost);
    return 0;
}
