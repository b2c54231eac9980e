/* Each failure has the status that the header gives it, and words that say what is wrong. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ferrite.h"

/* Whether a call failed with this status, and said so. */
static int fails(int got, int wanted, const char *words)
{
    if (got == wanted && strstr(ferrite_error(), words) != NULL)
        return 1;
    fprintf(stderr, "%d, not %d with \"%s\": %s\n", got, wanted, words, ferrite_error());
    return 0;
}

static int values_of_another_length(const ferrite_store *store)
{
    ferrite_value *value;
    uint8_t bytes[4] = {1, 2, 3, 4};

    if (ferrite_value_open(store, "value", bytes, 3, FERRITE_NT, &value))
        return 0;
    for (size_t len = 0; len <= 4; len++) {
        if (len == 3)
            continue;
        if (!fails(ferrite_value_set(value, bytes, len), FERRITE_INVALID, "the value has 3 bytes, not ") ||
            !fails(ferrite_value_get(value, bytes, len), FERRITE_INVALID, "the value has 3 bytes, not "))
            return 0;
    }
    return !ferrite_value_get(value, bytes, 3) && !ferrite_value_close(value);
}

int main(int argc, char **argv)
{
    ferrite_store *store;

    if (argc < 2 || ferrite_store_create(argv[1], 16 << 20, &store))
        return 1;
    if (!values_of_another_length(store))
        return 2;
    return ferrite_store_close(store);
}
