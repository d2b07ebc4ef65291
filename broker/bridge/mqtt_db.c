/*
 * What SQLite guarantees:
 *
 *   firm       PRAGMA synchronous=FULL: the commit and all earlier ones survive
 *              a power failure.
 *   not firm   synchronous=NORMAL: no fsync. The kernel has the commit when
 *              COMMIT returns, so it outlives this process; after a power
 *              failure the WAL ends at an earlier commit, never within one.
 *
 * SQLite makes a checkpoint when the WAL has 1,000 pages, on the thread of that
 * commit: two fsyncs, every some thousands of turns.
 *
 * The ends of a lane's messages are a blob of differences, the first from
 * `acked`, seven bits to a byte, the lowest first, and the top bit set where
 * more follow: acked=100, ends 103, 400, 401 are
 *
 *     03  a9 02  01
 *
 * so that a window of 1,000 messages is 1 to 3 KB.
 */
#include "broker/bridge/mqtt_db.h"

#include "base/array.h"
#include "base/random.h"
#include "broker/config/bridge_config.h"
#include "proto/number.h"

static const char *const steps[] = {
    "CREATE TABLE bridges("
    " name TEXT PRIMARY KEY, identity TEXT NOT NULL, since INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE TABLE lanes("
    " bridge TEXT NOT NULL, name TEXT NOT NULL, epoch TEXT NOT NULL,"
    " acked INTEGER NOT NULL, ends BLOB NOT NULL, PRIMARY KEY(bridge, name))"
    " WITHOUT ROWID;"
    "CREATE TABLE filters("
    " bridge TEXT NOT NULL, filter TEXT NOT NULL, PRIMARY KEY(bridge, filter))"
    " WITHOUT ROWID;",
    "ALTER TABLE bridges ADD COLUMN owner TEXT NOT NULL DEFAULT '';",
};

const struct db_kind mqtt_db_kind = {
    .mode = DB_SMALL,
    DB_STEPS(steps),
};

const struct owned_file mqtt_db_file = {"mqtt.db", "bridge", "bridges",
                                        &mqtt_db_kind};

/* Opening and closing */

enum status
mqtt_db_open(struct mqtt_db **db, const char *dir,
             const struct ownership_right *right, pthread_mutex_t *mutex,
             struct problem *why)
{
    struct mqtt_db *m = memory_new(1, sizeof(*m));
    enum status rc;

    m->mutex = mutex;
    buf_init(&m->ends, SIZE_MAX);
    if (right)
        m->right = *right;
    rc = owned_file_open(right ? &right->part->file : &mqtt_db_file, &m->db,
                         &m->owned, dir, right, why);
    if (rc)
        mqtt_db_close(m);
    else
        *db = m;
    return rc;
}

void
mqtt_db_close(struct mqtt_db *m)
{
    if (!m)
        return;
    owned_db_close(m->owned);
    db_close(&m->db);
    buf_fini(&m->ends);
    free(m->read);
    free(m);
}

/* Transactions */

enum status
mqtt_db_begin(struct mqtt_db *m, bool is_firm, struct problem *why)
{
    enum status rc;

    pthread_mutex_lock(m->mutex);
    rc = owned_db_begin(&m->db, m->owned, is_firm, why);
    if (rc)
        pthread_mutex_unlock(m->mutex);
    return rc;
}

enum status
mqtt_db_end(struct mqtt_db *m, enum status rc, struct problem *why)
{
    rc = owned_db_end(&m->db, m->owned, rc, why);
    pthread_mutex_unlock(m->mutex);
    return rc;
}

/* Runs one statement in a transaction. */
static enum status
write_one(struct mqtt_db *m, bool is_firm, struct problem *why, const char *sql,
          const struct db_value *values)
{
    enum status rc = mqtt_db_begin(m, is_firm, why);

    return rc ? rc : mqtt_db_end(m, db_do(&m->db, NULL, why, sql, values), why);
}

/* Bridges */

/* Checks a text that must have that size. */
static enum status
check_text(const char *text, size_t size, struct problem *why)
{
    return strlen(text) == size
               ? STATUS_OK
               : problem(why, STATUS_IO, "mqtt.db is damaged: \"%s\"",
                         problem_quote(slice_of(text)).text);
}

/* The directions of a bridge are opened one after the other. */
enum status
mqtt_db_bridge(struct mqtt_db *m, const char *name, const char *owner,
               struct bridge_row *row, struct problem *why)
{
    bool is_there = false, is_same = false;
    enum status rc;

    pthread_mutex_lock(m->mutex);
    rc = db_find(&m->db, NULL, why, &is_there,
                 "SELECT identity, since, owner=? FROM bridges WHERE name=?",
                 DB_VALUES(owner, name),
                 DB_INTO(&row->identity, &row->since_us, &is_same));
    pthread_mutex_unlock(m->mutex);
    if (!rc && is_there)
        rc = check_text(row->identity, BRIDGE_IDENTITY_SIZE - 1, why);
    if (rc || is_same)
        return rc;
    if (!is_there && !random_hex(row->identity, sizeof(row->identity)))
        return problem_errno(why, "no random number for", name);
    if (!is_there)
        row->since_us = clock_now_us();
    return write_one(m, true, why,
                     "INSERT OR REPLACE INTO bridges(name, identity, since, "
                     "owner) VALUES(?,?,?,?)",
                     DB_VALUES(name, row->identity, row->since_us, owner));
}

