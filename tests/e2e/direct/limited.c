/* What a program has little of, as the second word says, in the folder that is named. What it prints does not depend on how the
   folder's files are reached. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFTEN = 40, PIECE = 512 };

static char bytes[4096];

static void ensure(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "%s: %m\n", what);
        _exit(1);
    }
}

static int opened(const char *name, int flags)
{
    int fd = open(name, O_RDWR | O_CREAT | flags, 0644);
    ensure(fd >= 0, "a file is opened");
    return fd;
}

/* A file that is used so often that it is direct where it can be. */
static int used(const char *name, int flags)
{
    int fd = opened(name, flags);
    for (int i = 0; i < OFTEN; i++)
        ensure(write(fd, bytes, PIECE) == PIECE, "it is written");
    return fd;
}

static int log, done;

/* What is appended together needs more pages than are taken ahead at once. */
static void appends(int signal)
{
    const struct iovec parts[] = {{bytes, 10}, {bytes, 1000}};
    for (int i = 0; i < 2000; i++)
        done += writev(log, parts, 2) == 1010;
    (void)signal;
}

/* A handler's stack, as small as the C library's constant for them was for long; how much below it is overwritten. */
static void has_little_stack(void)
{
    enum { BELOW = 65536, SMALL = 8192 };
    const struct sigaction action = {.sa_handler = appends, .sa_flags = SA_ONSTACK};
    static char all[BELOW + SMALL];
    const stack_t stack = {.ss_sp = all + BELOW, .ss_size = SMALL};
    int over = 0;
    log = used("log", O_APPEND);
    ensure(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0, "a stack");
    raise(SIGUSR1);
    for (int at = 0; at < BELOW; at++)
        over += all[at] != 0;
    printf("stack: %d done, %d overwritten\n", done, over);
}

/* Reading and writing alone. */
static void forbid_others(int is_by_name)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    ensure(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no rights are gained");
    ensure((is_by_name ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)
                       : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)) == 0, "a filter");
}

/* Of a file that was used, one that was just opened, and one that is appended to. */
static void has_few_calls(int is_by_name)
{
    int files[] = {used("used", 0), opened("fresh", 0), used("log", O_APPEND)}, done = 0;
    forbid_others(is_by_name);
    for (int i = 0; i < OFTEN; i++)
        for (int at = 0; at < 3; at++)
            done += write(files[at], bytes, PIECE) == PIECE && read(files[at], bytes, PIECE) == 0;
    char said[40];
    int len = snprintf(said, sizeof said, "calls: %d done\n", done);
    _exit(write(1, said, len) != len);
}

/* What is opened first is known to the library when there is no more. */
static void has_little_memory(void)
{
    enum { FILES = 400 };
    char name[20];
    int done = 0;
    long pages = 0;
    FILE *told = fopen("/proc/self/statm", "r");
    ensure(told != NULL && fscanf(told, "%ld", &pages) == 1, "how much there is");
    const rlim_t most = pages * sysconf(_SC_PAGESIZE) + 16384;
    const struct rlimit limit = {most, most};
    ensure(setrlimit(RLIMIT_AS, &limit) == 0, "a limit");
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "file%d", i);
        int fd = opened(name, 0);
        for (int at = 0; at < 12; at++)
            done += write(fd, bytes, PIECE) == PIECE;
    }
    printf("memory: %d done\n", done);
}

static void has_small_files(int is_old)
{
    const struct rlimit limit = {OFTEN * PIECE + 100, OFTEN * PIECE + 100};
    int fd = used("file", 0);
    signal(SIGXFSZ, SIG_IGN);
    ensure((is_old ? syscall(SYS_setrlimit, RLIMIT_FSIZE, &limit)
                       : syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, &limit, NULL)) == 0, "a limit");
    ssize_t last = write(fd, bytes, PIECE), beyond = write(fd, bytes, PIECE);
    printf("size: %zd, then %zd\n", last, beyond);
}

int main(int count, char **words)
{
    ensure(count == 3 && chdir(words[1]) == 0, "a folder");
    const char *what = words[2];
    if (strcmp(what, "stack") == 0)
        has_little_stack();
    if (strcmp(what, "calls") == 0 || strcmp(what, "calls by number") == 0)
        has_few_calls(what[5] == 0);
    if (strcmp(what, "memory") == 0)
        has_little_memory();
    if (strcmp(what, "size") == 0 || strcmp(what, "old size") == 0)
        has_small_files(what[0] == 'o');
    return 0;
}
