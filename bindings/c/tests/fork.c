/* Handles that are open at a fork belong to the parent: the child can neither change nor close its objects. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ferrite.h"

static const uint8_t KEY[] = "k";

static int put(ferrite_map *map, const char *value)
{
    return ferrite_map_put(map, KEY, 1, (const uint8_t *)value, 1);
}

/* Uses and closes the handles of its parent, and then opens the store itself. */
static int child(const char *path, ferrite_store *store, ferrite_map *map)
{
    ferrite_map *other;

    if (put(map, "c") != FERRITE_INVALID || ferrite_map_open(store, "other", NULL, &other) != FERRITE_INVALID)
        return 1;
    if (ferrite_map_close(map) || ferrite_store_close(store))
        return 2;
    if (ferrite_store_open(path, &store) || ferrite_map_open(store, "other", NULL, &other) || put(other, "c"))
        return 3;
    if (ferrite_map_open(store, "map", NULL, &map) != FERRITE_BUSY)
        return 4;
    return ferrite_map_close(other) || ferrite_store_close(store) ? 5 : 0;
}

int main(int argc, char **argv)
{
    ferrite_store *store;
    ferrite_map *map, *other;
    ferrite_bytes value;
    int status;
    pid_t pid;

    if (argc < 2 || ferrite_store_create(argv[1], 32 << 20, &store) || ferrite_map_open(store, "map", NULL, &map))
        return 1;
    if (put(map, "a") || (pid = fork()) < 0)
        return 2;
    if (pid == 0)
        _exit(child(argv[1], store, map));
    if (waitpid(pid, &status, 0) != pid || status != 0)
        return 10 + (WIFEXITED(status) ? WEXITSTATUS(status) : 9);
    if (put(map, "b") || ferrite_map_get(map, KEY, 1, &value) || value.len != 1 || value.data[0] != 'b')
        return 3;
    ferrite_bytes_free(&value);
    if (ferrite_map_open(store, "other", NULL, &other) || ferrite_map_get(other, KEY, 1, &value) || value.data[0] != 'c')
        return 4;
    ferrite_bytes_free(&value);
    return ferrite_map_close(map) || ferrite_map_close(other) || ferrite_store_close(store) ? 5 : 0;
}
