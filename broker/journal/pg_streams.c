#include "broker/journal/pg_streams.h"

#include <poll.h>

#include "broker/journal/pg_schema.h"

/* After a failure, the next attempt to connect. Calls before that fail at
 * once. */
#define RETRY_US 500000

/* How often an owner looks for rows to forget. */
#define FORGET_US 60000000

/* Bytes of one part of a reading, beside its last row. */
#define PART_BYTES "16000000"

/* $1 name, $2 broker, $3 term, $4 instance. A lease that another process has is
 * over if its row is still the version $5, which this one has seen for so long:
 * each renewal makes another. The clock of a server does not count: it may be
 * minutes from that of the next one. `until` is for brokers of the former
 * version, and -infinity says that it was given back. */
#define HOLD                                                               \
    "INSERT INTO tidings_leases AS l(name, broker, term, until, instance)" \
    " VALUES($1::text, $2::text, 1, clock_timestamp() + interval '10 s',"  \
    "  $4::text) ON CONFLICT(name) DO UPDATE SET"                          \
    "  term = CASE WHEN l.instance = $4::text AND l.term = $3::bigint"     \
    "   THEN l.term ELSE l.term + 1 END, broker = $2::text,"               \
    "  until = clock_timestamp() + interval '10 s', instance = $4::text"   \
    " WHERE l.instance = $4::text OR l.until = '-infinity'"                \
    "  OR l.xmin::text::bigint = $5::bigint RETURNING term"

#define RENEW                                                      \
    "UPDATE tidings_leases l SET until = clock_timestamp()"        \
    " + interval '10 s' FROM unnest($1::text::text[],"             \
    "  $2::text::bigint[]) WITH ORDINALITY AS mine(name, term, i)" \
    " WHERE l.name = mine.name AND l.term = mine.term"             \
    " AND broker = $3::text AND instance = $4::text RETURNING i"

#define LEASE_VERSION \
    "SELECT xmin::text::bigint FROM tidings_leases WHERE name = $1::text"

/* Those whose processes go on, have sessions and report that they work: a
 * broker that was killed has none, and one of version 1 of the tables reports
 * nothing, and knows none of these leases. The clock is the one that wrote
 * `at`; after a failover it may be wrong for a second, and the shares with it.
 */
#define BROKERS                                                               \
    "SELECT count(*), count(*) FILTER (WHERE name < $1::text),"               \
    " (SELECT min(n) FROM tidings_brokers WHERE at > now() - interval '7 d')" \
    " FROM tidings_brokers b WHERE NOT is_reader"                             \
    " AND at > now() - interval '10 s' AND state = 'runs' AND " PG_IS_RUNNING

#define LEAVE                                                             \
    "UPDATE tidings_leases SET until = '-infinity' WHERE name = $1::text" \
    " AND broker = $2::text AND term = $3::bigint"

/* True if the broker $3 has all leases with the names $1 and the terms $2,
 * which nobody else can take until the transaction has ended. */
#define HAS_LEASES                                                  \
    "cardinality($1::text::text[]) = (SELECT count(*) FROM (SELECT" \
    " FROM tidings_leases l JOIN unnest($1::text::text[],"          \
    "  $2::text::bigint[]) AS mine(name, term) USING(name, term)"   \
    " WHERE broker = $3::text FOR SHARE OF l) AS held)"

#define MAKE_STREAM                                            \
    "INSERT INTO tidings_streams(name, n) VALUES($1::text, 0)" \
    " ON CONFLICT(name) DO NOTHING"

#define MOVE_END                                    \
    "UPDATE tidings_streams SET n = n + $3::bigint" \
    " WHERE name = $1::text AND n = $2::bigint RETURNING n"

#define PUT_ROWS                                             \
    "INSERT INTO tidings_rows(stream, key, n, value)"        \
    " SELECT $1::text, key, $2::bigint + i, value"           \
    " FROM unnest($3::bytea[], $4::bytea[]) WITH ORDINALITY" \
    "  AS u(key, value, i)"                                  \
    " ON CONFLICT(stream, key)"                              \
    " DO UPDATE SET n = excluded.n, value = excluded.value"

