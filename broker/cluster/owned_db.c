/*
 * SQLite's session extension notes the rows that a transaction changes, by
 * their primary key. Their values are read at the end of the transaction.
 *
 * The values of a key, and the columns of a row, one after the other:
 *
 *     integer, real     01 or 02, eight bytes, the highest first
 *     text, blob        03 or 04, its size in four bytes, its bytes
 *     NULL              05
 *
 * Of a table whose ids are used once (AUTOINCREMENT), the key NULL has the last
 * id that was given: a stream forgets rows that were deleted.
 */
#define SQLITE_ENABLE_SESSION        1
#define SQLITE_ENABLE_PREUPDATE_HOOK 1

#include "broker/cluster/owned_db.h"

#include "base/array.h"
#include "base/file.h"
#include "broker/base/diag.h"

/* A few; the databases have five. */
#define TABLES_MAX 16

#define COLUMNS_MAX 32

/* How often an append to a shared stream begins again behind rows of others. */
#define APPENDS_MAX 30

enum statement {
    READ_ALL, /* the rows of the stream */
    END_ALL,
    READ_ONE, /* by the primary key */
    END_ONE,
    PUT, /* of table->n_put columns */
    STATEMENTS
};

struct table {
    char *name;
    int n_columns;
    bool is_key[COLUMNS_MAX];
    char *columns[COLUMNS_MAX];
    bool is_counted;    /* AUTOINCREMENT: no id is used twice */
    bool has_ended_row; /* this transaction has deleted one */

    struct buf sql[STATEMENTS]; /* their texts */
    int n_put;
};

struct owned_db {
    struct db *db;
    struct streams *streams;
    const char *stream;
    const char *part;            /* or NULL */
    const struct leases *leases; /* NULL: this broker does not own */
    struct leases own;           /* of a right */
    bool is_shared;
    struct table tables[TABLES_MAX];
    size_t n_tables;
    uint64_t id;             /* of the stream; 0: it has read none yet */
    uint64_t id_kept;        /* the same that the database has, or 0 */
    bool is_stale;           /* its rows are no longer those of the stream */
    uint64_t n_kept;         /* of the last row that the database has */
    uint64_t n;              /* the same, in this transaction */
    bool is_doubtful;        /* the stream may have more */
    struct stream_note note; /* of this transaction */

    sqlite3_session *session; /* of this transaction */
};

/* Opening */

static void
table_fini(struct table *t)
{
    for (size_t i = 0; i < STATEMENTS; i++)
        buf_fini(&t->sql[i]);
    for (int i = 0; i < t->n_columns; i++)
        free(t->columns[i]);
    free(t->name);
}

/* Writes "WHAT FROM table", of the rows that `n` columns of the primary key
 * choose. */
static void
write_sql(struct table *t, enum statement statement, const char *what, int n)
{
    const char *before = " WHERE";
    struct buf *sql = &t->sql[statement];

    buf_add_format(sql, "%s FROM \"%s\"", what, t->name);
    for (int i = 0; n > 0 && i < t->n_columns; i++)
        if (t->is_key[i]) {
            buf_add_format(sql, "%s \"%s\"=?", before, t->columns[i]);
            before = " AND";
            n--;
        }
    buf_add(sql, "", 1);
}

/* The values for READ_ALL and END_ALL. */
#define PART_VALUES(o) ((o)->part ? DB_VALUES((o)->part) : DB_VALUES())

static enum status
add_table(struct owned_db *o, struct slice name, bool is_counted,
          struct problem *why)
{
    struct table *t = &o->tables[o->n_tables];
    bool has_key = false, is_key;
    struct db_rows rows;
    struct slice column;
    enum status rc;

