/* Counts the words of its input in a map, with one batch for each line, and prints the counts in order. */
#include <ferrite.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, ferrite_error());
    return 1;
}

/* Adds the increment of the count of `word` to the batch. */
static int count(ferrite_map *map, ferrite_batch *batch, const char *word)
{
    uint64_t seen = 0;
    ferrite_bytes found;
    int status = ferrite_map_get(map, (const uint8_t *)word, strlen(word), &found);

    if (status == FERRITE_OK && found.len == sizeof seen)
        memcpy(&seen, found.data, sizeof seen);
    if (status == FERRITE_OK)
        ferrite_bytes_free(&found);
    else if (status != FERRITE_ABSENT)
        return status;
    seen += 1;
    return ferrite_batch_put(batch, (const uint8_t *)word, strlen(word), (const uint8_t *)&seen, sizeof seen);
}

static int print(ferrite_map *map)
{
    ferrite_bytes key = {NULL, 0}, value, next;
    int status;

    while ((status = ferrite_map_next(map, key.data, key.len, &next, &value)) == FERRITE_OK) {
        uint64_t seen;
        memcpy(&seen, value.data, sizeof seen);
        printf("%.*s %llu\n", (int)next.len, (const char *)next.data, (unsigned long long)seen);
        ferrite_bytes_free(&value);
        ferrite_bytes_free(&key);
        key = next;
    }
    ferrite_bytes_free(&key);
    return status == FERRITE_ABSENT ? 0 : failed("reading the map");
}

int main(int argc, char **argv)
{
    char line[1000];
    ferrite_store *store;
    ferrite_map *map;
    ferrite_options options = {.log_bytes = 64 << 10};

    if (argc != 2) {
        fprintf(stderr, "usage: words STORE < TEXT\n");
        return 2;
    }
    if (ferrite_store_open(argv[1], &store) != FERRITE_OK && ferrite_store_create(argv[1], 16 << 20, &store) != FERRITE_OK)
        return failed(argv[1]);
    if (ferrite_map_open(store, "words", &options, &map))
        return failed("opening the map");
    while (fgets(line, sizeof line, stdin)) {
        ferrite_batch *batch;
        if (ferrite_batch_new(&batch))
            return failed("making a batch");
        for (char *word = strtok(line, " \t\r\n"); word; word = strtok(NULL, " \t\r\n"))
            if (count(map, batch, word))
                return failed(word);
        if (ferrite_batch_commit(batch, map)) /* applies the whole line atomically */
            return failed("counting");
        ferrite_batch_free(batch);
    }
    if (print(map))
        return 1;
    ferrite_map_close(map);
    return ferrite_store_close(store) ? failed("closing") : 0;
}