/* The stream of a note is its lease. */
#define PUT_NOTES                                                   \
    "INSERT INTO tidings_notes(stream, n, value)"                   \
    " SELECT name, $4::bigint, value"                               \
    " FROM unnest($1::text::text[], $5::bytea[]) AS u(name, value)" \
    " WHERE value IS NOT NULL AND " HAS_LEASES " RETURNING n"

#define DROP_NOTES                                                   \
    "DELETE FROM tidings_notes WHERE stream = ANY($1::text::text[])" \
    " AND n < $4::bigint AND " HAS_LEASES

#define READ_NOTES \
    "SELECT n, value FROM tidings_notes WHERE stream = $1::text ORDER BY n"

/* The index has the bands in order, and each of them is sorted. */
#define READ_ROWS                                                           \
    "SELECT key, n, value, is_deleted::int::bigint FROM"                    \
    " (SELECT key, n, band, value, is_deleted, coalesce(sum(length(value))" \
    "   OVER (ORDER BY band, n ROWS BETWEEN UNBOUNDED PRECEDING"            \
    "   AND 1 PRECEDING), 0) AS before FROM tidings_rows"                   \
    "  WHERE stream = $1::text AND band >= $2::bigint / " PG_BAND           \
    "  AND n > $2::bigint ORDER BY band, n LIMIT 4000) AS part"             \
    " WHERE before <= " PART_BYTES " ORDER BY band, n"

#define END_OF_STREAM \
    "SELECT forgotten, n FROM tidings_streams WHERE name = $1::text"

/* Rows that were deleted before the mark are forgotten, and the mark moves to
 * the end, once an hour: other brokers have read by then. */
#define MOVE_MARK                                                \
    "UPDATE tidings_streams SET forgotten = marked, marked = n," \
    " marked_at = now() WHERE name = $1::text"                   \
    " AND marked_at < now() - interval '1 hour'"

#define FORGET_ROWS                                                         \
    "DELETE FROM tidings_rows WHERE stream = $1::text AND key = ANY(ARRAY(" \
    " SELECT d.key FROM tidings_rows d, tidings_streams s"                  \
    " WHERE s.name = $1::text AND d.stream = s.name"                        \
    " AND d.is_deleted AND d.n <= s.forgotten LIMIT 10000))"

#define ORDER                                                      \
    "INSERT INTO tidings_orders(broker, at, term, bytes, lease)"   \
    " VALUES($1::text, clock_timestamp(), 0, $2::bytea, $3::text)" \
    " RETURNING id"

#define TAKE                                                             \
    "WITH taken AS (UPDATE tidings_orders SET term = mine.term"          \
    "  FROM unnest($1::text::text[], $2::text::bigint[])"                \
    "   AS mine(name, term) WHERE lease = name"                          \
    "  AND tidings_orders.term < mine.term AND answer IS NULL"           \
    "  AND at > clock_timestamp() - interval '5 s' RETURNING id, bytes)" \
    " SELECT id, bytes FROM taken ORDER BY id"

#define END_ORDERS               \
    "DELETE FROM tidings_orders" \
    " WHERE at < clock_timestamp() - interval '1 minute'"

#define ANSWER                                     \
    "UPDATE tidings_orders SET answer = $2::bytea" \
    " WHERE id = $1::bigint"

#define TAKE_ANSWERS                                     \
    "DELETE FROM tidings_orders WHERE broker = $1::text" \
    " AND answer IS NOT NULL RETURNING id, answer"

struct pg_streams {
    struct streams streams;
    struct pg_connection c;
    int64_t retry_at_us; /* steady clock */
    struct problem last; /* why there is no connection */
    bool is_listening;
    int64_t forget_at_us; /* steady clock */
};

static struct pg_streams *
streams_of(struct streams *streams)
{
    return (struct pg_streams *)(void *)streams;
}

/* Connections */

