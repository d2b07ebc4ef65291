/*
 * What SQLite guarantees:
 *
 * firm     PRAGMA synchronous=FULL: the commit and all earlier ones survive a
 *          power failure.
 * not firm synchronous=NORMAL: no fsync. The kernel has the commit when COMMIT
 *          returns, so it outlives this process; after a power failure the WAL
 *          ends at an earlier commit, never within one.
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

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/db_rows.h"
#include "base/random.h"
#include "broker/base/diag.h"
#include "broker/cluster/owned_db.h"
#include "broker/cluster/ownership.h"
#include "proto/buf.h"
#include "proto/memory.h"

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
};

const struct db_kind mqtt_db_kind = {
    .mode = DB_SMALL,
    .steps = steps,
    .n_steps = (int)(sizeof(steps) / sizeof(steps[0])),
};

/* The most bytes of one difference. */
#define DIFFERENCE_MAX 10

struct mqtt_db {
    pthread_mutex_t mutex; /* protects all below */
    struct db db;
    struct owned_db *owned;       /* of a cluster; NULL: this broker is alone */
    struct ownership_right right; /* likewise; set before other threads */
    struct buf ends;              /* encoded ends, to write */
    uint64_t *read;               /* decoded ends, as read */
    size_t read_capacity;
};

/* Opening and closing */

static void
name_database(char *path, size_t size, const char *dir)
{
    snprintf(path, size, "%s/mqtt.db", dir);
}

enum status
mqtt_db_check(const char *dir, struct problem *why)
{
    char path[4200];

    name_database(path, sizeof(path), dir);
    return db_check(path, mqtt_db_kind.n_steps, why);
}

enum status
mqtt_db_open(struct mqtt_db **db, const char *dir, struct problem *why)
{
    struct mqtt_db *m = memory_new(1, sizeof(*m));
    char path[4200];
    enum status rc;

    pthread_mutex_init(&m->mutex, NULL);
    buf_init(&m->ends, SIZE_MAX);
    name_database(path, sizeof(path), dir);
    rc = db_check(path, mqtt_db_kind.n_steps, why);
    if (!rc)
        rc = db_open_kind(&m->db, &mqtt_db_kind, path, why);
    if (!rc && m->db.is_exposed)
        DIAG(DIAG_WARNING, "bridge", "other users may open a database",
             diag_text("file", path));
    if (rc) {
        mqtt_db_close(m);
        return rc;
    }
    *db = m;
    return STATUS_OK;
}

/* The stream of the cluster. */
#define STREAM "bridges"

enum status
mqtt_db_own(struct mqtt_db *m, const struct ownership_right *right,
            struct problem *why)
{
    enum status rc =
        owned_db_open(&m->owned, &m->db, right->streams, STREAM, why);

    m->right = *right;
    return rc ? rc : owned_db_own(m->owned, right->lease, why);
}

bool
mqtt_db_may_publish(const struct mqtt_db *m)
{
    return ownership_allows(&m->right);
}

enum status
mqtt_db_follow(const char *dir, struct streams *streams, struct problem *why)
{
    struct mqtt_db *m;
    enum status rc = mqtt_db_open(&m, dir, why);

    if (rc)
        return rc;
    rc = owned_db_open(&m->owned, &m->db, streams, STREAM, why);
    if (!rc)
        rc = owned_db_read(m->owned, why);
    mqtt_db_close(m);
    return rc;
}

bool
mqtt_db_is_owned(const struct mqtt_db *m)
{
    return m->owned;
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
    pthread_mutex_destroy(&m->mutex);
    free(m);
}

/* Runs one statement in a transaction. */
static enum status
write_one(struct mqtt_db *m, bool is_firm, struct problem *why, const char *sql,
          const struct db_value *values)
{
    enum status rc = owned_db_begin(&m->db, m->owned, is_firm, why);

    return rc ? rc
              : owned_db_end(&m->db, m->owned,
                             db_do(&m->db, NULL, why, sql, values), why);
}

/* Bridges */

