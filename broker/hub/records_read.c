/*
 * records_read.c - reads hub.db at the start. The tables: records.c.
 */
#include <inttypes.h>
#include <string.h>

#include "broker/hub/records.h"

/* The columns that both tables have. */
#define COMMON_COLUMNS                                              \
    "id, topic_kind, name, epoch, callback, lease, secret, filter," \
    " interval, is_simple, is_local"

static enum status
read_common(sqlite3_stmt *s, struct record *record, struct problem *why)
{
    struct slice secret = db_column(s, 6), filter = db_column(s, 7);

    int64_t topic_kind = sqlite3_column_int64(s, 1);

    record->id = (uint64_t)sqlite3_column_int64(s, 0);
    if (topic_kind < 0 || topic_kind > TOPIC_RELAY)
        return problem(why, STATUS_IO, "there is no kind %" PRId64 " of topic",
                       topic_kind);
    record->topic_kind = (enum topic_kind)topic_kind;
    record->name = db_column(s, 2);
    record->epoch = db_column(s, 3);
    record->callback = db_column(s, 4);
    record->terms.lease_us = sqlite3_column_int64(s, 5);
    if (secret.size > WEBSUB_SECRET_MAX)
        return problem(why, STATUS_IO, "a secret is too long");
    if (secret.size > 0)
        memcpy(record->terms.secret, secret.data, secret.size);
    record->terms.secret_size = secret.size;
    if (filter.size > 0) {
        record->terms.filter = slice_dup(filter);
        if (!record->terms.filter)
            return problem_memory(why);
    }
    record->terms.interval_us = sqlite3_column_int64(s, 8);
    record->terms.is_simple = sqlite3_column_int(s, 9) != 0;
    record->terms.is_local =
        sqlite3_column_int(s, 10) != 0 && websub_is_loopback(record->callback);
    return STATUS_OK;
}

static enum status
read_subscription(sqlite3_stmt *s, struct record *record, struct problem *why)
{
    int64_t kind = sqlite3_column_int64(s, 11);

    if (kind < 0 || kind > SUBSCRIPTION_HUB)
        return problem(why, STATUS_IO,
                       "there is no kind %" PRId64 " of subscription", kind);
    if (sqlite3_column_type(s, 14) == SQLITE_NULL)
        return problem(why, STATUS_IO, "it has no cursor");
    record->kind = (enum subscription_kind)kind;
    record->created_us = sqlite3_column_int64(s, 12);
    record->lease_end_us = sqlite3_column_int64(s, 13);
    record->after = (uint64_t)sqlite3_column_int64(s, 14);
    record->range_last = (uint64_t)sqlite3_column_int64(s, 15);
    record->generation = (uint32_t)sqlite3_column_int64(s, 16);
    return STATUS_OK;
}

static enum status
read_request(sqlite3_stmt *s, struct record *record, struct problem *why)
{
    int64_t mode = sqlite3_column_int64(s, 11);

    if (mode != WEBSUB_SUBSCRIBE && mode != WEBSUB_UNSUBSCRIBE)
        return problem(why, STATUS_IO, "there is no mode %" PRId64, mode);
    record->mode = (enum websub_mode)mode;
    record->topic_url = db_column(s, 12);
    record->taken_us = sqlite3_column_int64(s, 13);
    record->has_after = sqlite3_column_int(s, 14) != 0;
    record->after = (uint64_t)sqlite3_column_int64(s, 15);
    record->from = db_column(s, 16);
    return STATUS_OK;
}

/* Adds to an error which row could not be read or taken over. */
static void
name_row(struct problem *why, const char *what, uint64_t id)
{
    struct problem inner = *why;

    problem_set(why, "%s %" PRIu64 ": %s", what, id, inner.text);
}

static enum status
each(struct records *r, const char *what, const char *query,
     enum status (*read)(sqlite3_stmt *, struct record *, struct problem *),
     record_fn *fn, void *user, struct problem *why)
{
    sqlite3_stmt *statement = NULL;
    bool row = true;
    enum status rc = db_prepare(records_db(r), &statement, query, why);

    while (!rc) {
        struct record record = {0};

        rc = db_step(records_db(r), statement, &row, "read it", why);
        if (rc || !row)
            break;
        rc = read_common(statement, &record, why);
        if (!rc)
            rc = read(statement, &record, why);
        if (!rc)
            rc = fn(&record, user, why);
        if (rc)
            name_row(why, what, record.id);
        terms_fini(&record.terms);
    }
    sqlite3_finalize(statement);
    return rc;
}

enum status
records_each_subscription(struct records *r, record_fn *fn, void *user,
                          struct problem *why)
{
    return each(
        r, "subscription",
        "SELECT " COMMON_COLUMNS ", kind, created, lease_end, after,"
        " range_last, generation FROM subscriptions LEFT JOIN cursors USING(id)"
        " ORDER BY id",
        read_subscription, fn, user, why);
}

enum status
records_each_request(struct records *r, record_fn *fn, void *user,
                     struct problem *why)
{
    return each(r, "request",
                "SELECT " COMMON_COLUMNS ", mode, topic_url, taken, has_after,"
                " after, requester FROM requests ORDER BY id",
                read_request, fn, user, why);
}