static enum status
connect_streams(struct pg_streams *s, struct problem *why)
{
    if (!s->c.handle) {
        s->is_listening = false;
        if (clock_steady_us() < s->retry_at_us)
            return problem(why, STATUS_UNREACHABLE, "%s", s->last.text);
    }
    if (!pg_connect(&s->c, &s->last))
        return STATUS_OK;
    s->retry_at_us = clock_steady_us() + RETRY_US;
    return problem(why, STATUS_UNREACHABLE, "%s", s->last.text);
}

static enum status
run_once(struct pg_streams *s, const struct pg_statement *statements, size_t n,
         struct problem *why)
{
    enum status rc = connect_streams(s, why);

    return rc ? rc : pg_run(&s->c, statements, n, why);
}

/* Runs statements that may be repeated: a kept connection may have ended long
 * ago, so a lost one gets a second attempt. */
static enum status
run_again(struct pg_streams *s, const struct pg_statement *statements, size_t n,
          struct problem *why)
{
    bool was_kept = s->c.handle != NULL;
    enum status rc = run_once(s, statements, n, why);

    if (rc == STATUS_IO && was_kept)
        rc = run_once(s, statements, n, why);
    return rc == STATUS_IO || rc == STATUS_REFUSED ? STATUS_UNREACHABLE : rc;
}

/* Leases */

/* Arrays as texts, of the leases that a broker has. */
struct lease_arrays {
    char names[LEASES_MAX * 70], terms[LEASES_MAX * 21 + 2];
};

static struct lease_arrays
write_leases(const struct leases *leases)
{
    struct lease_arrays held;
    struct buf names, terms;
    char before = '{';

    buf_init_fixed(&names, held.names, sizeof(held.names));
    buf_init_fixed(&terms, held.terms, sizeof(held.terms));
    for (size_t i = 0; i < LEASES_MAX; i++) {
        const struct lease *lease = leases->all[i];

        if (!lease)
            continue;
        buf_add_format(&names, "%c\"%s\"", before, lease->name);
        buf_add_format(&terms, "%c%" PRIu64, before, lease->term);
        before = ',';
    }
    buf_add_text(&names, before == '{' ? "{}" : "}");
    buf_add_text(&terms, before == '{' ? "{}" : "}");
    buf_add(&names, "", 1);
    buf_add(&terms, "", 1);
    return held;
}

/* Takes a free lease, or one whose owner has renewed nothing for LEASE_US. */
static enum status
take_lease(struct pg_streams *s, struct lease *lease, int64_t unseen_us,
           struct problem *why)
{
    const struct pg_options *o = &s->c.options;
    const struct pg_statement statement = {
        HOLD,
        DB_VALUES(lease->name, o->broker, lease->term, o->instance,
                  unseen_us >= LEASE_US ? lease->seen : 0),
        .into = DB_INTO(&lease->term), .absent = STATUS_CONFLICT,
        .reason = "another broker has it"};

    return run_again(s, &statement, 1, why);
}

/* A reader never asks for a lease, and so writes no row of a stream. Without an
 * answer nobody knows whether this process has the lease: the next call finds
 * its instance in the row. */
static enum status
pg_hold(struct streams *streams, struct lease *lease, struct problem *why)
{
    struct pg_streams *s = streams_of(streams);
    uint64_t seen = 0;
    const struct pg_statement look = {LEASE_VERSION, DB_VALUES(lease->name),
                                      .into = DB_INTO(&seen)};
    int64_t unseen_us;
    enum status rc;

    if (s->c.options.is_reader)
        return problem(why, STATUS_CONFLICT, "this broker only reads");
    rc = run_again(s, &look, 1, why);
    if (rc)
        return rc;
    if (seen &&
        seen != lease->seen) { /* behind the answer: not earlier than it is */
        lease->seen = seen;
        lease->seen_us = clock_steady_us();
    }
    /* Patience begins with this look. Before it, this broker did not know when
     * the last owner left: others may want the lease, and have had no time. */
    unseen_us = clock_steady_us() - lease->seen_us;
    if (lease->is_patient && unseen_us < 2 * LEASE_US)
        return problem(why, STATUS_CONFLICT, "it is for another broker");
    return take_lease(s, lease, unseen_us, why);
}