    if (o->n_tables == TABLES_MAX)
        return problem(why, STATUS_INVALID, "there are too many tables");
    *t = (struct table){.name = slice_dup(name), .is_counted = is_counted};
    for (size_t i = 0; i < STATEMENTS; i++)
        t->sql[i].max = SIZE_MAX;
    o->n_tables++;
    rows = DB_SELECT(
        o->db, "read the columns", why,
        "SELECT name, pk > 0 FROM pragma_table_info(?) ORDER BY cid", t->name);
    while (DB_NEXT(&rows, &column, &is_key)) {
        if (t->n_columns == COLUMNS_MAX) {
            rows.rc =
                problem(why, STATUS_INVALID, "a table has too many columns");
            break;
        }
        t->columns[t->n_columns] = slice_dup(column);
        t->is_key[t->n_columns] = is_key;
        has_key |= is_key;
        t->n_columns++;
    }
    rc = db_rows_end(&rows);
    if (!rc && !has_key) { /* it stays here */
        table_fini(t);
        o->n_tables--;
        return STATUS_OK;
    }
    write_sql(t, READ_ALL, "SELECT *", o->part ? 1 : 0);
    write_sql(t, END_ALL, "DELETE", o->part ? 1 : 0);
    write_sql(t, READ_ONE, "SELECT *", COLUMNS_MAX);
    write_sql(t, END_ONE, "DELETE", COLUMNS_MAX);
    return rc;
}

enum status
owned_db_open(struct owned_db **owned, struct db *db, struct streams *streams,
              const char *stream, const char *part, struct problem *why)
{
    struct owned_db *o = memory_new(1, sizeof(*o));
    struct db_rows rows;
    struct slice name;
    bool is_counted;
    enum status rc;

    o->db = db;
    o->streams = streams;
    o->stream = stream;
    o->part = part;
    rc = db_exec(db,
                 "CREATE TABLE IF NOT EXISTS journal_place(n INTEGER NOT NULL,"
                 " stream INTEGER NOT NULL);"
                 "INSERT INTO journal_place SELECT 0, 0"
                 " WHERE NOT EXISTS (SELECT 1 FROM journal_place)",
                 why);
    if (!rc && part)
        rc = db_exec(db,
                     "CREATE TABLE IF NOT EXISTS journal_parts("
                     " part TEXT NOT NULL UNIQUE, n INTEGER NOT NULL,"
                     " stream INTEGER NOT NULL)",
                     why);
    /* Rows without a place of their part are of a stream that had all. */
    if (!rc && part)
        rc = db_find(db, "read the place", why, NULL,
                     "SELECT coalesce(p.n, 0), coalesce(p.stream, 0),"
                     " p.n IS NULL AND j.n > 0 FROM journal_place j"
                     " LEFT JOIN journal_parts p ON part = ?",
                     DB_VALUES(part), DB_INTO(&o->n, &o->id, &o->is_stale));
    else if (!rc)
        rc = db_find(db, "read the place", why, NULL,
                     "SELECT n, stream FROM journal_place", DB_VALUES(),
                     DB_INTO(&o->n, &o->id));
    if (!rc) {
        rows = DB_SELECT(
            db, "read the tables", why,
            "SELECT name, sql LIKE '%AUTOINCREMENT%' FROM sqlite_schema"
            " WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
            " ORDER BY name");
        while (DB_NEXT(&rows, &name, &is_counted))
            rows.rc = add_table(o, name, is_counted, why);
        rc = db_rows_end(&rows);
    }
    o->n_kept = o->n;
    o->id_kept = o->id;
    if (rc)
        owned_db_close(o);
    else
        *owned = o;
    return rc;
}

void
owned_db_close(struct owned_db *o)
{
    if (!o)
        return;
    if (o->session)
        sqlite3session_delete(o->session);
    for (size_t i = 0; i < o->n_tables; i++)
        table_fini(&o->tables[i]);
    free(o);
}

/* Files */

enum status
owned_file_check(const struct owned_file *file, const char *dir,
                 struct problem *why)
{
    struct file_path path = file_path("%s/%s", dir, file->name);
    enum status rc = db_check(path.text, file->kind->n_steps, why);

    return rc ? problem_prefix(why, rc, "%s: ", path.text) : STATUS_OK;
}

