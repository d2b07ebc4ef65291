/*
 * hub_db.c - the tables of hub.db, and its transactions.
 *
 *   subscriptions (id, kind, topic_kind, name, epoch, callback, ...)   rare
 *   cursors       (id, after, range_last)     once a minute, of deliveries
 *   notes         (part, n, bytes)            with each turn of deliveries
 *   requests      (id, mode, topic_kind, name, epoch, topic_url, ...)
 *   relays        (id, name, topic, hub, epoch, last)                  rare
 *   documents     (id, relay, seq, ..., body)                      of relays
 *   keys          (id, secret, created, ends)          of the hub itself, rare
 *
 * The kind of a topic, the name of its set or relay, and the epoch of the log
 * identify it: a set that was removed and made again with the same name is
 * another topic. Cursors have a table of their own because they change often
 * and are small: some 200 share a page, and a commit writes whole pages. Notes
 * have those that have changed since.
 *
 * How firmly a commit is kept. `PRAGMA synchronous` can only be set outside of
 * a transaction, so it must be known before BEGIN. Ranges need no fsync: they
 * wait in memory and begin no transaction. Any other row begins one with FULL.
 * hub_db_commit writes the ranges: if the turn has begun no transaction, in one
 * of their own with NORMAL.
 *
 *   NORMAL   COMMIT appends to the WAL by write(): the kernel has it, and the
 *            next open finds it, whatever kills the process.
 *   FULL     COMMIT appends, then fsyncs the whole file of the WAL: earlier
 *            NORMAL commits are on disk as well, in order. A power failure can
 *            only cut the end behind the last fsync, because SQLite reads a
 *            WAL up to its first frame with a wrong checksum.
 *
 * SQLite makes a checkpoint on this thread when the WAL has 1,000 pages: two
 * fsyncs and 4 MB, every some tens of thousands of deliveries. A dozen commits
 * of requests cost as much, and a thread of its own would gain nothing: only
 * callbacks wait for this thread. A checkpoint that fails does not make its
 * COMMIT fail; the next COMMIT tries it again.
 */
#include "broker/sources/hub_db.h"

#include "base/clock.h"
#include "proto/number.h"

/* Ranges become rows after so long, or behind so many bytes of notes: the next
 * owner reads as many. Of one turn, so many: each costs PostgreSQL 25 us, and
 * deliveries wait for it. */
#define FOLD_US     60000000
#define FOLD_BYTES  ((size_t)8 << 20)
#define FOLD_RANGES 500

