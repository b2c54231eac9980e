/* Each failure has the status that the header specifies, and a message that describes it. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ferrite.h"

/* Checks that a call failed with this status and with this message. */
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

/* Passes impossible lengths, as after an underflow. The calls refuse them by the length and read no bytes. */
static int lengths_that_never_fit(const ferrite_store *store)
{
    static const size_t lengths[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 40, (size_t)3 << 30};
    const uint8_t *it = (const uint8_t *)"it";
    ferrite_options small = {.log_bytes = 4096};
    ferrite_map *map;
    ferrite_queue *queue;
    ferrite_log *log;
    ferrite_bundle *bundle;
    ferrite_batch *batch;
    ferrite_change *change;
    ferrite_value *value;
    uint64_t len;

    if (ferrite_map_open(store, "map", &small, &map) || ferrite_queue_open(store, "queue", &small, &queue) ||
        ferrite_log_open(store, "log", &small, &log) || ferrite_bundle_open(store, "bundle", &small, &bundle) ||
        ferrite_batch_new(&batch) || ferrite_change_new(&change))
        return 0;
    for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        size_t many = lengths[at];
        if (!fails(ferrite_map_put(map, it, 2, it, many), FERRITE_TOO_LARGE, "too large") ||
            !fails(ferrite_map_put(map, it, many, it, 2), FERRITE_TOO_LARGE, "too large") ||
            !fails(ferrite_map_put(map, it, many, it, many), FERRITE_TOO_LARGE, "too large") ||
            !fails(ferrite_queue_push(queue, FERRITE_BACK, it, many), FERRITE_TOO_LARGE, "too large") ||
            !fails(ferrite_log_append(log, it, many, NULL), FERRITE_TOO_LARGE, "too large") ||
            !fails(ferrite_value_open(store, "new", it, many, FERRITE_NT, &value), FERRITE_TOO_LARGE, "too large"))
            return 0;
        /* Batches and changes are in memory first, so these calls refuse only a length that no change may have. */
        if (many >> 32 != 0 &&
            (!fails(ferrite_batch_put(batch, it, 2, it, many), FERRITE_TOO_LARGE, "too large") ||
             !fails(ferrite_batch_remove(batch, it, many), FERRITE_TOO_LARGE, "too large") ||
             !fails(ferrite_change_put(change, "m", it, many, it, 2), FERRITE_TOO_LARGE, "too large") ||
             !fails(ferrite_change_remove(change, "m", it, many), FERRITE_TOO_LARGE, "too large") ||
             !fails(ferrite_change_push(change, "q", FERRITE_BACK, it, many), FERRITE_TOO_LARGE, "too large")))
            return 0;
    }
    if (!fails(ferrite_log_append(log, (const uint8_t[4096]){0}, 4096, NULL), FERRITE_TOO_LARGE, "an entry of 4096 bytes"))
        return 0;
    if (ferrite_map_put(map, it, 2, it, 2) || ferrite_map_len(map, &len) || len != 1)
        return 0;
    return !(ferrite_batch_free(batch) || ferrite_change_free(change) || ferrite_map_close(map) ||
             ferrite_queue_close(queue) || ferrite_log_close(log) || ferrite_bundle_close(bundle));
}

/* Passes invalid ends of a queue: the calls neither add nor remove an entry. */
static int ends_that_are_none(const ferrite_store *store)
{
    static const int ends[] = {-1, 2, 7};
    const uint8_t *it = (const uint8_t *)"it";
    ferrite_bytes bytes = {0};
    ferrite_queue *queue;
    ferrite_change *change;
    uint64_t len;

    if (ferrite_queue_open(store, "ends", NULL, &queue) || ferrite_change_new(&change) ||
        ferrite_queue_push(queue, FERRITE_FRONT, it, 2))
        return 0;
    for (size_t at = 0; at < sizeof ends / sizeof *ends; at++)
        if (!fails(ferrite_queue_push(queue, ends[at], it, 2), FERRITE_INVALID, "is not an end of a queue") ||
            !fails(ferrite_queue_pop(queue, ends[at], &bytes), FERRITE_INVALID, "is not an end of a queue") ||
            !fails(ferrite_change_push(change, "q", ends[at], it, 2), FERRITE_INVALID, "is not an end of a queue") ||
            !fails(ferrite_change_pop(change, "q", ends[at]), FERRITE_INVALID, "is not an end of a queue"))
            return 0;
    return !ferrite_queue_len(queue, &len) && len == 1 && !ferrite_change_free(change) && !ferrite_queue_close(queue);
}

/* An open store can be neither created again nor overwritten by a restore. */
static int stores_that_are_there(const ferrite_store *store, const char *path)
{
    char image[4096];
    ferrite_store *second;

    snprintf(image, sizeof image, "%s.image", path);
    if (ferrite_store_backup(store, image))
        return 0;
    return fails(ferrite_store_create(path, 16 << 20, &second), FERRITE_EXISTS, "exists already") &&
           fails(ferrite_restore(image, path, 0), FERRITE_BUSY, "held by process") &&
           fails(ferrite_restore(image, path, 1), FERRITE_BUSY, "held by process");
}

/* The store exists, but no process has it open. */
static int stores_in_the_way(const char *path)
{
    char image[4096], copy[4096];
    ferrite_store *second;

    snprintf(image, sizeof image, "%s.image", path);
    snprintf(copy, sizeof copy, "%s.copy", path);
    return fails(ferrite_store_create(path, 16 << 20, &second), FERRITE_EXISTS, "exists already") &&
           fails(ferrite_restore(image, path, 0), FERRITE_EXISTS, "--lose 16777216 ") &&
           fails(ferrite_restore(image, path, 1), FERRITE_EXISTS, "--lose 16777216 ") && !ferrite_restore(image, path, 16 << 20) &&
           !ferrite_restore(image, copy, 0) && !ferrite_store_open(copy, &second) &&
           !ferrite_store_close(second);
}

int main(int argc, char **argv)
{
    ferrite_store *store;

    if (argc < 2 || ferrite_store_create(argv[1], 16 << 20, &store))
        return 1;
    if (!values_of_another_length(store))
        return 2;
    if (!lengths_that_never_fit(store))
        return 3;
    if (!ends_that_are_none(store))
        return 6;
    if (!stores_that_are_there(store, argv[1]) || ferrite_store_close(store))
        return 4;
    return stores_in_the_way(argv[1]) ? 0 : 5;
}
