#include "broker/hub/hub_rows.h"

#include "proto/fnv1a.h"

/* Parts */

unsigned
hub_rows_part(enum subscription_kind kind, enum topic_kind topic_kind,
              struct slice name, struct slice callback)
{
    struct websub_comparable comparable;
    uint64_t hash = FNV1A_BEGIN ^ topic_kind;

    if (kind == SUBSCRIPTION_HUB || topic_kind == TOPIC_FOREIGN)
        return 0;
    hash = fnv1a(fnv1a(hash, name), SLICE("\n"));
    hash = fnv1a_text(hash, websub_comparable(&comparable, callback));
    /* The last characters of a text, where callbacks differ, have no effect on
     * most bits of FNV-1a: the end of MurmurHash3 spreads them. */
    hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccd;
    return (unsigned)(hash >> 60) % HUB_PARTS;
}

bool
hub_rows_find_part(struct hub_db *h, uint64_t id, unsigned *part)
{
    struct problem why;
    struct db_rows rows =
        DB_SELECT(&h->db, "find it", &why,
                  "SELECT kind, topic_kind, name, callback FROM subscriptions"
                  " WHERE id=?1 UNION ALL SELECT 0, topic_kind, name, callback"
                  " FROM requests WHERE id=?1",
                  id);
    enum subscription_kind kind;
    enum topic_kind topic_kind;
    struct slice name, callback;
    bool is_there = DB_NEXT(&rows, &kind, &topic_kind, &name, &callback);

    if (is_there)
        *part = hub_rows_part(kind, topic_kind, name, callback);
    return !db_rows_end(&rows) && is_there;
}

/* Reading */

/* The columns that both tables have, and where a row of them is read to. */
#define COMMON_COLUMNS                                                    \
    "id, topic_kind, name, epoch, callback, lease, secret, filter,"       \
    " interval, is_simple, is_local, owner, owner_ends, requester, form," \
    " wants_v1a"

#define COMMON_PLACES(r, l)                                                   \
    &(r)->id, &(r)->topic_kind, &(r)->name, &(r)->epoch, &(r)->callback,      \
        &(r)->terms.lease_us, &(l)->secret, &(l)->filter,                     \
        &(r)->terms.interval_us, &(r)->terms.is_simple, &(r)->terms.is_local, \
        &(l)->owner, &(l)->owner_ends_us, &(l)->requester, &(r)->terms.form,  \
        &(r)->terms.wants_v1a

/* What the terms of a record are made of. */
struct lent_terms {
    struct slice secret, filter, owner, requester;
    int64_t owner_ends_us;
};

/* Hands over a row that was read, unless `rc` is its error. An error says which
 * row could not be read or taken over. */
static enum status
hand_over(struct hub_record *record, const struct lent_terms *lent,
          enum status rc, hub_record_fn *fn, void *user, struct problem *why)
{
    struct terms *terms = &record->terms;

    if (!rc && record->topic_kind > TOPIC_FOREIGN)
        rc = problem(why, STATUS_IO, "there is no kind %d of topic",
                     (int)record->topic_kind);
    if (!rc && terms->form >= MESSAGE_FORMS)
        rc = problem(why, STATUS_IO, "there is no form %d of messages",
                     (int)terms->form);
    if (!rc && lent->secret.size > WEBSUB_SECRET_MAX)
        rc = problem(why, STATUS_IO, "a secret is too long");
    if (!rc) {
        if (lent->secret.size > 0)
            memcpy(terms->secret, lent->secret.data, lent->secret.size);
        terms->secret_size = lent->secret.size;
        if (lent->filter.size > 0)
            terms->filter = slice_dup(lent->filter);
        terms->is_local &= websub_is_loopback(record->callback);
        subscriber_token_init(&terms->owner, lent->owner, lent->owner_ends_us,
                              lent->requester);
        rc = fn(record, user, why);
    }
    if (rc)
        problem_prefix(why, rc, "%s %" PRIu64 ": ",
                       record->row == HUB_ROW_REQUEST ? "request"
                                                      : "subscription",
                       record->id);
    terms_fini(terms);
    return rc;
}