enum status
owned_file_open(const struct owned_file *file, struct db *db,
                struct owned_db **owned, const char *dir,
                const struct ownership_right *right, struct problem *why)
{
    struct file_path path = file_path("%s/%s", dir, file->name);
    enum status rc = db_check(path.text, file->kind->n_steps, why);

    if (!rc)
        rc = db_open_kind(db, file->kind, path.text, why);
    if (!rc && db->is_exposed)
        DIAG(DIAG_WARNING, file->part, "other users may open a database",
             diag_text("file", path.text));
    if (rc || !right || !right->streams)
        return rc;
    rc = owned_db_open(owned, db, right->streams, file->stream,
                       file->part_of_rows, why);
    if (rc)
        return rc;
    (*owned)->is_shared = file->is_shared;
    (*owned)->own.all[0] = right->lease;
    return right->lease ? owned_db_own(*owned, &(*owned)->own, why) : rc;
}

enum status
owned_file_follow(const struct owned_file *file, const char *dir,
                  struct streams *streams, struct problem *why)
{
    const struct ownership_right right = {.streams = streams};
    struct owned_db *o = NULL;
    struct db db = {NULL};
    enum status rc = owned_file_open(file, &db, &o, dir, &right, why);

    if (!rc)
        rc = owned_db_read(o, why);
    owned_db_close(o);
    db_close(&db);
    return rc;
}

/* Rows as bytes */

static void
add_value(struct buf *to, sqlite3_value *value)
{
    int type = sqlite3_value_type(value);

    buf_add(to, &(char){(char)type}, 1);
    if (type == DB_INTEGER) {
        buf_add_big_endian(to, (uint64_t)sqlite3_value_int64(value), 8);
    } else if (type == DB_REAL) {
        double real = sqlite3_value_double(value);
        uint64_t bits;

        memcpy(&bits, &real, sizeof(bits));
        buf_add_big_endian(to, bits, 8);
    } else if (type == DB_TEXT || type == DB_BYTES) {
        const void *bytes = sqlite3_value_blob(value);
        size_t size = (size_t)sqlite3_value_bytes(value);

        buf_add_big_endian(to, size, 4);
        buf_add(to, bytes, size);
    }
}

/* Takes `size` bytes off the front of *from. NULL: there are fewer. */
static const char *
take_bytes(struct slice *from, size_t size)
{
    const char *at = from->data;

    if (from->size < size)
        return NULL;
    slice_skip(from, size);
    return at;
}

/* Takes the next value, lent, off the front of *from. False: it is none. */
static bool
take_value(struct slice *from, struct db_value *value)
{
    const char *type = take_bytes(from, 1);
    uint64_t number;

    if (!type)
        return false;
    *value = (struct db_value){.type = *type};
    if (*type == DB_NULL)
        return true;
    if (*type == DB_INTEGER || *type == DB_REAL) {
        if (!slice_take_big_endian(from, &number, 8))
            return false;
        memcpy(&value->number, &number, sizeof(number)); /* or value->real */
        return true;
    }
    if ((*type != DB_TEXT && *type != DB_BYTES) ||
        !slice_take_big_endian(from, &number, 4))
        return false;
    value->bytes = (struct slice){take_bytes(from, number), number};
    return value->bytes.data;
}

/* The values of a row, and an end behind them. */
typedef struct db_value row_values[COLUMNS_MAX + 1];

/* Takes all values of `from`; returns their number. -1: it is damaged, or has
 * too many. */
static int
take_values(struct slice from, row_values values)
{
    int n = 0;

    while (from.size > 0)
        if (n == COLUMNS_MAX || !take_value(&from, &values[n++]))
            return -1;
    values[n].type = 0;
    return n;
}

static struct table *
find_table(struct owned_db *o, struct slice name)
{
    for (size_t i = 0; i < o->n_tables; i++)
        if (slice_is(name, o->tables[i].name))
            return &o->tables[i];
    return NULL;
}

/* Reading the stream */

static enum status
say_newer(const struct owned_db *o, struct problem *why)
{
    return problem(why, STATUS_INVALID,
                   "the stream \"%s\" has rows of a newer program", o->stream);
}

