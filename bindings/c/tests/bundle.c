/* Tests BU1 and BU2 through C: a change reaches all members or none, and a plan sees no concurrent change. */
#include <stdio.h>
#include <string.h>

#include "ferrite.h"

static ferrite_store *store;
static ferrite_map *map;
static ferrite_bundle *bundle;
static ferrite_change *other;

static const uint8_t *raw(const char *text)
{
    return (const uint8_t *)text;
}

/* The library refuses calls that would wait for this plan, or for a backup that waits for it. */
static int meddle(ferrite_change *change, void *context)
{
    int *seen = context;

    *seen = ferrite_store_backup(store, "image") == FERRITE_INVALID && ferrite_store_free(store, "map") == FERRITE_INVALID &&
            ferrite_map_put(map, raw("k"), 1, raw("v"), 1) == FERRITE_INVALID &&
            ferrite_map_open(store, "third", NULL, &map) == FERRITE_INVALID && ferrite_change_commit(other, bundle) == FERRITE_INVALID && ferrite_bundle_checkpoint(bundle) == FERRITE_INVALID &&
            ferrite_bundle_change(bundle, meddle, context) == FERRITE_INVALID && ferrite_bundle_close(bundle) == FERRITE_INVALID;
    return ferrite_change_put(change, "map", raw("meddled"), 7, raw("v"), 1);
}

static int give_up(ferrite_change *change, void *context)
{
    (void)context;
    return ferrite_change_put(change, "map", raw("given up"), 8, raw("v"), 1) == FERRITE_OK;
}

/* Moves the first entry of `jobs` to `done`. */
static int move(ferrite_change *change, void *context)
{
    ferrite_bytes job;
    int status = ferrite_bundle_queue_get(bundle, "jobs", 0, &job);

    (void)context;
    if (status)
        return status;
    status = ferrite_change_pop(change, "jobs", FERRITE_FRONT) ||
             ferrite_change_push(change, "done", FERRITE_BACK, job.data, job.len);
    ferrite_bytes_free(&job);
    return status;
}

static int note(int is_queue, const char *name, void *context)
{
    char *text = context;

    strcat(text, is_queue ? "queue " : "map ");
    strcat(text, name);
    strcat(text, ";");
    return 0;
}

static int members_are(const char *expected)
{
    char text[200] = "";

    return ferrite_bundle_members(bundle, note, text) == FERRITE_OK && strcmp(text, expected) == 0;
}

static int len_of(const char *queue)
{
    uint64_t len = 99;

    ferrite_bundle_queue_len(bundle, queue, &len);
    return (int)len;
}

int main(int argc, char **argv)
{
    ferrite_bytes bytes = {0};
    uint64_t len;
    int seen = 0;

    if (argc < 2 || ferrite_store_create(argv[1], 16 << 20, &store) || ferrite_bundle_open(store, "it", NULL, &bundle) ||
        ferrite_map_open(store, "map", NULL, &map))
        return 1;
    if (ferrite_change_new(&other) || ferrite_change_put(other, "map", raw("k"), 1, raw("v"), 1) ||
        ferrite_change_push(other, "jobs", FERRITE_BACK, raw("wash"), 4) || ferrite_change_commit(other, bundle))
        return 2;
    if (!members_are("map map;queue jobs;"))
        return 3;
    if (ferrite_bundle_change(bundle, meddle, &seen) || !seen || ferrite_map_put(map, raw("k"), 1, raw("v"), 1))
        return 4;
    if (ferrite_bundle_change(bundle, give_up, NULL) != FERRITE_CANCELLED ||
        ferrite_bundle_map_get(bundle, "map", raw("given up"), 8, &bytes) != FERRITE_ABSENT)
        return 5;
    if (ferrite_bundle_change(bundle, move, NULL) || len_of("jobs") != 0 || len_of("done") != 1)
        return 6;
    if (ferrite_bundle_change(bundle, move, NULL) != FERRITE_CANCELLED || !members_are("map map;queue done;"))
        return 7;
    /* A pop from an empty queue makes the commit refuse the whole change. */
    if (ferrite_change_clear_queue(other, "jobs") || ferrite_change_pop(other, "jobs", FERRITE_BACK) ||
        ferrite_change_remove(other, "map", raw("k"), 1) || ferrite_change_commit(other, bundle) != FERRITE_INVALID ||
        strstr(ferrite_error(), "\"jobs\"") == NULL || len_of("jobs") != 0)
        return 8;
    ferrite_change_free(other);
    if (ferrite_bundle_map_len(bundle, "map", &len) || len != 2 || ferrite_bundle_checkpoint(bundle))
        return 9;
    if (ferrite_bundle_close(bundle) || ferrite_bundle_open(store, "it", NULL, &bundle) || len_of("done") != 1)
        return 10;
    if (ferrite_change_new(&other) || ferrite_change_clear_map(other, "map") || ferrite_change_clear_queue(other, "done") ||
        ferrite_change_commit(other, bundle) || !members_are(""))
        return 11;
    ferrite_change_free(other);
    /* The bytes of an absent key are empty, so that there is nothing to free. */
    bytes = (ferrite_bytes){(uint8_t *)&len, sizeof len};
    if (ferrite_map_get(map, raw("none"), 4, &bytes) != FERRITE_ABSENT || bytes.data != NULL || bytes.len != 0)
        return 12;
    ferrite_map_close(map);
    ferrite_bundle_close(bundle);
    return ferrite_store_close(store);
}
