/* Appends its arguments to a journal in a guest's memory, and prints the journal. */
#include <ferrite.h>
#include <stdio.h>
#include <string.h>

struct journal {
    uint64_t bytes; /* of `text` that count */
    char text[4000];
};

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, ferrite_error());
    return 1;
}

int main(int argc, char **argv)
{
    ferrite_region *region;
    struct journal *journal;
    uint64_t bytes, len;
    void *base;

    if (argc < 3) {
        fprintf(stderr, "usage: journal POOL GUEST [WORD...]\n");
        return 2;
    }
    if (ferrite_region_open(argv[1], argv[2], &region) || ferrite_region_memory(region, &base, &bytes))
        return failed("opening the region");
    journal = base;
    for (int at = 3; at < argc; at++) {
        len = strlen(argv[at]);
        if (journal->bytes >= sizeof journal->text || len >= sizeof journal->text - journal->bytes)
            break;
        memcpy(journal->text + journal->bytes, argv[at], len);
        journal->text[journal->bytes + len] = '\n';
        /* The text is durable before the number that makes it count. */
        if (ferrite_region_persist(region, sizeof journal->bytes + journal->bytes, len + 1) ||
            ferrite_region_barrier(region))
            return failed("persisting the text");
        journal->bytes += len + 1;
        if (ferrite_region_persist(region, 0, sizeof journal->bytes) || ferrite_region_barrier(region))
            return failed("persisting its end");
    }
    printf("%.*s", (int)journal->bytes, journal->text);
    return ferrite_region_close(region) ? failed("closing") : 0;
}