static const char *const steps[] = {
    "CREATE TABLE subscriptions("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL,"
    " topic_kind INTEGER NOT NULL, name TEXT NOT NULL, epoch TEXT NOT NULL,"
    " callback TEXT NOT NULL, created INTEGER NOT NULL,"
    " lease INTEGER NOT NULL, lease_end INTEGER NOT NULL, secret BLOB,"
    " filter TEXT, interval INTEGER NOT NULL, is_simple INTEGER NOT NULL);"
    "CREATE TABLE cursors("
    " id INTEGER PRIMARY KEY, after INTEGER NOT NULL,"
    " range_last INTEGER NOT NULL);"
    "CREATE TABLE requests("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, mode INTEGER NOT NULL,"
    " topic_kind INTEGER NOT NULL, name TEXT NOT NULL, epoch TEXT NOT NULL,"
    " topic_url TEXT NOT NULL, callback TEXT NOT NULL,"
    " taken INTEGER NOT NULL, lease INTEGER NOT NULL, secret BLOB,"
    " filter TEXT, interval INTEGER NOT NULL, is_simple INTEGER NOT NULL,"
    " has_after INTEGER NOT NULL, after INTEGER NOT NULL,"
    " requester TEXT NOT NULL);",
    /* `body` is the last column, so that SQLite reads the others without it. */
    "CREATE TABLE relays(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " name TEXT NOT NULL UNIQUE, topic TEXT NOT NULL, hub TEXT NOT NULL,"
    " epoch TEXT NOT NULL, last INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE documents(id INTEGER PRIMARY KEY, relay INTEGER NOT NULL,"
    " seq INTEGER NOT NULL, received_us INTEGER NOT NULL,"
    " size INTEGER NOT NULL, digest BLOB NOT NULL, type TEXT NOT NULL,"
    " key TEXT, body BLOB NOT NULL);"
    "CREATE UNIQUE INDEX documents_by_seq ON documents(relay, seq);"
    "CREATE INDEX documents_by_key ON documents(relay, key)"
    " WHERE key IS NOT NULL;",
    /* How often a redelivery moved a subscription's cursor. */
    "ALTER TABLE subscriptions ADD COLUMN generation INTEGER NOT NULL"
    " DEFAULT 0;",
    /* Marks the rows of clients of this machine: their callbacks on loopback
     * may be called (hub_rows.c looks at the host). A subscription of an
     * earlier version with such a callback was confirmed at an open broker.
     * Limits see '::1' as
     * '::' (address_widen). */
    "ALTER TABLE subscriptions ADD COLUMN is_local INTEGER NOT NULL"
    " DEFAULT 0;"
    "ALTER TABLE requests ADD COLUMN is_local INTEGER NOT NULL DEFAULT 0;"
    "UPDATE subscriptions SET is_local=1 WHERE kind=0;"
    "UPDATE requests SET is_local=1 WHERE requester GLOB '127.*'"
    " OR requester IN ('::', '::1');",
    /* Subscriptions of earlier versions are those of an open broker. */
    "ALTER TABLE subscriptions ADD COLUMN owner TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE subscriptions ADD COLUMN owner_ends INTEGER NOT NULL"
    " DEFAULT 0;"
    "ALTER TABLE requests ADD COLUMN owner TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE requests ADD COLUMN owner_ends INTEGER NOT NULL DEFAULT 0;",
    /* The client whose limits count. Subscriptions of earlier versions without
     * a token count for the hub. */
    "ALTER TABLE subscriptions ADD COLUMN requester TEXT NOT NULL DEFAULT"
    " '';",
    /* The form of messages: readers/message.h. */
    "ALTER TABLE subscriptions ADD COLUMN form INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE requests ADD COLUMN form INTEGER NOT NULL DEFAULT 0;",
    /* Which subscriptions the hub signs with its own keys; and these: secrets
     * of Ed25519, with the time when each ends, 0: it is the newest. */
    "ALTER TABLE subscriptions ADD COLUMN wants_v1a INTEGER NOT NULL"
    " DEFAULT 0;"
    "ALTER TABLE requests ADD COLUMN wants_v1a INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE keys(id TEXT NOT NULL PRIMARY KEY, secret BLOB NOT NULL,"
    " created INTEGER NOT NULL, ends INTEGER NOT NULL);",
    /* Notes of this broker, also of parts that it had before. The table has no
     * key, so it is none of the stream. */
    "CREATE TABLE notes(part INTEGER NOT NULL, n INTEGER NOT NULL,"
    " bytes BLOB NOT NULL);",
};

const struct db_kind hub_db_kind = {
    .mode = DB_SMALL,
    DB_STEPS(steps),
    .opening = "PRAGMA secure_delete=ON", /* overwrites freed secrets */
    .ceding = "keys",
};

const struct owned_file hub_db_file = {"hub.db", "hub", "hub", &hub_db_kind,
                                       .is_shared = true};

/* Writing */

void
hub_db_fail(struct hub_db *h, const struct problem *why)
{
    if (!h->has_failed)
        h->why = *why; /* the first error is the reason; others follow from
                          it */
    h->has_failed = true;
}

static void
run_statement(struct hub_db *h, const char *sql, const struct db_value *values,
              const struct db_target *into)
{
    struct problem why = {""};

    if (!h->has_failed && db_find(&h->db, NULL, &why, NULL, sql, values, into))
        hub_db_fail(h, &why);
}

/* Does nothing if the subscription has ended meanwhile. */
static void
write_range(struct hub_db *h, uint64_t id, uint64_t after, uint64_t last)
{
    run_statement(h, "UPDATE cursors SET after=?, range_last=? WHERE id=?",
                  DB_VALUES(after, last, id), DB_INTO());
}

/* Notes */

/* An order_fn. */
static void
on_note(uint64_t n, struct slice bytes, void *user)
{
    struct hub_db *h = user;
    uint64_t id, after, size;

    if (h->n_note < n)
        h->n_note = n;
    while (leb128_take(&bytes, &id) && leb128_take(&bytes, &after) &&
           leb128_take(&bytes, &size))
        write_range(h, id, after, size > 0 ? after + size : 0);
}