/* Writes a row of the stream into its table, under `key`. */
static enum status
take_row(struct owned_db *o, struct table *t, struct slice key,
         const struct stream_row *row, struct problem *why)
{
    struct buf *put = &t->sql[PUT];
    row_values values;
    int n;

    if (take_values(key, values) < 1)
        return say_newer(o, why);
    if (t->is_counted && values[0].type == DB_NULL) {
        struct slice value = row->value;
        struct db_value id;
        enum status rc;

        if (!take_value(&value, &id) || value.size > 0)
            return say_newer(o, why);
        /* Both of these, since sqlite_sequence has no key. */
        rc = DB_DO(o->db, "count a row of the stream", why,
                   "UPDATE sqlite_sequence SET seq = max(seq, ?2)"
                   " WHERE name = ?1",
                   t->name, id);
        return rc ? rc
                  : DB_DO(o->db, "count a row of the stream", why,
                          "INSERT INTO sqlite_sequence(name, seq) SELECT ?1, ?2"
                          " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence"
                          " WHERE name = ?1)",
                          t->name, id);
    }
    if (row->is_deleted)
        return db_do(o->db, "delete a row of the stream", why,
                     t->sql[END_ONE].data, values);
    n = take_values(row->value, values);
    if (n <= 0 || n > t->n_columns)
        return say_newer(o, why);
    if (t->n_put != n) {
        t->n_put = n;
        buf_clear(put);
        buf_add_format(put, "INSERT OR REPLACE INTO \"%s\"(", t->name);
        for (int i = 0; i < n; i++)
            buf_add_format(put, "%s\"%s\"", i > 0 ? "," : "", t->columns[i]);
        BUF_ADD(put, ") VALUES(?");
        for (int i = 1; i < n; i++)
            BUF_ADD(put, ",?");
        buf_add(put, ")", 2);
    }
    return db_do(o->db, "write a row of the stream", why, put->data, values);
}

/* A database that has read nothing yet must have no rows of its own, but those
 * that give way. */
static enum status
check_first(struct owned_db *o, struct problem *why)
{
    const struct db_kind *kind = o->db->kind;
    bool is_there = false;
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && !is_there && i < o->n_tables; i++)
        if (!kind || !kind->ceding || strcmp(o->tables[i].name, kind->ceding))
            rc = db_find(o->db, "look for rows", why, &is_there,
                         o->tables[i].sql[READ_ALL].data, PART_VALUES(o),
                         DB_INTO());
    if (!rc && is_there && !o->is_stale)
        return problem(why, STATUS_DIFFERENT,
                       "it has rows from before this broker was in the "
                       "cluster, and the cluster has others: move the file "
                       "away, and start again");
    for (size_t i = 0; !rc && i < o->n_tables; i++)
        rc = db_do(o->db, "delete former rows", why,
                   o->tables[i].sql[END_ALL].data, PART_VALUES(o));
    return rc;
}

static enum status
on_row(const struct stream_row *row, uint64_t n, void *user,
       struct problem *why)
{
    struct owned_db *o = user;
    struct slice key = row->key;
    size_t size = 0;
    struct table *t;
    enum status rc = o->n == 0 ? check_first(o, why) : STATUS_OK;

    if (rc)
        return rc;
    while (size < key.size && key.data[size])
        size++;
    t = find_table(o, (struct slice){key.data, size});
    if (!t || !take_bytes(&key, size + 1))
        return say_newer(o, why);
    rc = take_row(o, t, key, row, why);
    if (!rc)
        o->n = n;
    return rc;
}

static enum status
write_place(struct owned_db *o, uint64_t n, struct problem *why)
{
    o->id_kept = o->id;
    if (o->part)
        return DB_DO(o->db, "write the number of a row", why,
                     "INSERT OR REPLACE INTO journal_parts VALUES(?, ?, ?)",
                     o->part, n, o->id);
    return DB_DO(o->db, "write the number of a row", why,
                 "UPDATE journal_place SET n = ?, stream = ?", n, o->id);
}

/* In a transaction. *end: that of the database, which must be rolled back after
 * a failure. */
