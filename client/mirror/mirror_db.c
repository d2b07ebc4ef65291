/*
 * mirror_db.c - the wanted resources and the noted files of a mirror.
 *
 *     mirror_db_describe --> members --+--> settle --> resources.todo
 *     mirror_db_note_file -------------+      the best member's description,
 *     mirror_db_note_loss -------------+      against the noted file
 *
 * To change a table, add a step.
 */
#include "client/mirror/mirror_db.h"

#define HOUR_US    INT64_C(3600000000)
#define HOURS_KEPT 48

/* No hour of event time: the removal does not count. */
#define NO_HOUR INT64_MIN

/*
 * state      numbers by name; those of mirror_db_counts for mirror_status.h;
 *            as-of: the past time whose state it is, if it is not the present;
 *            filter: a text.
 * sets       caught_up: when the mirror last equalled the set; 0: never. The
 *            others: struct mirror_db_certainty.
 * resources  one row for each resource that is wanted or has a file. todo: enum
 *            mirror_db_todo. bytes: the wanted length, where the source sent
 *            one. have: there is a file; the columns have_ describe it.
 * members    each set's description of a resource: without a row it is not in
 *            the set. The row with the latest when_us decides. generation 0:
 *            its deletion is held back.
 * deletions  of resources, for comparisons with lists of an earlier time.
 * compared   how a comparison that is under way describes a resource, if that
 *            differs from `members`.
 * hours      removals by changes: n in that hour of event time, of at most n_of
 *            files that the mirror had in it.
 *
 * A loc is a BLOB, so that SQLite compares bytes. DATETIME_NONE is INT64_MIN,
 * LENGTH_NONE -1.
 */
static const char *const steps[] = {
    "CREATE TABLE state (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;"
    "CREATE TABLE sources (n INTEGER PRIMARY KEY, url TEXT UNIQUE);"
    "CREATE TABLE sets (id INTEGER PRIMARY KEY, url TEXT UNIQUE,"
    " position TEXT, generation INTEGER);"
    "CREATE TABLE resources (id INTEGER PRIMARY KEY, loc BLOB UNIQUE,"
    " path TEXT UNIQUE, todo INTEGER, bytes INTEGER, left_run INTEGER,"
    " left_version INTEGER, expected INTEGER, have INTEGER, have_version "
    "INTEGER, have_hash BLOB,"
    " have_lastmod INTEGER, have_size INTEGER, have_mtime INTEGER);"
    "CREATE INDEX resources_todo ON resources (todo, id) WHERE todo <> 0;"
    "CREATE TABLE members (resource INTEGER, set_id INTEGER,"
    " generation INTEGER, version INTEGER, when_us INTEGER, lastmod INTEGER,"
    " hash BLOB, length INTEGER, type BLOB, encoding BLOB, links BLOB,"
    " PRIMARY KEY (resource, set_id)) WITHOUT ROWID;"
    "CREATE TABLE hours (hour INTEGER PRIMARY KEY, n INTEGER, n_of INTEGER);",
    "ALTER TABLE sets ADD COLUMN caught_up INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE sets ADD COLUMN complete_us INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN complete_by TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sets ADD COLUMN compared_us INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN doubt TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sets ADD COLUMN doubt_us INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN held INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN held_of INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN left_out_text TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sets ADD COLUMN left_out_before INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN mended INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE resources ADD COLUMN have_second INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE deletions (set_id INTEGER, loc BLOB, when_us INTEGER,"
    " PRIMARY KEY (set_id, loc)) WITHOUT ROWID;"
    "CREATE INDEX members_held ON members (set_id) WHERE generation = 0;"
    "CREATE INDEX resources_second ON resources (have_second)"
    " WHERE have_second <> 0",
    "ALTER TABLE sets ADD COLUMN listed_us INTEGER NOT NULL DEFAULT 0",
};

static const char opening[] =
    "CREATE TEMP TABLE compared (loc BLOB PRIMARY KEY, set_id INTEGER,"
    " when_us INTEGER, lastmod INTEGER, hash BLOB, length INTEGER, type BLOB,"
    " encoding BLOB, links BLOB) WITHOUT ROWID";

_Static_assert(N_ELEMENTS(steps) == MIRROR_DB_VERSION,
               "a step for each version");

/* The columns of struct mirror_db_description, their places, their values. */
#define DESCRIPTION "when_us, lastmod, hash, length, type, encoding, links"
#define INTO_DESCRIPTION(t)                                                \
    &(t)->when_us, &(t)->lastmod_us, &(t)->hash, &(t)->length, &(t)->type, \
        &(t)->encoding, &(t)->links
#define OF_DESCRIPTION(t)                                           \
    (t)->when_us, (t)->lastmod_us, db_blob((t)->hash), (t)->length, \
        db_blob((t)->type), db_blob((t)->encoding), db_blob((t)->links)