/* Makes rows of the notes that this database has: this broker is alone now, or
 * the journal was lost and begins again. */
static enum status
fold_own(struct hub_db *h, struct problem *why)
{
    enum status rc = db_begin_firm(&h->db, true, why);
    struct db_rows rows;
    struct slice bytes;

    if (rc)
        return rc;
    rows = DB_SELECT(&h->db, "read the notes", why,
                     "SELECT bytes FROM notes ORDER BY n");
    while (DB_NEXT(&rows, &bytes))
        on_note(0, bytes, h);
    rc = db_rows_end(&rows);
    if (!rc && h->has_failed)
        rc = problem(why, STATUS_IO, "%s", h->why.text);
    if (!rc)
        rc = db_exec(&h->db, "DELETE FROM notes", why);
    return db_end(&h->db, rc, why);
}

/* Makes rows of the notes that former owners have left. */
static enum status
fold_left(struct hub_db *h, struct problem *why)
{
    struct stream_note drop = {.n = 0};
    enum status rc = owned_db_begin(&h->db, h->owned, true, why);

    if (rc)
        return rc;
    rc = owned_db_read_notes(h->owned, on_note, h, why);
    if (!rc && h->has_failed)
        rc = problem(why, STATUS_IO, "%s", h->why.text);
    h->has_failed = false;
    drop.n = drop.keep_from = ++h->n_note;
    owned_db_note(h->owned, &drop);
    return owned_db_end(&h->db, h->owned, rc, why);
}

/* The first range whose note belongs to the fold under way. NULL: none. */
static struct hub_range *
first_to_fold(const struct hub_db *h)
{
    struct hub_range *first =
        list_front(&h->noted, offsetof(struct hub_range, noted));

    return first && first->note <= h->fold_to ? first : NULL;
}

/* Opening and closing */

/* The greatest id that was ever kept. Greater ones may have been used, but no
 * answer has named them. */
static enum status
read_last_id(struct hub_db *h, struct problem *why)
{
    int64_t last_id = 0;
    enum status rc =
        db_number(&h->db, "SELECT coalesce(max(seq), 0) FROM sqlite_sequence",
                  &last_id, why);

    if (h->last_id < (uint64_t)last_id)
        h->last_id = (uint64_t)last_id;
    return rc;
}

enum status
hub_db_open(struct hub_db **db, const char *dir, struct streams *streams,
            struct problem *why)
{
    const struct ownership_right right = {.streams = streams};
    struct hub_db *h = memory_new(1, sizeof(*h));
    enum status rc;

    list_init(&h->hooks);
    list_init(&h->ranges);
    list_init(&h->written);
    list_init(&h->behind);
    list_init(&h->noted);
    for (unsigned i = 0; i < HUB_PARTS; i++)
        h->notes[i].max = SIZE_MAX;
    h->fold_at_us = clock_steady_us() + FOLD_US;
    rc = owned_file_open(&hub_db_file, &h->db, &h->owned, dir, &right, why);
    if (!rc && !streams)
        rc = fold_own(h, why);
    if (!rc)
        rc = read_last_id(h, why);
    if (rc)
        hub_db_close(h);
    else
        *db = h;
    return rc;
}

static void
free_ended(struct list *rows)
{
    struct hub_row *row;

    list_walk (row, rows, node) {
        if (row->ended_id != 0)
            free(row);
    }
}

void
hub_db_close(struct hub_db *h)
{
    struct problem why;

    if (!h)
        return;
    if (!h->owned && h->n_note > 0)
        (void)!fold_own(h, &why); /* else the next start does it */
    owned_db_close(h->owned);
    db_close(&h->db);
    free_ended(&h->written);
    free_ended(&h->behind);
    for (unsigned i = 0; i < HUB_PARTS; i++)
        buf_fini(&h->notes[i]);
    free(h);
}

/* Parts */

/* The rows of others are newer than the notes of a part that has left. Before
 * the first row the journal begins again, and lacks the notes: they stay. */
enum status
hub_db_follow(struct hub_db *h, struct problem *why)
{
    uint64_t former = owned_db_last(h->owned), held = 0;
    enum status rc = owned_db_read(h->owned, why);

    if (rc || owned_db_last(h->owned) == 0 ||
        (h->has_followed && former == owned_db_last(h->owned)))
        return rc;
    h->has_followed = true;
    for (unsigned i = 0; i < HUB_PARTS; i++)
        held |= (uint64_t)(h->rights[i] != NULL) << i;
    return DB_DO(&h->db, "delete notes", why,
                 "DELETE FROM notes WHERE ? >> part & 1 = 0", held);
}

