/*
 * ferrite.h - named objects that outlive crashes, at memory speed.
 *
 * A store is a pool of persistent memory in a file or on a device. In it are objects with names: values that are
 * updated in place, maps, queues, bundles of both, append-only logs. A change is durable when its call returns, as far as
 * what the store lies in is: memory (tmpfs) survives the end of the process, an NVDIMM and a disk survive power loss too;
 * `ferrite pool info` says it with the reason. After a crash an object has every change whose call had returned, and of one that had not all or nothing.
 *
 * Calls return FERRITE_OK, FERRITE_ABSENT, FERRITE_CANCELLED, or a failure; then ferrite_error() says what, where and what
 * to do. Results go through the last pointers. Any thread may call; calls on one object at once are made one after the
 * other, but for batches, changes and closing, which are one thread's. Bytes are copied in and out: nothing here points
 * into the store.
 *
 * A store that another process owns (`ferrite up`, or a program with this library) is opened through that process, and
 * then works by itself on the same memory. An object is open in one process at a time: in a child of fork, what its parent
 * has open is refused (FERRITE_INVALID) and closing it does nothing; the child opens the store for itself.
 */
#ifndef FERRITE_H
#define FERRITE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What calls return. */
enum {
    FERRITE_OK = 0,
    FERRITE_ABSENT = 1,     /* nothing there: no such key, an empty queue, no such number; no failure */
    FERRITE_INVALID = 2,    /* wrong arguments */
    FERRITE_NOT_FOUND = 3,  /* no object of that name */
    FERRITE_EXISTS = 4,     /* the name is taken, or what is there would be lost */
    FERRITE_BUSY = 5,       /* in use: by whom is in the message */
    FERRITE_FULL = 6,       /* no room in the store, on its host, or in a log */
    FERRITE_DAMAGED = 7,    /* bytes are not what was stored: which object is in the message */
    FERRITE_POISONED = 8,   /* an earlier call could not be made durable: open the store again */
    FERRITE_WRONG_TYPE = 9, /* the object is of another type */
    FERRITE_TOO_LARGE = 10, /* larger than it may be */
    FERRITE_FAILED = 11,    /* anything else, such as an error of the file */
    FERRITE_REVOKED = 12,   /* the process that owns the store has ended, or wants the object back: close it, open it again */
    FERRITE_CANCELLED = 13, /* a plan said so: nothing was changed; no failure */
    FERRITE_DROPPED = 14    /* the store is closed, but not in order: the message says why */
};

typedef struct ferrite_store ferrite_store;
typedef struct ferrite_value ferrite_value;
typedef struct ferrite_map ferrite_map;
typedef struct ferrite_batch ferrite_batch;
typedef struct ferrite_queue ferrite_queue;
typedef struct ferrite_log ferrite_log;
typedef struct ferrite_bundle ferrite_bundle;
typedef struct ferrite_change ferrite_change;

/* Bytes that a call gave, empty where it says FERRITE_ABSENT. Yours: free them with ferrite_bytes_free. */
typedef struct ferrite_bytes {
    uint8_t *data;
    size_t len;
} ferrite_bytes;

/* How a map, a queue, a bundle or a log is kept. Zeros, or a null pointer, are the defaults. */
typedef struct ferrite_options {
    uint64_t log_bytes;          /* room for changes where it is made now (4 MiB); of a log, for all its entries */
    uint64_t checkpoint_records; /* a checkpoint after so many changes (never by count) */
    uint64_t checkpoint_bytes;   /* a checkpoint after so many bytes of changes (three quarters of the room) */
    int salvage;                 /* not 0: read what is left of a damaged object, and go on with that */
} ferrite_options;

/* How a value reaches the memory (see ferrite_value_open). */
enum {
    FERRITE_NT = 0,         /* non-temporal stores: the fastest on most processors */
    FERRITE_FLUSH = 1,      /* store, then flush its lines by the best instruction there is */
    FERRITE_CLWB = 2,       /* by clwb */
    FERRITE_CLFLUSHOPT = 3, /* by clflushopt */
    FERRITE_CLFLUSH = 4     /* by clflush */
};

/* The ends of a queue; any other number is FERRITE_INVALID. */
enum { FERRITE_BACK = 0, FERRITE_FRONT = 1 };

