#include "broker/store/store_generations.h"

#include "broker/store/store_queries.h"

enum {
    G_FORMER,
    G_INSERT,
    G_UNARCHIVE,
    G_REMOVE,
    G_SWEPT,
    G_CURRENT,
    G_ARCHIVED
};

/* The current generation of a kind of a set is the last that is not due. */
#define CURRENT_OF                                               \
    "(SELECT max(number) FROM generations WHERE set_id = ?1 AND" \
    " kind = ?2 AND due_us IS NULL)"

static const char *const sql[STORE_GENERATIONS_STATEMENTS] = {
    [G_FORMER] = "UPDATE generations SET due_us = ?3 WHERE set_id = ?1 AND"
                 " kind = ?2 AND number = " CURRENT_OF " AND NOT is_archived",
    [G_INSERT] = "INSERT INTO generations(set_id, name, " GENERATION_COLUMNS
                 ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [G_UNARCHIVE] = "UPDATE generations SET is_archived = 0, due_us = ?4"
                    " WHERE set_id = ?1 AND kind = ?2 AND is_archived"
                    " AND number < ?3",
    [G_REMOVE] = "UPDATE generations SET is_archived = 0, due_us = ?2"
                 " WHERE set_id = ?1 AND due_us IS NULL",
    [G_SWEPT] = "DELETE FROM generations WHERE id = ?",
    [G_CURRENT] = "SELECT " GENERATION_COLUMNS " FROM generations"
                  " WHERE set_id = ?1 AND kind = ?2 AND number = " CURRENT_OF,
    [G_ARCHIVED] = "SELECT count(*), min(number) FROM generations"
                   " WHERE set_id = ? AND kind = ? AND is_archived",
};

enum status
store_generations_init(struct store_generations *s, struct db *db,
                       struct problem *why)
{
    s->db = db;
    return store_prepare(db, s->statements, sql, STORE_GENERATIONS_STATEMENTS,
                         why);
}

void
store_generations_fini(struct store_generations *s)
{
    store_finalize(s->statements, STORE_GENERATIONS_STATEMENTS);
}

static enum status
load_kind(struct store_generations *s, uint32_t set, enum generation_kind kind,
          struct generations *to, struct problem *why)
{
    sqlite3_stmt *q = s->statements[G_CURRENT];
    bool row = false;
    enum status rc;

    store_bind_u64(q, 1, set);
    sqlite3_bind_int(q, 2, (int)kind);
    rc = db_step(s->db, q, &row, "read the generations", why);
    if (!rc && row) {
        to->current = store_column_generation(q);
        to->last = to->current.number;
    }
    sqlite3_reset(q);
    if (rc || !row)
        return rc;
    q = s->statements[G_ARCHIVED];
    store_bind_u64(q, 1, set);
    sqlite3_bind_int(q, 2, (int)kind);
    rc = db_step(s->db, q, &row, "read the generations", why);
    if (!rc && row) {
        to->n_archived = store_column_u64(q, 0);
        to->first_archived = store_column_u64(q, 1);
    }
    sqlite3_reset(q);
    return rc;
}

enum status
store_generations_load(struct store_generations *s, uint32_t set,
                       struct generations to[GENERATION_KINDS],
                       struct problem *why)
{
    enum status rc = STATUS_OK;

    for (int kind = 0; !rc && kind < GENERATION_KINDS; kind++)
        rc = load_kind(s, set, (enum generation_kind)kind, &to[kind], why);
    return rc;
}

enum status
store_generations_switch(struct store_generations *s, const struct act *act,
                         struct problem *why)
{
    const struct generation *new = &act->generation.build;
    sqlite3_stmt *q = s->statements[G_FORMER];
    enum status rc;

    store_bind_u64(q, 1, act->set_id);
    sqlite3_bind_int(q, 2, (int)new->kind);
    sqlite3_bind_int64(q, 3, act->generation.due_us);
    rc = db_run(s->db, q, "store the former generation", why);
    if (rc)
        return rc;
    q = s->statements[G_INSERT];
    store_bind_u64(q, 1, act->set_id);
    sqlite3_bind_text(q, 2, act->name, -1, SQLITE_STATIC);
    sqlite3_bind_int(q, 3, (int)new->kind);
    store_bind_u64(q, 4, new->number);
    store_bind_u64(q, 5, new->after);
    store_bind_u64(q, 6, new->seq);
    sqlite3_bind_int64(q, 7, new->from_us);
    sqlite3_bind_int64(q, 8, new->at_us);
    sqlite3_bind_int64(q, 9, new->completed_us);
    store_bind_u64(q, 10, new->n);
    store_bind_u64(q, 11, new->parts);
    store_bind_u64(q, 12, new->bytes);
    sqlite3_bind_int(q, 13, new->is_archived);
    return db_run(s->db, q, "store a generation", why);
}

enum status
store_generations_unarchive(struct store_generations *s, const struct act *act,
                            struct problem *why)
{
    sqlite3_stmt *q = s->statements[G_UNARCHIVE];

    store_bind_u64(q, 1, act->set_id);
    sqlite3_bind_int(q, 2, (int)act->unarchived.kind);
    store_bind_u64(q, 3, act->unarchived.first_archived);
    sqlite3_bind_int64(q, 4, act->unarchived.due_us);
    return db_run(s->db, q, "store which generations are archived", why);
}

enum status
store_generations_swept(struct store_generations *s, const struct act *act,
                        struct problem *why)
{
    sqlite3_stmt *q = s->statements[G_SWEPT];

    store_bind_u64(q, 1, act->swept.id);
    return db_run(s->db, q, "forget a generation", why);
}

enum status
store_generations_removal(struct store_generations *s, const struct act *act,
                          struct problem *why)
{
    sqlite3_stmt *q = s->statements[G_REMOVE];

    store_bind_u64(q, 1, act->set_id);
    sqlite3_bind_int64(q, 2, act->removal.due_us);
    return db_run(s->db, q, "remove generations", why);
}
