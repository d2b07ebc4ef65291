#include "broker/store/store_keys.h"

#include "broker/log/idempotency.h"

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

enum status
store_keys_open(struct store_keys *k, struct db *db, struct problem *why)
{
    bool is_there;
    enum status rc =
        db_find(db, "read the state of the keys", why, &is_there,
                "SELECT current, since_us,"
                " coalesce((SELECT max(id) FROM keys_0), 0),"
                " coalesce((SELECT max(id) FROM keys_1), 0) FROM keys_state",
                DB_VALUES(),
                DB_INTO(&k->state.current, &k->state.since_us, &k->state.n[0],
                        &k->state.n[1]));

    k->db = db;
    k->next = k->state;
    if (!rc && !is_there)
        rc = problem(why, STATUS_IO, "the row of table keys_state is missing");
    return rc;
}

#define FIND(n) \
    "SELECT entries, first, last, last_us FROM keys_" n " WHERE key = ?"

enum status
store_keys_find(struct store_keys *k, const struct digest *id,
                struct act_key *found, struct problem *why)
{
    bool is_there = false;
    enum status rc = STATUS_OK;

    found->id = *id;
    for (int i = 0; !rc && !is_there && i < 2; i++) {
        int table = i ? !k->state.current : k->state.current;

        if (k->state.n[table])
            rc = db_find(k->db, "look up a key", why, &is_there,
                         table ? FIND("1") : FIND("0"), DB_VALUES(id),
                         DB_INTO(&found->entries, &found->first, &found->last,
                                 &found->last_us));
    }
    return rc || is_there ? rc : STATUS_NOT_FOUND;
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
    enum status rc = STATUS_OK;

    if (now_us >= s->since_us) {
        s->current = !s->current;
        rc = DB_DO(k->db, "forget old keys", why,
                   s->current ? "DELETE FROM keys_1" : "DELETE FROM keys_0");
        s->n[s->current] = 0;
    }
    s->since_us = now_us;
    return rc ? rc
              : DB_DO(k->db, "store the state of the keys", why,
                      "UPDATE keys_state SET current = ?, since_us = ?",
                      s->current, now_us);
}

enum status
store_keys_begin(struct store_keys *k, int64_t at_us, struct problem *why)
{
    k->next = k->state;
    return is_swap_due(&k->next, at_us, 0) ? swap_tables(k, at_us, why)
                                           : STATUS_OK;
}

#define INSERT(n)                                                \
    "INSERT INTO keys_" n "(key, entries, first, last, last_us)" \
    " VALUES(?, ?, ?, ?, ?)"

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
    enum status rc = is_swap_due(&k->next, at_us, 1)
                         ? swap_tables(k, at_us, why)
                         : STATUS_OK;

    if (rc)
        return rc;
    k->next.n[k->next.current]++;
    return DB_DO(k->db, "store a key", why,
                 k->next.current ? INSERT("1") : INSERT("0"), &key->id,
                 &key->entries, key->first, key->last, key->last_us);
}