/* Why the last call of this thread that failed did: what, where, what to do. Good until the next one fails. */
const char *ferrite_error(void);

/* Frees bytes that a call gave; they are empty then. Bytes that are empty already are left alone. */
int ferrite_bytes_free(ferrite_bytes *bytes);

/* ---- Stores ---- */

/* Makes a store of so many bytes in a new file, or on a device that is there and holds none, and opens it. */
int ferrite_store_create(const char *path, uint64_t bytes, ferrite_store **out);

/* Opens the store at the path and recovers it: as its owner, or through the process that is. */
int ferrite_store_open(const char *path, ferrite_store **out);

/* Closes it in order. Every object of it is closed before: FERRITE_BUSY, and nothing is done, while one is open. After
 * FERRITE_OK and FERRITE_DROPPED the store is closed, and the pointer of no more use; after anything else it is as before.
 * Whoever ends without it leaves what a crash leaves, and so does FERRITE_DROPPED, which costs the next one nothing but a
 * short recovery. Null is ignored. */
int ferrite_store_close(ferrite_store *store);

/* As ferrite_store_close; before, where asked for, writes a backup to a file (a null pointer: none) as ferrite_store_backup
 * does, and then defragments: what the store or its host has no room to move stays where it is, which is no failure. Both are
 * its owner's to do (else FERRITE_INVALID). Where the backup fails the store stays open: try again, or close it. What other
 * processes change after the backup is in the store alone. */
int ferrite_store_finalize(ferrite_store *store, int defragment, const char *backup);

/* The process that owns it, where that is another one; else 0. */
int ferrite_store_owner_pid(const ferrite_store *store, uint32_t *out);

/* Writes a backup to a file, durable on return; an older one there stays good until then. FERRITE_BUSY while another
 * process stores into objects by itself. Where the limit on the size of files (RLIMIT_FSIZE) is below that of a backup, a
 * program that has not ignored SIGXFSZ is ended by it. */
int ferrite_store_backup(const ferrite_store *store, const char *path);

/* Restores a backup into a new file, or into a file or device that nobody has open. Content there, a store or anything but
 * zeros, is lost only if lose_bytes is the size of the file or device: else FERRITE_EXISTS, and the message has the size. 0
 * loses nothing. */
int ferrite_restore(const char *image, const char *path, uint64_t lose_bytes);

/* Calls visit with the name, the kind and the size of everything in the store, by name, until it returns not 0. */
int ferrite_store_tags(const ferrite_store *store,
                       int (*visit)(const char *name, const char *kind, uint64_t size, void *context), void *context);

/* Frees the object of that name, which nobody has open: its content is gone, its space free. */
int ferrite_store_free(const ferrite_store *store, const char *name);

/* ---- Values: direct update ---- */

/* Opens the value of so many bytes (at most 2032); where there is none of that name it is made, and is as given here. A
 * value is updated all or nothing, also where it is longer than a line, at the price of one fence. */
int ferrite_value_open(const ferrite_store *store, const char *name, const uint8_t *initial, size_t len, int scheme,
                       ferrite_value **out);

/* Copies the value out; len is its length, else FERRITE_INVALID. */
int ferrite_value_get(const ferrite_value *value, uint8_t *out, size_t len);

/* Sets the value; durable on return. len is its length, else FERRITE_INVALID. */
int ferrite_value_set(const ferrite_value *value, const uint8_t *new_value, size_t len);

/* Closes it. Null is ignored. */
int ferrite_value_close(ferrite_value *value);

/* ---- Maps: logging with checkpoints ---- */

/* Opens the map of that name; made where there is none. It is in DRAM too: opening reads all of it. */
int ferrite_map_open(const ferrite_store *store, const char *name, const ferrite_options *options, ferrite_map **out);

/* What the key has; FERRITE_ABSENT where it is not there. */
int ferrite_map_get(const ferrite_map *map, const uint8_t *key, size_t key_len, ferrite_bytes *out);

/* Sets what the key has; durable on return. */
int ferrite_map_put(const ferrite_map *map, const uint8_t *key, size_t key_len, const uint8_t *value, size_t value_len);

/* Takes the key away; durable on return. FERRITE_ABSENT where it was not there. */
int ferrite_map_remove(const ferrite_map *map, const uint8_t *key, size_t key_len);

/* Takes every key away; durable on return. */
int ferrite_map_clear(const ferrite_map *map);

