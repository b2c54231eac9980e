/* Counts its own starts in a value that is updated in place. */
#include <ferrite.h>
#include <stdio.h>

struct counter {
    uint64_t starts;
    uint64_t squares; /* sum of squares of all starts so far; always consistent with `starts` */
};

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, ferrite_error());
    return 1;
}

int main(int argc, char **argv)
{
    struct counter counter = {0, 0};
    ferrite_store *store;
    ferrite_value *value;

    if (argc != 2) {
        fprintf(stderr, "usage: counter STORE\n");
        return 2;
    }
    if (ferrite_store_open(argv[1], &store) != FERRITE_OK && ferrite_store_create(argv[1], 16 << 20, &store) != FERRITE_OK)
        return failed(argv[1]);
    if (ferrite_value_open(store, "counter", (const uint8_t *)&counter, sizeof counter, FERRITE_FLUSH, &value))
        return failed("opening the counter");
    if (ferrite_value_get(value, (uint8_t *)&counter, sizeof counter))
        return failed("reading the counter");
    counter.starts += 1;
    counter.squares += counter.starts * counter.starts;
    if (ferrite_value_set(value, (const uint8_t *)&counter, sizeof counter)) /* durable from here on */
        return failed("counting");
    printf("%llu %llu\n", (unsigned long long)counter.starts, (unsigned long long)counter.squares);
    ferrite_value_close(value);
    return ferrite_store_close(store) ? failed("closing") : 0;
}
