#include "broker/store/store_keys.h"

#include "broker/log/idempotency.h"
#include "broker/store/store_queries.h"

/* One row of keys_state, for ever. */
#define TABLE(n)                                        \
    "CREATE TABLE keys_" n "(id INTEGER PRIMARY KEY,"   \
    " key BLOB NOT NULL UNIQUE, entries BLOB NOT NULL," \
    " first INTEGER NOT NULL, last INTEGER NOT NULL,"   \
    " last_us INTEGER NOT NULL);"

const char store_keys_tables[] =
    TABLE("0") TABLE("1") "CREATE TABLE keys_state(current INTEGER NOT NULL,"
                          " since_us INTEGER NOT NULL);"
                          "INSERT INTO keys_state VALUES(0, 0);";

/* Pairs of statements: the second is for table 1. */
enum { K_FIND, K_INSERT = 2, K_EMPTY = 4, K_STATE = 6, K_SAVE, K_STATEMENTS };

#define FIND(n) \
    "SELECT entries, first, last, last_us FROM keys_" n " WHERE key = ?"
#define INSERT(n)                                                \
    "INSERT INTO keys_" n "(key, entries, first, last, last_us)" \
    " VALUES(?, ?, ?, ?, ?)"

static const char *const sql[K_STATEMENTS] = {
    [K_FIND] = FIND("0"),
    [K_FIND + 1] = FIND("1"),
    [K_INSERT] = INSERT("0"),
    [K_INSERT + 1] = INSERT("1"),
    [K_EMPTY] = "DELETE FROM keys_0",
    [K_EMPTY + 1] = "DELETE FROM keys_1",
    [K_STATE] = "SELECT current, since_us,"
                " coalesce((SELECT max(id) FROM keys_0), 0),"
                " coalesce((SELECT max(id) FROM keys_1), 0) FROM keys_state",
    [K_SAVE] = "UPDATE keys_state SET current = ?, since_us = ?",
};

_Static_assert(K_STATEMENTS == sizeof(((struct store_keys *)0)->statements) /
                                   sizeof(sqlite3_stmt *),
               "a place for each statement");

enum status
store_keys_open(struct store_keys *k, struct db *db, struct problem *why)
{
    bool row = false;
    sqlite3_stmt *q;
    enum status rc = STATUS_OK;

    k->db = db;
    for (int i = 0; !rc && i < K_STATEMENTS; i++)
        rc = db_prepare(db, &k->statements[i], sql[i], why);
    if (rc)
        return rc;
    q = k->statements[K_STATE];
    rc = db_step(db, q, &row, "read the state of the keys", why);
    if (!rc && !row)
        rc = problem(why, STATUS_IO, "the row of table keys_state is missing");
    if (!rc) {
        k->state.current = sqlite3_column_int(q, 0) != 0;
        k->state.since_us = sqlite3_column_int64(q, 1);
        k->state.n[0] = store_column_u64(q, 2);
        k->state.n[1] = store_column_u64(q, 3);
        k->next = k->state;
    }
    sqlite3_reset(q);
    return rc;
}

void
store_keys_close(struct store_keys *k)
{
    for (int i = 0; i < K_STATEMENTS; i++)
        sqlite3_finalize(k->statements[i]);
}

enum status
store_keys_find(struct store_keys *k, const struct digest *id,
                struct act_key *found, struct problem *why)
{
    bool row = false;
    enum status rc = STATUS_OK;

    for (int i = 0; !rc && !row && i < 2; i++) {
        int table = i ? !k->state.current : k->state.current;
        sqlite3_stmt *q = k->statements[K_FIND + table];

        if (!k->state.n[table])
            continue;
        store_bind(q, (struct store_value[]){store_digest(id)});
        rc = db_step(k->db, q, &row, "look up a key", why);
        if (!rc && row)
            *found = (struct act_key){
                .id = *id,
                .entries = store_column_digest(q, 0),
                .first = store_column_u64(q, 1),
                .last = store_column_u64(q, 2),
                .last_us = sqlite3_column_int64(q, 3),
            };
        sqlite3_reset(q);
    }
    return rc || row ? rc : STATUS_NOT_FOUND;
}

/* True if the time of the current table is over, or the clock before it. While
 * there are no keys, and none of `n` come, it does not matter. */
static bool
is_swap_due(const struct store_keys_state *s, int64_t now_us, size_t n)
{
    return s->n[0] + s->n[1] + n > 0 &&
           (now_us < s->since_us ||
            now_us - s->since_us >= IDEMPOTENCY_KEPT_US);
}

bool
store_keys_has_room(const struct store_keys *k, size_t n, int64_t at_us)
{
    const struct store_keys_state *s = &k->state;

    return s->n[s->current] + n <= IDEMPOTENCY_KEYS_MAX ||
           (is_swap_due(s, at_us, n) && at_us >= s->since_us);
}

int64_t
store_keys_since(const struct store_keys *k, int64_t at_us)
{
    bool is_new =
        is_swap_due(&k->state, at_us, 1) && at_us >= k->state.since_us;

    return is_new ? at_us : k->state.since_us;
}

/* Swaps the tables; or, where the clock was set back, begins the time of the
 * current one anew. */
static enum status
swap_tables(struct store_keys *k, int64_t now_us, struct problem *why)
{
    struct store_keys_state *s = &k->next;
    sqlite3_stmt *save = k->statements[K_SAVE];
    enum status rc = STATUS_OK;

    if (now_us >= s->since_us) {
        s->current = !s->current;
        rc = db_run(k->db, k->statements[K_EMPTY + s->current],
                    "forget old keys", why);
        s->n[s->current] = 0;
    }
    s->since_us = now_us;
    if (rc)
        return rc;
    store_bind(
        save, (struct store_value[]){store_i64(s->current), store_i64(now_us)});
    return db_run(k->db, save, "store the state of the keys", why);
}

enum status
store_keys_begin(struct store_keys *k, int64_t at_us, struct problem *why)
{
    k->next = k->state;
    return is_swap_due(&k->next, at_us, 0) ? swap_tables(k, at_us, why)
                                           : STATUS_OK;
}

/* store_keys_begin does not swap while there are no keys: then the first key
 * does. The swap begins the time of the table at at_us, so the next key of the
 * transaction finds no swap due.
 *
 * Two keys that are equal cannot both be stored: the second fails, and with it
 * the transaction. */
enum status
store_keys_add(struct store_keys *k, const struct act_key *key, int64_t at_us,
               struct problem *why)
{
    const struct store_value row[] = {
        store_digest(&key->id),  store_digest(&key->entries),
        store_u64(key->first),   store_u64(key->last),
        store_i64(key->last_us),
    };
    sqlite3_stmt *q;
    enum status rc = is_swap_due(&k->next, at_us, 1)
                         ? swap_tables(k, at_us, why)
                         : STATUS_OK;

    if (rc)
        return rc;
    q = k->statements[K_INSERT + k->next.current];
    store_bind(q, row);
    k->next.n[k->next.current]++;
    return db_run(k->db, q, "store a key", why);
}

void
store_keys_committed(struct store_keys *k)
{
    k->state = k->next;
}
