/*
 * mirror_status.c - what a mirror has.
 */
#include "client/mirror/mirror_status.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "proto/shown_address.h"

/* The head of a WAL changes whenever SQLite begins it anew. */
#define WAL_HEAD_SIZE 32

/* More than a process can disturb: it rewrites the file some times a second,
 * and reading takes some milliseconds. */
#define TRIES 200

/* The bytes of the file that SQLite locks: sqlite.org/fileformat2.html, "the
 * lock-byte page", as of its VFS "unix". */
#define LOCK_START 0x40000000
#define LOCK_SIZE  512

/* Properties that change if somebody writes the file. */
struct file_mark {
    bool is_there;
    ino_t inode;
    off_t size;
    struct timespec written;
    char wal_head[WAL_HEAD_SIZE];
};

/* The head of the WAL is zeros if there is none. */
static void
mark_file(const char *path, struct file_mark *mark)
{
    char wal[PATH_MAX + 8];
    struct stat st;
    int fd;

    memset(mark, 0, sizeof(*mark)); /* they are compared as bytes */
    mark->is_there = !stat(path, &st);
    if (mark->is_there) {
        mark->inode = st.st_ino;
        mark->size = st.st_size;
        mark->written = st.st_mtim;
    }
    snprintf(wal, sizeof(wal), "%s-wal", path);
    fd = open(wal, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return;
    if (pread(fd, mark->wal_head, WAL_HEAD_SIZE, 0) < 0)
        memset(mark->wal_head, 0, WAL_HEAD_SIZE);
    close(fd);
}

/* Reading */

static enum status
read_state(struct db *db, struct mirror_status *status, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(db, NULL, why, "SELECT name, value, value FROM state");
    struct slice name, text;
    uint64_t value;

    while (DB_NEXT(&rows, &name, &value, &text)) {
        if (slice_is(name, "filter"))
            snprintf(status->filter, sizeof(status->filter), "%.*s",
                     SLICE_ARG(text));
        if (slice_is(name, "as-of"))
            status->as_of_us = (int64_t)value;
        for (const struct mirror_db_count *c = mirror_db_count_rows; c->name;
             c++)
            if (slice_is(name, c->name))
                *(uint64_t *)((char *)&status->counts + c->offset) = value;
    }
    return db_rows_end(&rows);
}

static enum status
read_sets(struct db *db, struct mirror_status *status, struct problem *why)
{
    struct db_rows rows = DB_SELECT(
        db, NULL, why,
        "SELECT url, substr(position, 1, instr(position || ' ', ' ') - 1),"
        " caught_up, " MIRROR_DB_CERTAINTY " FROM sets ORDER BY id");
    struct mirror_status_set set;
    struct mirror_db_certainty *c = &set.certainty;
    struct slice url;

    while (DB_NEXT(&rows, &url, &set.position, &set.caught_up_us,
                   MIRROR_DB_INTO_CERTAINTY(c))) {
        if (c->n_held && !c->doubt[0])
            snprintf(c->doubt, sizeof(c->doubt),
                     "%" PRIu64 " deletions are held back", c->n_held);
        if (status->counts.n_fetch && c->complete_us && !c->doubt[0])
            snprintf(c->doubt, sizeof(c->doubt),
                     "%" PRIu64 " resources are still to be fetched",
                     status->counts.n_fetch);
        set.url = shown_address(slice_dup(url));
        if (set.url &&
            ONE_MORE(status->sets, &status->sets_capacity, status->n_sets)) {
            status->sets[status->n_sets++] = set;
        } else {
            free(set.url);
            rows.rc = problem_memory(why);
        }
    }
    return db_rows_end(&rows);
}

/* Reads the database once. */
static enum status
read_database(struct mirror_status *status, const char *path,
              struct problem *why)
{
    struct db db = {.handle = NULL};
    int64_t version;
    enum status rc = db_open(&db, path, DB_LOOK, why);

    if (!rc && db_check_version(&db, MIRROR_DB_VERSION, &version, why))
        rc = STATUS_IO;
    if (!rc && version < MIRROR_DB_VERSION)
        rc = problem(why, STATUS_IO,
                     "an earlier tidings made it: the next sync or audit "
                     "brings it up to date");
    if (!rc)
        rc = read_state(&db, status, why);
    if (!rc) {
        struct db_rows rows =
            DB_SELECT(&db, NULL, why, "SELECT url FROM sources ORDER BY n");
        struct slice url;

        while (DB_NEXT(&rows, &url))
            if (ONE_MORE(status->sources, &status->sources_capacity,
                         status->n_sources) &&
                (status->sources[status->n_sources] =
                     shown_address(slice_dup(url))))
                status->n_sources++;
            else
                rows.rc = problem_memory(why);
        rc = db_rows_end(&rows);
    }
    if (!rc)
        rc = read_sets(&db, status, why);
    db_close(&db);
    return rc;
}

enum status
mirror_status_read(struct mirror_status *status, const char *dir,
                   struct problem *why)
{
    struct file_mark before, after;
    char path[PATH_MAX];
    enum status rc = STATUS_IO;

    *status = (struct mirror_status){.process = 0};
    if (snprintf(path, sizeof(path), "%s/" MIRROR_DIR_STATE "/mirror.db",
                 dir) >= (int)sizeof(path))
        return problem(why, STATUS_IO, "%s: the path is too long", dir);
    if (access(path, R_OK))
        return errno == ENOENT || errno == ENOTDIR
                   ? problem(why, STATUS_IO,
                             "%s is no mirror: it has no " MIRROR_DIR_STATE
                             "/mirror.db; tidings sync makes one",
                             dir)
                   : problem_errno(why, "cannot read", path);
    for (int i = 0; i < TRIES; i++) {
        /* To find the process that has locked the database. Takes no lock, so
         * it never keeps a process from its work. */
        struct flock lock = {.l_type = F_WRLCK,
                             .l_whence = SEEK_SET,
                             .l_start = LOCK_START,
                             .l_len = LOCK_SIZE};
        int fd;

        mirror_status_fini(status);
        mark_file(path, &before);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd >= 0) {
            if (!fcntl(fd, F_GETLK, &lock) && lock.l_type != F_UNLCK) {
                status->is_at_work = true;
                status->process = lock.l_pid > 0 ? lock.l_pid : 0;
            }
            close(fd);
        }
        rc = read_database(status, path, why);
        mark_file(path, &after);
        if (before.is_there && !memcmp(&before, &after, sizeof(before)))
            break;
        rc = problem(why, STATUS_IO,
                     "%s changes faster than it can be read; ask again", path);
    }
    if (rc)
        problem_prefix(why, rc, "%s: ", dir);
    return rc;
}

void
mirror_status_fini(struct mirror_status *status)
{
    for (size_t i = 0; i < status->n_sources; i++)
        free(status->sources[i]);
    for (size_t i = 0; i < status->n_sets; i++)
        free(status->sets[i].url);
    free(status->sources);
    free(status->sets);
    *status = (struct mirror_status){.process = 0};
}
