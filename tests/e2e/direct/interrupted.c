/* Handlers on stacks of their own, threads that are cancelled, and handlers of signals that open, copy and fork, in the folder that is named. What it
   prints does not depend on how the folder's files are reached. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int left;

enum { OFTEN = 40, PIECE = 512, BYTES = 1 << 20, HIGH = 500 };

static void ensure(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "%s: %m\n", what);
        _exit(1);
    }
}

/* A file that is used so often that it is direct where it can be. */
static int used(const char *name)
{
    static char bytes[BYTES];
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    ensure(fd >= 0 && pwrite(fd, bytes, BYTES, 0) == BYTES, "a file is written");
    for (int i = 0; i < OFTEN; i++)
        ensure(pread(fd, bytes, PIECE, i * PIECE) == PIECE && pwrite(fd, bytes, PIECE, 0) == PIECE, "it is used");
    return fd;
}

static void *reads(void *fd)
{
    char piece[PIECE];
    for (;;)
        pread(*(int *)fd, piece, PIECE, 0);
    return fd;
}

static void *writes(void *fd)
{
    char piece[PIECE] = "";
    for (;;)
        pwrite(*(int *)fd, piece, PIECE, 0);
    return fd;
}

static void *goes_on(void *fd)
{
    char piece[PIECE];
    for (;;)
        if (read(*(int *)fd, piece, PIECE) == 0)
            lseek(*(int *)fd, 0, SEEK_SET);
    return fd;
}

static void *opens(void *fd)
{
    for (;;) {
        int own = open("file", O_RDWR);
        char piece[PIECE];
        for (int i = 0; i < OFTEN; i++)
            pread(own, piece, PIECE, 0);
        close(own);
    }
    return fd;
}

static int ends(void *work(void *), useconds_t after)
{
    int fd = used("file");
    pthread_t thread;
    struct timespec until;
    void *result = NULL;
    ensure(lseek(fd, 100, SEEK_SET) == 100 && pthread_create(&thread, NULL, work, &fd) == 0, "a thread");
    usleep(after);
    pthread_cancel(thread);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    ensure(pthread_timedjoin_np(thread, &result, &until) == 0, "it does not end");
    ensure(work == goes_on || lseek(fd, 0, SEEK_CUR) == 100, "the offset stays");
    close(fd);
    return result == PTHREAD_CANCELED;
}

static void cancelled(void)
{
    printf("cancelled: %d %d %d\n", ends(reads, 50000), ends(writes, 50000), ends(goes_on, 50000));
    int ended = 0;
    for (int i = 0; i < 100; i++)
        ended += ends(opens, i * 131 % 3000);
    printf("wherever they are: %d\n", ended);
    int fd = used("file");
    printf("and others go on: %d %d\n", fd < HIGH, close(fd));
}

static void *small(void *fd)
{
    char piece[PIECE] = "";
    int own = open("small", O_RDWR | O_CREAT, 0644), done = 0;
    for (int i = 0; i < OFTEN; i++)
        done += pwrite(own, piece, PIECE, i * PIECE) + pread(own, piece, PIECE, 0) == 2 * PIECE;
    close(own);
    *(int *)fd = done;
    return fd;
}

static void small_stacks(void)
{
    pthread_attr_t how;
    pthread_t thread;
    size_t bytes = 0;
    int done = 0;
    pthread_attr_init(&how);
    ensure(pthread_attr_setstacksize(&how, PTHREAD_STACK_MIN) == 0, "a small stack");
    ensure(pthread_create(&thread, &how, small, &done) == 0, "a thread that has one");
    pthread_join(thread, NULL);
    pthread_attr_getstacksize(&how, &bytes);
    printf("on a small stack: %d %d\n", done, bytes == (size_t)PTHREAD_STACK_MIN);
}

static int kept_open;

