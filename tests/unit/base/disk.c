#include "tests/unit/base/disk.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <sqlite3.h>

/* A journal counts as a WAL. */
enum { DATABASE, WAL, KINDS };

static sqlite3_vfs disk;
static sqlite3_io_methods methods[KINDS];
static const sqlite3_io_methods *real_methods[KINDS]; /* before threads start */

static struct {
    atomic_int calls, result, error;
    atomic_int left; /* calls that succeed before they fail */
} fault;

static int
kind_of(const sqlite3_file *file)
{
    return file->pMethods == &methods[WAL] ? WAL : DATABASE;
}

static bool
meets_fault(int call)
{
    if (!(atomic_load(&fault.calls) & call) ||
        atomic_fetch_sub(&fault.left, 1) > 0)
        return false;
    errno = atomic_load(&fault.error);
    return true;
}

static int
disk_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 at)
{
    int kind = kind_of(file);

    if (meets_fault(kind == WAL ? DISK_WRITE_WAL : DISK_WRITE_DATABASE))
        return atomic_load(&fault.result);
    return real_methods[kind]->xWrite(file, bytes, size, at);
}

static int
disk_sync(sqlite3_file *file, int flags)
{
    int kind = kind_of(file);

    if (meets_fault(kind == WAL ? DISK_SYNC_WAL : DISK_SYNC_DATABASE))
        return atomic_load(&fault.result);
    return real_methods[kind]->xSync(file, flags);
}

static int
disk_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
          int *out_flags)
{
    sqlite3_vfs *real = sqlite3_vfs_find("unix");
    int kind = flags & SQLITE_OPEN_MAIN_DB ? DATABASE : WAL;
    int result = real->xOpen(vfs, name, file, flags, out_flags);

    if (result)
        return result;
    if (!real_methods[kind]) {
        methods[kind] = *file->pMethods;
        methods[kind].xWrite = disk_write;
        methods[kind].xSync = disk_sync;
        real_methods[kind] = file->pMethods;
    }
    file->pMethods = &methods[kind];
    return SQLITE_OK;
}

int
disk_setup(void **state)
{
    (void)state;
    disk = *sqlite3_vfs_find("unix");
    disk.zName = "failing";
    disk.xOpen = disk_open;
    return sqlite3_vfs_register(&disk, 1);
}

void
disk_fails_as(int calls, int result, int error, int n)
{
    atomic_store(&fault.result, result);
    atomic_store(&fault.error, error);
    atomic_store(&fault.left, n);
    atomic_store(&fault.calls, calls);
}

void
disk_fails(int calls, int result, int n)
{
    disk_fails_as(calls, result, result == SQLITE_FULL ? ENOSPC : EIO, n);
}

void
disk_mend(void)
{
    atomic_store(&fault.calls, 0);
}
