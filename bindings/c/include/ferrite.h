/*
 * ferrite.h - named objects that survive crashes, at memory speed.
 *
 * A store is a pool of persistent memory in a file or on a device. It contains objects with names: values that are
 * updated in place, maps, queues, bundles of maps and queues, and append-only logs.
 *
 * A change is durable when its call returns, to the extent that the memory of the store is durable. Memory (tmpfs)
 * survives the end of the process. An NVDIMM and a disk also survive power loss. `ferrite pool info` prints which of
 * these applies, and the reason. After a crash an object contains every change whose call had returned. A change whose
 * call had not returned is there completely or not at all.
 *
 * A call returns FERRITE_OK, FERRITE_ABSENT, FERRITE_CANCELLED, or a failure. After a failure, ferrite_error()
 * describes what failed, the place, and the remedy. Results are written through the last pointers. Any thread may make
 * calls, and concurrent calls on one object are serialized. Batches, changes, and the closing calls are an exception:
 * only one thread at a time may use them. Bytes are copied in and out, so no pointer of this interface refers to the
 * store.
 *
 * A store that another process owns (`ferrite up`, or a program with this library) is opened through that process.
 * After that, this process works directly on the same memory. An object is open in one process at a time. In a child
 * of fork, the library refuses calls on the handles of the parent (FERRITE_INVALID), and closing them has no effect.
 * The child must open the store itself.
 */
#ifndef FERRITE_H
#define FERRITE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The status that a call returns. */
enum {
    FERRITE_OK = 0,
    FERRITE_ABSENT = 1,     /* not a failure: no such key, an empty queue, or no such number */
    FERRITE_INVALID = 2,    /* an argument is wrong */
    FERRITE_NOT_FOUND = 3,  /* the store has no object of that name */
    FERRITE_EXISTS = 4,     /* the name is in use, or the call would destroy existing content */
    FERRITE_BUSY = 5,       /* in use; the message names the user */
    FERRITE_FULL = 6,       /* no space in the store, on its host, or in a log */
    FERRITE_DAMAGED = 7,    /* bytes differ from the stored ones; the message names the object */
    FERRITE_POISONED = 8,   /* an earlier change could not be made durable; open the store again */
    FERRITE_WRONG_TYPE = 9, /* the object has another type */
    FERRITE_TOO_LARGE = 10, /* larger than the limit */
    FERRITE_FAILED = 11,    /* any other failure, such as an error of the file */
    FERRITE_REVOKED = 12,   /* the owner of the store ended or revoked the object; close and reopen it */
    FERRITE_CANCELLED = 13, /* not a failure: the plan cancelled the change */
    FERRITE_DROPPED = 14    /* the store is closed, but not cleanly; the message has the reason */
};

typedef struct ferrite_store ferrite_store;
typedef struct ferrite_value ferrite_value;
typedef struct ferrite_map ferrite_map;
typedef struct ferrite_batch ferrite_batch;
typedef struct ferrite_queue ferrite_queue;
typedef struct ferrite_log ferrite_log;
typedef struct ferrite_bundle ferrite_bundle;
typedef struct ferrite_change ferrite_change;
typedef struct ferrite_region ferrite_region;

/* Bytes that a call returned; empty if the call returned FERRITE_ABSENT. The caller owns them and frees them with
 * ferrite_bytes_free. */
typedef struct ferrite_bytes {
    uint8_t *data;
    size_t len;
} ferrite_bytes;

/* The settings of a map, a queue, a bundle or a log. Zeros, or a null pointer, select the defaults. */
typedef struct ferrite_options {
    uint64_t log_bytes;          /* log size of a new object (4 MiB); for a log, the size of all its entries */
    uint64_t checkpoint_records; /* changes between two checkpoints (no limit by count) */
    uint64_t checkpoint_bytes;   /* bytes of changes between two checkpoints (3/4 of log_bytes) */
    int salvage;                 /* not 0: open a damaged object with the content that is still readable */
} ferrite_options;

