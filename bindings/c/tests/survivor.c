/* The owner of a store ("survivor STORE serve"), and a client that outlives it ("survivor STORE use"). */
#include <ferrite.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES(text) (const uint8_t *)(text), strlen(text)

static ferrite_store *store;
static ferrite_value *value;
static ferrite_map *map;
static ferrite_queue *queue;
static ferrite_log *entries;

static void expect(const char *what, int status, int wanted)
{
    if (status != wanted) {
        fprintf(stderr, "%s: status %d instead of %d: %s\n", what, status, wanted, ferrite_error());
        exit(1);
    }
}

static void expect_bytes(const char *what, int status, ferrite_bytes *found, const char *wanted)
{
    expect(what, status, FERRITE_OK);
    if (found->len != strlen(wanted) || memcmp(found->data, wanted, found->len) != 0) {
        fprintf(stderr, "%s is %.*s instead of %s\n", what, (int)found->len, (const char *)found->data, wanted);
        exit(1);
    }
    ferrite_bytes_free(found);
}

static int none(const char *name, const char *kind, uint64_t size, void *context)
{
    (void)name, (void)kind, (void)size, (void)context;
    return 1;
}

/* Prints the process id of the owner, and waits for a line. */
static void tell_owner(void)
{
    uint32_t pid;

    expect("its owner", ferrite_store_owner_pid(store, &pid), FERRITE_OK);
    printf("%" PRIu32 "\n", pid);
    fflush(stdout);
    getchar();
}

static void open_all(const char *path)
{
    expect(path, ferrite_store_open(path, &store), FERRITE_OK);
    expect("the value", ferrite_value_open(store, "value", BYTES("never"), FERRITE_FLUSH, &value), FERRITE_OK);
    expect("the map", ferrite_map_open(store, "map", NULL, &map), FERRITE_OK);
    expect("the queue", ferrite_queue_open(store, "queue", NULL, &queue), FERRITE_OK);
    expect("the log", ferrite_log_open(store, "log", NULL, &entries), FERRITE_OK);
}

static void close_all(void)
{
    ferrite_value_close(value);
    ferrite_map_close(map);
    ferrite_queue_close(queue);
    ferrite_log_close(entries);
    expect("closing", ferrite_store_close(store), FERRITE_OK);
}

/* Changes every object, and checks the status of each call. */
static void change_all(const char *text, int wanted)
{
    expect("setting", ferrite_value_set(value, BYTES(text)), wanted);
    expect("putting", ferrite_map_put(map, BYTES("key"), BYTES(text)), wanted);
    expect("pushing", ferrite_queue_push(queue, FERRITE_BACK, BYTES(text)), wanted);
    expect("appending", ferrite_log_append(entries, BYTES(text), NULL), wanted);
}

/* Calls that need the owner are refused with the same status as changes. */
static void ask_all(const char *path)
{
    ferrite_map *other;

    expect("opening another", ferrite_map_open(store, "other", NULL, &other), FERRITE_REVOKED);
    expect("freeing", ferrite_store_free(store, "other"), FERRITE_REVOKED);
    expect("the tags", ferrite_store_tags(store, none, NULL), FERRITE_REVOKED);
    expect("backing up", ferrite_store_backup(store, path), FERRITE_REVOKED);
}

/* Checks the number of changes of every object and its last content. */
static void find_all(const char *text, uint64_t changes)
{
    uint8_t room[5];
    uint64_t queued, end;
    ferrite_bytes found = {NULL, 0};

    expect("the value", ferrite_value_get(value, room, sizeof room), FERRITE_OK);
    expect(text, memcmp(room, text, sizeof room), 0);
    expect_bytes("the key", ferrite_map_get(map, BYTES("key"), &found), &found, text);
    expect("the queue", ferrite_queue_len(queue, &queued), FERRITE_OK);
    expect("the log", ferrite_log_end(entries, &end), FERRITE_OK);
    expect("how many", queued == changes && end == changes, 1);
    expect_bytes("the last of the queue", ferrite_queue_get(queue, queued - 1, &found), &found, text);
    expect_bytes("the last of the log", ferrite_log_get(entries, end - 1, &found), &found, text);
}

static int use(const char *path)
{
    open_all(path);
    change_all("first", FERRITE_OK);
    tell_owner();
    ask_all(path);
    change_all("other", FERRITE_REVOKED);
    puts(ferrite_error());
    find_all("first", 1);
    close_all();
    open_all(path);
    find_all("first", 1);
    change_all("third", FERRITE_OK);
    find_all("third", 2);
    tell_owner();
    close_all();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    if (strcmp(argv[2], "use") == 0)
        return use(argv[1]);
    if (ferrite_store_open(argv[1], &store) && ferrite_store_create(argv[1], 32 << 20, &store))
        expect(argv[1], FERRITE_FAILED, FERRITE_OK);
    tell_owner();
    return ferrite_store_close(store);
}