enum status
hub_db_take(struct hub_db *h, unsigned parts,
            const struct ownership_right *const rights[HUB_PARTS],
            struct problem *why)
{
    struct leases arriving = {{NULL}};
    enum status rc = hub_db_follow(h, why);

    for (unsigned i = 0; i < HUB_PARTS; i++)
        if (parts >> i & 1)
            arriving.all[i] = rights[i]->lease;
    if (!rc && owned_db_last(h->owned) == 0)
        rc = fold_own(h, why);
    if (!rc)
        rc = owned_db_own(h->owned, &arriving, why);
    if (!rc)
        rc = fold_left(h, why);
    if (!rc)
        rc = read_last_id(h, why);
    for (unsigned i = 0; !rc && i < HUB_PARTS; i++)
        if (arriving.all[i]) {
            h->leases.all[i] = arriving.all[i];
            h->rights[i] = rights[i];
        }
    owned_db_set_leases(h->owned, &h->leases);
    return rc;
}

void
hub_db_leave(struct hub_db *h, unsigned parts)
{
    struct hub_row *row;

    for (unsigned i = 0; i < HUB_PARTS; i++)
        if (parts >> i & 1) {
            h->leases.all[i] = NULL;
            h->rights[i] = NULL;
        }
    list_walk (row, &h->behind, node)
        if (row->ended_id != 0 && parts >> row->part & 1) {
            list_remove(&row->node);
            free(row);
        }
}

/* Each call asks: one look at the clock for all parts. */
bool
hub_db_may_call(const struct hub_db *h)
{
    int64_t now_us = h->owned ? clock_steady_us() : 0;

    for (unsigned i = 0; h->owned && i < HUB_PARTS; i++)
        if (h->rights[i] && h->rights[i]->part &&
            atomic_load_explicit(&h->rights[i]->part->until_us,
                                 memory_order_acquire) <= now_us)
            return false;
    return true;
}

/* Of a cluster: the owners of the other parts give other numbers. */
uint64_t
hub_db_next_id(struct hub_db *h, unsigned part)
{
    h->last_id++;
    while (h->owned && h->last_id % HUB_PARTS != part)
        h->last_id++;
    return h->last_id;
}

/* Writing */

static void
begin_transaction(struct hub_db *h, bool is_firm)
{
    struct problem why = {""};

    if (h->is_open || h->has_failed)
        return;
    if (owned_db_begin(&h->db, h->owned, is_firm, &why))
        hub_db_fail(h, &why);
    else
        h->is_open = true;
}

/* A statement whose commit needs an fsync. */
void
hub_db_get(struct hub_db *h, const char *sql, const struct db_value *values,
           const struct db_target *into)
{
    begin_transaction(h, true);
    run_statement(h, sql, values, into);
}

void
hub_db_be_firm(struct hub_db *h)
{
    if (!h->owned)
        begin_transaction(h, true);
}

/* Rows that are older than memory */

struct hub_row *
hub_row_ended(enum hub_row_kind kind, uint64_t id, unsigned part)
{
    struct hub_row *row = memory_new(1, sizeof(*row));

    hub_row_init(row, kind, part);
    row->ended_id = id;
    return row;
}

/* A row that is behind stays so: the end of the turn writes it as a whole. */
void
hub_db_note(struct hub_db *h, struct hub_row *row)
{
    if (!row->is_behind)
        list_put(&h->written, &row->node);
}

static void
put_behind(struct hub_db *h, struct hub_row *row)
{
    row->is_behind = true;
    list_put(&h->behind, &row->node);
}

void
hub_db_note_stale(struct hub_db *h, enum hub_row_kind kind, uint64_t id,
                  unsigned part)
{
    put_behind(h, hub_row_ended(kind, id, part));
}

struct hub_row *
hub_db_take_behind(struct hub_db *h)
{
    struct hub_row *row = list_take(&h->behind, offsetof(struct hub_row, node));

    if (row)
        row->is_behind = false;
    return row;
}

/* The end of a turn */