/* A resource, and its description by the set with the latest one. */
#define RESOURCE                                                            \
    "SELECT id, loc, path, todo, left_run, expected, have, have_version,"   \
    " have_hash, have_lastmod, have_size, have_mtime, bytes, left_version," \
    " have_second, version, " DESCRIPTION " FROM resources"                 \
    " LEFT JOIN members ON resource = id AND set_id = (SELECT set_id"       \
    " FROM members WHERE resource = id ORDER BY when_us DESC, version DESC" \
    " LIMIT 1) "

/* The present generation of the set ?1. */
#define GENERATION "(SELECT generation FROM sets WHERE id = ?1)"

/* synchronous=FULL: a position is on the disk when a commit returns. */
static const struct db_kind kind = {
    .name = "the state of the mirror",
    .mode = DB_OWN,
    .steps = steps,
    .n_steps = MIRROR_DB_VERSION,
    .opening = opening,
};

/* Steps of the database */

/* Ends a step: true if it went well. */
static bool
end_step(struct mirror_db *db, enum status rc)
{
    if (rc == STATUS_BUSY)
        problem(&db->trouble, STATUS_IO,
                "the state of the mirror cannot be written: no room on the "
                "disk; the finished files stay; make room and run it again");
    if (rc && db->on_failure)
        db->on_failure(&db->trouble, db->user);
    return !rc;
}

/* Runs a statement without rows. True: it has not failed. */
#define RUN_SQL(db, ...) \
    end_step((db), DB_DO(&(db)->base, NULL, &(db)->trouble, __VA_ARGS__))

/* Reads the first row; without one the places keep what they have. */
static bool
find_row(struct mirror_db *db, bool *is_there, const char *sql,
         const struct db_value *values, const struct db_target *into)
{
    return end_step(db, db_find(&db->base, NULL, &db->trouble, is_there, sql,
                                values, into));
}

/* Lends the first row of a query, or, with `sql` NULL, its next one; without
 * one the places keep what they have. */
static bool
lend_row(struct mirror_db *db, enum lent which, const char *sql,
         const struct db_value *values, const struct db_target *into)
{
    struct db_rows *rows = &db->lent[which];

    if (sql) {
        (void)!db_rows_end(rows);
        *rows = db_select(&db->base, NULL, &db->trouble, sql, values);
    }
    db_next(rows, into);
    return end_step(db, rows->rc);
}

/* Takes back all rows that are lent: an open one would keep SQLite from moving
 * the WAL into the file. */
static void
end_rows(struct mirror_db *db)
{
    for (int i = 0; i < N_LENT; i++)
        (void)!db_rows_end(&db->lent[i]);
}

/* Opening */

static bool
read_state(struct mirror_db *db, const char *name, int64_t *value)
{
    return find_row(db, NULL, "SELECT value FROM state WHERE name = ?",
                    DB_VALUES(name), DB_INTO(value));
}

static bool
write_state(struct mirror_db *db, const char *name, int64_t value)
{
    return RUN_SQL(db, "INSERT OR REPLACE INTO state VALUES (?, ?)", name,
                   value);
}

const struct mirror_db_count mirror_db_count_rows[] = {
    {"resources", offsetof(struct mirror_db_counts, n_resources)},
    {"have", offsetof(struct mirror_db_counts, n_have)},
    {"have-bytes", offsetof(struct mirror_db_counts, bytes_have)},
    {"fetch", offsetof(struct mirror_db_counts, n_fetch)},
    {"fetch-bytes", offsetof(struct mirror_db_counts, bytes_wanted)},
    {"remove", offsetof(struct mirror_db_counts, n_remove)},
    {"left", offsetof(struct mirror_db_counts, n_left)},
    {NULL, 0},
};

static bool
write_counts(struct mirror_db *db)
{
    for (const struct mirror_db_count *c = mirror_db_count_rows; c->name; c++)
        if (!write_state(
                db, c->name,
                (int64_t) *
                    (const uint64_t *)((const char *)&db->counts + c->offset)))
            return false;
    return true;
}

/* Counts all, and takes a new run number: resources that an earlier run gave up
 * are tried again. */
static bool
begin_run(struct mirror_db *db)
{
    struct mirror_db_counts *c = &db->counts;

    if (!find_row(db, NULL,
                  "SELECT count(*), total(have), total(have_size * have),"
                  " total(todo = 1), total(bytes * (todo = 1)),"
                  " total(todo = 2) FROM resources",
                  DB_VALUES(),
                  DB_INTO(&c->n_resources, &c->n_have, &c->bytes_have,
                          &c->n_fetch, &c->bytes_wanted, &c->n_remove)) ||
        !find_row(db, NULL, "SELECT value FROM state WHERE name = 'filter'",
                  DB_VALUES(), DB_INTO(&db->filter)) ||
        !read_state(db, "run", &db->run) ||
        !read_state(db, "version", &db->version))
        return false;
    db->run++;
    return mirror_db_begin(db) && write_state(db, "run", db->run) &&
           write_counts(db) && mirror_db_commit(db);
}

