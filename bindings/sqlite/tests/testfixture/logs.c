/*
** A command for SQLite's test program: a database's logs and header as its VFS has them, for scripts that would look at
** files.
**
**     ferrite_file size NAME                 bytes, -1 where there is no such file
**     ferrite_file read NAME AT BYTES
**     ferrite_file write NAME AT CONTENT     made where it is not there
**     ferrite_file delete NAME               a log
**
** NAME is a database's file, or that with -wal or -journal.
*/
#include <string.h>

typedef struct FerritePair FerritePair;
struct FerritePair {
  sqlite3_file *main, *log, *asked;
};

static void ferrite_close(FerritePair *pair) {
  if (pair->log && pair->log->pMethods)
    pair->log->pMethods->xClose(pair->log);
  if (pair->main && pair->main->pMethods)
    pair->main->pMethods->xClose(pair->main);
  sqlite3_free(pair->log);
  sqlite3_free(pair->main);
}

static int ferrite_open_one(sqlite3_vfs *vfs, const char *name, int flags, sqlite3_file **into) {
  int out = 0;
  *into = sqlite3_malloc(vfs->szOsFile);
  memset(*into, 0, vfs->szOsFile);
  return vfs->xOpen(vfs, name, *into, flags, &out);
}

/* The logs of a database are known while it is open, and a log is made under its lock. */
static int ferrite_open(sqlite3_vfs *vfs, const char *path, const char *log, int writes, FerritePair *pair) {
  const char *name = sqlite3_create_filename(path, "", "", 0, 0);
  int how = writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  int rc = ferrite_open_one(vfs, name, how | SQLITE_OPEN_MAIN_DB, &pair->main);

  pair->asked = pair->main;
  if (rc == SQLITE_OK && writes) {
    rc = pair->main->pMethods->xLock(pair->main, SQLITE_LOCK_SHARED);
    if (rc == SQLITE_OK)
      rc = pair->main->pMethods->xLock(pair->main, SQLITE_LOCK_RESERVED);
  }
  if (rc == SQLITE_OK && log) {
    int kind = strstr(log, "-wal") ? SQLITE_OPEN_WAL : SQLITE_OPEN_MAIN_JOURNAL;
    rc = ferrite_open_one(vfs, log, how | kind | (writes ? SQLITE_OPEN_CREATE : 0), &pair->log);
    pair->asked = pair->log;
  }
  sqlite3_free_filename(name);
  return rc;
}

static int ferrite_do(Tcl_Interp *interp, sqlite3_vfs *vfs, FerritePair *pair, const char *log, Tcl_Obj *const *words) {
  const char *verb = Tcl_GetString(words[1]);
  sqlite3_file *file = pair->asked;
  Tcl_WideInt at = 0;
  sqlite3_int64 size = 0;
  int bytes = 0, rc = SQLITE_OK;

  if (strcmp(verb, "delete") == 0) {
    pair->log->pMethods->xClose(pair->log);
    pair->log->pMethods = 0;
    return vfs->xDelete(vfs, log, 1);
  }
  if (strcmp(verb, "size") == 0) {
    rc = file->pMethods->xFileSize(file, &size);
    Tcl_SetObjResult(interp, Tcl_NewWideIntObj(size));
    return rc;
  }
  Tcl_GetWideIntFromObj(interp, words[3], &at);
  if (strcmp(verb, "write") == 0) {
    unsigned char *content = Tcl_GetByteArrayFromObj(words[4], &bytes);
    return bytes ? file->pMethods->xWrite(file, content, bytes, at) : SQLITE_OK;
  }
  Tcl_GetIntFromObj(interp, words[4], &bytes);
  rc = file->pMethods->xFileSize(file, &size);
  if (rc == SQLITE_OK && bytes > size - at)
    bytes = size > at ? (int)(size - at) : 0;
  Tcl_Obj *content = Tcl_NewObj();
  unsigned char *room = Tcl_SetByteArrayLength(content, bytes);
  if (rc == SQLITE_OK && bytes)
    rc = file->pMethods->xRead(file, room, bytes, at);
  Tcl_SetObjResult(interp, content);
  return rc;
}

static int ferrite_file(void *unused, Tcl_Interp *interp, int count, Tcl_Obj *const words[]) {
  sqlite3_vfs *vfs = sqlite3_vfs_find("ferrite");
  const char *verb = count > 2 ? Tcl_GetString(words[1]) : "";
  int writes = strcmp(verb, "write") == 0 || strcmp(verb, "delete") == 0;
  char path[1024] = "", log[1040] = "";
  FerritePair pair = {0, 0, 0};

  (void)unused;
  if (!vfs || count < 3 || vfs->xFullPathname(vfs, Tcl_GetString(words[2]), sizeof path, path) & 0xff)
    return TCL_ERROR;
  char *end = strstr(path, "-wal") ? strstr(path, "-wal") : strstr(path, "-journal");
  if (end) {
    strcpy(log, path);
    *end = 0;
  }
  int rc = ferrite_open(vfs, path, end ? log : 0, writes, &pair);
  if (rc == SQLITE_OK)
    rc = ferrite_do(interp, vfs, &pair, log, words);
  else if (strcmp(verb, "size") == 0)
    Tcl_SetObjResult(interp, Tcl_NewIntObj(-1));
  if (rc != SQLITE_OK && strcmp(verb, "size") != 0)
    Tcl_SetObjResult(interp, Tcl_NewIntObj(rc));
  if (writes && pair.main && pair.main->pMethods)
    pair.main->pMethods->xUnlock(pair.main, SQLITE_LOCK_NONE);
  ferrite_close(&pair);
  return rc == SQLITE_OK || strcmp(verb, "size") == 0 ? TCL_OK : TCL_ERROR;
}
