#include "base/db.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"

/* How long a reader or the writer waits for a lock that SQLite holds only for
 * moments (recovery, the start of a WAL); nothing else ever waits. */
#define BUSY_MS 5000

/* Operations of SQLite's machine between two looks at is_ending: some ten
 * microseconds, at no measurable cost. */
#define HEED_OPERATIONS 1000

static bool
is_own(const struct db *db)
{
    return db->kind &&
           (db->kind->mode == DB_OWN || db->kind->mode == DB_OWN_ROLLBACK);
}

enum status
db_fail(struct db *db, enum status rc, struct problem *why, const char *format,
        ...)
{
    const char *name = db->kind ? db->kind->name : NULL;
    const char *file =
        name && db->handle ? sqlite3_db_filename(db->handle, "main") : NULL;
    va_list args;

    va_start(args, format);
    problem_vset(why, rc, format, args);
    va_end(args);
    if (name && file && *file)
        problem_prefix(why, rc, "%s %.500s: ", name, file);
    else if (name)
        problem_prefix(why, rc, "%s: ", name);
    return rc;
}

static enum status
status_of(int result)
{
    if (result == SQLITE_IOERR_NOMEM)
        return STATUS_MEMORY;
    switch (result & 0xff) {
    case SQLITE_FULL:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return STATUS_BUSY;
    case SQLITE_NOMEM:
        return STATUS_MEMORY;
    case SQLITE_INTERRUPT:
        return STATUS_STOPPED;
    default:
        return STATUS_IO;
    }
}

enum status
db_problem(struct db *db, int result, const char *what, struct problem *why)
{
    int error = errno; /* for a COMMIT sqlite3_system_errno does not have it */
    int last = sqlite3_extended_errcode(db->handle); /* NULL: no memory */
    const char *reason = last == result || (last & 0xff) == result
                             ? sqlite3_errmsg(db->handle)
                             : sqlite3_errstr(result);
    enum status rc = status_of(result);

    /* SQLite detects a full disk, but not an exceeded quota: it reports that as
     * a failed write. */
    if (result == SQLITE_IOERR_WRITE && error == EDQUOT) {
        rc = STATUS_BUSY;
        reason = "the disk quota is used up";
    }
    if ((result & 0xff) == SQLITE_BUSY && is_own(db)) {
        what = NULL;
        reason = "another process uses it";
    }
    if ((result & 0xff) == SQLITE_CORRUPT || (result & 0xff) == SQLITE_NOTADB)
        db->is_damaged = true;
    if (rc == STATUS_MEMORY)
        return problem_memory(why);
    return what ? db_fail(db, rc, why, "cannot %s: %s", what, reason)
                : db_fail(db, rc, why, "%s", reason);
}

/* The same for a statement. The beginning of its text describes it, unless the
 * database has a name. */
static enum status
sql_problem(struct db *db, int result, const char *sql, struct problem *why)
{
    char what[PROBLEM_QUOTE_MAX + 16];

    snprintf(what, sizeof(what), "run \"%s\"",
             problem_quote(slice_of(sql)).text);
    return db_problem(db, result, db->kind && db->kind->name ? NULL : what,
                      why);
}

/* Likewise: "cannot read FILE". */
static enum status
access_problem(struct db *db, int result, bool is_read, struct problem *why)
{
    const char *path = sqlite3_db_filename(db->handle, "main");
    char what[280];

    snprintf(what, sizeof(what), "%s %s", is_read ? "read" : "write",
             path && strrchr(path, '/') ? strrchr(path, '/') + 1
                                        : "a database");
    return db_problem(db, result, db->kind && db->kind->name ? NULL : what,
                      why);
}

enum status
db_exec(struct db *db, const char *sql, struct problem *why)
{
    return db_script(db, sql, NULL, why);
}

static int
add_column(void *to, int n, char **values, char **names)
{
    (void)n;
    (void)names;
    if (to && values[0])
        buf_add_text(to, values[0]);
    return SQLITE_OK;
}

