#include "broker/state/upload_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/array.h"
#include "broker/state/resources.h"
#include "proto/resourcesync/fragment.h"

/* Blocks */

void
block_fini(struct block *b)
{
    buf_fini(&b->bytes);
    free(b->rows);
}

void
block_clear(struct block *b)
{
    buf_clear(&b->bytes);
    b->n = 0;
}

enum status
block_add(struct block *b, const struct change *change, struct problem *why)
{
    size_t offset = b->bytes.size;
    struct fragment f;
    enum status rc;

    if (!ONE_MORE(b->rows, &b->capacity, b->n))
        return problem_memory(why);
    rc = fragment_write(&b->bytes, change, &f, why);
    if (rc)
        return rc;
    b->rows[b->n++] = (struct staged_row){offset, f.size, f.hole};
    return STATUS_OK;
}

/* Files */

enum stage { STAGE_NEW, STAGE_WHOLE, STAGE_TAKEN, STAGES };

static const char *const suffixes[STAGES] = {
    [STAGE_NEW] = ".new",
    [STAGE_WHOLE] = ".whole",
    [STAGE_TAKEN] = ".taken",
};

static struct file_path
path_of(const char *dir, const char *name, enum stage stage)
{
    return file_path("%s/%s%s", dir, name, suffixes[stage]);
}

void
upload_file_remove(const char *dir, const char *name)
{
    for (int stage = 0; stage < STAGES; stage++)
        unlink(path_of(dir, name, stage).text);
}

static enum status
rename_to(const char *dir, const char *name, enum stage from, enum stage to,
          struct problem *why)
{
    struct file_path old = path_of(dir, name, from);

    if (rename(old.text, path_of(dir, name, to).text))
        return problem_errno(why, "cannot rename", old.text);
    return file_sync_path(dir, why);
}

enum status
upload_file_take(const char *dir, const char *name, struct problem *why)
{
    return rename_to(dir, name, STAGE_WHOLE, STAGE_TAKEN, why);
}

enum status
upload_file_path(const char *dir, const char *name, struct file_path *path,
                 bool *is_taken)
{
    for (int stage = STAGE_TAKEN; stage >= STAGE_WHOLE; stage--) {
        *is_taken = stage == STAGE_TAKEN;
        *path = path_of(dir, name, stage);
        if (!access(path->text, F_OK))
            return STATUS_OK;
    }
    return STATUS_NOT_FOUND;
}