static enum status
pg_brokers(struct streams *streams, uint64_t *n, uint64_t *n_before,
           uint64_t *least, struct problem *why)
{
    struct pg_streams *s = streams_of(streams);
    const struct pg_statement count = {BROKERS, DB_VALUES(s->c.options.broker),
                                       .into = DB_INTO(n, n_before, least)};

    return run_again(s, &count, 1, why);
}

static enum status
on_renewed(struct pg_rows *rows, void *user, struct problem *why)
{
    unsigned *kept = user;
    uint64_t i;

    (void)why;
    while (PG_NEXT(rows, &i))
        *kept |= 1u << (i - 1);
    return STATUS_OK;
}

static enum status
pg_renew(struct streams *streams, const struct leases *leases, unsigned *kept,
         struct problem *why)
{
    struct pg_streams *s = streams_of(streams);
    const struct pg_options *o = &s->c.options;
    struct lease_arrays held = write_leases(leases);
    const struct pg_statement renew = {
        RENEW, DB_VALUES(held.names, held.terms, o->broker, o->instance),
        .each = on_renewed, .user = kept};

    *kept = 0;
    return run_again(s, &renew, 1, why);
}

static void
pg_leave(struct streams *streams, struct lease *lease)
{
    struct pg_streams *s = streams_of(streams);
    const struct pg_statement leave = {
        LEAVE, DB_VALUES(lease->name, s->c.options.broker, lease->term)};
    struct problem why;

    /* After a failure the lease ends by itself. */
    (void)run_again(s, &leave, 1, &why);
    lease->term = 0;
}

static enum status
pg_identify(struct streams *streams, const char *stream, uint64_t *id,
            struct problem *why)
{
    const struct pg_statement statements[] = {
        {MAKE_STREAM, DB_VALUES(stream)},
        {"SELECT id FROM tidings_streams WHERE name = $1::text",
         DB_VALUES(stream), .into = DB_INTO(id), .absent = STATUS_BUSY,
         .reason = "no broker has owned the stream yet"},
    };
    struct pg_streams *s = streams_of(streams);
    size_t skipped = s->c.options.is_reader ? 1 : 0;

    return run_again(s, statements + skipped, 2 - skipped, why);
}

/* Reading */

struct reading {
    stream_row_fn *fn;
    void *user;
    uint64_t from;      /* of this part */
    uint64_t end;       /* rows up to it are proven (pg_prove) */
    uint64_t n;         /* the last row of this part */
    uint64_t forgotten; /* by the parts before */
    bool is_first, is_empty;
};

/* Of the first part, all that the reader has counts; else, what the parts
 * before have handed over. No row: there is no stream. */
static enum status
on_end(struct pg_rows *rows, void *user, struct problem *why)
{
    struct reading *r = user;
    uint64_t forgotten, end;

    if (!PG_NEXT(rows, &forgotten, &end))
        return STATUS_OK;
    if (end < r->from)
        return problem(why, STATUS_DIFFERENT,
                       "the journal has lost rows of this stream: it ends "
                       "with row %" PRIu64 ", and this broker has row %" PRIu64,
                       end, r->from);
    if (r->is_first ? r->from > 0 && r->from < forgotten
                    : r->forgotten != forgotten)
        return problem(why, STATUS_GONE, "the stream has forgotten rows");
    r->forgotten = forgotten;
    r->is_first = false;
    return STATUS_OK;
}

static enum status
on_part(struct pg_rows *rows, void *user, struct problem *why)
{
    struct reading *r = user;
    struct stream_row row;
    uint64_t n;
    enum status rc = STATUS_OK;

    r->is_empty = true;
    while (!rc && PG_NEXT(rows, &row.key, &n, &row.value, &row.is_deleted) &&
           n <= r->end) {
        r->is_empty = false;
        r->n = n;
        rc = r->fn(&row, n, r->user, why);
    }
    return rc;
}

