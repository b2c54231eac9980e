/* A queue of jobs and a log of finished jobs: pushes the given jobs, runs all of them, and prints the log. */
#include <ferrite.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, ferrite_error());
    return 1;
}

static int show(const char *name, const char *kind, uint64_t size, void *context)
{
    (void)context;
    printf("%s: %s of %llu bytes\n", name, kind, (unsigned long long)size);
    return 0;
}

/* Runs each job and logs it. A crash between the pop and the append loses one job; a bundle would avoid this. */
static int work(ferrite_queue *queue, ferrite_log *log)
{
    ferrite_bytes job;
    int status;

    while ((status = ferrite_queue_pop(queue, FERRITE_FRONT, &job)) == FERRITE_OK) {
        status = ferrite_log_append(log, job.data, job.len, NULL);
        if (status == FERRITE_FULL) {
            uint64_t first;
            ferrite_log_first(log, &first);
            ferrite_log_cut(log, first + 10); /* removes the ten oldest entries */
            status = ferrite_log_append(log, job.data, job.len, NULL);
        }
        ferrite_bytes_free(&job);
        if (status)
            return status;
    }
    return status == FERRITE_ABSENT ? FERRITE_OK : status;
}

static int tell(ferrite_log *log)
{
    uint64_t number, end;

    if (ferrite_log_first(log, &number) || ferrite_log_end(log, &end))
        return 1;
    for (; number < end; number++) {
        ferrite_bytes entry;
        if (ferrite_log_get(log, number, &entry))
            return 1;
        printf("%llu %.*s\n", (unsigned long long)number, (int)entry.len, (const char *)entry.data);
        ferrite_bytes_free(&entry);
    }
    return 0;
}

int main(int argc, char **argv)
{
    ferrite_store *store;
    ferrite_queue *queue;
    ferrite_log *log;
    ferrite_options small = {.log_bytes = 4096};

    if (argc < 2) {
        fprintf(stderr, "usage: jobs STORE [JOB]...\n");
        return 2;
    }
    if (ferrite_store_open(argv[1], &store) != FERRITE_OK && ferrite_store_create(argv[1], 16 << 20, &store) != FERRITE_OK)
        return failed(argv[1]);
    if (ferrite_queue_open(store, "jobs", NULL, &queue) || ferrite_log_open(store, "done", &small, &log))
        return failed("opening");
    for (int i = 2; i < argc; i++)
        if (ferrite_queue_push(queue, FERRITE_BACK, (const uint8_t *)argv[i], strlen(argv[i])))
            return failed(argv[i]);
    if (work(queue, log) || tell(log) || ferrite_store_tags(store, show, NULL))
        return failed("working");
    ferrite_queue_close(queue);
    ferrite_log_close(log);
    return ferrite_store_close(store) ? failed("closing") : 0;
}