/* Copies a text that must have that size. */
static enum status
copy_text(char *to, size_t size, struct slice text, struct problem *why)
{
    if (text.size != size)
        return problem(why, STATUS_IO, "mqtt.db is damaged: \"%s\"",
                       problem_quote(text).text);
    memcpy(to, text.data, size);
    to[size] = '\0';
    return STATUS_OK;
}

static enum status
find_bridge(struct mqtt_db *m, const char *name, struct bridge_row *row,
            bool *is_there, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&m->db, NULL, why,
                  "SELECT identity, since FROM bridges WHERE name=?", name);
    struct slice identity;

    *is_there = DB_NEXT(&rows, &identity, &row->since_us);
    if (*is_there)
        rows.rc =
            copy_text(row->identity, BRIDGE_IDENTITY_SIZE - 1, identity, why);
    return db_rows_end(&rows);
}

static enum status
make_bridge(struct mqtt_db *m, const char *name, struct bridge_row *row,
            struct problem *why)
{
    if (!random_hex(row->identity, sizeof(row->identity))) {
        problem_errno(why, "no random number for", name);
        return STATUS_IO;
    }
    row->since_us = clock_now_us();
    return write_one(m, true, why,
                     "INSERT INTO bridges(name, identity, since) VALUES(?,?,?)",
                     DB_VALUES(name, row->identity, row->since_us));
}

enum status
mqtt_db_bridge(struct mqtt_db *m, const char *name, struct bridge_row *row,
               struct problem *why)
{
    bool is_there = false;
    enum status rc;

    pthread_mutex_lock(&m->mutex);
    rc = find_bridge(m, name, row, &is_there, why);
    if (!rc && !is_there)
        rc = make_bridge(m, name, row, why);
    pthread_mutex_unlock(&m->mutex);
    return rc;
}

/* Lanes */

static void
write_difference(struct buf *to, uint64_t difference)
{
    uint8_t bytes[DIFFERENCE_MAX];
    size_t n = 0;

    while (difference > 0x7f) {
        bytes[n++] = (uint8_t)(0x80 | (difference & 0x7f));
        difference >>= 7;
    }
    bytes[n++] = (uint8_t)difference;
    buf_add(to, bytes, n);
}

/* Reads one difference. false: it is malformed, or 0, or over 64 bits. */
static bool
take_difference(struct slice *from, uint64_t *difference)
{
    *difference = 0;
    for (unsigned i = 0; i < DIFFERENCE_MAX && i < from->size; i++) {
        uint8_t byte = (uint8_t)from->data[i];

        if (i == DIFFERENCE_MAX - 1 && byte > 1)
            return false;
        *difference |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            from->data += i + 1;
            from->size -= i + 1;
            return *difference > 0;
        }
    }
    return false;
}

bool
mqtt_db_last_end(uint64_t *end, struct slice ends)
{
    uint64_t difference;

    while (ends.size > 0) {
        if (!take_difference(&ends, &difference) ||
            difference > INT64_MAX - *end)
            return false;
        *end += difference;
    }
    return true;
}

/* Reads the ends of a lane into m->read. */
static enum status
read_ends(struct mqtt_db *m, struct slice blob, struct lane_row *row,
          struct problem *why)
{
    uint64_t at = row->acked, difference;

    row->n_ends = 0;
    while (blob.size > 0) {
        uint64_t *read = ONE_MORE(m->read, &m->read_capacity, row->n_ends);

        if (!read)
            return problem_memory(why);
        m->read = read;
        if (!take_difference(&blob, &difference) || difference > INT64_MAX - at)
            return problem(why, STATUS_IO,
                           "mqtt.db is damaged: the messages of set %.*s",
                           SLICE_ARG(row->set));
        read[row->n_ends++] = at += difference;
    }
    row->ends = m->read;
    return STATUS_OK;
}

static enum status
read_lane(struct mqtt_db *m, struct lane_row *row, struct slice epoch,
          struct slice ends, struct problem *why)
{
    enum status rc = copy_text(row->epoch, EPOCH_SIZE, epoch, why);

    if (!rc && row->acked > INT64_MAX)
        rc =
            problem(why, STATUS_IO, "mqtt.db is damaged: the place in set %.*s",
                    SLICE_ARG(row->set));
    return rc ? rc : read_ends(m, ends, row, why);
}