static enum status
pg_read(struct streams *streams, const char *stream, uint64_t *n,
        stream_row_fn *fn, void *user, struct problem *why)
{
    struct pg_streams *s = streams_of(streams);
    struct reading r = {.fn = fn, .user = user, .n = *n, .is_first = true};
    enum status rc = STATUS_OK;

    while (!rc && !r.is_empty) {
        /* The last one sees what the reading may have missed. */
        const struct pg_statement read[] = {
            {"SELECT n FROM tidings_streams WHERE name = $1::text",
             DB_VALUES(stream), .into = DB_INTO(&r.end)},
            PG_WAITS_FOR_STANDBY(PG_STANDBY_VALUES(&s->c), ),
            {READ_ROWS, DB_VALUES(stream, r.n), .each = on_part, .user = &r},
            {END_OF_STREAM, DB_VALUES(stream), .each = on_end, .user = &r},
        };

        r.from = r.n;
        rc = run_again(s, read, 4, why);
        if (rc == STATUS_LATE)
            rc = pg_prove(&s->c, why);
    }
    if (!rc)
        *n = r.n > r.forgotten ? r.n : r.forgotten;
    return rc;
}

/* Orders */

/* Not repeated: it would be two orders. */
static enum status
pg_order(struct streams *streams, const char *lease, struct slice bytes,
         uint64_t *id, struct problem *why)
{
    struct pg_streams *s = streams_of(streams);
    const struct pg_statement statements[] = {
        {ORDER, DB_VALUES(s->c.options.broker, bytes, lease),
         .into = DB_INTO(id)},
        {"NOTIFY tidings_orders"},
    };

    return run_once(s, statements, 2, why) ? STATUS_UNREACHABLE : STATUS_OK;
}

struct orders {
    order_fn *fn;
    void *user;
};

static enum status
on_orders(struct pg_rows *rows, void *user, struct problem *why)
{
    const struct orders *orders = user;
    struct slice bytes;
    uint64_t id;

    (void)why;
    while (PG_NEXT(rows, &id, &bytes))
        orders->fn(id, bytes, orders->user);
    return STATUS_OK;
}

/* Runs statements, and hands over the rows of the first one. */
static enum status
run_for_orders(struct streams *streams, struct pg_statement *statements,
               size_t n, order_fn *fn, void *user, struct problem *why)
{
    struct orders orders = {fn, user};

    statements[0].each = on_orders;
    statements[0].user = &orders;
    return run_again(streams_of(streams), statements, n, why);
}

static enum status
pg_take(struct streams *streams, const struct leases *leases, order_fn *fn,
        void *user, struct problem *why)
{
    struct lease_arrays held = write_leases(leases);
    struct pg_statement statements[] = {
        {TAKE, DB_VALUES(held.names, held.terms)}, {END_ORDERS}};

    return run_for_orders(streams, statements, 2, fn, user, why);
}

static enum status
pg_answer(struct streams *streams, uint64_t id, struct slice bytes,
          struct problem *why)
{
    const struct pg_statement statements[] = {
        {ANSWER, DB_VALUES(id, bytes)},
        {"NOTIFY tidings_orders"},
    };

    return run_again(streams_of(streams), statements, 2, why);
}

static enum status
pg_answers(struct streams *streams, order_fn *fn, void *user,
           struct problem *why)
{
    const char *broker = streams_of(streams)->c.options.broker;
    struct pg_statement answers = {TAKE_ANSWERS, DB_VALUES(broker)};

    return run_for_orders(streams, &answers, 1, fn, user, why);
}

static void
pg_wait(struct streams *streams, int fd, int64_t wait_us)
{
    static const struct pg_statement listen = {"LISTEN tidings_orders"};
    struct pg_streams *s = streams_of(streams);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct problem why;
    bool is_notified;

    if (connect_streams(s, &why)) {
        (void)poll(&p, 1, (int)(wait_us / 1000));
        return;
    }
    /* No NOTIFY announces an order from before LISTEN: the caller looks
     * again first. */
    if (!s->is_listening) {
        s->is_listening = !pg_run(&s->c, &listen, 1, &why);
        return;
    }
    s->is_listening = !pg_listen(&s->c, fd, wait_us, 0, &is_notified, &why);
}