/* How many keys there are. */
int ferrite_map_len(const ferrite_map *map, uint64_t *out);

/* The first key greater than the one given, and what it has; a null pointer: the first of all. FERRITE_ABSENT at the
 * end. Keys are in the order of their bytes. */
int ferrite_map_next(const ferrite_map *map, const uint8_t *after, size_t after_len, ferrite_bytes *key,
                     ferrite_bytes *value);

/* Takes a checkpoint now: the next opening has no changes to apply. */
int ferrite_map_checkpoint(const ferrite_map *map);

/* Closes it. Null is ignored. */
int ferrite_map_close(ferrite_map *map);

/* Changes of a map that are made together, or after a crash not at all. */
int ferrite_batch_new(ferrite_batch **out);

/* Adds: set what the key has. */
int ferrite_batch_put(ferrite_batch *batch, const uint8_t *key, size_t key_len, const uint8_t *value, size_t value_len);

/* Adds: take the key away. */
int ferrite_batch_remove(ferrite_batch *batch, const uint8_t *key, size_t key_len);

/* Makes all changes of the batch on the map; durable on return. The batch stays, and can be committed again. */
int ferrite_batch_commit(const ferrite_batch *batch, const ferrite_map *map);

/* Frees it. Null is ignored. */
int ferrite_batch_free(ferrite_batch *batch);

/* ---- Queues: logging with checkpoints ---- */

/* Opens the queue of that name; made where there is none. */
int ferrite_queue_open(const ferrite_store *store, const char *name, const ferrite_options *options,
                       ferrite_queue **out);

/* Adds an entry at an end; durable on return. */
int ferrite_queue_push(const ferrite_queue *queue, int at_end, const uint8_t *entry, size_t len);

/* Takes the entry at an end away; when this returns no crash brings it back. FERRITE_ABSENT where it is empty. */
int ferrite_queue_pop(const ferrite_queue *queue, int at_end, ferrite_bytes *out);

/* The entry with this index, counted from the front; FERRITE_ABSENT where there is none. */
int ferrite_queue_get(const ferrite_queue *queue, uint64_t index, ferrite_bytes *out);

/* How many entries there are. */
int ferrite_queue_len(const ferrite_queue *queue, uint64_t *out);

/* Takes every entry away; durable on return. */
int ferrite_queue_clear(const ferrite_queue *queue);

/* Takes a checkpoint now. */
int ferrite_queue_checkpoint(const ferrite_queue *queue);

/* Closes it. Null is ignored. */
int ferrite_queue_close(ferrite_queue *queue);

/* ---- Bundles: maps and queues that change together ---- */

/* Opens the bundle of that name; made where there is none. Its members are maps and queues with names of their own: one
 * needs no making, and is there while it holds something. */
int ferrite_bundle_open(const ferrite_store *store, const char *name, const ferrite_options *options,
                        ferrite_bundle **out);

/* As ferrite_map_get, of the member map of that name. */
int ferrite_bundle_map_get(const ferrite_bundle *bundle, const char *map, const uint8_t *key, size_t key_len,
                           ferrite_bytes *out);

/* As ferrite_map_len. */
int ferrite_bundle_map_len(const ferrite_bundle *bundle, const char *map, uint64_t *out);

/* As ferrite_map_next. */
int ferrite_bundle_map_next(const ferrite_bundle *bundle, const char *map, const uint8_t *after, size_t after_len,
                            ferrite_bytes *key, ferrite_bytes *value);

/* As ferrite_queue_get, of the member queue of that name. */
int ferrite_bundle_queue_get(const ferrite_bundle *bundle, const char *queue, uint64_t index, ferrite_bytes *out);

/* As ferrite_queue_len. */
int ferrite_bundle_queue_len(const ferrite_bundle *bundle, const char *queue, uint64_t *out);

/* Calls visit with the name of every member, the maps first, until it returns not 0. */
int ferrite_bundle_members(const ferrite_bundle *bundle, int (*visit)(int is_queue, const char *name, void *context),
                           void *context);

/* Changes the members as plan says: it reads the bundle by the calls above, and adds to the change, which is its own until
 * it returns. Nothing changes between what it reads and the change. All of that is durable when this returns; after a
 * crash all members have it, or none. FERRITE_CANCELLED, and nothing is changed, where plan returns not 0. From within
 * a plan nothing else is changed or opened, and no backup made (FERRITE_INVALID). */