bool
hub_db_is_begun(const struct hub_db *h)
{
    return h->is_open || h->has_failed || !list_is_empty(&h->ranges) ||
           !list_is_empty(&h->written) || first_to_fold(h) ||
           (!list_is_empty(&h->noted) && clock_steady_us() >= h->fold_at_us);
}

/* Makes rows of the oldest ranges that have none, if it is time: of FOLD_RANGES
 * at most. Returns the first note that has to stay; 0: all of them. `next` is
 * the number of this turn's. */
static uint64_t
fold_some(struct hub_db *h, uint64_t next)
{
    struct hub_range *range;

    if (clock_steady_us() >= h->fold_at_us || h->noted_bytes > FOLD_BYTES) {
        h->fold_at_us = clock_steady_us() + FOLD_US;
        h->noted_bytes = 0;
        h->fold_to = h->n_note;
    }
    if (!first_to_fold(h))
        return 0;
    list_walk (range, &h->noted, noted) {
        if (range->note > h->fold_to || h->n_folded == FOLD_RANGES)
            return range->note;
        write_range(h, range->id, range->after, range->last);
        h->n_folded++;
    }
    return next;
}

/* Adds the notes of this turn. A range that was noted and is folded may be
 * newer here: it is in these notes as well. */
static void
note_ranges(struct hub_db *h)
{
    struct stream_note note = {.n = h->n_note + 1};
    struct hub_range *range;

    note.keep_from = fold_some(h, note.n);
    for (unsigned i = 0; i < HUB_PARTS; i++)
        buf_clear(&h->notes[i]);
    list_walk (range, &h->ranges, node) {
        const uint64_t numbers[] = {range->id, range->after,
                                    range->last > 0 ? range->last - range->after
                                                    : 0};
        char text[LEB128_SIZE_MAX];

        for (size_t i = 0; i < N_ELEMENTS(numbers); i++)
            buf_add(&h->notes[h->owned ? range->part : 0], text,
                    leb128_write(text, numbers[i]));
    }
    if (list_is_empty(&h->ranges) && note.keep_from == 0)
        return;
    h->n_note = note.n;
    if (note.keep_from > 0)
        run_statement(h, "DELETE FROM notes WHERE n < ?",
                      DB_VALUES(note.keep_from), DB_INTO());
    for (unsigned i = 0; i < HUB_PARTS; i++) {
        note.bytes[i] = buf_slice(&h->notes[i]);
        h->noted_bytes += note.bytes[i].size;
        if (note.bytes[i].size > 0)
            run_statement(h, "INSERT INTO notes VALUES(?, ?, ?)",
                          DB_VALUES(i, note.n, db_blob(note.bytes[i])),
                          DB_INTO());
    }
    if (h->owned)
        owned_db_note(h->owned, &note);
}

static void
end_turn(struct hub_db *h, bool is_kept)
{
    struct hub_db_hook *hook;
    struct hub_range *range;
    struct hub_row *row;

    list_drain (row, &h->written, node) {
        if (!is_kept)
            put_behind(h, row);
        else if (row->ended_id != 0)
            free(row);
    }
    if (is_kept) {
        for (; h->n_folded > 0; h->n_folded--)
            list_remove(h->noted.next);
        list_walk (range, &h->ranges, node) {
            range->note = h->n_note;
            list_put(&h->noted, &range->noted);
        }
    }
    h->n_folded = 0;
    while (!list_is_empty(&h->ranges)) /* their rows are behind */
        list_remove(h->ranges.next);
    h->is_open = h->has_failed = false;
    list_walk (hook, &h->hooks, node)
        hook->ended(hook, is_kept);
}

void
hub_db_rollback(struct hub_db *h)
{
    (void)!owned_db_end(&h->db, h->owned, STATUS_BUSY, NULL);
    end_turn(h, false);
}

enum status
hub_db_commit(struct hub_db *h, struct problem *why)
{
    struct problem inner = {""};
    enum status rc = STATUS_OK;

    if (!hub_db_is_begun(h))
        return STATUS_OK;
    begin_transaction(h, false); /* if there are only ranges */
    note_ranges(h);
    if (!h->has_failed)
        rc = owned_db_end(&h->db, h->owned, STATUS_OK, &inner);
    if (rc)
        hub_db_fail(h, &inner);
    if (h->has_failed) {
        if (why)
            *why = h->why;
        hub_db_rollback(h);
        return STATUS_BUSY;
    }
    end_turn(h, true);
    return STATUS_OK;
}