static enum status
read_to_end(struct owned_db *o, enum status *end, struct problem *why)
{
    uint64_t from = o->n, n = from;
    enum status rc =
        o->streams->ops->read(o->streams, o->stream, &n, on_row, o, why);

    *end = STATUS_OK;
    if (!rc && n > 0 && o->n == 0) /* there are no rows any more */
        *end = check_first(o, why);
    if (!rc && !*end)
        o->n = n;
    if (!rc && o->id != o->id_kept && o->n == 0) /* it follows from now on */
        *end = write_place(o, 0, why);
    else if (!*end && o->n > from)
        *end = write_place(o, o->n, why);
    return rc;
}

/* After COMMIT, or the rollback. */
static void
end_rows(struct owned_db *o, bool is_kept)
{
    if (o->session)
        sqlite3session_delete(o->session);
    o->session = NULL;
    o->note = (struct stream_note){.n = 0};
    if (is_kept) {
        o->n_kept = o->n;
        o->is_doubtful = false;
    } else {
        o->is_doubtful |= o->n != o->n_kept; /* the stream has more than this */
        o->n = o->n_kept;
        o->id_kept = 0; /* perhaps not: it is written again */
    }
}

/* A transaction. */
static enum status
read_stream(struct owned_db *o, struct problem *why)
{
    struct problem inner = {""};
    enum status rc = db_begin_firm(o->db, false, why), end = STATUS_OK;

    if (rc)
        return rc;
    rc = read_to_end(o, &end, why);
    end = db_end(o->db, rc == STATUS_GONE ? rc : end, &inner);
    end_rows(o, end == STATUS_OK);
    o->is_doubtful = rc || end;
    return end && !rc ? problem(why, end, "%s", inner.text) : rc;
}

enum status
owned_db_read(struct owned_db *o, struct problem *why)
{
    uint64_t id = 0;
    enum status rc = o->streams->ops->identify(o->streams, o->stream, &id, why);

    if (!rc && id != o->id) {
        /* Another stream than the one that this database follows: the place is
         * before its first row. */
        o->is_stale |= o->n_kept > 0;
        o->id = id;
        o->n = o->n_kept = 0;
    }
    if (!rc)
        rc = read_stream(o, why);
    if (rc == STATUS_GONE) {
        o->is_stale = true;
        o->n = o->n_kept = 0;
        rc = read_stream(o, why);
    }
    return rc;
}

/* Writing */

/* The rows of an append, with their bytes. */
struct outgoing {
    struct stream_row *all;
    size_t n, capacity;
    struct buf bytes; /* of keys and values, one after the other: moves, so the
                         rows have their sizes alone until the end */
};

/* Begins a row: its key follows. */
static bool
begin_row(struct outgoing *out, const struct table *t, bool is_deleted)
{
    if (!ONE_MORE(out->all, &out->capacity, out->n))
        return false;
    /* Where it begins, until end_key. */
    out->all[out->n++] = (struct stream_row){.key.size = out->bytes.size,
                                             .is_deleted = is_deleted};
    buf_add(&out->bytes, t->name, strlen(t->name) + 1);
    return true;
}

static void
end_key(struct outgoing *out)
{
    struct slice *key = &out->all[out->n - 1].key;

    key->size = out->bytes.size - key->size;
}

/* Adds the columns of the row that a statement is at. */
static void
add_columns(struct outgoing *out, sqlite3_stmt *s)
{
    size_t from = out->bytes.size;

    for (int i = 0; i < sqlite3_column_count(s); i++)
        add_value(&out->bytes, sqlite3_column_value(s, i));
    out->all[out->n - 1].value.size = out->bytes.size - from;
}