/* The instructions that make a value durable (see ferrite_value_open). */
enum {
    FERRITE_NT = 0,         /* non-temporal stores: the fastest on most processors */
    FERRITE_FLUSH = 1,      /* store, then flush the lines by the best available instruction */
    FERRITE_CLWB = 2,       /* store, then clwb */
    FERRITE_CLFLUSHOPT = 3, /* store, then clflushopt */
    FERRITE_CLFLUSH = 4     /* store, then clflush */
};

/* The ends of a queue. A call with any other number returns FERRITE_INVALID. */
enum { FERRITE_BACK = 0, FERRITE_FRONT = 1 };

/* The message of the last failed call of this thread: the failure, its place, and the remedy. The pointer is valid
 * until the next call of this thread fails. */
const char *ferrite_error(void);

/* Frees bytes that a call returned, and makes them empty. The call has no effect on empty bytes. */
int ferrite_bytes_free(ferrite_bytes *bytes);

/* ---- Stores ---- */

/* Creates a store of this size in a new file, or on an existing device without a store, and opens it. */
int ferrite_store_create(const char *path, uint64_t bytes, ferrite_store **out);

/* Opens the store at the path and recovers it. If another process owns the store, the call opens it through that
 * process; otherwise this process becomes the owner. */
int ferrite_store_open(const char *path, ferrite_store **out);

/* Closes the store cleanly. Close every object of the store first: while one is open, the call returns FERRITE_BUSY
 * and has no effect. After FERRITE_OK and FERRITE_DROPPED the store is closed and the pointer is invalid. After any
 * other status the store is still open. A process that ends without this call leaves the store as a crash does. So
 * does FERRITE_DROPPED. The next opening then needs a short recovery, and nothing is lost. Null is ignored. */
int ferrite_store_close(ferrite_store *store);

/* Closes the store like ferrite_store_close. Before that, it optionally writes a backup to a file as
 * ferrite_store_backup does (a null pointer: no backup), and optionally defragments the store. Objects stay in place
 * if the store or its host has no space to move them; this is not a failure. Only the owner of the store can make the
 * backup and defragment it (otherwise FERRITE_INVALID). If the backup fails, the store stays open: try again, or close
 * it. The backup does not contain the changes that other processes make after it. */
int ferrite_store_finalize(ferrite_store *store, int defragment, const char *backup);

/* The id of the process that owns the store, or 0 if this process owns it. */
int ferrite_store_owner_pid(const ferrite_store *store, uint32_t *out);

/* Writes a backup to a file. The backup is durable when the call returns; an older backup in the file stays valid
 * until then. The call returns FERRITE_BUSY while another process has direct access to objects. If the backup is
 * larger than the limit on file sizes (RLIMIT_FSIZE), SIGXFSZ ends a program that does not ignore this signal. */
int ferrite_store_backup(const ferrite_store *store, const char *path);

/* Restores a backup into a new file, or into a file or device that no process has open. The call overwrites existing
 * content (a store, or any bytes other than zeros) only if lose_bytes equals the size of the file or device. Otherwise
 * it returns FERRITE_EXISTS, and the message contains the size. With 0 no content is overwritten. */
int ferrite_restore(const char *image, const char *path, uint64_t lose_bytes);

/* Calls visit with the name, the kind and the size of each entry of the store, in the order of names. It stops when
 * visit returns a value other than 0. */
int ferrite_store_tags(const ferrite_store *store,
                       int (*visit)(const char *name, const char *kind, uint64_t size, void *context), void *context);

/* Frees the object of that name. No process may have it open. Its content is lost, and its space becomes free. */
int ferrite_store_free(const ferrite_store *store, const char *name);

/* ---- Values: direct update ---- */

/* Opens the value of len bytes (at most 2032). If the store has no value of that name, the call creates it with the
 * initial bytes. Each update is atomic, even if the value is longer than a cache line, and needs one fence. */
int ferrite_value_open(const ferrite_store *store, const char *name, const uint8_t *initial, size_t len, int scheme,
                       ferrite_value **out);

/* Copies the value to out. len must be the length of the value (otherwise FERRITE_INVALID). */
int ferrite_value_get(const ferrite_value *value, uint8_t *out, size_t len);