enum status
db_script(struct db *db, const char *sql, struct buf *to, struct problem *why)
{
    int result = sqlite3_exec(db->handle, sql, add_column, to, NULL);

    return result ? sql_problem(db, result, sql, why) : STATUS_OK;
}

enum status
db_prepare(struct db *db, sqlite3_stmt **statement, const char *sql,
           struct problem *why)
{
    int result = sqlite3_prepare_v3(db->handle, sql, -1,
                                    SQLITE_PREPARE_PERSISTENT, statement, NULL);

    return result ? sql_problem(db, result, sql, why) : STATUS_OK;
}

struct kept_statement {
    struct map_node node; /* by the address of its text */
    sqlite3_stmt *statement;
};

enum status
db_keep(struct db *db, sqlite3_stmt **statement, const char *sql,
        struct problem *why)
{
    /* Texts lie close together: the multiplication spreads their addresses over
     * the low bits. */
    uint64_t hash = (uintptr_t)sql * UINT64_C(0x9E3779B97F4A7C15) >> 20;
    struct kept_statement *kept;
    enum status rc;

    map_each_same (kept, &db->kept, hash, node) {
        *statement = kept->statement;
        if (!strcmp(sqlite3_sql(*statement), sql))
            return STATUS_OK;
    }
    rc = db_prepare(db, statement, sql, why);
    /* Our own statements are right, so the tables are missing. */
    db->is_damaged |= rc && sqlite3_errcode(db->handle) == SQLITE_ERROR;
    if (rc)
        return rc;
    kept = memory_room(sizeof(*kept));
    if (!kept) {
        sqlite3_finalize(*statement);
        *statement = NULL;
        return problem_memory(why);
    }
    kept->statement = *statement;
    map_add(&db->kept, &kept->node, hash);
    return STATUS_OK;
}

enum status
db_step(struct db *db, sqlite3_stmt *statement, bool *row, const char *what,
        struct problem *why)
{
    int result = sqlite3_step(statement);

    *row = result == SQLITE_ROW;
    if (result == SQLITE_ROW || result == SQLITE_DONE)
        return STATUS_OK;
    return what ? db_problem(db, result, what, why)
                : access_problem(db, result, sqlite3_stmt_readonly(statement),
                                 why);
}

/* Values and rows */

_Static_assert(DB_INTEGER == SQLITE_INTEGER && DB_REAL == SQLITE_FLOAT &&
                   DB_TEXT == SQLITE_TEXT && DB_BYTES == SQLITE_BLOB &&
                   DB_NULL == SQLITE_NULL,
               "the types of values are those of SQLite");

/* An empty slice is '', not NULL. */
static const char *
data_of(struct slice bytes)
{
    return bytes.size ? bytes.data : "";
}

void
db_put_bytes(const struct db_target *target, struct slice bytes)
{
    if (target->type == DB_SLICE)
        *(struct slice *)target->to = bytes;
    else if (target->type == DB_BUF)
        buf_add_slice(target->to, bytes);
    else if (target->type == DB_CHARS)
        snprintf(target->to, target->size, "%.*s",
                 bytes.size < target->size ? (int)bytes.size : 0,
                 data_of(bytes));
    else if (bytes.size == target->size)
        memcpy(target->to, bytes.data, bytes.size);
    else
        memset(target->to, 0, target->size);
}

struct db_rows
db_select(struct db *db, const char *what, struct problem *why, const char *sql,
          const struct db_value *values)
{
    struct db_rows rows = {.db = db, .what = what, .why = why};

    rows.rc = db_keep(db, &rows.statement, sql, why);
    for (int n = 1; rows.statement && values->type; values++, n++)
        if (values->type == DB_INTEGER)
            sqlite3_bind_int64(rows.statement, n, values->number);
        else if (values->type == DB_REAL)
            sqlite3_bind_double(rows.statement, n, values->real);
        else if (values->type == DB_TEXT)
            sqlite3_bind_text64(rows.statement, n, data_of(values->bytes),
                                values->bytes.size, SQLITE_STATIC, SQLITE_UTF8);
        else if (values->type == DB_BYTES)
            sqlite3_bind_blob64(rows.statement, n, data_of(values->bytes),
                                values->bytes.size, SQLITE_STATIC);
    return rows;
}