static enum status
pg_records(struct streams *streams, uint64_t *n, struct problem *why)
{
    const struct pg_statement last = {
        "SELECT n FROM tidings_records ORDER BY n DESC LIMIT 1",
        .into = DB_INTO(n), .absent = STATUS_UNREACHABLE,
        .reason = "there is no journal"};

    return run_again(streams_of(streams), &last, 1, why);
}

/* Appending */

/* An array of bytea, in PostgreSQL's binary form. */
static void
begin_array(struct buf *to, size_t n)
{
    buf_add_big_endian(to, 1, 4);  /* dimensions */
    buf_add_big_endian(to, 1, 4);  /* it may have NULLs */
    buf_add_big_endian(to, 17, 4); /* the type bytea */
    buf_add_big_endian(to, n, 4);
    buf_add_big_endian(to, 1, 4); /* first index */
}

static void
add_element(struct buf *to, struct slice bytes, bool is_null)
{
    buf_add_big_endian(to, is_null ? UINT32_MAX : bytes.size, 4);
    if (!is_null)
        buf_add_slice(to, bytes);
}

/* Begins the transaction of an append, in which nobody else can take the
 * lease. */
static enum status
begin_append(struct pg_streams *s, const char *stream,
             const struct lease_arrays *held, uint64_t n, size_t n_rows,
             struct problem *why)
{
    const struct pg_statement statements[] = {
        {"BEGIN"},
        {MAKE_STREAM, DB_VALUES(stream)},
        {"SELECT 1 WHERE " HAS_LEASES,
         DB_VALUES(held->names, held->terms, s->c.options.broker),
         .absent = STATUS_GONE,
         .reason = "this broker no longer has the lease"},
        {MOVE_END, DB_VALUES(stream, n, n_rows), .absent = STATUS_CONFLICT,
         .reason = "the stream has rows that this broker has not read"},
    };
    enum status rc = run_again(s, statements, 4, why);

    if (rc)
        pg_roll_back(&s->c);
    return rc == STATUS_GONE ? STATUS_REFUSED : rc;
}

/* What an append is of. */
struct appending {
    const char *stream;
    struct lease_arrays held;
    uint64_t n;                     /* the rows' numbers follow it */
    struct buf keys, values, notes; /* empty: there are none */
    const struct stream_note *note;
};

/* Ends an append that begin_append has begun, or adds the note alone. */
static enum status
end_append(struct pg_streams *s, const struct appending *a, struct problem *why)
{
    const struct stream_note *note = a->note;
    const char *broker = s->c.options.broker;
    const struct lease_arrays *held = &a->held;
    bool has_rows = a->keys.size > 0;

    const struct {
        bool is_wanted;
        struct pg_statement statement;
    } all[] = {
        {!has_rows, {"BEGIN"}},
        {has_rows,
         {PUT_ROWS, DB_VALUES(a->stream, a->n, buf_slice(&a->keys),
                              buf_slice(&a->values))}},
        {has_rows, {"NOTIFY tidings_rows"}},
        {note->keep_from > 0,
         {DROP_NOTES,
          DB_VALUES(held->names, held->terms, broker, note->keep_from)}},
        {a->notes.size > 0,
         {PUT_NOTES,
          DB_VALUES(held->names, held->terms, broker, note->n,
                    buf_slice(&a->notes)),
          .absent = STATUS_GONE,
          .reason = "this broker no longer has the lease",
          .is_frequent = true}},
        {true, {"COMMIT", .is_frequent = true}},
        {true, PG_WAITS_FOR_STANDBY(PG_STANDBY_VALUES(&s->c), )},
    };
    struct pg_statement statements[N_ELEMENTS(all)];
    size_t n = 0;
    enum status rc;

    for (size_t i = 0; i < N_ELEMENTS(all); i++)
        if (all[i].is_wanted)
            statements[n++] = all[i].statement;
    rc = run_once(s, statements, n, why);
    if (rc == STATUS_LATE)
        rc = pg_prove(&s->c, why);
    /* The server refused a statement before COMMIT: nothing is kept. */
    return rc == STATUS_REFUSED ? STATUS_UNREACHABLE
           : rc == STATUS_GONE  ? STATUS_REFUSED
                                : rc;
}