/* Sets the value. The change is durable on return. len must be the length of the value (otherwise FERRITE_INVALID). */
int ferrite_value_set(const ferrite_value *value, const uint8_t *new_value, size_t len);

/* Closes the value. Null is ignored. */
int ferrite_value_close(ferrite_value *value);

/* ---- Maps: logging with checkpoints ---- */

/* Opens the map of that name, or creates it. The map is also kept in DRAM, so opening it reads all its content. */
int ferrite_map_open(const ferrite_store *store, const char *name, const ferrite_options *options, ferrite_map **out);

/* The value of the key, or FERRITE_ABSENT if the map does not contain the key. */
int ferrite_map_get(const ferrite_map *map, const uint8_t *key, size_t key_len, ferrite_bytes *out);

/* Sets the value of the key. The change is durable on return. */
int ferrite_map_put(const ferrite_map *map, const uint8_t *key, size_t key_len, const uint8_t *value, size_t value_len);

/* Removes the key. The change is durable on return. The call returns FERRITE_ABSENT if the map did not contain the
 * key. */
int ferrite_map_remove(const ferrite_map *map, const uint8_t *key, size_t key_len);

/* Removes all keys. The change is durable on return. */
int ferrite_map_clear(const ferrite_map *map);

/* The number of keys. */
int ferrite_map_len(const ferrite_map *map, uint64_t *out);

/* The first key greater than the given one, and its value. A null pointer selects the first key of the map. At the end
 * the call returns FERRITE_ABSENT. Keys are in the order of their bytes. */
int ferrite_map_next(const ferrite_map *map, const uint8_t *after, size_t after_len, ferrite_bytes *key,
                     ferrite_bytes *value);

/* Takes a checkpoint now, so that the next opening has no changes to apply. */
int ferrite_map_checkpoint(const ferrite_map *map);

/* Closes the map. Null is ignored. */
int ferrite_map_close(ferrite_map *map);

/* Creates an empty batch. A commit applies all changes of a batch to a map atomically. */
int ferrite_batch_new(ferrite_batch **out);

/* Adds the change that sets the value of the key. */
int ferrite_batch_put(ferrite_batch *batch, const uint8_t *key, size_t key_len, const uint8_t *value, size_t value_len);

/* Adds the change that removes the key. */
int ferrite_batch_remove(ferrite_batch *batch, const uint8_t *key, size_t key_len);

/* Applies all changes of the batch to the map. They are durable on return. The batch keeps its changes and can be
 * committed again. */
int ferrite_batch_commit(const ferrite_batch *batch, const ferrite_map *map);

/* Frees the batch. Null is ignored. */
int ferrite_batch_free(ferrite_batch *batch);

/* ---- Queues: logging with checkpoints ---- */

/* Opens the queue of that name, or creates it. */
int ferrite_queue_open(const ferrite_store *store, const char *name, const ferrite_options *options,
                       ferrite_queue **out);

/* Adds an entry at an end. The change is durable on return. */
int ferrite_queue_push(const ferrite_queue *queue, int at_end, const uint8_t *entry, size_t len);

/* Removes the entry at an end and returns it. The change is durable on return. The call returns FERRITE_ABSENT if the
 * queue is empty. */
int ferrite_queue_pop(const ferrite_queue *queue, int at_end, ferrite_bytes *out);

/* The entry with this index, counted from the front, or FERRITE_ABSENT if the queue is shorter. */
int ferrite_queue_get(const ferrite_queue *queue, uint64_t index, ferrite_bytes *out);

/* The number of entries. */
int ferrite_queue_len(const ferrite_queue *queue, uint64_t *out);

/* Removes all entries. The change is durable on return. */
int ferrite_queue_clear(const ferrite_queue *queue);

/* Takes a checkpoint now, so that the next opening has no changes to apply. */
int ferrite_queue_checkpoint(const ferrite_queue *queue);

/* Closes the queue. Null is ignored. */
int ferrite_queue_close(ferrite_queue *queue);

/* ---- Bundles: maps and queues that change together ---- */

/* Opens the bundle of that name, or creates it. Its members are maps and queues with their own names. A member needs
 * no creation: it exists as long as it has content. */