bool
db_next(struct db_rows *rows, const struct db_target *into)
{
    bool row = false;

    if (!rows->rc)
        rows->rc =
            db_step(rows->db, rows->statement, &row, rows->what, rows->why);
    for (int i = 0; row && into[i].to; i++) {
        void *to = into[i].to;
        struct slice bytes;

        if (into[i].type == DB_BOOL) {
            *(bool *)to = sqlite3_column_int(rows->statement, i) != 0;
        } else if (into[i].type == DB_32) {
            *(uint32_t *)to =
                (uint32_t)sqlite3_column_int64(rows->statement, i);
        } else if (into[i].type == DB_64) {
            *(int64_t *)to = sqlite3_column_int64(rows->statement, i);
        } else {
            /* In this order: the size is that of the last requested type. */
            bytes.data = sqlite3_column_blob(rows->statement, i);
            bytes.size = (size_t)sqlite3_column_bytes(rows->statement, i);
            db_put_bytes(&into[i], bytes);
        }
    }
    return row;
}

enum status
db_rows_end(struct db_rows *rows)
{
    if (rows->statement) {
        sqlite3_reset(rows->statement);
        sqlite3_clear_bindings(rows->statement);
    }
    return rows->rc;
}

enum status
db_find(struct db *db, const char *what, struct problem *why, bool *is_there,
        const char *sql, const struct db_value *values,
        const struct db_target *into)
{
    struct db_rows rows = db_select(db, what, why, sql, values);
    bool row = db_next(&rows, into);

    if (is_there)
        *is_there = row;
    return db_rows_end(&rows);
}

enum status
db_number(struct db *db, const char *sql, int64_t *number, struct problem *why)
{
    bool is_there;
    enum status rc =
        db_find(db, NULL, why, &is_there, sql, DB_VALUES(), DB_INTO(number));

    return rc || is_there ? rc
                          : db_fail(db, STATUS_IO, why, "a row is missing");
}

/*
 * WAL with synchronous=FULL: a commit is one append and one fsync, and
 * acknowledged changes survive a crash (R-149). A commit writes every touched
 * page whole, so pages are small; those of the log, whose large rows are in
 * segments (broker/store/segments.h), the more so (tests/bench/README.md). The
 * log calls for checkpoints. The first two only have effect while the file is
 * empty.
 */
#define DURABLE(page_size, checkpoint)                         \
    "PRAGMA page_size=" page_size "; PRAGMA auto_vacuum=NONE;" \
    "PRAGMA secure_delete=OFF; PRAGMA journal_mode=WAL;"       \
    "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=" checkpoint

/* The mode before the journal: then a WAL needs no shared memory. The first
 * transaction takes the lock, which stays. */
#define OWN                          \
    "PRAGMA locking_mode=EXCLUSIVE;" \
    "PRAGMA trusted_schema=OFF;"     \
    "PRAGMA synchronous=FULL;"

static const char *const settings[] = {
    [DB_WRITER] = DURABLE("2048", "0"),
    [DB_SMALL] = DURABLE("4096", "1000"),
    [DB_READER] = "",
    [DB_LOOK] = "",
    [DB_OWN] = OWN "PRAGMA journal_mode=WAL",
    [DB_OWN_ROLLBACK] = OWN "PRAGMA journal_mode=DELETE",
    [DB_SHARED] = "",
    [DB_SCRATCH] = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF",
};

/*
 * A read-only connection also makes -wal and -shm if they are missing, and
 * leaves them behind. So a database without a WAL is opened as immutable. One
 * with a WAL, which has the latest commits after a crash, is opened without
 * locks, and with the index of the WAL in memory.
 */