static void logs(int signal)
{
    int log = open("crash.log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    for (int i = 0; i < OFTEN; i++)
        left += write(log, "crash\n", 6) == 6 && write(kept_open, "more\n", 5) == 5;
    left += close(log) == 0;
    (void)signal;
}

/* Of the size that the C library says; how much below it was overwritten. */
static void own_stack(void)
{
    enum { BELOW = 65536 };
    const struct sigaction action = {.sa_handler = logs, .sa_flags = SA_ONSTACK};
    const size_t bytes = sysconf(_SC_SIGSTKSZ);
    char *all = malloc(BELOW + bytes);
    const stack_t stack = {.ss_sp = all + BELOW, .ss_size = bytes}, none = {.ss_flags = SS_DISABLE};
    int over = 0;
    memset(all, 1, BELOW);
    kept_open = open("kept", O_WRONLY | O_CREAT, 0644);
    ensure(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR2, &action, NULL) == 0, "a stack");
    raise(SIGUSR2);
    ensure(sigaltstack(&none, NULL) == 0 && close(kept_open) == 0, "no stack");
    for (int at = 0; at < BELOW; at++)
        over += all[at] != 1;
    printf("on a stack of its own: %d done, %d overwritten\n", left, over);
    free(all);
}

static void leaves(int signal)
{
    pthread_exit(&left);
    (void)signal;
}

static void *reads_much(void *fd)
{
    static char all[BYTES];
    for (;;)
        pread(*(int *)fd, all, BYTES, 0);
    return fd;
}

/* They leave from within a handler, amid what they read. */
static void ended(void)
{
    int fd = used("file"), many = 0;
    signal(SIGUSR1, leaves);
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        void *result;
        ensure(pthread_create(&thread, NULL, reads_much, &fd) == 0, "a thread");
        usleep(2000);
        pthread_kill(thread, SIGUSR1);
        pthread_join(thread, &result);
        many += result == &left;
    }
    int other = used("file");
    printf("ended by handlers: %d %d %d\n", many, close(fd), close(other));
}

static sigjmp_buf place;

static void jumps(int signal)
{
    sigjmp_buf within;
    if (sigsetjmp(within, 0) == 0)
        siglongjmp(within, 1);
    siglongjmp(place, 1);
    (void)signal;
}

static void *uses(void *done)
{
    for (int i = 0; i < OFTEN; i++)
        close(used("other"));
    return done;
}

/* Out of a handler, amid what is read. */
static void jumped(void)
{
    const struct sigaction action = {.sa_handler = jumps, .sa_flags = SA_NODEFER};
    struct itimerval soon = {{0, 0}, {0, 400}}, never = {{0, 0}, {0, 0}};
    struct timespec until;
    pthread_t thread;
    static volatile int many;
    static char all[BYTES];
    int fd = used("file");
    sigaction(SIGALRM, &action, NULL);
    sigsetjmp(place, 1);
    if (many++ < 300) {
        setitimer(ITIMER_REAL, &soon, NULL);
        for (;;)
            pread(fd, all, BYTES, 0);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    ensure(pthread_create(&thread, NULL, uses, NULL) == 0, "a thread");
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    ensure(pthread_timedjoin_np(thread, NULL, &until) == 0, "others wait for what was left");
    int written = pwrite(fd, all, PIECE, 0);
    printf("jumped: %d %d\n", written, close(fd));
}

static int log_fd = -1, shared_fd, wrong;
static volatile int calls;

static void by_handlers(int signal)
{
    int before = errno;
    if (log_fd >= 0)
        wrong += close(log_fd) != 0;
    log_fd = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    wrong += log_fd < 0 || log_fd > HIGH || fcntl(log_fd, F_GETFD) != 0 || write(log_fd, "x", 1) != 1;
    int copy = dup(shared_fd);
    wrong += copy < 0 || copy > HIGH || lseek(copy, 0, SEEK_CUR) != 777 || close(copy) != 0;
    if (++calls % 50 == 0) {
        int result = 1;
        pid_t child = fork();
        if (child == 0)
            _exit(lseek(shared_fd, 0, SEEK_CUR) != 777);
        waitpid(child, &result, 0);
        wrong += result != 0;
        close(shared_fd);
        shared_fd = open("file", O_RDWR);
        lseek(shared_fd, 777, SEEK_SET);
    }
    errno = before;
    (void)signal;
}

static void handled(void)
{
    const struct sigaction action = {.sa_handler = by_handlers, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 150}, {0, 150}}, never = {{0, 0}, {0, 0}};
    struct stat log;
    int lost = 0;
    unlink("log");
    shared_fd = used("file");
    lseek(shared_fd, 777, SEEK_SET);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; calls < 6000; i++) {
        char name[16], piece[PIECE] = "";
        snprintf(name, sizeof name, "f%d", i % 20);
        int fd = open(name, O_RDWR | O_CREAT, 0644);
        lost += fd < 0 || fd > HIGH;
        for (int j = 0; j < 12; j++)
            lost += pwrite(fd, piece, PIECE, j * PIECE) != PIECE;
        lost += close(fd) != 0;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    ensure(stat("log", &log) == 0, "the log");
    printf("handlers: %d wrong, %d lost, %d in the log\n", wrong, lost, log.st_size == calls);
}