int ferrite_bundle_open(const ferrite_store *store, const char *name, const ferrite_options *options,
                        ferrite_bundle **out);

/* Like ferrite_map_get, for the member map of that name. */
int ferrite_bundle_map_get(const ferrite_bundle *bundle, const char *map, const uint8_t *key, size_t key_len,
                           ferrite_bytes *out);

/* Like ferrite_map_len, for the member map of that name. */
int ferrite_bundle_map_len(const ferrite_bundle *bundle, const char *map, uint64_t *out);

/* Like ferrite_map_next, for the member map of that name. */
int ferrite_bundle_map_next(const ferrite_bundle *bundle, const char *map, const uint8_t *after, size_t after_len,
                            ferrite_bytes *key, ferrite_bytes *value);

/* Like ferrite_queue_get, for the member queue of that name. */
int ferrite_bundle_queue_get(const ferrite_bundle *bundle, const char *queue, uint64_t index, ferrite_bytes *out);

/* Like ferrite_queue_len, for the member queue of that name. */
int ferrite_bundle_queue_len(const ferrite_bundle *bundle, const char *queue, uint64_t *out);

/* Calls visit with the name of each member, the maps first. It stops when visit returns a value other than 0. */
int ferrite_bundle_members(const ferrite_bundle *bundle, int (*visit)(int is_queue, const char *name, void *context),
                           void *context);

/* Calls plan, and then applies the change that plan built. The plan reads the bundle by the calls above and adds to
 * the change. It may use the change until it returns. The bundle does not change between these reads and the commit.
 * The change is durable when this call returns. After a crash all members have the change, or none has it. If plan
 * returns a value other than 0, the call changes nothing and returns FERRITE_CANCELLED. A plan must not change or open
 * other objects and must not make a backup (FERRITE_INVALID). */
int ferrite_bundle_change(const ferrite_bundle *bundle, int (*plan)(ferrite_change *change, void *context),
                          void *context);

/* Takes a checkpoint now, so that the next opening has no changes to apply. */
int ferrite_bundle_checkpoint(const ferrite_bundle *bundle);

/* Closes the bundle. Null is ignored. */
int ferrite_bundle_close(ferrite_bundle *bundle);

/* Creates an empty change. Use it for changes that do not read the bundle and so need no plan. A commit applies all
 * parts of a change atomically. */
int ferrite_change_new(ferrite_change **out);

/* Adds the change that sets the value of a key of a map. */
int ferrite_change_put(ferrite_change *change, const char *map, const uint8_t *key, size_t key_len,
                       const uint8_t *value, size_t value_len);

/* Adds the change that removes a key of a map, if the map contains it. */
int ferrite_change_remove(ferrite_change *change, const char *map, const uint8_t *key, size_t key_len);

/* Adds the change that removes all keys of a map. */
int ferrite_change_clear_map(ferrite_change *change, const char *map);

/* Adds the change that pushes an entry to an end of a queue. */
int ferrite_change_push(ferrite_change *change, const char *queue, int at_end, const uint8_t *entry, size_t len);

/* Adds the change that removes the entry at an end of a queue. If the queue is empty at that point, the commit refuses
 * the whole change (FERRITE_INVALID). */
int ferrite_change_pop(ferrite_change *change, const char *queue, int at_end);

/* Adds the change that removes all entries of a queue. */
int ferrite_change_clear_queue(ferrite_change *change, const char *queue);

/* Applies the whole change to the bundle. It is durable on return. The change keeps its parts and can be committed
 * again. */
int ferrite_change_commit(const ferrite_change *change, const ferrite_bundle *bundle);

/* Frees the change. Do not free the change that a plan receives. Null is ignored. */
int ferrite_change_free(ferrite_change *change);

/* ---- Logs: append-only records ---- */

/* Opens the log of that name, or creates it with space for log_bytes of entries. An entry needs its length plus 40
 * bytes, rounded up to a multiple of 64. */
int ferrite_log_open(const ferrite_store *store, const char *name, const ferrite_options *options, ferrite_log **out);