bool
mirror_db_open(struct mirror_db *db, const char *dir, const char *name,
               struct problem *why)
{
    char path[PATH_MAX];

    *db = (struct mirror_db){.run = 0};
    if (snprintf(path, sizeof(path), "%s%s%s", dir, name[0] ? "/" : "", name) >=
        (int)sizeof(path))
        problem(&db->trouble, STATUS_IO, "%s: the path is too long", dir);
    else if (!db_open_kind(&db->base, &kind, path, &db->trouble) &&
             begin_run(db))
        return true;
    *why = db->trouble;
    return false;
}

void
mirror_db_close(struct mirror_db *db)
{
    end_rows(db);
    db_close(&db->base);
}

/* Transactions */

bool
mirror_db_begin(struct mirror_db *db)
{
    db->counts_before = db->counts;
    db->version_before = db->version;
    db->hour_first = INT64_MAX;
    db->hour_last = INT64_MIN;
    db->is_writing = end_step(db, db_begin(&db->base, &db->trouble));
    return db->is_writing;
}

bool
mirror_db_commit(struct mirror_db *db)
{
    if (!db->is_writing)
        return true;
    if ((db->version != db->version_before &&
         !write_state(db, "version", db->version)) ||
        (memcmp(&db->counts, &db->counts_before, sizeof(db->counts)) &&
         !write_counts(db)))
        return false;
    end_rows(db);
    if (!end_step(db, db_end(&db->base, STATUS_OK, &db->trouble)))
        return false;
    db->is_writing = false;
    return true;
}

void
mirror_db_rollback(struct mirror_db *db)
{
    if (!db->is_writing)
        return;
    end_rows(db);
    db_rollback(&db->base);
    db->is_writing = false;
    db->counts = db->counts_before;
    db->version = db->version_before;
}

bool
mirror_db_as_of(struct mirror_db *db, int64_t wanted_us, int64_t *as_of_us)
{
    bool has_source;

    *as_of_us = DATETIME_NONE;
    return find_row(db, &has_source, "SELECT 1 FROM sources LIMIT 1",
                    DB_VALUES(), DB_INTO()) &&
           (has_source || write_state(db, "as-of", wanted_us)) &&
           read_state(db, "as-of", as_of_us);
}

bool
mirror_db_set_filter(struct mirror_db *db, struct slice filter)
{
    snprintf(db->filter, sizeof(db->filter), "%.*s", SLICE_ARG(filter));
    /* A crash between the two only repeats the first. */
    return RUN_SQL(db,
                   "UPDATE sets SET position = '', generation = generation + 1,"
                   " doubt = ?, doubt_us = strftime('%s', 'now') * 1000000",
                   MIRROR_DB_REFILTERED) &&
           RUN_SQL(db, "INSERT OR REPLACE INTO state VALUES ('filter', ?)",
                   filter);
}

/* Sources and sets */

bool
mirror_db_add_source(struct mirror_db *db, const char *url)
{
    return RUN_SQL(db, "INSERT OR IGNORE INTO sources (url) VALUES (?)", url);
}

bool
mirror_db_source(struct mirror_db *db, unsigned n, const char **url)
{
    struct slice text = SLICE("");

    if (!lend_row(db, LENT_SOURCE,
                  "SELECT url || char(0) FROM sources ORDER BY n LIMIT 1"
                  " OFFSET ?",
                  DB_VALUES(n), DB_INTO(&text)))
        return false;
    *url = text.data;
    return true;
}

bool
mirror_db_find_set(struct mirror_db *db, const char *url, int64_t *set)
{
    *set = 0;
    return find_row(db, NULL, "SELECT id FROM sets WHERE url = ?",
                    DB_VALUES(url), DB_INTO(set));
}

bool
mirror_db_set(struct mirror_db *db, const char *url, int64_t *set,
              char position[TD_POSITION_SIZE])
{
    char at[TD_POSITION_SIZE] = "";
    bool has_row;

    if (!find_row(db, &has_row, "SELECT id, position FROM sets WHERE url = ?",
                  DB_VALUES(url), DB_INTO(set, &at)))
        return false;
    if (position)
        snprintf(position, sizeof(at), "%.*s", (int)strcspn(at, " "), at);
    if (has_row)
        return true;
    if (!RUN_SQL(db,
                 "INSERT INTO sets (url, position, generation)"
                 " VALUES (?, '', 1)",
                 url))
        return false;
    *set = sqlite3_last_insert_rowid(db->base.handle);
    return true;
}