static void
forget_rows(struct pg_streams *s, const char *stream)
{
    const struct pg_statement forget[] = {
        {MOVE_MARK, DB_VALUES(stream)},
        {FORGET_ROWS, DB_VALUES(stream)},
    };
    struct problem lost;
    int64_t now_us = clock_steady_us();

    if (now_us < s->forget_at_us)
        return;
    s->forget_at_us = now_us + FORGET_US;
    if (pg_run(&s->c, forget, 2, &lost)) /* changes nothing */
        pg_close(&s->c);
}

/* Writes the notes, in the order of the leases. */
static void
add_notes(struct buf *to, const struct leases *leases,
          const struct stream_note *note)
{
    size_t n = 0;
    bool has_some = false;

    for (size_t i = 0; i < LEASES_MAX; i++) {
        n += leases->all[i] != NULL;
        has_some |= note->bytes[i].size > 0;
    }
    if (!has_some)
        return;
    begin_array(to, n);
    for (size_t i = 0; i < LEASES_MAX; i++)
        if (leases->all[i])
            add_element(to, note->bytes[i], note->bytes[i].size == 0);
}

static enum status
pg_append(struct streams *streams, const char *stream,
          const struct leases *leases, uint64_t *n,
          const struct stream_row *rows, size_t n_rows,
          const struct stream_note *note, struct problem *why)
{
    static const struct stream_note none = {0};
    struct pg_streams *s = streams_of(streams);
    struct reading r = {.from = *n, .is_first = true};
    const struct pg_statement end = {END_OF_STREAM, DB_VALUES(stream),
                                     .each = on_end, .user = &r};
    struct appending a = {.stream = stream,
                          .held = write_leases(leases),
                          .n = *n,
                          .keys.max = INT32_MAX,
                          .values.max = INT32_MAX,
                          .notes.max = INT32_MAX,
                          .note = note ? note : &none};
    struct problem lost;
    enum status rc = STATUS_OK;

    add_notes(&a.notes, leases, a.note);
    if (n_rows > 0) {
        begin_array(&a.keys, n_rows);
        begin_array(&a.values, n_rows);
    }
    for (size_t i = 0; i < n_rows; i++) {
        add_element(&a.keys, rows[i].key, false);
        add_element(&a.values, rows[i].value, rows[i].is_deleted);
    }
    if (a.keys.failed || a.values.failed || a.notes.failed)
        rc = problem_memory(why);
    else if (n_rows > 0)
        rc = begin_append(s, stream, &a.held, *n, n_rows, why);
    /* The stream may have lost rows. */
    if (rc == STATUS_CONFLICT &&
        run_again(s, &end, 1, &lost) == STATUS_DIFFERENT)
        *why = lost;
    if (!rc)
        rc = end_append(s, &a, why);
    if (!rc) {
        *n += n_rows;
        forget_rows(s, stream);
    }
    buf_fini(&a.keys);
    buf_fini(&a.values);
    buf_fini(&a.notes);
    return rc;
}

static enum status
pg_notes(struct streams *streams, const char *lease, order_fn *fn, void *user,
         struct problem *why)
{
    struct pg_statement read = {READ_NOTES, DB_VALUES(lease)};

    return run_for_orders(streams, &read, 1, fn, user, why);
}

/* Opening */

static void
pg_streams_close(struct streams *streams)
{
    struct pg_streams *s = streams_of(streams);

    pg_close(&s->c);
    free(s);
}

static const struct streams_ops ops = {
    .hold = pg_hold,
    .renew = pg_renew,
    .brokers = pg_brokers,
    .leave = pg_leave,
    .identify = pg_identify,
    .read = pg_read,
    .append = pg_append,
    .notes = pg_notes,
    .records = pg_records,
    .order = pg_order,
    .take = pg_take,
    .answer = pg_answer,
    .answers = pg_answers,
    .wait = pg_wait,
    .close = pg_streams_close,
};

struct streams *
pg_streams_open(const struct pg_options *options)
{
    struct pg_streams *s = memory_new(1, sizeof(*s));

    s->streams.ops = &ops;
    s->c.options = *options;
    return &s->streams;
}
