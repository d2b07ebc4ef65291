#include "broker/store/store_batches.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "broker/store/store_queries.h"

/* Forgotten at most in one commit. */
#define FORGET_BYTES 1000000
#define FORGET_ROWS  256

enum { B_BATCH, B_END, B_FILED, B_FORGETTABLE, B_FORGET, B_FILED_UP_TO };

static const char *const sql[STORE_BATCHES_STATEMENTS] = {
    [B_BATCH] = "INSERT INTO batches(set_id, first, last, before_us, last_us,"
                " list, list_bytes, before, digest, body, accepted_us,"
                " commit_after) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [B_END] = "INSERT INTO lists(set_id, " LIST_COLUMNS ", header,"
              " commit_after) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)",
    [B_FILED] = "UPDATE lists SET filed = 1, marks = ?3"
                " WHERE set_id = ?1 AND number = ?2",
    [B_FORGETTABLE] = "SELECT id, length(body) FROM batches WHERE set_id = ?1"
                      " AND last <= ?2 ORDER BY first LIMIT ?3",
    [B_FORGET] = "DELETE FROM batches WHERE id = ?",
    [B_FILED_UP_TO] =
        "SELECT coalesce((SELECT after FROM lists WHERE set_id = ?1 AND"
        " filed = 0 ORDER BY number LIMIT 1), (SELECT last FROM lists"
        " WHERE set_id = ?1 ORDER BY number DESC LIMIT 1), 0)",
};

enum status
store_batches_init(struct store_batches *s, struct db *db, struct problem *why)
{
    s->db = db;
    return store_prepare(db, s->statements, sql, STORE_BATCHES_STATEMENTS, why);
}

void
store_batches_fini(struct store_batches *s)
{
    store_finalize(s->statements, STORE_BATCHES_STATEMENTS);
    free(s->debts);
    free(s->debt_of);
}

/* Acts */

static void
bind_digest(sqlite3_stmt *s, int n, const struct digest *digest)
{
    db_bind_bytes(s, n,
                  (struct slice){(const char *)digest->bytes, DIGEST_SIZE});
}

enum status
store_batches_add(struct store_batches *s, const struct act *act, int64_t at_us,
                  struct problem *why)
{
    sqlite3_stmt *q = s->statements[B_BATCH];
    const struct batch *b = act->entries.batch;

    store_bind_u64(q, 1, act->set_id);
    store_bind_u64(q, 2, b->first);
    store_bind_u64(q, 3, b->last);
    sqlite3_bind_int64(q, 4, b->before_us);
    sqlite3_bind_int64(q, 5, b->last_us);
    store_bind_u64(q, 6, b->list);
    store_bind_u64(q, 7, b->list_bytes);
    bind_digest(q, 8, &b->before);
    bind_digest(q, 9, &b->digest);
    db_bind_bytes(q, 10, (struct slice){b->bytes, b->size});
    sqlite3_bind_int64(q, 11, at_us);
    store_bind_u64(q, 12, act->entries.commit_after);
    return db_run(s->db, q, "store a batch", why);
}

enum status
store_batches_end_list(struct store_batches *s, const struct act *act,
                       struct problem *why)
{
    sqlite3_stmt *q = s->statements[B_END];
    const struct list_info *info = &act->list_end.info;

    store_bind_u64(q, 1, act->set_id);
    store_bind_u64(q, 2, info->number);
    store_bind_u64(q, 3, info->after);
    store_bind_u64(q, 4, info->last);
    sqlite3_bind_int64(q, 5, info->from_us);
    sqlite3_bind_int64(q, 6, info->until_us);
    store_bind_u64(q, 7, info->bytes);
    bind_digest(q, 8, &info->before);
    bind_digest(q, 9, &info->digest);
    db_bind_bytes(q, 10, act->list_end.header);
    store_bind_u64(q, 11, act->list_end.commit_after);
    return db_run(s->db, q, "store the end of a list", why);
}

enum status
store_batches_file_list(struct store_batches *s, const struct act *act,
                        struct problem *why)
{
    sqlite3_stmt *q = s->statements[B_FILED];

    store_bind_u64(q, 1, act->set_id);
    store_bind_u64(q, 2, act->filed.list);
    db_bind_bytes(q, 3, act->filed.marks);
    return db_run(s->db, q, "store that a list is filed", why);
}

/* Forgetting */

enum status
store_batches_forget(struct store_batches *s, uint32_t set, uint64_t upto,
                     bool *is_paid, struct problem *why)
{
    sqlite3_stmt *q = s->statements[B_FORGETTABLE];
    sqlite3_int64 ids[FORGET_ROWS];
    size_t n = 0, bytes = 0;
    bool row = false;
    enum status rc;

    store_bind_u64(q, 1, set);
    store_bind_u64(q, 2, upto);
    store_bind_u64(q, 3, FORGET_ROWS);
    while (!(rc = db_step(s->db, q, &row, "find old batches", why)) && row &&
           (n == 0 || bytes < FORGET_BYTES)) {
        ids[n++] = sqlite3_column_int64(q, 0);
        bytes += (size_t)sqlite3_column_int64(q, 1);
    }
    sqlite3_reset(q);
    *is_paid = n == 0;
    for (size_t i = 0; !rc && i < n; i++) {
        sqlite3_bind_int64(s->statements[B_FORGET], 1, ids[i]);
        rc = db_run(s->db, s->statements[B_FORGET], "forget a batch", why);
    }
    return rc;
}

enum status
store_batches_owe(struct store_batches *s, uint32_t set, uint64_t upto)
{
    struct store_debt *debts;

    if (set >= s->n_of) {
        size_t n = (size_t)set + set / 2 + 64;
        size_t *of = realloc(s->debt_of, n * sizeof(*of));

        if (!of)
            return STATUS_MEMORY;
        memset(of + s->n_of, 0, (n - s->n_of) * sizeof(*of));
        s->debt_of = of;
        s->n_of = n;
    }
    if (s->debt_of[set]) {
        s->debts[s->debt_of[set] - 1].upto = upto;
        return STATUS_OK;
    }
    debts = ONE_MORE(s->debts, &s->capacity, s->n_debts);
    if (!debts)
        return STATUS_MEMORY;
    s->debts = debts;
    s->debts[s->n_debts++] = (struct store_debt){set, upto};
    s->debt_of[set] = s->n_debts;
    return STATUS_OK;
}

void
store_batches_paid(struct store_batches *s)
{
    s->debt_of[s->debts[0].set] = 0;
    s->debts[0] = s->debts[--s->n_debts];
    if (s->n_debts > 0)
        s->debt_of[s->debts[0].set] = 1;
}

enum status
store_batches_note_filed(struct store_batches *s, uint32_t set,
                         struct problem *why)
{
    sqlite3_stmt *q = s->statements[B_FILED_UP_TO];
    uint64_t upto = 0;
    bool row = false;
    enum status rc;

    store_bind_u64(q, 1, set);
    rc = db_step(s->db, q, &row, "read the filed lists", why);
    if (!rc && row)
        upto = store_column_u64(q, 0);
    sqlite3_reset(q);
    if (!rc && upto > 0 && store_batches_owe(s, set, upto))
        rc = problem_memory(why);
    return rc;
}

enum status
store_batches_pay(struct store_batches *s, bool *is_paid, struct problem *why)
{
    *is_paid = false;
    if (s->n_debts == 0)
        return STATUS_OK;
    return store_batches_forget(s, s->debts[0].set, s->debts[0].upto, is_paid,
                                why);
}