/* Adds a changed row as it is now. */
static enum status
add_changed(struct owned_db *o, struct outgoing *out,
            sqlite3_changeset_iter *change, struct problem *why)
{
    const char *name;
    int n, op, indirect;
    size_t key;
    row_values values;
    struct db_rows rows;
    struct table *t;

    sqlite3changeset_op(change, &name, &n, &op, &indirect);
    t = find_table(o, slice_of(name));
    if (!t || !begin_row(out, t, op == SQLITE_DELETE))
        return problem_memory(why);
    key = out->bytes.size;
    t->has_ended_row |= op == SQLITE_DELETE;
    for (int i = 0; i < n && i < t->n_columns; i++) {
        sqlite3_value *value = NULL;

        if (!t->is_key[i])
            continue;
        if (op == SQLITE_INSERT)
            sqlite3changeset_new(change, i, &value);
        else
            sqlite3changeset_old(change, i, &value);
        if (!value)
            return problem_memory(why);
        add_value(&out->bytes, value);
    }
    end_key(out);
    if (op == SQLITE_DELETE || out->bytes.failed)
        return STATUS_OK;
    take_values((struct slice){out->bytes.data + key, out->bytes.size - key},
                values);
    rows = db_select(o->db, "read a changed row", why, t->sql[READ_ONE].data,
                     values);
    if (db_next(&rows, DB_INTO()))
        add_columns(out, rows.statement);
    return db_rows_end(&rows);
}

/* Adds the last id that a table has given, if its row is gone. */
static enum status
add_last_id(struct owned_db *o, const struct table *t, struct outgoing *out,
            struct problem *why)
{
    struct db_rows rows;
    char sql[600];

    if (!t->is_counted)
        return STATUS_OK;
    snprintf(sql, sizeof(sql),
             "SELECT seq FROM sqlite_sequence WHERE name = '%s'"
             " AND seq NOT IN (SELECT rowid FROM \"%s\")",
             t->name, t->name);
    rows = DB_SELECT(o->db, "read the last id", why, sql);
    if (!db_next(&rows, DB_INTO()))
        ;
    else if (!begin_row(out, t, false))
        rows.rc = problem_memory(why);
    else {
        buf_add(&out->bytes, &(char){DB_NULL}, 1);
        end_key(out);
        add_columns(out, rows.statement);
    }
    return db_rows_end(&rows);
}

static enum status
collect_changes(struct owned_db *o, struct outgoing *out, struct problem *why)
{
    sqlite3_changeset_iter *change = NULL;
    void *changes = NULL;
    int size = 0;
    enum status rc = STATUS_OK;

    for (size_t i = 0; i < o->n_tables; i++)
        o->tables[i].has_ended_row = false;
    if (sqlite3session_changeset(o->session, &size, &changes) != SQLITE_OK ||
        sqlite3changeset_start(&change, size, changes) != SQLITE_OK)
        rc = problem_memory(why);
    while (!rc && sqlite3changeset_next(change) == SQLITE_ROW)
        rc = add_changed(o, out, change, why);
    if (change && sqlite3changeset_finalize(change) != SQLITE_OK && !rc)
        rc = problem_memory(why);
    sqlite3_free(changes);
    for (size_t i = 0; !rc && i < o->n_tables; i++)
        if (o->tables[i].has_ended_row)
            rc = add_last_id(o, &o->tables[i], out, why);
    return rc;
}

/* Adds all rows of a table. */
static enum status
add_all(struct owned_db *o, const struct table *t, struct outgoing *out,
        struct problem *why)
{
    struct db_rows rows = db_select(o->db, "read all rows", why,
                                    t->sql[READ_ALL].data, PART_VALUES(o));

    while (db_next(&rows, DB_INTO())) {
        if (!begin_row(out, t, false)) {
            rows.rc = problem_memory(why);
            break;
        }
        for (int i = 0; i < t->n_columns; i++)
            if (t->is_key[i])
                add_value(&out->bytes, sqlite3_column_value(rows.statement, i));
        end_key(out);
        add_columns(out, rows.statement);
    }
    return db_rows_end(&rows);
}

static enum status
append_rows(struct owned_db *o, const struct outgoing *out, struct problem *why)
{
    return o->streams->ops->append(o->streams, o->stream, o->leases, &o->n,
                                   out->all, out->n, &o->note, why);
}

/* Adds the rows to the stream, and to a shared one behind rows of others.
 * Before the first row that is read, the next transaction finds out
 * (check_first). */
