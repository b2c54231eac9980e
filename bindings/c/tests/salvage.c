/* Tests LG4 and AL2: the message names the damaged object, and the rest of the object is readable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ferrite.h"

static const uint8_t *raw(const char *text)
{
    return (const uint8_t *)text;
}

/* Overwrites the first byte of each occurrence of this text in the file. */
static int spoil(const char *path, const char *text)
{
    FILE *file = fopen(path, "r+b");
    size_t len = 16 << 20, at, many = strlen(text), found = 0;
    char *bytes = malloc(len);

    if (!file || !bytes || fread(bytes, 1, len, file) != len)
        return 0;
    for (at = 0; at + many <= len; at++)
        if (memcmp(bytes + at, text, many) == 0 && ++found)
            if (fseek(file, (long)at, SEEK_SET) || fputc('!', file) == EOF)
                return 0;
    free(bytes);
    return fclose(file) == 0 && found > 0;
}

static int count(const char *what, uint64_t at, void *context)
{
    *(int *)context += what[0] != '\0' && at > 0;
    return 0;
}

static int rescue(uint64_t number, const uint8_t *entry, size_t len, void *context)
{
    *(int *)context += number == 2 && len == 5 && memcmp(entry, "three", 5) == 0;
    return 0;
}

static int fill(const char *path)
{
    ferrite_store *store;
    ferrite_map *map;
    ferrite_queue *queue;
    ferrite_log *log;
    ferrite_options small = {.log_bytes = 1 << 16};
    int bad;

    if (ferrite_store_create(path, 16 << 20, &store) || ferrite_map_open(store, "map", &small, &map) ||
        ferrite_queue_open(store, "queue", &small, &queue) || ferrite_log_open(store, "log", &small, &log))
        return 1;
    bad = ferrite_map_put(map, raw("a"), 1, raw("1"), 1) || ferrite_map_put(map, raw("map needle"), 10, raw("2"), 1) ||
          ferrite_map_put(map, raw("c"), 1, raw("3"), 1) || ferrite_queue_push(queue, FERRITE_BACK, raw("one"), 3) ||
          ferrite_log_append(log, raw("one"), 3, NULL) || ferrite_log_append(log, raw("log needle"), 10, NULL) ||
          ferrite_log_append(log, raw("three"), 5, NULL);
    return ferrite_map_close(map) || ferrite_queue_close(queue) || ferrite_log_close(log) || ferrite_store_close(store) ||
           bad;
}

int main(int argc, char **argv)
{
    ferrite_options salvage = {.salvage = 1};
    ferrite_store *store;
    ferrite_map *map;
    ferrite_queue *queue;
    ferrite_log *log;
    uint64_t len;
    int lost = 0, rescued = 0;

    if (argc < 2 || fill(argv[1]) || !spoil(argv[1], "map needle") || !spoil(argv[1], "log needle"))
        return 1;
    if (ferrite_store_open(argv[1], &store) || ferrite_map_open(store, "map", NULL, &map) != FERRITE_DAMAGED ||
        strstr(ferrite_error(), "\"map\"") == NULL)
        return 2;
    if (ferrite_map_open(store, "map", &salvage, &map) || ferrite_map_losses(map, count, &lost) || lost != 1 ||
        ferrite_map_len(map, &len) || len != 2)
        return 3;
    if (ferrite_queue_open(store, "queue", &salvage, &queue) || ferrite_queue_losses(queue, count, &lost) || lost != 1)
        return 4;
    if (ferrite_log_open(store, "log", NULL, &log) != FERRITE_DAMAGED || ferrite_log_open(store, "log", &salvage, &log))
        return 5;
    if (ferrite_log_losses(log, count, &lost) || lost != 2 || ferrite_log_rescued(log, rescue, &rescued) || rescued != 1)
        return 6;
    if (ferrite_log_end(log, &len) || len != 1 || ferrite_map_losses(map, NULL, NULL) != FERRITE_INVALID)
        return 7;
    return ferrite_map_close(map) || ferrite_queue_close(queue) || ferrite_log_close(log) || ferrite_store_close(store);
}