/* Appends an entry. The entry is durable on return. Its number is written through the last pointer, unless that is
 * null. After FERRITE_FULL, cut the log. After FERRITE_TOO_LARGE, a cut does not help: the entry does not fit into the
 * log. */
int ferrite_log_append(const ferrite_log *log, const uint8_t *entry, size_t len, uint64_t *number);

/* The entry with this number, or FERRITE_ABSENT if it was cut off or does not exist yet. */
int ferrite_log_get(const ferrite_log *log, uint64_t number, ferrite_bytes *out);

/* The number of the oldest entry. If the log is empty, it is the number of the next entry. */
int ferrite_log_first(const ferrite_log *log, uint64_t *out);

/* The number of the next entry. */
int ferrite_log_end(const ferrite_log *log, uint64_t *out);

/* Cuts off all entries before this number. The change is durable on return. */
int ferrite_log_cut(const ferrite_log *log, uint64_t number);

/* Closes the log. Null is ignored. */
int ferrite_log_close(ferrite_log *log);

/* ---- Regions: the memory of a guest ---- */

/* Maps the guest of that name of the pool at the path: `ferrite guest create` makes guests. If another process owns the
 * pool, the call opens the guest through that process; otherwise this process becomes the owner. The guest has no other
 * user until the region is closed. The process needs root or access to /dev/userfaultfd, and Linux 6.4. */
int ferrite_region_open(const char *pool, const char *name, ferrite_region **out);

/* The first address of the region, and its number of bytes. The program loads and stores there. Stores are in memory
 * that a crash loses, until they are persisted. The address is valid until the region is closed. A child of fork does
 * not have the memory. */
int ferrite_region_memory(const ferrite_region *region, void **base, uint64_t *bytes);

/* Names bytes that are to be durable after the next barrier: with their content at this call, or a later one. */
int ferrite_region_persist(const ferrite_region *region, uint64_t offset, uint64_t bytes);

/* Makes all bytes durable that any thread has persisted. Bytes that were not persisted do not become durable. After a
 * failure call it again: nothing is forgotten. The call waits while other threads have locked some of the bytes. A
 * thread that holds a lock must not call it (FERRITE_INVALID). */
int ferrite_region_barrier(const ferrite_region *region);

/* Locks bytes for the calling thread: until it unlocks them, no barrier copies a persisted range that has some of them,
 * and no other thread locks any of them. */
int ferrite_region_lock(const ferrite_region *region, uint64_t offset, uint64_t bytes);

/* Unlocks the bytes that the calling thread locked with the same numbers. */
int ferrite_region_unlock(const ferrite_region *region, uint64_t offset, uint64_t bytes);

/* Closes the region, and the pool if this process became its owner. Stores that no barrier made durable are lost. Null is
 * ignored. */
int ferrite_region_close(ferrite_region *region);

/* ---- Salvage ---- */

/* Calls visit for each damaged part that the opening with salvage gave up: with a description and the offset in the
 * store. It stops when visit returns a value other than 0. If the opening gave up nothing, visit is not called. */
int ferrite_map_losses(const ferrite_map *map, int (*visit)(const char *what, uint64_t at, void *context),
                       void *context);

/* Like ferrite_map_losses, for a queue. */
int ferrite_queue_losses(const ferrite_queue *queue, int (*visit)(const char *what, uint64_t at, void *context),
                         void *context);

/* Like ferrite_map_losses, for a bundle. */
int ferrite_bundle_losses(const ferrite_bundle *bundle, int (*visit)(const char *what, uint64_t at, void *context),
                          void *context);

/* Like ferrite_map_losses, for a log. */
int ferrite_log_losses(const ferrite_log *log, int (*visit)(const char *what, uint64_t at, void *context),
                       void *context);

/* Calls visit with the entries of a log that are behind the damage, and with their numbers. The log itself ends before
 * the damage, so copy the entries that you need. The first append overwrites all of them. */
int ferrite_log_rescued(const ferrite_log *log,
                        int (*visit)(uint64_t number, const uint8_t *entry, size_t len, void *context), void *context);

#ifdef __cplusplus
}
#endif

#endif