enum status
upload_file_left(const char *dir, void (*fn)(const char *name, void *user),
                 void *user, struct problem *why)
{
    DIR *d = file_open_dir(AT_FDCWD, dir, 0);
    const struct dirent *e;
    char name[SET_NAME_MAX + 1];

    if (!d && errno == ENOENT)
        return STATUS_OK;
    if (!d)
        return problem_errno(why, "cannot open", dir);
    while ((e = file_next(d))) {
        size_t size = strlen(e->d_name), end = 0;

        for (int stage = STAGE_WHOLE; stage < STAGES; stage++) {
            end = strlen(suffixes[stage]);
            if (size > end && !strcmp(e->d_name + size - end, suffixes[stage]))
                break;
            end = 0;
        }
        snprintf(name, sizeof(name), "%.*s", (int)(size - end), e->d_name);
        if (end > 0 && size - end <= SET_NAME_MAX &&
            set_name_is_valid(slice_of(name)))
            fn(name, user);
        else if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
    return STATUS_OK;
}

/* Arriving */

struct upload_file {
    char dir[4096 + 16];
    char name[SET_NAME_MAX + 1];
    struct db db;
    uint64_t n;
};

#define WHAT "store the upload"

/* The file is worthless before it is complete: no journal, no fsync. */
const struct db_kind upload_file_kind = {
    .mode = DB_SMALL,
    .opening = "PRAGMA journal_mode=OFF;"
               "PRAGMA synchronous=OFF;"
               "PRAGMA cache_size=-8192;" /* KiB */
               "CREATE TABLE staged("
               " id INTEGER PRIMARY KEY, hole INTEGER NOT NULL,"
               " fragment BLOB NOT NULL);"
               "CREATE TABLE keys("
               " key BLOB PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID;"
               "CREATE TABLE about("
               " epoch TEXT NOT NULL, after INTEGER NOT NULL,"
               " max_delete INTEGER NOT NULL, n INTEGER NOT NULL,"
               " accepted INTEGER NOT NULL, left_out INTEGER NOT NULL,"
               " traceparent TEXT NOT NULL);",
};

enum status
upload_file_begin(struct upload_file **staging, const char *dir,
                  const char *name, struct problem *why)
{
    struct upload_file *s = memory_new(1, sizeof(*s));
    enum status rc;

    snprintf(s->dir, sizeof(s->dir), "%s", dir);
    snprintf(s->name, sizeof(s->name), "%s", name);
    rc = file_make_dirs(dir, why);
    if (!rc) {
        upload_file_remove(dir, name);
        rc = db_open_kind(&s->db, &upload_file_kind,
                          path_of(dir, name, STAGE_NEW).text, why);
    }
    if (rc)
        upload_file_discard(s);
    else
        *staging = s;
    return rc;
}

void
upload_file_discard(struct upload_file *s)
{
    if (!s)
        return;
    db_close(&s->db);
    upload_file_remove(s->dir, s->name);
    free(s);
}

/* Adding */

/* The bytes of a row beside its fragment: its head in both tables, its key, and
 * the empty part of their pages. */
#define ROW_BYTES (2 * sizeof(struct resource_key) + 32)

uint64_t
upload_file_size(const struct block *b)
{
    return b->bytes.size + b->n * ROW_BYTES;
}

struct staged {
    struct keyed entry;
    const struct staged_row *row;
};

static struct slice
row_bytes(const struct block *b, const struct staged_row *row)
{
    return (struct slice){b->bytes.data + row->offset, row->size};
}

enum status
upload_file_add(struct upload_file *s, const struct block *b,
                struct problem *why)
{
    struct staged *keyed;
    uint64_t id = 0;
    enum status rc;

    if (b->n == 0)
        return STATUS_OK;
    keyed = memory_new(b->n, sizeof(*keyed));
    if (!keyed)
        return problem_memory(why);
    rc = db_exec(&s->db, "BEGIN", why);
    for (size_t i = 0; !rc && i < b->n; i++) {
        struct slice fragment = row_bytes(b, &b->rows[i]);

        keyed[i].entry.seq = s->n + i + 1;
        keyed[i].row = &b->rows[i];
        resource_key(&keyed[i].entry.key, fragment_loc(fragment));
        rc = DB_DO(&s->db, WHAT, why,
                   "INSERT INTO staged(id, hole, fragment) VALUES(?,?,?)",
                   keyed[i].entry.seq, b->rows[i].hole, db_blob(fragment));
    }
    /* By key: each page of the index is read and written once. */
    if (!rc)
        qsort(keyed, b->n, sizeof(*keyed), keyed_compare);
    for (size_t i = 0; !rc && i < b->n; i++) {
        const struct staged *k = &keyed[i];
        const struct db_value key =
            db_bytes(&k->entry.key, sizeof(k->entry.key));

        rc = DB_DO(&s->db, WHAT, why,
                   "INSERT INTO keys(key, id) VALUES(?,?)"
                   " ON CONFLICT DO NOTHING",
                   key, k->entry.seq);
        if (rc || sqlite3_changes(s->db.handle) > 0)
            continue;
        (void)!db_find(&s->db, WHAT, NULL, NULL,
                       "SELECT id FROM keys WHERE key=?", DB_VALUES(key),
                       DB_INTO(&id));
        rc = problem(why, STATUS_INVALID,
                     "loc: named already in entry %" PRIu64 ": \"%s\"", id,
                     problem_quote(fragment_loc(row_bytes(b, k->row))).text);
        if (why)
            why->entry = k->entry.seq;
    }
    if (!rc)
        rc = db_exec(&s->db, "COMMIT", why);
    s->n += b->n;
    free(keyed);
    return rc;
}

/* The end */

enum status
upload_file_finish(struct upload_file *s, const struct upload_file_about *about,
                   struct problem *why)
{
    enum status rc =
        DB_DO(&s->db, WHAT, why,
              "INSERT INTO about(epoch, after, max_delete, n,"
              " accepted, left_out, traceparent)"
              " VALUES(?,?,?,?,?,?,?)",
              about->epoch, about->after, about->max_delete, s->n,
              about->accepted, about->left_out, about->traceparent);

    if (rc)
        return rc;
    db_close(&s->db);
    /* First the bytes, then the name which marks them as complete. */
    rc = file_sync_path(path_of(s->dir, s->name, STAGE_NEW).text, why);
    if (!rc)
        rc = rename_to(s->dir, s->name, STAGE_NEW, STAGE_WHOLE, why);
    if (!rc)
        free(s);
    return rc;
}
