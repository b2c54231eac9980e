/* After a finalize with a failed backup the store is open, and later calls on it succeed. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ferrite.h"

/* Checks that a call failed with this status and with this message. */
static int fails(int got, int wanted, const char *words)
{
    if (got == wanted && strstr(ferrite_error(), words) != NULL)
        return 1;
    fprintf(stderr, "%d, not %d with \"%s\": %s\n", got, wanted, words, ferrite_error());
    return 0;
}

/* Holds an object of a foreign store open until its input has a line. */
static int tenant(const char *path, int ready, int go_on)
{
    ferrite_store *store;
    ferrite_map *map;
    char told;

    if (ferrite_store_open(path, &store) || ferrite_map_open(store, "theirs", NULL, &map))
        return 1;
    if (write(ready, "r", 1) != 1 || read(go_on, &told, 1) != 1 || ferrite_map_close(map))
        return 2;
    for (int defragment = 0; defragment <= 1; defragment++)
        if (!fails(ferrite_store_finalize(store, defragment, defragment ? NULL : path), FERRITE_INVALID,
                   "another process owns the store"))
            return 3;
    return ferrite_store_close(store);
}

/* Checks that the store is open and works. */
static int is_open(const ferrite_store *store)
{
    ferrite_map *map;

    return !ferrite_map_open(store, "mine", NULL, &map) && !ferrite_map_put(map, (const uint8_t *)"k", 1, NULL, 0) &&
           !ferrite_map_close(map);
}

static int is_ours(const ferrite_store *store)
{
    uint32_t owner;

    return !ferrite_store_owner_pid(store, &owner) && owner == 0;
}

int main(int argc, char **argv)
{
    ferrite_store *store;
    char image[4096], astray[4096], copy[4096], told;
    int ready[2], go_on[2], ended;
    pid_t child;

    if (argc < 2 || pipe(ready) || pipe(go_on))
        return 1;
    snprintf(image, sizeof image, "%s.image", argv[1]);
    snprintf(astray, sizeof astray, "%s.no-folder/image", argv[1]);
    snprintf(copy, sizeof copy, "%s.copy", argv[1]);
    child = fork();
    if (child == 0 && close(go_on[1]) == 0)
        return read(go_on[0], &told, 1) == 1 ? tenant(argv[1], ready[1], go_on[0]) : 9;
    if (ferrite_store_create(argv[1], 16 << 20, &store) || write(go_on[1], "g", 1) != 1 || read(ready[0], &told, 1) != 1)
        return 2;
    if (!fails(ferrite_store_finalize(store, 1, image), FERRITE_BUSY, "write to the pool") || !is_open(store))
        return 3;
    if (write(go_on[1], "g", 1) != 1 || waitpid(child, &ended, 0) != child || ended != 0)
        return 4;
    if (!fails(ferrite_store_finalize(store, 1, astray), FERRITE_FAILED, "No such file") || !is_open(store))
        return 5;
    if (!is_ours(store) || ferrite_store_finalize(store, 1, image))
        return 6;
    if (ferrite_restore(image, copy, 0) || ferrite_store_open(copy, &store) || !is_open(store))
        return 7;
    return ferrite_store_close(store) ? 8 : 0;
}