enum status
hub_rows_read(struct hub_db *h, unsigned parts, hub_record_fn *fn, void *user,
              struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&h->db, "read it", why,
                  "SELECT " COMMON_COLUMNS ", kind, created, lease_end,"
                  " after IS NOT NULL, after, range_last, generation"
                  " FROM subscriptions LEFT JOIN cursors USING(id)"
                  " ORDER BY id");
    struct hub_record record = {0}, *r = &record;
    struct lent_terms lent;
    bool has_cursor;
    enum status rc;

    while (DB_NEXT(&rows, COMMON_PLACES(r, &lent), &r->kind, &r->created_us,
                   &r->lease_end_us, &has_cursor, &r->after, &r->range_last,
                   &r->generation)) {
        r->part = hub_rows_part(r->kind, r->topic_kind, r->name, r->callback);
        if (!(parts >> r->part & 1))
            continue;
        if (r->kind > SUBSCRIPTION_HUB)
            rows.rc =
                problem(why, STATUS_IO, "there is no kind %d of subscription",
                        (int)r->kind);
        else if (!has_cursor)
            rows.rc = problem(why, STATUS_IO, "it has no cursor");
        rows.rc = hand_over(r, &lent, rows.rc, fn, user, why);
    }
    rc = db_rows_end(&rows);
    if (rc)
        return rc;
    record = (struct hub_record){.row = HUB_ROW_REQUEST};
    rows = DB_SELECT(&h->db, "read it", why,
                     "SELECT " COMMON_COLUMNS ", mode, topic_url, taken,"
                     " has_after, after FROM requests ORDER BY id");
    while (DB_NEXT(&rows, COMMON_PLACES(r, &lent), &r->mode, &r->topic_url,
                   &r->taken_us, &r->has_after, &r->after)) {
        r->part = hub_rows_part(SUBSCRIPTION_CALLBACK, r->topic_kind, r->name,
                                r->callback);
        if (!(parts >> r->part & 1))
            continue;
        if (r->mode != WEBSUB_SUBSCRIBE && r->mode != WEBSUB_UNSUBSCRIBE)
            rows.rc =
                problem(why, STATUS_IO, "there is no mode %d", (int)r->mode);
        rows.rc = hand_over(r, &lent, rows.rc, fn, user, why);
    }
    return db_rows_end(&rows);
}

/* Writing */

/* The values of COMMON_COLUMNS, of a subscription or a verification. */
#define COMMON_VALUES(of)                                                     \
    (of)->id, (of)->topic->kind, topic_name((of)->topic), (of)->topic->epoch, \
        (of)->callback, (of)->terms.lease_us,                                 \
        db_bytes((of)->terms.secret, (of)->terms.secret_size),                \
        (of)->terms.filter, (of)->terms.interval_us, (of)->terms.is_simple,   \
        (of)->terms.is_local, subscriber_token_name(&(of)->terms.owner),      \
        (of)->terms.owner.ends_us, (of)->terms.owner.requester,               \
        (of)->terms.form, (of)->terms.wants_v1a
#define COMMON_PARAMETERS "?,?,?,?,?,?,nullif(?,x''),?,?,?,?,?,?,?,?,?"

void
hub_rows_put_range(struct hub_db *h, struct subscription *s)
{
    hub_db_note(h, &s->row);
    s->range.id = s->id;
    s->range.after = s->reader.after;
    s->range.last = s->reader.upto;
    list_put(&h->ranges, &s->range.node);
}

/* The cursor is in a note, too: earlier ones may have another. */
void
hub_rows_put_subscription(struct hub_db *h, struct subscription *s)
{
    hub_db_note(h, &s->row);
    HUB_DB_WRITE(h,
                 "INSERT OR REPLACE INTO subscriptions(" COMMON_COLUMNS
                 ", kind, created, lease_end, generation)"
                 " VALUES(" COMMON_PARAMETERS ",?,?,?,?)",
                 COMMON_VALUES(s), s->kind, s->created_us, s->lease_end_us,
                 s->generation);
    HUB_DB_WRITE(h,
                 "INSERT OR REPLACE INTO cursors(id, after, range_last)"
                 " VALUES(?,?,?)",
                 s->id, s->reader.after, s->reader.upto);
    hub_rows_put_range(h, s);
}

void
hub_rows_put_request(struct hub_db *h, struct verification *v)
{
    hub_db_note(h, &v->row);
    HUB_DB_WRITE(h,
                 "INSERT OR REPLACE INTO requests(" COMMON_COLUMNS
                 ", mode, topic_url, taken, has_after, after)"
                 " VALUES(" COMMON_PARAMETERS ",?,?,?,?,?)",
                 COMMON_VALUES(v), v->mode, v->topic_url, v->taken_us,
                 v->has_after, v->after);
}

void
hub_rows_delete(struct hub_db *h, struct hub_row *row, uint64_t id)
{
    hub_db_note(h, row);
    if (row->kind == HUB_ROW_REQUEST) {
        HUB_DB_WRITE(h, "DELETE FROM requests WHERE id=?", id);
        return;
    }
    HUB_DB_WRITE(h, "DELETE FROM subscriptions WHERE id=?", id);
    HUB_DB_WRITE(h, "DELETE FROM cursors WHERE id=?", id);
}

void
hub_rows_end(struct hub_db *h, const struct hub_row *row, uint64_t id)
{
    hub_rows_delete(h, hub_row_ended(row->kind, id, row->part), id);
}