static volatile int looked_at = -1;

static void opens_one(int signal)
{
    int before = errno, fd = open("other", O_RDWR | O_CREAT, 0644);
    wrong += fd < 0 || close(fd) != 0;
    calls++;
    errno = before;
    (void)signal;
}

static void looks(int signal)
{
    struct stat found;
    if (looked_at >= 0)
        wrong += fstat(looked_at, &found) != 0;
    calls++;
    (void)signal;
}

/* What it appends is cut off again and again, and pages with it. */
static void *appends(void *unused)
{
    static char piece[60000];
    int fd = open("appended", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0644);
    for (int i = 0; calls < 3000; i++) {
        wrong += write(fd, piece, sizeof piece) != sizeof piece;
        if (i % 40 == 0)
            wrong += ftruncate(fd, 0) != 0;
    }
    wrong += close(fd) != 0;
    return unused;
}

static void *looks_at_first(void *unused)
{
    struct stat found;
    while (calls < 10000) {
        int fd = open("file", O_RDWR);
        looked_at = fd;
        wrong += fstat(fd, &found) != 0;
        looked_at = -1;
        wrong += close(fd) != 0;
    }
    return unused;
}

/* The parent goes on when its child has ended, or is another program. */
static void waited(void)
{
    char *const quick[] = {"true", NULL};
    int ends[2], fd = used("file"), there[2];
    ensure(pipe(ends) == 0 && lseek(fd, 100, SEEK_SET) == 100, "a pipe");
    for (int i = 0; i < 2; i++) {
        pid_t child = vfork();
        if (child == 0) {
            usleep(100000);
            write(fd, "x", 1);
            write(ends[1], "x", 1);
            if (i == 1)
                execvp(quick[0], quick);
            _exit(0);
        }
        there[i] = ioctl(ends[0], FIONREAD, &left) == 0 && left == i + 1;
        waitpid(child, NULL, 0);
    }
    printf("waited for: %d %d %d\n", there[0], there[1], (int)lseek(fd, 0, SEEK_CUR));
    close(fd);
}

/* By another thread, which the handler comes to. */
static void amid(const char *what, void *work(void *), void handler(int), int every)
{
    const struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, every}, {0, every}}, never = {{0, 0}, {0, 0}};
    struct timespec until;
    pthread_t thread;
    sigset_t alarms, before;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    calls = wrong = 0;
    sigaction(SIGALRM, &action, NULL);
    ensure(pthread_create(&thread, NULL, work, NULL) == 0, "a thread");
    pthread_sigmask(SIG_BLOCK, &alarms, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 100;
    ensure(pthread_timedjoin_np(thread, NULL, &until) == 0, what);
    setitimer(ITIMER_REAL, &never, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    printf("%s: %d wrong\n", what, wrong);
}

int main(int count, char **words)
{
    ensure(count == 2 && chdir(words[1]) == 0, "a folder");
    own_stack();
    small_stacks();
    ended();
    jumped();
    handled();
    waited();
    amid("files are opened amid appends", appends, opens_one, 1000);
    amid("a file is looked at amid the first look", looks_at_first, looks, 100);
    /* The last: from then on nothing is direct. */
    cancelled();
    return 0;
}