bool
mirror_db_mark(struct mirror_db *db, int64_t set, char mark[TD_POSITION_SIZE])
{
    char at[TD_POSITION_SIZE] = "";
    bool has_row;

    if (!find_row(db, &has_row, "SELECT position FROM sets WHERE id = ?",
                  DB_VALUES(set), DB_INTO(&at)))
        return false;
    memcpy(mark, at, sizeof(at));
    return true;
}

bool
mirror_db_next_set(struct mirror_db *db, int64_t after, int64_t *set,
                   const char **url)
{
    struct slice text = SLICE("");

    *set = 0;
    if (!lend_row(db, LENT_SET,
                  "SELECT id, url || char(0) FROM sets WHERE id > ?"
                  " ORDER BY id LIMIT 1",
                  DB_VALUES(after), DB_INTO(set, &text)))
        return false;
    *url = text.data;
    return true;
}

bool
mirror_db_set_position(struct mirror_db *db, int64_t set, const char *position)
{
    return RUN_SQL(db, "UPDATE sets SET position = ? WHERE id = ?", position,
                   set);
}

bool
mirror_db_note_caught_up(struct mirror_db *db, int64_t set, int64_t when_us)
{
    return RUN_SQL(db, "UPDATE sets SET caught_up = ? WHERE id = ?", when_us,
                   set);
}

/* Resources */

/* Lends the row of a query that selects a RESOURCE. */
static bool
read_resource(struct mirror_db *db, enum lent which, const char *sql,
              const struct db_value *values, struct mirror_db_resource *r)
{
    int64_t left_run = 0;

    *r = (struct mirror_db_resource){.id = 0};
    if (!lend_row(db, which, sql, values,
                  DB_INTO(&r->id, &r->loc, &r->path, &r->todo, &left_run,
                          &r->is_expected, &r->is_there, &r->have_version,
                          &r->have_hash, &r->have_lastmod_us,
                          &r->have_mark.size, &r->have_mark.mtime_ns, &r->bytes,
                          &r->left_version, &r->have_second_us, &r->version,
                          INTO_DESCRIPTION(&r->wanted))))
        return false;
    r->is_left = left_run == db->run;
    r->is_wanted = r->version > 0; /* the first one is 1 */
    if (!r->is_wanted)
        r->wanted = (struct mirror_db_description){.when_us = DATETIME_NONE,
                                                   .lastmod_us = DATETIME_NONE,
                                                   .length = LENGTH_NONE};
    return true;
}

bool
mirror_db_get(struct mirror_db *db, int64_t id,
              struct mirror_db_resource *resource)
{
    return read_resource(db, LENT_GET, RESOURCE "WHERE id = ?", DB_VALUES(id),
                         resource);
}

bool
mirror_db_find(struct mirror_db *db, struct slice loc,
               struct mirror_db_resource *resource)
{
    return read_resource(db, LENT_FIND, RESOURCE "WHERE loc = ?",
                         DB_VALUES(db_blob(loc)), resource);
}

bool
mirror_db_has_path(struct mirror_db *db, const char *path, bool *has)
{
    return find_row(db, has, "SELECT 1 FROM resources WHERE path = ?",
                    DB_VALUES(path), DB_INTO());
}

bool
mirror_db_next(struct mirror_db *db, enum mirror_db_todo todo, int64_t after_id,
               struct mirror_db_resource *resource)
{
    return read_resource(db, LENT_NEXT,
                         RESOURCE "WHERE todo = ? AND todo <> 0 AND id > ?"
                                  " AND left_run <> ? ORDER BY id LIMIT 1",
                         DB_VALUES(todo, after_id, db->run), resource);
}

bool
mirror_db_wanted(struct mirror_db *db, int64_t set, int64_t from_us,
                 int64_t until_us, uint64_t *n, uint64_t *bytes)
{
    return find_row(db, NULL,
                    "SELECT count(*), total(bytes) FROM resources"
                    " JOIN members ON resource = id AND set_id = ?"
                    " WHERE todo = ? AND todo <> 0"
                    " AND (when_us BETWEEN ? AND ? OR when_us = ?)",
                    DB_VALUES(set, MIRROR_DB_FETCH, from_us,
                              until_us == DATETIME_NONE ? INT64_MAX : until_us,
                              DATETIME_NONE),
                    DB_INTO(n, bytes));
}

bool
mirror_db_walk(struct mirror_db *db, bool is_first,
               struct mirror_db_resource *resource)
{
    return read_resource(db, LENT_WALK,
                         is_first ? RESOURCE "ORDER BY loc" : NULL, DB_VALUES(),
                         resource);
}

/* True if the noted file is the wanted one. `trusts_times`: without digests,
 * the same lastmod will do. */