static int
open_for_a_look(struct db *db, const char *path)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READONLY;
    char name[3 * 4200 + 32];
    size_t n;
    int result;

    snprintf(name, sizeof(name), "%s-wal", path);
    if (access(name, F_OK)) {
        /* "file:PATH?immutable=1" */
        n = (size_t)snprintf(name, sizeof(name), "file:");
        for (; *path && n + sizeof("%00?immutable=1") < sizeof(name); path++)
            n +=
                (size_t)snprintf(name + n, sizeof(name) - n,
                                 strchr("%?#", *path) ? "%%%02X" : "%c", *path);
        snprintf(name + n, sizeof(name) - n, "?immutable=1");
        return sqlite3_open_v2(name, &db->handle, flags | SQLITE_OPEN_URI,
                               NULL);
    }
    result = sqlite3_open_v2(path, &db->handle, flags, "unix-none");
    if (!result)
        result = sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
                                   1, NULL);
    if (!result)
        result = sqlite3_exec(db->handle, "PRAGMA locking_mode=EXCLUSIVE", NULL,
                              NULL, NULL);
    return result;
}

/*
 * The connections of this process to files with a WAL.
 *
 * SQLite finds a WAL and its index by name. Say thread A opens a file, and
 * thread B removes it and makes it anew before A reads. Then A takes the index
 * of the new file for that of the old one. It finds no other connection to the
 * old file, and truncates the index, which B has mapped: B's commits vanish, or
 * SIGBUS ends the process. SQLite's locks are no help: they do not exclude
 * threads of one process. So db_open waits before it makes a missing file,
 * until no connection to a file of that name is left.
 */
struct db_connection {
    struct list node;
    char path[];
};
static struct list connections = {&connections, &connections};
static pthread_mutex_t connections_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t connection_closed = PTHREAD_COND_INITIALIZER;

/* The mutex is held. */
static bool
is_connected(const char *path)
{
    struct db_connection *c;

    list_walk (c, &connections, node)
        if (!strcmp(c->path, path))
            return true;
    return false;
}

static bool
has_wal(enum db_mode mode)
{
    return mode == DB_WRITER || mode == DB_SMALL || mode == DB_READER;
}

static enum status
note_connection(struct db *db, const char *path, enum db_mode mode,
                struct problem *why)
{
    size_t size = strlen(path) + 1;

    if (!has_wal(mode) || !*path || *path == ':') /* in memory */
        return STATUS_OK;
    db->connection = memory_room(sizeof(*db->connection) + size);
    if (!db->connection)
        return problem_memory(why);
    memcpy(db->connection->path, path, size);
    pthread_mutex_lock(&connections_mutex);
    while (mode != DB_READER && access(path, F_OK) && is_connected(path))
        pthread_cond_wait(&connection_closed, &connections_mutex);
    list_append(&connections, &db->connection->node);
    pthread_mutex_unlock(&connections_mutex);
    return STATUS_OK;
}

static void
forget_connection(struct db *db)
{
    if (!db->connection)
        return;
    pthread_mutex_lock(&connections_mutex);
    list_remove(&db->connection->node);
    pthread_cond_broadcast(&connection_closed);
    pthread_mutex_unlock(&connections_mutex);
    free(db->connection);
    db->connection = NULL;
}

static enum status
open_file(struct db *db, const char *path, enum db_mode mode,
          struct problem *why)
{
    int flags = mode == DB_READER ? SQLITE_OPEN_READONLY
                                  : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    char what[600], journal[16] = "";
    struct stat st;
    enum status rc;
    int result;