void
mqtt_db_find_owner(const char *dir, const char *bridge, struct bridge_row *row)
{
    struct db db;
    struct problem why;

    row->owner[0] = '\0';
    if (!owned_file_open(&mqtt_db_file, &db, NULL, dir, NULL, &why))
        (void)!db_find(&db, NULL, &why, NULL,
                       "SELECT owner FROM bridges WHERE name=?",
                       DB_VALUES(bridge), DB_INTO(&row->owner));
    db_close(&db);
}

/* Lanes */

/* Takes one difference off the front of `from`, and moves *end by it. False: it
 * is malformed, or 0, or too large. */
static bool
take_end(struct slice *from, uint64_t *end)
{
    uint64_t difference;

    if (!leb128_take(from, &difference) || difference == 0 ||
        difference > INT64_MAX - *end)
        return false;
    *end += difference;
    return true;
}

bool
mqtt_db_last_end(uint64_t *end, struct slice ends)
{
    while (ends.size > 0)
        if (!take_end(&ends, end))
            return false;
    return true;
}

/* Reads the ends of a lane into m->read. */
static enum status
read_ends(struct mqtt_db *m, struct slice blob, struct lane_row *row,
          struct problem *why)
{
    uint64_t at = row->acked;

    if (row->acked > INT64_MAX)
        return problem(why, STATUS_IO,
                       "mqtt.db is damaged: the place in set %.*s",
                       SLICE_ARG(row->set));
    row->n_ends = 0;
    while (blob.size > 0) {
        if (!ONE_MORE(m->read, &m->read_capacity, row->n_ends))
            return problem_memory(why);
        if (!take_end(&blob, &at))
            return problem(why, STATUS_IO,
                           "mqtt.db is damaged: the messages of set %.*s",
                           SLICE_ARG(row->set));
        m->read[row->n_ends++] = at;
    }
    row->ends = m->read;
    return STATUS_OK;
}

enum status
mqtt_db_lanes(struct mqtt_db *m, const char *bridge,
              enum status (*fn)(const struct lane_row *row, void *user),
              void *user, struct problem *why)
{
    struct slice ends;
    struct lane_row row;
    struct db_rows rows;
    enum status rc;

    pthread_mutex_lock(m->mutex);
    rows = DB_SELECT(&m->db, NULL, why,
                     "SELECT name, epoch, acked, ends FROM lanes"
                     " WHERE bridge=? ORDER BY name",
                     bridge);
    while (DB_NEXT(&rows, &row.set, &row.epoch, &row.acked, &ends)) {
        rows.rc = check_text(row.epoch, EPOCH_SIZE, why);
        if (!rows.rc)
            rows.rc = read_ends(m, ends, &row, why);
        if (!rows.rc)
            rows.rc = fn(&row, user);
    }
    rc = db_rows_end(&rows);
    pthread_mutex_unlock(m->mutex);
    return rc;
}

enum status
mqtt_db_keep(struct mqtt_db *m, const char *bridge, const struct lane_row *row,
             struct problem *why)
{
    uint64_t at = row->acked;
    char bytes[LEB128_SIZE_MAX];

    buf_clear(&m->ends);
    for (size_t i = 0; i < row->n_ends; i++) {
        buf_add(&m->ends, bytes, leb128_write(bytes, row->ends[i] - at));
        at = row->ends[i];
    }
    if (m->ends.failed)
        return problem_memory(why);
    return DB_DO(&m->db, NULL, why,
                 "INSERT OR REPLACE INTO lanes(bridge, name, epoch, acked, "
                 "ends) VALUES(?,?,?,?,?)",
                 bridge, row->set, row->epoch, row->acked,
                 db_blob(buf_slice(&m->ends)));
}

enum status
mqtt_db_forget(struct mqtt_db *m, const char *bridge, struct slice set,
               struct problem *why)
{
    return write_one(m, false, why,
                     "DELETE FROM lanes WHERE bridge=? AND name=?",
                     DB_VALUES(bridge, set));
}

/* Filters */

enum status
mqtt_db_filters(struct mqtt_db *m, const char *bridge,
                enum status (*fn)(const char *filter, void *user), void *user,
                struct problem *why)
{
    char filter[sizeof(((struct bridge_input *)NULL)->filter)];
    struct db_rows rows;
    enum status rc;

    pthread_mutex_lock(m->mutex);
    rows = DB_SELECT(&m->db, NULL, why,
                     "SELECT filter FROM filters WHERE bridge=?", bridge);
    while (DB_NEXT(&rows, &filter))
        rows.rc = fn(filter, user);
    rc = db_rows_end(&rows);
    pthread_mutex_unlock(m->mutex);
    return rc;
}

/* Firm: retained messages of a filter are taken once, and not again after a
 * power failure. */
enum status
mqtt_db_set_filter(struct mqtt_db *m, const char *bridge, const char *filter,
                   bool is_granted, struct problem *why)
{
    return write_one(
        m, true, why,
        is_granted ? "INSERT OR IGNORE INTO filters(bridge, filter) VALUES(?,?)"
                   : "DELETE FROM filters WHERE bridge=? AND filter=?",
        DB_VALUES(bridge, filter));
}