static bool
is_right(const struct mirror_db_resource *resource, bool trusts_times)
{
    bool has_common;
    const struct mirror_db_description *wanted = &resource->wanted;
    bool agrees = hashes_agree(wanted->hash, resource->have_hash, &has_common);
    bool fits = wanted->length == LENGTH_NONE ||
                wanted->length == resource->have_mark.size;

    if (!resource->is_there)
        return false;
    if (resource->version == resource->have_version)
        return true;
    if (has_common)
        return agrees && fits;
    return trusts_times && fits && wanted->lastmod_us != DATETIME_NONE &&
           wanted->lastmod_us == resource->have_lastmod_us;
}

/* The work of a resource */

/* Adds `n` removals (-1: takes one back) to this hour of event time. */
static bool
count_removal(struct mirror_db *db, int64_t hour, int n)
{
    if (hour < db->hour_first)
        db->hour_first = hour;
    if (hour > db->hour_last)
        db->hour_last = hour;
    return RUN_SQL(db, "DELETE FROM hours WHERE hour < ?", hour - HOURS_KEPT) &&
           RUN_SQL(db,
                   "INSERT INTO hours VALUES (?1, max(?2, 0), ?3)"
                   " ON CONFLICT (hour) DO UPDATE SET n = max(n + ?2, 0),"
                   " n_of = max(n_of, ?3)",
                   hour, n, db->counts.n_have);
}

bool
mirror_db_removals(struct mirror_db *db, uint64_t *n, uint64_t *n_of)
{
    int64_t first = db->hour_first, last = db->hour_last;

    *n = *n_of = 0;
    return first > last ||
           find_row(db, NULL,
                    "SELECT n, n_of, hour, hour FROM hours"
                    " WHERE hour BETWEEN ? AND ? ORDER BY n DESC LIMIT 1",
                    DB_VALUES(first, last),
                    DB_INTO(n, n_of, &db->hour_first, &db->hour_last));
}

/* Adds a resource with its work to the counts, or takes it (`n` -1) out. */
static void
count_work(struct mirror_db *db, enum mirror_db_todo todo, uint64_t bytes,
           int n)
{
    db->counts.n_fetch += todo == MIRROR_DB_FETCH ? (uint64_t)n : 0;
    db->counts.n_remove += todo == MIRROR_DB_REMOVE ? (uint64_t)n : 0;
    db->counts.bytes_wanted += (uint64_t)n * bytes;
}

/* Computes the work of a resource after a change of it, and deletes the
 * resource if no set has it and there is no file. `trusts_times`: the same
 * lastmod means the same content, unless a change said otherwise. `hour`: of
 * the change that may remove it, or NO_HOUR. */
static bool
settle_resource(struct mirror_db *db, int64_t id, bool trusts_times,
                int64_t hour)
{
    struct mirror_db_resource r;
    enum mirror_db_todo todo = MIRROR_DB_NOTHING;
    uint64_t bytes = 0;
    bool is_left;

    if (!mirror_db_get(db, id, &r))
        return false;
    if (r.is_wanted && is_right(&r, trusts_times && r.todo != MIRROR_DB_FETCH))
        r.have_version = r.version;
    else if (r.is_wanted)
        todo = MIRROR_DB_FETCH;
    else if (r.is_there || r.is_expected)
        todo = MIRROR_DB_REMOVE;
    if (todo == MIRROR_DB_FETCH && r.wanted.length != LENGTH_NONE)
        bytes = r.wanted.length;

    /* A resource stays given up until it has a new version. */
    is_left =
        r.is_left && todo == MIRROR_DB_FETCH && r.left_version == r.version;
    if (r.is_left && !is_left)
        db->counts.n_left--;
    count_work(db, r.todo, r.bytes, -1);
    count_work(db, todo, bytes, 1);
    if (hour != NO_HOUR && r.is_there &&
        (todo == MIRROR_DB_REMOVE) != (r.todo == MIRROR_DB_REMOVE) &&
        !count_removal(db, hour, todo == MIRROR_DB_REMOVE ? 1 : -1))
        return false;
    if (!r.is_wanted && todo == MIRROR_DB_NOTHING) {
        db->counts.n_resources--;
        return RUN_SQL(db, "DELETE FROM resources WHERE id = ?", id);
    }
    return RUN_SQL(db,
                   "UPDATE resources SET todo = ?, bytes = ?, left_run = ?,"
                   " have_version = ? WHERE id = ?",
                   todo, bytes, is_left ? db->run : 0, r.have_version, id);
}

/* Descriptions */

/* True if the set repeats its last description: a download under way then need
 * not begin anew. */
static bool
is_repeat(const struct mirror_db_description *was,
          const struct mirror_db_description *is)
{
    if (!slice_equal(was->hash, is->hash) || was->length != is->length)
        return false;
    return was->hash.size > 0 ||
           (is->is_baseline && was->lastmod_us == is->lastmod_us &&
            (is->lastmod_us != DATETIME_NONE ||
             (is->when_us != DATETIME_NONE && was->when_us == is->when_us)));
}

