/* Calls with a null result pointer have no effect: they open nothing, and a pop removes nothing. */
#include <stdio.h>
#include <string.h>

#include "ferrite.h"

int main(int argc, char **argv)
{
    ferrite_store *store;
    ferrite_queue *queue;
    ferrite_map *map;
    ferrite_bytes bytes = {0};
    uint64_t len;

    if (argc < 2 || ferrite_store_create(argv[1], 16 << 20, NULL) != FERRITE_INVALID)
        return 8;
    if (ferrite_store_create(argv[1], 16 << 20, &store))
        return 1;
    if (ferrite_map_open(store, "queue", NULL, NULL) != FERRITE_INVALID)
        return 9;
    if (ferrite_queue_open(store, "queue", NULL, &queue) || ferrite_map_open(store, "map", NULL, &map))
        return 2;
    if (ferrite_queue_push(queue, FERRITE_BACK, (const uint8_t *)"it", 2) ||
        ferrite_map_put(map, (const uint8_t *)"k", 1, (const uint8_t *)"v", 1))
        return 3;
    if (ferrite_queue_pop(queue, FERRITE_FRONT, NULL) != FERRITE_INVALID)
        return 4;
    if (ferrite_queue_len(queue, &len) || len != 1)
        return 5;
    if (ferrite_map_next(map, NULL, 0, &bytes, NULL) != FERRITE_INVALID || bytes.data != NULL)
        return 6;
    if (ferrite_queue_pop(queue, FERRITE_FRONT, &bytes) || bytes.len != 2 || memcmp(bytes.data, "it", 2))
        return 7;
    ferrite_bytes_free(&bytes);
    ferrite_queue_close(queue);
    ferrite_map_close(map);
    return ferrite_store_close(store);
}
