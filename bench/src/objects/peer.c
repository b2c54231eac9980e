/* What stands beside objects: one durable update of 64 bytes by LMDB, libpmemobj, or a file.
 *
 * Usage: peer WHAT PATH. For each line on standard input, a number of milliseconds, it updates for so long and prints
 * how many nanoseconds an update took. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_LMDB
#include <lmdb.h>
#endif
#ifdef WITH_PMEMOBJ
#include <libpmemobj.h>
#endif

enum { ITEMS = 10000, BYTES = 64 };

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void must(int bad, const char *what)
{
    if (bad) {
        perror(what);
        exit(1);
    }
}

/* A place to update: the same for all, cheap. */
static uint64_t draw(void)
{
    static uint64_t state = 7;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % ITEMS;
}

static void (*update)(uint64_t item, const char *value);

#ifdef WITH_LMDB
static MDB_env *env;
static MDB_dbi dbi;

static void by_lmdb(uint64_t item, const char *value)
{
    MDB_txn *txn;
    MDB_val key = {sizeof item, &item}, data = {BYTES, (void *)value};
    must(mdb_txn_begin(env, NULL, 0, &txn) || mdb_put(txn, dbi, &key, &data, 0) || mdb_txn_commit(txn), "an LMDB update");
}

static void open_lmdb(const char *path, unsigned flags)
{
    MDB_txn *txn;
    must(mdb_env_create(&env) || mdb_env_set_mapsize(env, 64 << 20) || mdb_env_open(env, path, MDB_NOSUBDIR | flags, 0600), path);
    must(mdb_txn_begin(env, NULL, 0, &txn) || mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &dbi) || mdb_txn_commit(txn), path);
    update = by_lmdb;
}
#endif

#ifdef WITH_PMEMOBJ
static PMEMobjpool *pool;
static char *root;

static void by_pmemobj(uint64_t item, const char *value)
{
    TX_BEGIN(pool) {
        pmemobj_tx_add_range_direct(root + item * BYTES, BYTES);
        memcpy(root + item * BYTES, value, BYTES);
    } TX_ONABORT {
        must(1, "a libpmemobj update");
    } TX_END
}

static void open_pmemobj(const char *path)
{
    pool = pmemobj_create(path, "peer", 64 << 20, 0600);
    must(!pool, pmemobj_errormsg());
    root = pmemobj_direct(pmemobj_root(pool, (size_t)ITEMS * BYTES));
    update = by_pmemobj;
}
#endif

static int file;

static void by_file(uint64_t item, const char *value)
{
    must(pwrite(file, value, BYTES, (off_t)(item * BYTES)) != BYTES || fdatasync(file), "a write");
}

int main(int argc, char **argv)
{
    unsigned ms;

    if (argc != 3)
        return 2;
    if (!strcmp(argv[1], "file")) {
        file = open(argv[2], O_RDWR | O_CREAT, 0600);
        must(file < 0, argv[2]);
        update = by_file;
    }
#ifdef WITH_LMDB
    if (!strcmp(argv[1], "lmdb"))
        open_lmdb(argv[2], 0);
    if (!strcmp(argv[1], "lmdb-map"))
        open_lmdb(argv[2], MDB_WRITEMAP);
#endif
#ifdef WITH_PMEMOBJ
    if (!strcmp(argv[1], "pmemobj"))
        open_pmemobj(argv[2]);
#endif
    if (!update)
        return 2;
    while (scanf("%u", &ms) == 1) {
        uint64_t start = now_ns(), end = start, updates = 0;
        char value[BYTES];
        while (end - start < (uint64_t)ms * 1000000u) {
            for (int i = 0; i < 32; i++) {
                uint64_t item = draw();
                memset(value, (int)(updates + item), BYTES);
                update(item, value);
                updates++;
            }
            end = now_ns();
        }
        printf("%f\n", (double)(end - start) / (double)updates);
        fflush(stdout);
    }
    return 0;
}