/* Finds a resource and the set's last description of it, which it lends;
 * `*version` 0: there is none. */
static bool
find_last(struct mirror_db *db, int64_t set, struct slice loc,
          struct mirror_db_resource *r, struct mirror_db_description *was,
          int64_t *version)
{
    *version = 0;
    return mirror_db_find(db, loc, r) &&
           (!r->id || lend_row(db, LENT_LAST,
                               "SELECT version, " DESCRIPTION
                               " FROM members WHERE resource = ?"
                               " AND set_id = ?",
                               DB_VALUES(r->id, set),
                               DB_INTO(version, INTO_DESCRIPTION(was))));
}

/* Stores the time of a deletion, and removes the time when the resource comes
 * back. Stores a final description (is_final) as the latest of all times. */
static bool
note_deletion(struct mirror_db *db, int64_t set,
              const struct mirror_db_description *t)
{
    if (!t->is_noted)
        return true;
    return t->is_deleted || t->is_final
               ? RUN_SQL(
                     db, "INSERT OR REPLACE INTO deletions VALUES (?, ?, ?)",
                     set, db_blob(t->loc), t->is_final ? INT64_MAX : t->when_us)
               : RUN_SQL(db,
                         "DELETE FROM deletions WHERE set_id = ? AND loc = ?",
                         set, db_blob(t->loc));
}

static bool
remove_member(struct mirror_db *db, int64_t id, int64_t set, int64_t hour)
{
    return RUN_SQL(db, "DELETE FROM members WHERE resource = ? AND set_id = ?",
                   id, set) &&
           settle_resource(db, id, true, hour);
}

bool
mirror_db_describe(struct mirror_db *db, int64_t set,
                   const struct mirror_db_description *description, int64_t *id)
{
    struct mirror_db_resource r;
    struct mirror_db_description was;
    char path[RESOURCE_PATH_MAX + 1];
    int64_t version;
    int64_t hour =
        description->is_baseline || description->when_us == DATETIME_NONE
            ? NO_HOUR
            : description->when_us / HOUR_US;

    if (!note_deletion(db, set, description) ||
        !find_last(db, set, description->loc, &r, &was, &version))
        return false;
    *id = r.id;
    if (description->is_deleted)
        return !r.id || (description->is_held
                             ? RUN_SQL(db,
                                       "UPDATE members SET generation = 0"
                                       " WHERE resource = ? AND set_id = ?",
                                       r.id, set)
                             : remove_member(db, r.id, set, hour));
    if (!r.id) {
        resource_path_write(path, description->loc);
        if (!RUN_SQL(db,
                     "INSERT INTO resources VALUES (NULL, ?, ?, 0, 0, 0, 0, 0,"
                     " 0, 0, x'', ?, 0, 0, 0)",
                     db_blob(description->loc), path, DATETIME_NONE))
            return false;
        db->counts.n_resources++;
        *id = sqlite3_last_insert_rowid(db->base.handle);
    }
    if (!version || !is_repeat(&was, description) ||
        (r.is_left && !description->is_baseline))
        version = ++db->version;
    return RUN_SQL(db,
                   "INSERT OR REPLACE INTO members VALUES (?2, ?1, " GENERATION
                   ", ?, ?, ?, ?, ?, ?, ?, ?)",
                   set, *id, version, OF_DESCRIPTION(description)) &&
           settle_resource(db, *id, description->is_baseline, hour);
}

bool
mirror_db_next_description(struct mirror_db *db, int64_t set, int64_t after_id,
                           int64_t *id,
                           struct mirror_db_description *description)
{
    *description = (struct mirror_db_description){.is_baseline = true};
    *id = 0;
    return lend_row(
        db, LENT_DESCRIPTION,
        "SELECT resource, loc, " DESCRIPTION
        " FROM members JOIN resources ON id = resource"
        " WHERE resource > ? AND set_id = ?"
        " ORDER BY resource LIMIT 1",
        DB_VALUES(after_id, set),
        DB_INTO(id, &description->loc, INTO_DESCRIPTION(description)));
}

/* Baselines */

bool
mirror_db_baseline_begin(struct mirror_db *db, int64_t set)
{
    return RUN_SQL(db, "DELETE FROM compared WHERE set_id = ?", set) &&
           RUN_SQL(db,
                   "UPDATE sets SET generation = generation + 1 WHERE id = ?",
                   set);
}

/* Removes the members of the generations before `generation`, and before the
 * present one. */
static bool
remove_members_before(struct mirror_db *db, int64_t set, int64_t generation)
{
    int64_t id = 0;
    bool has_row = true;

    while (has_row)
        if (!find_row(db, &has_row,
                      "SELECT resource FROM members WHERE resource > ?3"
                      " AND set_id = ?1 AND generation < min(?2, " GENERATION
                      ") ORDER BY resource LIMIT 1",
                      DB_VALUES(set, generation, id), DB_INTO(&id)) ||
            (has_row && !remove_member(db, id, set, NO_HOUR)))
            return false;
    return true;
}