    snprintf(what, sizeof(what), "open %s", path);
    rc = note_connection(db, path, mode, why);
    if (rc)
        return rc;
    /* Removes the permissions of other users from a database, such as a
     * restored copy. SQLite gives its WAL the same mode. */
    if ((mode == DB_WRITER || mode == DB_SMALL) && !stat(path, &st) &&
        (st.st_mode & (S_IRWXG | S_IRWXO)) && chmod(path, S_IRUSR | S_IWUSR))
        db->is_exposed = true;
    result = mode == DB_LOOK
                 ? open_for_a_look(db, path)
                 : sqlite3_open_v2(path, &db->handle,
                                   SQLITE_OPEN_NOMUTEX | flags, NULL);
    if (result)
        return db_problem(db, result, what, why);
    sqlite3_extended_result_codes(db->handle, 1);
    if (!is_own(db))
        sqlite3_busy_timeout(db->handle, BUSY_MS);
    result = sqlite3_exec(db->handle, settings[mode], NULL, NULL, NULL);
    if (result)
        return db_problem(db, result, what, why);
    if (!has_wal(mode))
        return STATUS_OK;
    /* If SQLite cannot set WAL mode, it only returns another mode. Without WAL
     * readers and the writer would block each other. */
    rc = db_find(db, "ask the journal mode", why, NULL, "PRAGMA journal_mode",
                 DB_VALUES(), DB_INTO(&journal));
    if (!rc && strcmp(journal, "wal") != 0)
        rc = problem(why, STATUS_IO, "%s: its journal mode is %s, not wal",
                     path, journal);
    return rc;
}

enum status
db_open(struct db *db, const char *path, enum db_mode mode, struct problem *why)
{
    enum status rc;

    *db = (struct db){.handle = NULL};
    rc = open_file(db, path, mode, why);
    if (rc)
        db_close(db);
    return rc;
}

enum status
db_open_kind(struct db *db, const struct db_kind *kind, const char *path,
             struct problem *why)
{
    enum status rc;

    *db = (struct db){.kind = kind};
    rc = open_file(db, path, kind->mode, why);
    if (!rc && kind->opening)
        rc = db_exec(db, kind->opening, why);
    if (!rc && kind->n_steps > 0)
        rc = db_migrate(db, kind->steps, kind->n_steps, why);
    if (rc)
        db_close(db);
    return rc;
}

void
db_close(struct db *db)
{
    struct kept_statement *kept;

    map_walk (kept, &db->kept, node) {
        sqlite3_finalize(kept->statement);
        free(kept);
    }
    map_fini(&db->kept);
    /* A statement that was not finalised keeps the file open, but does no other
     * harm: the second version of close never fails. */
    sqlite3_close_v2(db->handle);
    db->handle = NULL;
    forget_connection(db);
}

enum status
db_unlink(const char *path, struct problem *why)
{
    /* The file itself last: without it the others mean nothing, but the WAL of
     * another file would damage it. */
    static const char *const suffixes[] = {"-wal", "-shm", ""};
    char name[4400];

    for (size_t i = 0; i < N_ELEMENTS(suffixes); i++) {
        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        if (unlink(name) && errno != ENOENT)
            return problem_errno(why, "cannot remove", name);
    }
    return STATUS_OK;
}

/* Copying */

/* Copies all pages. The error of a step may be that of either file: the source
 * is to blame for damage, and for what reading alone shows. */
static enum status
copy_pages(struct db *to, struct db *from, const char *name,
           struct problem *why)
{
    sqlite3_backup *copying =
        sqlite3_backup_init(to->handle, "main", from->handle, "main");
    int result = copying ? sqlite3_backup_step(copying, -1)
                         : sqlite3_extended_errcode(to->handle);
    int kind = result & 0xff;

    if (copying)
        sqlite3_backup_finish(copying);
    if (result == SQLITE_DONE)
        return STATUS_OK;
    if (kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB ||
        result == SQLITE_IOERR_READ || result == SQLITE_IOERR_SHORT_READ)
        return problem(why, STATUS_GONE, "%s", sqlite3_errstr(result));
    return problem(why, status_of(result), "cannot write %s: %s", name,
                   sqlite3_errstr(result));
}