int ferrite_bundle_change(const ferrite_bundle *bundle, int (*plan)(ferrite_change *change, void *context),
                          void *context);

/* Takes a checkpoint now. */
int ferrite_bundle_checkpoint(const ferrite_bundle *bundle);

/* Closes it. Null is ignored. */
int ferrite_bundle_close(ferrite_bundle *bundle);

/* Changes of a bundle's members that need no look at them, so no plan; made together, or after a crash not at all. */
int ferrite_change_new(ferrite_change **out);

/* Adds: set what the key of a map has. */
int ferrite_change_put(ferrite_change *change, const char *map, const uint8_t *key, size_t key_len,
                       const uint8_t *value, size_t value_len);

/* Adds: take the key of a map away, if it is there. */
int ferrite_change_remove(ferrite_change *change, const char *map, const uint8_t *key, size_t key_len);

/* Adds: take every key of a map away. */
int ferrite_change_clear_map(ferrite_change *change, const char *map);

/* Adds: an entry at an end of a queue. */
int ferrite_change_push(ferrite_change *change, const char *queue, int at_end, const uint8_t *entry, size_t len);

/* Adds: take the entry at an end of a queue away. Where there is none then, all of the change is refused
 * (FERRITE_INVALID). */
int ferrite_change_pop(ferrite_change *change, const char *queue, int at_end);

/* Adds: take every entry of a queue away. */
int ferrite_change_clear_queue(ferrite_change *change, const char *queue);

/* Makes all of the change; durable on return. The change stays, and can be committed again. */
int ferrite_change_commit(const ferrite_change *change, const ferrite_bundle *bundle);

/* Frees it; not one that a plan was given. Null is ignored. */
int ferrite_change_free(ferrite_change *change);

/* ---- Logs: records alone ---- */

/* Opens the log of that name; made where there is none, with room for log_bytes of entries. Each takes its bytes and 40
 * more, rounded up to 64. */
int ferrite_log_open(const ferrite_store *store, const char *name, const ferrite_options *options, ferrite_log **out);

/* Appends an entry; durable on return. Its number goes to the last pointer, unless that is null. FERRITE_FULL: cut;
 * FERRITE_TOO_LARGE: that would not help. */
int ferrite_log_append(const ferrite_log *log, const uint8_t *entry, size_t len, uint64_t *number);

/* The entry of this number; FERRITE_ABSENT where it was cut off or is not there yet. */
int ferrite_log_get(const ferrite_log *log, uint64_t number, ferrite_bytes *out);

/* The number of the oldest entry; that of the next one where there is none. */
int ferrite_log_first(const ferrite_log *log, uint64_t *out);

/* The number of the next entry. */
int ferrite_log_end(const ferrite_log *log, uint64_t *out);

/* Cuts off every entry before this number; durable on return. */
int ferrite_log_cut(const ferrite_log *log, uint64_t number);

/* Closes it. Null is ignored. */
int ferrite_log_close(ferrite_log *log);

/* ---- Salvage ---- */

/* Calls visit with what of the object was damaged and given up when it was opened to salvage, and with where in the store
 * that lay, until it returns not 0. Nothing was given up where visit is not called. */
int ferrite_map_losses(const ferrite_map *map, int (*visit)(const char *what, uint64_t at, void *context),
                       void *context);

/* The same of a queue. */
int ferrite_queue_losses(const ferrite_queue *queue, int (*visit)(const char *what, uint64_t at, void *context),
                         void *context);

/* The same of a bundle. */
int ferrite_bundle_losses(const ferrite_bundle *bundle, int (*visit)(const char *what, uint64_t at, void *context),
                          void *context);

/* The same of a log. */
int ferrite_log_losses(const ferrite_log *log, int (*visit)(const char *what, uint64_t at, void *context),
                       void *context);

/* Calls visit with the entries of a log that stood behind the damage, and their numbers. The log ends before the damage:
 * copy them to where they are wanted. The first append takes the place of all of them. */
int ferrite_log_rescued(const ferrite_log *log,
                        int (*visit)(uint64_t number, const uint8_t *entry, size_t len, void *context), void *context);

#ifdef __cplusplus
}
#endif

#endif