/* True if both descriptions are certainly of different versions. A list often
 * says less than the change before it. */
static bool
differs(const struct mirror_db_description *was,
        const struct mirror_db_description *is)
{
    bool has_common;

    if (!hashes_agree(was->hash, is->hash, &has_common) ||
        (was->length != LENGTH_NONE && is->length != LENGTH_NONE &&
         was->length != is->length))
        return true;
    if (has_common || is->lastmod_us == DATETIME_NONE)
        return false;
    return was->lastmod_us != DATETIME_NONE ? was->lastmod_us != is->lastmod_us
                                            : is->lastmod_us > was->when_us;
}

/* The set has the resource, unchanged. */
static bool
keep_member(struct mirror_db *db, int64_t id, int64_t set)
{
    return RUN_SQL(db,
                   "UPDATE members SET generation = " GENERATION
                   " WHERE set_id = ?1 AND resource = ?2",
                   set, id);
}

bool
mirror_db_compare(struct mirror_db *db, int64_t set,
                  const struct mirror_db_description *t)
{
    struct mirror_db_description was;
    struct mirror_db_resource r;
    int64_t version;

    if (!find_last(db, set, t->loc, &r, &was, &version))
        return false;
    if (version && !differs(&was, t))
        return keep_member(db, r.id, set);
    return RUN_SQL(db,
                   "INSERT OR REPLACE INTO compared VALUES"
                   " (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                   db_blob(t->loc), set, OF_DESCRIPTION(t));
}

bool
mirror_db_is_later(struct mirror_db *db, int64_t set, struct slice loc,
                   int64_t as_of_us, bool *is_later)
{
    return find_row(db, is_later,
                    "SELECT 1 FROM resources JOIN members ON resource = id"
                    " AND set_id = ?1 AND when_us > ?3 WHERE loc = ?2"
                    " UNION ALL SELECT 1 FROM deletions"
                    " WHERE set_id = ?1 AND loc = ?2 AND when_us > ?3",
                    DB_VALUES(set, db_blob(loc), as_of_us), DB_INTO());
}

bool
mirror_db_next_later(struct mirror_db *db, int64_t set, int64_t as_of_us,
                     bool is_first, struct slice *loc)
{
    loc->size = 0;
    return lend_row(db, LENT_LATER,
                    is_first
                        ? "SELECT loc FROM members JOIN resources ON"
                          " id = resource WHERE set_id = ?1 AND when_us > ?2"
                          " UNION SELECT loc FROM deletions"
                          " WHERE set_id = ?1 AND when_us > ?2"
                        : NULL,
                    DB_VALUES(set, as_of_us), DB_INTO(loc));
}

/* Applies a difference, unless the resource has changed since that time. */
static bool
apply_difference(struct mirror_db *db, int64_t set, int64_t as_of_us,
                 const struct mirror_db_description *t)
{
    struct mirror_db_resource r;
    bool is_later;
    int64_t id;

    if (!mirror_db_is_later(db, set, t->loc, as_of_us, &is_later))
        return false;
    if (!is_later)
        return mirror_db_describe(db, set, t, &id);
    return mirror_db_find(db, t->loc, &r) && keep_member(db, r.id, set);
}

bool
mirror_db_baseline_end(struct mirror_db *db, int64_t set,
                       const struct mirror_db_end *end, uint64_t *n_remove)
{
    const char *sql = "SELECT loc, " DESCRIPTION " FROM compared"
                      " WHERE set_id = ? ORDER BY loc";
    struct mirror_db_description t = {.is_baseline = true};
    uint64_t before;

    /* Applies the differences that waited for the time of the list. */
    for (bool is_over = false; !is_over; sql = NULL) {
        t.loc.size = 0;
        if (!lend_row(db, LENT_COMPARED, sql, DB_VALUES(set),
                      DB_INTO(&t.loc, INTO_DESCRIPTION(&t))) ||
            (t.loc.size && !apply_difference(db, set, end->as_of_us, &t)))
            return false;
        is_over = !t.loc.size;
    }
    if (!RUN_SQL(db,
                 "UPDATE members SET generation = " GENERATION
                 " WHERE set_id = ?1 AND generation > 0 AND when_us > ?2",
                 set, end->as_of_us))
        return false;
    before = db->counts.n_remove;
    if (!(end->is_held ? RUN_SQL(db,
                                 "UPDATE members SET generation = 0 WHERE"
                                 " set_id = ?1 AND generation < " GENERATION,
                                 set)
                       : remove_members_before(db, set, INT64_MAX)))
        return false;
    *n_remove = db->counts.n_remove - before;
    return RUN_SQL(db,
                   "DELETE FROM deletions WHERE set_id = ? AND when_us <= ?",
                   set, end->as_of_us);
}

bool
mirror_db_count_held(struct mirror_db *db, int64_t set, uint64_t *n)
{
    return find_row(db, NULL,
                    "SELECT count(*) FROM members"
                    " WHERE set_id = ? AND generation = 0",
                    DB_VALUES(set), DB_INTO(n));
}

bool
mirror_db_delete_held(struct mirror_db *db, int64_t set)
{
    return remove_members_before(db, set, 1);
}

/* Certainty */

bool
mirror_db_certainty(struct mirror_db *db, int64_t set,
                    struct mirror_db_certainty *c)
{
    *c = (struct mirror_db_certainty){.complete_us = 0};
    return find_row(db, NULL,
                    "SELECT " MIRROR_DB_CERTAINTY " FROM sets WHERE id = ?",
                    DB_VALUES(set), DB_INTO(MIRROR_DB_INTO_CERTAINTY(c)));
}

bool
mirror_db_set_certainty(struct mirror_db *db, int64_t set,
                        const struct mirror_db_certainty *c)
{
    return RUN_SQL(db,
                   "UPDATE sets SET (" MIRROR_DB_CERTAINTY
                   ") = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ?",
                   c->listed_us, c->complete_us, c->complete_by, c->compared_us,
                   c->doubt, c->doubt_us, c->n_held, c->n_held_of,
                   c->n_left_out, c->left_out, c->n_left_out_before,
                   c->n_mended, set);
}

/* Noting */

bool
mirror_db_expect(struct mirror_db *db, int64_t id)
{
    return RUN_SQL(db, "UPDATE resources SET expected = 1 WHERE id = ?", id);
}

bool
mirror_db_doubt(struct mirror_db *db, int64_t id)
{
    return RUN_SQL(db,
                   "UPDATE resources SET have_version = 0, have_hash = x'',"
                   " have_lastmod = ? WHERE id = ?",
                   DATETIME_NONE, id);
}

bool
mirror_db_note_file(struct mirror_db *db, int64_t id, int64_t version,
                    struct slice hash, int64_t lastmod_us, int64_t second_us,
                    const struct mirror_dir_mark *mark)
{
    struct mirror_db_resource was;

    if (!mirror_db_get(db, id, &was) ||
        !RUN_SQL(db,
                 "UPDATE resources SET have = 1, expected = 1,"
                 " have_version = ?, have_hash = ?, have_lastmod = ?,"
                 " have_size = ?, have_mtime = ?, have_second = ? WHERE id = ?",
                 version, db_blob(hash), lastmod_us, mark->size, mark->mtime_ns,
                 second_us, id))
        return false;
    db->counts.n_have += !was.is_there;
    db->counts.bytes_have += mark->size;
    db->counts.bytes_have -= was.is_there ? was.have_mark.size : 0;
    return settle_resource(db, id, false, NO_HOUR);
}

bool
mirror_db_note_loss(struct mirror_db *db, int64_t id)
{
    struct mirror_db_resource r;

    /* If it is wanted, a file at its path was ours. */
    if (!mirror_db_get(db, id, &r) ||
        !RUN_SQL(db,
                 "UPDATE resources SET have = 0, expected = ?, have_second = 0,"
                 " have_version = 0, have_hash = x'', left_run = 0"
                 " WHERE id = ?",
                 r.is_wanted, id))
        return false;
    db->counts.n_have -= r.is_there;
    db->counts.bytes_have -= r.is_there ? r.have_mark.size : 0;
    db->counts.n_left -= r.is_left;
    return settle_resource(db, id, false, NO_HOUR);
}

bool
mirror_db_renew(struct mirror_db *db, int64_t now_us)
{
    bool has_row = true;
    int64_t id;

    while (has_row)
        if (!find_row(db, &has_row,
                      "SELECT id FROM resources WHERE have_second > 0"
                      " AND have_second <= ? LIMIT 1",
                      DB_VALUES(now_us), DB_INTO(&id)) ||
            (has_row &&
             (!RUN_SQL(db,
                       "UPDATE resources SET have_second = 0, have_version = 0,"
                       " have_lastmod = ? WHERE id = ?",
                       DATETIME_NONE, id) ||
              !settle_resource(db, id, false, NO_HOUR))))
            return false;
    return true;
}

bool
mirror_db_give_up(struct mirror_db *db, int64_t id)
{
    struct mirror_db_resource r;

    if (!mirror_db_get(db, id, &r))
        return false;
    if (r.todo != MIRROR_DB_FETCH || r.is_left)
        return true;
    db->counts.n_left++;
    return RUN_SQL(
        db, "UPDATE resources SET left_run = ?, left_version = ? WHERE id = ?",
        db->run, r.version, id);
}