enum status
db_copy(const char *from, const char *to, struct problem *why)
{
    struct db source = {.handle = NULL}, copy = {.handle = NULL};
    struct problem reason = {""};
    char verdict[1000] = "";
    int result;
    enum status rc = note_connection(&source, from, DB_READER, why);

    if (rc)
        return rc;
    result = sqlite3_open_v2(from, &source.handle,
                             SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READONLY, NULL);
    /* Never changes the source: the last connection that closes would else move
     * the WAL into it. */
    if (!result)
        result = sqlite3_db_config(source.handle,
                                   SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (!result)
        result = sqlite3_busy_timeout(source.handle, BUSY_MS);
    /* Begins to read: this is the moment. */
    if (!result)
        result = sqlite3_exec(source.handle,
                              "BEGIN; SELECT count(*) FROM sqlite_schema", NULL,
                              NULL, NULL);
    if (result) {
        rc = problem(why, STATUS_GONE, "%s", sqlite3_errmsg(source.handle));
        goto out;
    }
    rc = db_open(&copy, to, DB_SCRATCH, why);
    if (!rc)
        rc = copy_pages(&copy, &source, to, why);
    db_close(&copy);
    if (!rc) {
        /* Looks at the copy as it is on the disk: it has no WAL. */
        rc = db_open(&copy, to, DB_LOOK, &reason);
        if (!rc)
            rc = db_find(&copy, "read it", &reason, NULL,
                         "PRAGMA quick_check(1)", DB_VALUES(),
                         DB_INTO(&verdict));
        if (!rc && strcmp(verdict, "ok") != 0)
            rc = problem(why, STATUS_GONE, "it is damaged: %s",
                         problem_quote(slice_of(verdict)).text);
        else if (rc && copy.is_damaged)
            rc = problem(why, STATUS_GONE, "it is damaged: %s", reason.text);
        else if (rc)
            problem(why, rc, "cannot check %s: %s", to, reason.text);
        db_close(&copy);
    }
    if (rc == STATUS_GONE && db_unlink(to, why))
        rc = STATUS_IO;

out:
    db_close(&source);
    return rc;
}

void
db_interrupt(struct db *db, int (*is_over)(void *user), void *user)
{
    sqlite3_progress_handler(db->handle, HEED_OPERATIONS, is_over, user);
}

static int
look_at_end(void *user)
{
    const atomic_bool *is_ending = user;

    return load_relaxed(is_ending);
}

void
db_heed(struct db *db, const atomic_bool *is_ending)
{
    db_interrupt(db, look_at_end, (void *)(uintptr_t)is_ending);
}

enum status
db_check_version(struct db *db, int n_steps, int64_t *version,
                 struct problem *why)
{
    int64_t application = 0, n_tables = 0, unwanted;
    enum status rc;

    version = version ? version : &unwanted;
    rc = db_number(db, "PRAGMA user_version", version, why);
    if (!rc && db->kind)
        rc = db_number(db, "PRAGMA application_id", &application, why);
    if (!rc && db->kind)
        rc =
            db_number(db, "SELECT count(*) FROM sqlite_master", &n_tables, why);
    if (!rc && db->kind &&
        (*version == 0
             ? n_tables != 0 || application != 0
             : *version < 0 || (db->kind->application_id &&
                                application != db->kind->application_id)))
        return db_fail(db, STATUS_INVALID, why,
                       "the file is another program's database");
    if (rc || (*version >= 0 && *version <= n_steps))
        return rc;
    return db_fail(db, STATUS_INVALID, why,
                   "the database is of version %" PRId64
                   ", and this program knows versions up to %d",
                   *version, n_steps);
}

enum status
db_check(const char *path, int n_steps, struct problem *why)
{
    struct db db = {NULL};
    struct stat st;
    enum status rc;

    if (stat(path, &st))
        return errno == ENOENT ? STATUS_OK
                               : problem_errno(why, "cannot open", path);
    if (st.st_size == 0)
        return STATUS_OK;
    rc = db_open(&db, path, DB_LOOK, why);
    if (!rc)
        rc = db_check_version(&db, n_steps, NULL, why);
    db_close(&db);
    return rc == STATUS_INVALID ? STATUS_IO : rc;
}

/* sqlite.org/fileformat2.html#the_database_header */
#define HEADER_SIZE     100
#define MAGIC           "SQLite format 3"
#define AT_USER_VERSION 60

/* Reads the version in the header of the file. */
static enum status
read_header(const char *path, int64_t *version, struct problem *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t header[HEADER_SIZE];
    ssize_t n = fd < 0 ? -1 : pread(fd, header, sizeof(header), 0);
    enum status rc = STATUS_OK;
    uint32_t number;

    if (n == 0 || (fd < 0 && errno == ENOENT))
        rc = problem(why, STATUS_NOT_FOUND, "%s is missing or empty", path);
    else if (n < 0)
        rc = problem_errno(why, "cannot read", path);
    else if (n < HEADER_SIZE || memcmp(header, MAGIC, sizeof(MAGIC)) != 0)
        rc = problem(why, STATUS_MALFORMED, "%s is no database", path);
    if (fd >= 0)
        close(fd);
    if (rc)
        return rc;
    memcpy(&number, header + AT_USER_VERSION, sizeof(number));
    *version = (int32_t)be32toh(number);
    return STATUS_OK;
}

/* A set has two databases, and a broker 10,000 sets: SQLite needs ten times as
 * long as a read of the header. But commits that are only in the WAL may have
 * changed it. */
enum status
db_look_version(const char *path, int64_t *version, struct problem *why)
{
    enum status rc = read_header(path, version, why);
    struct db db = {NULL};
    char wal[4400];
    struct stat st;

    snprintf(wal, sizeof(wal), "%s-wal", path);
    if (rc || stat(wal, &st) || st.st_size == 0)
        return rc;
    rc = db_open(&db, path, DB_LOOK, why);
    if (!rc)
        rc = db_number(&db, "PRAGMA user_version", version, why);
    db_close(&db);
    return rc;
}

/* Runs BEGIN or COMMIT. */
static enum status
run_transaction(struct db *db, const char *sql, struct problem *why)
{
    sqlite3_stmt *s;
    enum status rc = db_keep(db, &s, sql, why);
    int result;

    if (rc)
        return rc;
    sqlite3_step(s);
    result = sqlite3_reset(s);
    return result ? access_problem(db, result, false, why) : STATUS_OK;
}

enum status
db_begin(struct db *db, struct problem *why)
{
    return run_transaction(db, "BEGIN IMMEDIATE", why);
}

enum status
db_begin_firm(struct db *db, bool is_firm, struct problem *why)
{
    enum status rc = STATUS_OK;

    if (db->is_doubtful)
        rc = db_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", why);
    if (rc)
        return rc;
    db->is_doubtful = false;
    if (is_firm == db->is_lax)
        rc = db_exec(db,
                     is_firm ? "PRAGMA synchronous=FULL"
                             : "PRAGMA synchronous=NORMAL",
                     why);
    if (rc)
        return rc;
    db->is_lax = !is_firm;
    return db_begin(db, why);
}

enum status
db_end(struct db *db, enum status rc, struct problem *why)
{
    if (!rc)
        rc = run_transaction(db, "COMMIT", why);
    if (rc)
        db_rollback(db);
    db->is_doubtful |= rc == STATUS_IO;
    return rc;
}

void
db_rollback(struct db *db)
{
    /* After some errors SQLite has rolled back by itself. */
    if (db->handle && !sqlite3_get_autocommit(db->handle))
        sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
}

enum status
db_migrate(struct db *db, const char *const *steps, int n_steps,
           struct problem *why)
{
    char text[100];
    int64_t version = 0;
    enum status rc = db_begin(db, why);

    if (rc)
        return rc;
    rc = db_check_version(db, n_steps, &version, why);
    if (rc || version == n_steps)
        return db_end(db, rc, why);
    for (int64_t i = version; !rc && i < n_steps; i++)
        rc = db_exec(db, steps[i], why);
    if (!rc && db->kind && db->kind->application_id) {
        snprintf(text, sizeof(text), "PRAGMA application_id=%d",
                 db->kind->application_id);
        rc = db_exec(db, text, why);
    }
    snprintf(text, sizeof(text), "PRAGMA user_version=%d", n_steps);
    if (!rc)
        rc = db_exec(db, text, why);
    return db_end(db, rc, why);
}
