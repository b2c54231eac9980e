// Writes records by a descriptor that is replaced by others meanwhile, or in vain; closes files while another thread stands
// still in a handler of a signal that interrupted a read; has a process made that closes its descriptors; and copies and
// closes descriptors that other threads replace.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORD = 64, ROUNDS = 1000, FIRST = 64, LARGE = 16 << 20 };

static char *folder;

static int opened(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) { perror(path); exit(1); }
    return fd;
}

static int logs;
static volatile int stop;
static long written;

static void *writer(void *unused) {
    char record[RECORD];
    memset(record, 'r', RECORD);
    for (written = 0; !stop; written++)
        if (write(logs, record, RECORD) != RECORD) { perror("write"); exit(1); }
    return unused;
}

static long records(int fd) {
    struct stat found;
    if (fstat(fd, &found)) exit(1);
    return found.st_size / RECORD;
}

static void written_while(void work(int *), int *files) {
    pthread_t thread;
    stop = 0;
    pthread_create(&thread, NULL, writer, NULL);
    for (int round = 0; round < ROUNDS; round++, usleep(100)) work(files + round % 2);
    stop = 1;
    pthread_join(thread, NULL);
}

static void replace(int *file) { dup2(*file, logs); }
static void fail(int *file) { (void)file; dup2(9999, logs); }

static void rotated(void) {
    int files[] = {opened("one"), opened("two")}, changed = 0;
    char record[RECORD];
    memset(record, 'f', RECORD);
    for (int at = 0; at < 2 * FIRST; at++) if (write(files[at % 2], record, RECORD) != RECORD) exit(1);
    logs = dup(files[0]);
    written_while(replace, files);
    for (int at = 0; at < 2 * FIRST; at++)
        changed += pread(files[at % 2], record, 1, at / 2 * RECORD) != 1 || record[0] != 'f';
    printf("rotated: %ld lost, %d overwritten\n", written + 2 * FIRST - records(files[0]) - records(files[1]), changed);
}

static void kept(void) {
    logs = opened("kept");
    written_while(fail, (int[]){0, 0});
    printf("kept: %ld lost\n", written - records(logs));
}

static sem_t stopped, resumed;

static void handle(int signal) {
    (void)signal;
    sem_post(&stopped);
    while (sem_wait(&resumed)) {}
}

static int large;

static void *reader(void *bytes) {
    while (!stop) if (pread(large, bytes, LARGE, 0) != LARGE) exit(1);
    return bytes;
}

static void world(void) {
    char *bytes = calloc(2, LARGE);
    pthread_t thread;
    large = opened("large");
    if (pwrite(large, bytes, LARGE, 0) != LARGE) exit(1);
    sem_init(&stopped, 0, 0);
    sem_init(&resumed, 0, 0);
    signal(SIGUSR1, handle);
    stop = 0;
    pthread_create(&thread, NULL, reader, bytes);
    alarm(60);
    int round = 0;
    for (; round < 20; round++) {
        usleep(5000);
        pthread_kill(thread, SIGUSR1);
        sem_wait(&stopped);
        int fd = opened("small");
        if (write(fd, bytes, 1) != 1 || close(fd)) exit(1);
        sem_post(&resumed);
    }
    alarm(0);
    stop = 1;
    pthread_join(thread, NULL);
    printf("the world was stopped: %d\n", round);
}

static int shared;

static int child(void *unused) {
    (void)unused;
    close(shared);
    return open("/dev/null", O_RDWR) != shared;
}

static void descriptors(void) {
    char bytes[8] = "", *stack = malloc(1 << 20);
    int status = 1;
    shared = opened("shared");
    for (int at = 0; at < 30; at++) if (pwrite(shared, "secret", 6, 0) != 6) exit(1);
    waitpid(clone(child, stack + (1 << 20), CLONE_FILES | SIGCHLD, NULL), &status, 0);
    printf("closed by another process: %d, read %zd\n", status, pread(shared, bytes, 6, 0));
}

enum { BASES = 3, NUMBERS = 8, LOWEST = 40, TURNS = 3000, ALL = 6, TIMES = 40 };

static int bases[BASES];
static ino_t inodes[BASES];

static void begin_bases(void) {
    for (int at = 0; at < BASES; at++) {
        char name[] = "base0", byte = 'A' + at;
        struct stat found;
        name[4] += at;
        bases[at] = opened(name);
        for (int time = 0; time < 30; time++) if (pwrite(bases[at], &byte, 1, 0) != 1) exit(1);
        if (fstat(bases[at], &found)) exit(1);
        inodes[at] = found.st_ino;
    }
}

// Whether a read by `fd` is of another file than the kernel has there.
static int is_astray(int fd) {
    struct stat found;
    char byte = 0, of = 0;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_fstat), "D"((long)fd), "S"(&found) : "rcx", "r11", "memory");
    for (int at = 0; result == 0 && at < BASES; at++) if (found.st_ino == inodes[at]) of = 'A' + at;
    pread(fd, &byte, 1, 0);
    return byte != of;
}

static void *turner(void *unused) {
    for (int at = 0; !stop; at++) dup2(bases[at & 1], LOWEST);
    return unused;
}

static void turned(void) {
    int astray = 0;
    pthread_t thread;
    stop = 0;
    dup2(bases[0], LOWEST);
    pthread_create(&thread, NULL, turner, NULL);
    for (int turn = 0; turn < TURNS; turn++) {
        dup2(LOWEST, LOWEST + 1);
        astray += is_astray(LOWEST + 1);
    }
    stop = 1;
    pthread_join(thread, NULL);
    printf("copied while it was turned over: %d astray\n", astray);
}

static void *changer(void *seed) {
    unsigned next = (unsigned)(size_t)seed;
    while (!stop) {
        int fd = LOWEST + rand_r(&next) % NUMBERS, other = LOWEST + rand_r(&next) % NUMBERS;
        switch (rand_r(&next) % 6) {
        case 0: case 1: dup2(bases[rand_r(&next) % BASES], fd); break;
        case 2: if (fd != other) dup2(fd, other); break;
        case 3: close(fd); break;
        case 4: close_range(fd, fd + 1 < LOWEST + NUMBERS ? fd + 1 : fd, 0); break;
        case 5: other = fcntl(fd, F_DUPFD, LOWEST + NUMBERS); if (other >= 0) close(other); break;
        }
    }
    return NULL;
}

static void together(void) {
    int astray = 0;
    pthread_t threads[ALL];
    for (int time = 0; time < TIMES; time++) {
        stop = 0;
        for (int at = 0; at < ALL; at++) pthread_create(threads + at, NULL, changer, (void *)(size_t)(time * ALL + at));
        usleep(20000);
        stop = 1;
        for (int at = 0; at < ALL; at++) pthread_join(threads[at], NULL);
        for (int fd = LOWEST; fd < LOWEST + NUMBERS; fd++) {
            astray += is_astray(fd);
            close(fd);
        }
    }
    printf("changed by all at once: %d astray\n", astray);
}

int main(int argc, char **argv) {
    if (argc != 2) return 1;
    folder = argv[1];
    rotated();
    kept();
    world();
    begin_bases();
    turned();
    together();
    descriptors();
    return 0;
}