static enum status
append_behind(struct owned_db *o, const struct outgoing *out,
              struct problem *why)
{
    enum status end = STATUS_OK, rc = append_rows(o, out, why);

    for (int i = 0;
         i < APPENDS_MAX && rc == STATUS_CONFLICT && o->is_shared && o->n > 0;
         i++) {
        rc = read_to_end(o, &end, why);
        if (!rc && end)
            return end;
        if (!rc)
            rc = append_rows(o, out, why);
    }
    o->is_doubtful = rc == STATUS_IO || rc == STATUS_CONFLICT;
    return rc;
}

/* Sends the rows that the transaction has changed, or all that the database
 * has; writes the number of the last one. */
static enum status
send_rows(struct owned_db *o, bool is_all, struct problem *why)
{
    struct outgoing out = {.bytes = {.max = SIZE_MAX}};
    const char *at;
    enum status rc = STATUS_OK;

    if (!is_all)
        rc = collect_changes(o, &out, why);
    for (size_t i = 0; is_all && !rc && i < o->n_tables; i++) {
        rc = add_all(o, &o->tables[i], &out, why);
        if (!rc)
            rc = add_last_id(o, &o->tables[i], &out, why);
    }
    if (!rc && out.bytes.failed)
        rc = problem_memory(why);
    if (!rc && (out.n > 0 || o->note.n > 0)) {
        at = out.bytes.data;
        for (size_t i = 0; i < out.n; i++) {
            out.all[i].key.data = at;
            at += out.all[i].key.size;
            out.all[i].value.data = at;
            at += out.all[i].value.size;
        }
        rc = append_behind(o, &out, why);
        if (!rc && out.n > 0)
            rc = write_place(o, o->n, why);
    }
    if (out.bytes.data) /* there are secrets */
        explicit_bzero(out.bytes.data, out.bytes.size);
    buf_fini(&out.bytes);
    free(out.all);
    return rc;
}

void
owned_db_set_leases(struct owned_db *o, const struct leases *leases)
{
    o->leases = leases;
}

uint64_t
owned_db_last(const struct owned_db *o)
{
    return o->n_kept;
}

enum status
owned_db_own(struct owned_db *o, const struct leases *leases,
             struct problem *why)
{
    enum status rc = owned_db_read(o, why);

    o->leases = leases;
    if (rc || o->n > 0)
        return rc;
    rc = db_begin_firm(o->db, true, why);
    if (rc)
        return rc;
    rc = db_end(o->db, send_rows(o, true, why), why);
    end_rows(o, rc == STATUS_OK);
    return rc;
}

bool
owned_db_has_followed(const struct owned_db *o)
{
    return o->id_kept != 0;
}

enum status
owned_db_begin(struct db *db, struct owned_db *o, bool is_firm,
               struct problem *why)
{
    enum status end = STATUS_OK, rc = db_begin_firm(db, is_firm, why);

    if (rc || !o)
        return rc;
    if (o->is_doubtful || (o->is_shared && o->n == 0))
        rc = read_to_end(o, &end, why);
    if (!rc)
        rc = end;
    /* The session notes from now on which rows the statements change. */
    if (!rc &&
        (sqlite3session_create(db->handle, "main", &o->session) != SQLITE_OK ||
         sqlite3session_attach(o->session, NULL) != SQLITE_OK))
        rc = problem_memory(why);
    return rc ? owned_db_end(db, o, rc, why) : rc;
}

enum status
owned_db_end(struct db *db, struct owned_db *o, enum status rc,
             struct problem *why)
{
    if (!rc && o)
        rc = send_rows(o, false, why);
    rc = db_end(db, rc, why);
    if (o)
        end_rows(o, rc == STATUS_OK);
    return rc;
}

void
owned_db_note(struct owned_db *o, const struct stream_note *note)
{
    o->note = *note;
}

enum status
owned_db_read_notes(struct owned_db *o, order_fn *fn, void *user,
                    struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < LEASES_MAX; i++)
        if (o->leases->all[i])
            rc = o->streams->ops->notes(o->streams, o->leases->all[i]->name, fn,
                                        user, why);
    return rc;
}