enum status
mqtt_db_lanes(struct mqtt_db *m, const char *bridge,
              enum status (*fn)(const struct lane_row *row, void *user),
              void *user, struct problem *why)
{
    struct slice epoch, ends;
    struct lane_row row;
    struct db_rows rows;
    enum status rc;

    pthread_mutex_lock(&m->mutex);
    rows = DB_SELECT(&m->db, NULL, why,
                     "SELECT name, epoch, acked, ends FROM lanes"
                     " WHERE bridge=? ORDER BY name",
                     bridge);
    while (DB_NEXT(&rows, &row.set, &epoch, &row.acked, &ends)) {
        rows.rc = read_lane(m, &row, epoch, ends, why);
        if (!rows.rc)
            rows.rc = fn(&row, user);
    }
    rc = db_rows_end(&rows);
    pthread_mutex_unlock(&m->mutex);
    return rc;
}

static enum status
keep_lane(struct mqtt_db *m, const char *bridge, const struct lane_row *row,
          struct problem *why)
{
    uint64_t at = row->acked;

    buf_clear(&m->ends);
    for (size_t i = 0; i < row->n_ends; i++) {
        write_difference(&m->ends, row->ends[i] - at);
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
mqtt_db_keep(struct mqtt_db *m, const char *bridge, const struct lane_row *rows,
             size_t n, bool is_firm, struct problem *why)
{
    enum status rc;

    if (n == 0)
        return STATUS_OK;
    pthread_mutex_lock(&m->mutex);
    rc = owned_db_begin(&m->db, m->owned, is_firm, why);
    if (!rc) {
        for (size_t i = 0; !rc && i < n; i++)
            rc = keep_lane(m, bridge, &rows[i], why);
        rc = owned_db_end(&m->db, m->owned, rc, why);
    }
    pthread_mutex_unlock(&m->mutex);
    return rc;
}

/* Runs a statement with two parameters: a bridge and `what`. */
static enum status
write_of_bridge(struct mqtt_db *m, const char *sql, const char *bridge,
                struct slice what, bool is_firm, struct problem *why)
{
    enum status rc;

    pthread_mutex_lock(&m->mutex);
    rc = write_one(m, is_firm, why, sql, DB_VALUES(bridge, what));
    pthread_mutex_unlock(&m->mutex);
    return rc;
}

enum status
mqtt_db_forget(struct mqtt_db *m, const char *bridge, struct slice set,
               struct problem *why)
{
    return write_of_bridge(m, "DELETE FROM lanes WHERE bridge=? AND name=?",
                           bridge, set, false, why);
}

/* Filters */

enum status
mqtt_db_filters(struct mqtt_db *m, const char *bridge,
                enum status (*fn)(const char *filter, void *user), void *user,
                struct problem *why)
{
    struct db_rows rows;
    struct slice text;
    enum status rc;

    pthread_mutex_lock(&m->mutex);
    rows = DB_SELECT(&m->db, NULL, why,
                     "SELECT filter FROM filters WHERE bridge=?", bridge);
    while (DB_NEXT(&rows, &text)) {
        char *filter = slice_dup(text);

        rows.rc = fn(filter, user);
        free(filter);
    }
    rc = db_rows_end(&rows);
    pthread_mutex_unlock(&m->mutex);
    return rc;
}

/* Firm, like mqtt_db_drop_filter: retained messages of a filter are taken once,
 * and not again after a power failure. */
enum status
mqtt_db_add_filter(struct mqtt_db *m, const char *bridge, const char *filter,
                   struct problem *why)
{
    return write_of_bridge(
        m, "INSERT OR IGNORE INTO filters(bridge, filter) VALUES(?,?)", bridge,
        slice_of(filter), true, why);
}

enum status
mqtt_db_drop_filter(struct mqtt_db *m, const char *bridge, const char *filter,
                    struct problem *why)
{
    return write_of_bridge(m, "DELETE FROM filters WHERE bridge=? AND filter=?",
                           bridge, slice_of(filter), true, why);
}
