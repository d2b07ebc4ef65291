#include "broker/journal/pg_cluster.h"

#include <poll.h>

#include "broker/journal/pg_journal.h"
#include "broker/journal/pg_schema.h"
#include "broker/log/kept_records.h"

#define LAST \
    "(SELECT n, chain, bytes FROM tidings_records ORDER BY n DESC LIMIT 1)"

#define TABLES_EMPTY "PostgreSQL: the tables of the cluster are empty"
#define NO_ROW       "PostgreSQL: it gave no row"

/* So long after its end a broker's session may still be listed: the process of
 * PostgreSQL that served it notices later. */
#define END_WAIT_US 1000000

/* Connects. STATUS_NOT_FOUND: the caller needs a cluster, which the database
 * has not. */
static enum status
connect_for(struct pg_connection *c, const struct pg_options *options,
            bool needs_cluster, struct problem *why)
{
    enum status rc;

    *c = (struct pg_connection){.options = *options};
    rc = pg_connect(c, why);
    if (!rc)
        rc = pg_check_schema(c, why);
    if (!rc && needs_cluster && !c->has_cluster)
        rc = problem(why, STATUS_NOT_FOUND, "this database has no cluster");
    return rc;
}

/* Runs statements in a connection of their own. */
static enum status
run_alone(const struct pg_options *options, bool needs_cluster,
          const struct pg_statement *statements, size_t n, struct problem *why)
{
    struct pg_connection c;
    enum status rc = connect_for(&c, options, needs_cluster, why);

    if (!rc)
        rc = pg_run(&c, statements, n, why);
    pg_close(&c);
    return rc;
}

/* Beginning */

/* Waits for a record that is being added. */
#define LOCK_TURN "SELECT one FROM tidings_turn WHERE one = 1 FOR UPDATE"

/* Records were given up behind $1, or may have been ($2): all sets begin new
 * epochs, with the next record (pg_journal.c: judge_journal). */
#define NOTE_EPOCHS                                                    \
    "INSERT INTO tidings_notes SELECT '" PG_EPOCHS "', $1::bigint, ''" \
    " WHERE $2::bigint > 0 ON CONFLICT DO NOTHING"

enum status
pg_cluster_begin_epochs(const struct pg_options *options,
                        const struct journal_place *place, struct problem *why)
{
    const uint64_t n = 1;
    const struct pg_statement statements[] = {
        {"BEGIN"},
        {LOCK_TURN},
        {NOTE_EPOCHS, DB_VALUES(place->n, n)},
        {"COMMIT"},
    };

    return run_alone(options, true, statements, N_ELEMENTS(statements), why);
}

enum status
pg_cluster_begin(const struct pg_options *options, const char *public_url,
                 const struct journal_place *place, bool has_new_epochs,
                 struct problem *why)
{
    const struct db_value *at = DB_VALUES(place->n, &place->chain);
    const uint64_t n_new = has_new_epochs;
    const struct pg_statement statements[] = {
        {"BEGIN"},
        {PG_SCHEMA},
        {"INSERT INTO tidings_cluster VALUES(1, $1)"
         " ON CONFLICT DO NOTHING",
         DB_VALUES(public_url)},
        {"INSERT INTO tidings_records(n, chain, broker, bytes, record)"
         " SELECT $1, $2, '', 0, ''"
         " WHERE NOT EXISTS (SELECT FROM tidings_turn)",
         at},
        {"INSERT INTO tidings_turn VALUES(1, $1, $2, 0, 0)"
         " ON CONFLICT DO NOTHING",
         at},
        {"SELECT 1 FROM " LAST " AS last, tidings_cluster"
         " WHERE n = $1 AND chain = $2 AND public_url = $3",
         DB_VALUES(place->n, &place->chain, public_url),
         .absent = STATUS_CONFLICT,
         .reason = "this database has another cluster, or one that goes on "
                   "already"},
        {NOTE_EPOCHS, DB_VALUES(place->n, n_new)},
        {"COMMIT"},
    };

    return run_alone(options, false, statements, N_ELEMENTS(statements), why);
}

/* Waits until PostgreSQL lists no session of that broker ("": of any), but not
 * for long: the caller looks again, and then refuses a broker that runs. */
static enum status
await_sessions(struct pg_connection *c, const char *name, struct problem *why)
{
    int64_t until_us = clock_steady_us() + END_WAIT_US;
    uint64_t n = 0;
    const struct pg_statement count = {
        "SELECT count(*) FROM tidings_brokers b"
        " WHERE ($1 = '' OR name = $1) AND " PG_IS_RUNNING,
        DB_VALUES(name), .into = DB_INTO(&n)};
    enum status rc;

    while (!(rc = pg_run(c, &count, 1, why)) && n > 0 &&
           clock_steady_us() < until_us)
        (void)poll(NULL, 0, 20);
    return rc;
}

/* Giving back */

struct returning {
    struct pg_connection c;
    struct journal_place end; /* of the journal */
};

/* Begins a transaction that has the turn of a journal that no broker uses, and
 * compares it with a copy at `place`. */
static enum status
take_journal(struct returning *r, const char *public_url,
             const struct journal_place *place, struct problem *why)
{
    char url[512], runs[256] = "";
    const struct pg_statement look[] = {
        {"BEGIN"},
        {LOCK_TURN},
        {"SELECT n, chain, public_url FROM " LAST " AS last, tidings_cluster",
         .into = DB_INTO(&r->end.n, &r->end.chain, &url),
         .absent = STATUS_REFUSED, .reason = TABLES_EMPTY},
        {"SELECT name FROM tidings_brokers b WHERE " PG_IS_RUNNING " LIMIT 1",
         .into = DB_INTO(&runs)},
        {"SELECT 1 WHERE NOT EXISTS (SELECT FROM tidings_records"
         " WHERE n = $1 AND chain <> $2)",
         DB_VALUES(place->n, &place->chain), .absent = STATUS_CONFLICT,
         .reason = "the journal has another history than this copy"},
        {"SELECT 1 FROM " LAST " AS last WHERE n < $1 OR n >="
         " (SELECT coalesce(max(n), 0) FROM tidings_brokers)",
         DB_VALUES(place->n), .absent = STATUS_CONFLICT,
         .reason = "another broker has the lost records, and this copy has "
                   "not: tidingsd cluster status says which one"},
    };
    enum status rc = pg_run(&r->c, look, 6, why);

    if (!rc && strcmp(url, public_url) != 0)
        rc = problem(why, STATUS_CONFLICT,
                     "this database has another cluster, with the public "
                     "URL %s",
                     url);
    if (!rc && *runs)
        rc = problem(why, STATUS_CONFLICT,
                     "the broker \"%s\" runs: stop all brokers first", runs);
    return rc;
}

/* A journal_take_fn. The records are older than now, and the next turn gets a
 * later time than the journal has. */
static enum status
return_record(const struct journal_place *place, struct slice record,
              void *user, struct problem *why)
{
    struct returning *r = user;
    const struct pg_statement append = {
        PG_APPEND_IF(PG_WHOLE, "true"),
        DB_VALUES(place->n, &place->chain, clock_now_us(), "", record)};

    return pg_run(&r->c, &append, 1, why);
}

enum status
pg_cluster_return(const struct pg_options *options, const char *public_url,
                  const char *dir, const struct journal_place *place,
                  uint64_t *n_given, struct problem *why)
{
    /* Rows of streams may be lost as well: a copy may have some that these
     * lack, under the same numbers. */
    static const struct pg_statement end[] = {
        {"DELETE FROM tidings_rows"},
        {"DELETE FROM tidings_notes"},
        {"DELETE FROM tidings_streams"},
        {"UPDATE tidings_leases SET term = term + 1, until = '-infinity'"
         " WHERE broker <> ''"},
        {"COMMIT"},
    };
    struct returning r = {.end = {.n = 0}};
    struct journal_place at;
    enum status rc = connect_for(&r.c, options, true, why);

    if (!rc)
        rc = await_sessions(&r.c, "", why);
    if (!rc)
        rc = take_journal(&r, public_url, place, why);
    *n_given = !rc && place->n > r.end.n ? place->n - r.end.n : 0;
    at = *n_given > 0 ? r.end : *place;
    if (*n_given > 0)
        rc = kept_records_read(dir, &at, return_record, &r, why);
    if (!rc && memcmp(&at, place, sizeof(at)) != 0)
        rc = problem(why, STATUS_CONFLICT,
                     "the records that %s keeps do not lead from record "
                     "%" PRIu64 ", where the journal ends, to its own last "
                     "one, %" PRIu64 ": begin the journal again in an empty "
                     "database",
                     dir, r.end.n, place->n);
    if (!rc && *n_given > 0)
        rc = pg_run(&r.c, end, N_ELEMENTS(end), why);
    pg_close(&r.c);
    return rc;
}

/* Looking */

struct look {
    void (*on_broker)(const struct pg_broker *broker, void *user);
    void *user;
};

static enum status
on_brokers(struct pg_rows *rows, void *user, struct problem *why)
{
    const struct look *look = user;
    struct pg_broker b;

    (void)why;
    while (PG_NEXT(rows, &b.name, &b.n, &b.behind, &b.is_ahead, &b.is_different,
                   &b.behind_bytes, &b.silent_us, &b.is_silent, &b.is_running,
                   &b.is_reader, &b.has_clock, &b.clock_us, &b.state, &b.owns))
        if (look->on_broker)
            look->on_broker(&b, look->user);
    return STATUS_OK;
}

bool
pg_cluster_lacks_standby(const struct pg_cluster *l, enum durable_by durable_by)
{
    return durable_by == DURABLE_STANDBYS &&
           (!l->has_standbys || (l->n_standbys == 0 && !l->has_hidden));
}

const struct pg_broker_state pg_broker_states[] = {
    {"runs", "runs", ""},
    {"catching-up", "is catching up",
     "wait; if its record stays the same, look at its disk and processor"},
    {"behind", "is behind", "look at its disk, its processor and its network"},
    {"no-turns", "gets no turns", "mend what the reason names"},
    {"cut-off", "is cut off", "look at the network between it and PostgreSQL"},
    {"refused", "does not trust PostgreSQL", "mend what the reason names"},
    {"no-right", "has not the rights that it needs",
     "GRANT them, or let its account own the tables"},
    {"no-room", "has no room", "make room on its disk"},
    {"needs-backup", "needs a backup",
     "move its data directory away, and tidingsd cluster join"},
    {"other-history", "has another history",
     "move its data directory away, and tidingsd cluster join"},
    {"ahead", "has records that the journal has lost (cluster mend)",
     "give them back with tidingsd cluster mend, or let it leave"},
    {"stands-still", "stands still",
     "its process has sessions and reports nothing: look at its machine, its "
     "disk and its network"},
    {"away", "is away",
     "start it; if it runs, its log and /readyz say why it does not reach or "
     "trust PostgreSQL"},
};

const struct pg_broker_state *
pg_broker_judge(const struct pg_broker *b, const char **why)
{
    const char *name = b->is_ahead       ? "ahead" /* also one that is away */
                       : b->is_different ? "other-history"
                       : !b->is_running  ? "away"
                       : b->is_silent    ? "stands-still"
                                         : b->state;
    const struct slice found = {name, strcspn(name, " ")};
    size_t size = strcspn(b->state, " "), i = N_ELEMENTS(pg_broker_states) - 1;

    *why = b->state[size] ? b->state + size + 1 : "";
    while (i > 0 && !slice_is(found, pg_broker_states[i].name))
        i--;
    return &pg_broker_states[i];
}

#define OWNS                                                           \
    "(SELECT concat_ws(', ', string_agg(l.name, ', ' ORDER BY l.name)" \
    "  FILTER (WHERE l.name NOT LIKE 'hub/%'),"                        \
    "  nullif(count(*) FILTER (WHERE l.name LIKE 'hub/%'), 0)"         \
    "  || ' parts of the hub', max('with hub/0')"                      \
    "  FILTER (WHERE l.name = 'hub/0'))"                               \
    " FROM tidings_leases l WHERE broker = b.name"                     \
    " AND until > '-infinity')"

#define BROKERS(owns)                                                   \
    "SELECT name, b.n, greatest(0, last.n - b.n),"                      \
    " (b.n > last.n)::int::bigint, (b.chain <> r.chain)::int::bigint,"  \
    " greatest(0, last.bytes - coalesce(r.bytes, 0)),"                  \
    " greatest(0, (extract(epoch FROM clock_timestamp() - at)"          \
    "  * 1000000)::bigint), (" PG_IS_SILENT ")::int::bigint,"           \
    " (" PG_IS_RUNNING ")::int::bigint, is_reader::int::bigint,"        \
    " (clock_us IS NOT NULL)::int::bigint, coalesce(clock_us, 0), "     \
    " state, " owns " FROM tidings_brokers b LEFT JOIN tidings_records" \
    " r ON r.n = b.n, " LAST " AS last ORDER BY name"

enum status
pg_cluster_read(struct pg_connection *c, struct pg_cluster *l,
                void (*on_broker)(const struct pg_broker *broker, void *user),
                void *user, struct problem *why)
{
    struct look look = {on_broker, user};
    const struct pg_statement statements[] = {
        {"SELECT last.n, last.chain, first.n, last.bytes - first.bytes,"
         " (SELECT count(*) FROM pg_stat_replication"
         "  WHERE sync_state IN ('sync', 'quorum')),"
         " (SELECT count(*) FROM pg_stat_replication"
         "  WHERE sync_state IS NULL),"
         " (current_setting('synchronous_standby_names') <> '')::int::bigint,"
         " (SELECT max(keep_bytes) FROM tidings_brokers),"
         " (SELECT (count(DISTINCT keep_bytes) > 1)::int::bigint"
         "  FROM tidings_brokers WHERE keep_bytes > 0),"
         " public_url FROM " LAST " AS last, tidings_cluster,"
         " (SELECT n, bytes FROM tidings_records WHERE n >= $1 ORDER BY n"
         "  LIMIT 1) AS first",
         DB_VALUES(l->first),
         .into = DB_INTO(&l->end.n, &l->end.chain, &l->first, &l->bytes,
                         &l->n_standbys, &l->has_hidden, &l->has_standbys,
                         &l->keep_bytes, &l->has_other_keeps, &l->public_url),
         .absent = STATUS_REFUSED, .reason = TABLES_EMPTY},
        {l->shows_leases ? BROKERS(OWNS) : BROKERS("''"), .each = on_brokers,
         .user = &look},
    };

    return pg_run(c, statements, 2, why);
}

enum status
pg_cluster_look(const struct pg_options *options, struct pg_cluster *l,
                void (*on_broker)(const struct pg_broker *broker, void *user),
                void *user, struct problem *why)
{
    struct pg_connection c;
    const struct pg_statement right = {
        "SELECT has_table_privilege('tidings_leases', 'SELECT')::int::bigint",
        .into = DB_INTO(&l->shows_leases)};
    enum status rc = connect_for(&c, options, true, why);

    l->first = 0;
    if (!rc)
        rc = pg_run(&c, &right, 1, why);
    if (!rc)
        rc = pg_cluster_read(&c, l, on_broker, user, why);
    pg_close(&c);
    return rc;
}

/* Sessions of others with locks on tables of a cluster, for longer than a
 * moment. A session that only reads, as pg_dump does, delays upgrades alone. */
#define LOCKS                                                               \
    "(SELECT string_agg(format('session %s of %s (%s) has locked %s since"  \
    " %s', pid, usename, application_name, tables, xact_start), '; ')"      \
    " FROM pg_stat_activity JOIN (SELECT pid, string_agg(DISTINCT"          \
    "  relation::regclass::text, ', ') AS tables FROM pg_locks"             \
    "  WHERE granted AND database = (SELECT oid FROM pg_database"           \
    "   WHERE datname = current_database()) AND relation IN (SELECT oid"    \
    "   FROM pg_class WHERE relname LIKE 'tidings\\_%' AND relkind = 'r')"  \
    "  AND mode <> 'ShareUpdateExclusiveLock' AND (mode <>"                 \
    "   'AccessShareLock' OR " PG_SCHEMA_IS_OLD " = 1) GROUP BY pid) AS l"  \
    " USING (pid) WHERE backend_type = 'client backend' AND"                \
    " application_name NOT LIKE '" PG_SESSION "%' AND coalesce(xact_start," \
    " '-infinity') < clock_timestamp() - interval '1 s')"

struct pg_server *
pg_cluster_servers(const struct pg_options *options, unsigned *n)
{
    struct pg_server *servers = NULL, *server;
    struct pg_connection c;
    struct problem why;
    enum status rc;

    *n = 1;
    for (unsigned i = 0; i < *n; i++) {
        c = (struct pg_connection){.options = *options, .host = i};
        rc = pg_open(&c, "any", true, n, &why);
        if (!servers)
            servers = memory_new(*n, sizeof(*servers));
        server = &servers[i];
        /* A standby refuses serializable transactions, which may be the
         * default. */
        const struct pg_statement ask[] = {
            {"BEGIN ISOLATION LEVEL READ COMMITTED"},
            {"SELECT pg_is_in_recovery()::int::bigint,"
             " (SELECT count(*) FROM pg_stat_wal_receiver), (extract(epoch FROM"
             "  pg_postmaster_start_time()) * 1000000)::bigint,"
             " pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN greatest("
             "  pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())"
             "  ELSE pg_current_wal_lsn() END, '0/0')::bigint, " LOCKS,
             .into = DB_INTO(&server->is_standby, &server->is_fed,
                             &server->started_us, &server->received,
                             &server->locks)},
            {"COMMIT"}};

        c.options.patience_us /= *n;
        if (rc || pg_run(&c, ask, 3, &why))
            server->away = why;
        memcpy(server->name, c.name, sizeof(c.name));
        pg_close(&c);
    }
    return servers;
}

/* Checking */

enum status
pg_cluster_check(const struct pg_options *options,
                 const struct journal_place *place, struct problem *why)
{
    uint64_t first, last;
    struct digest chain;
    bool is_there = false;
    const struct pg_statement statements[] = {
        {"SELECT (SELECT n FROM tidings_records ORDER BY n LIMIT 1),"
         " n FROM " LAST " AS last",
         .into = DB_INTO(&first, &last), .absent = STATUS_REFUSED,
         .reason = NO_ROW},
        {"SELECT 1::bigint, chain FROM tidings_records WHERE n = $1",
         DB_VALUES(place->n), .into = DB_INTO(&is_there, &chain)},
    };
    enum status rc = run_alone(options, true, statements, 2, why);

    if (rc || (is_there && digest_is_equal(&chain, &place->chain)))
        return rc;
    if (place->n < first)
        return problem(why, STATUS_GONE,
                       "the copy ends with record %" PRIu64
                       ", and the journal has forgotten records up to %" PRIu64,
                       place->n, first);
    if (place->n > last)
        return problem(why, STATUS_NOT_FOUND,
                       "the journal ends before record %" PRIu64
                       ", which the copy has",
                       place->n);
    return problem(why, STATUS_DIFFERENT,
                   "the journal has another history than the copy");
}

/* Leaving */

struct leaving_rows {
    uint64_t n_own, n_running, n_others;
    uint64_t own, others; /* the last record of each */
};

static enum status
judge_leaving(struct pg_leaving *l, const struct leaving_rows *rows,
              struct problem *why)
{
    uint64_t known = rows->others > l->end.n ? rows->others : l->end.n;
    uint64_t own =
        l->place && l->place->n > rows->own ? l->place->n : rows->own;

    l->is_last = rows->n_others == 0;
    l->reported = rows->own;
    l->n_lost = own > known ? own - known : 0;
    if (rows->n_own == 0 && (!l->is_last || !l->place))
        return problem(why, STATUS_NOT_FOUND,
                       "the cluster has no broker \"%s\"", l->name);
    if (rows->n_running > 0)
        return problem(why, STATUS_CONFLICT,
                       "the broker \"%s\" runs: stop it first", l->name);
    if (l->is_last && !l->place)
        return problem(why, STATUS_CONFLICT,
                       "\"%s\" is the last broker of the cluster: give its "
                       "data directory with --data",
                       l->name);
    if (l->is_last && memcmp(&l->end, l->place, sizeof(l->end)) != 0)
        return problem(why, STATUS_CONFLICT,
                       "\"%s\" is the last broker of the cluster, and the "
                       "journal does not end where its copy ends: start it, "
                       "let it follow, and stop it again",
                       l->name);
    if (l->n_lost != l->gives_up)
        return problem(
            why, STATUS_CONFLICT,
            l->n_lost > 0
                ? "\"%s\" alone has records %" PRIu64 " to %" PRIu64
                  ", which were acknowledged: tidingsd cluster mend gives them "
                  "back. Without them other entries get the same numbers, and "
                  "contradict what readers have and checkpoints sign. To give "
                  "them up: --give-up %" PRIu64
                : "\"%s\" has no records that the journal or another broker "
                  "does not have: leave without --give-up",
            l->name, known + 1, own, l->n_lost);
    return STATUS_OK;
}

enum status
pg_cluster_leave(const struct pg_options *options, struct pg_leaving *l,
                 struct problem *why)
{
    const struct db_value *who = DB_VALUES(l->name);
    struct leaving_rows rows = {.n_own = 0};
    const struct pg_statement look[] = {
        {"BEGIN"},
        {LOCK_TURN},
        {"SELECT n, chain FROM " LAST " AS last",
         .into = DB_INTO(&l->end.n, &l->end.chain)},
        {"SELECT count(*) FILTER (WHERE name = $1),"
         " count(*) FILTER (WHERE name = $1 AND " PG_IS_RUNNING "),"
         " count(*) FILTER (WHERE name <> $1),"
         " coalesce(max(n) FILTER (WHERE name = $1), 0),"
         " coalesce(max(n) FILTER (WHERE name <> $1), 0)"
         " FROM tidings_brokers b",
         who,
         .into = DB_INTO(&rows.n_own, &rows.n_running, &rows.n_others,
                         &rows.own, &rows.others),
         .absent = STATUS_REFUSED, .reason = NO_ROW},
    };
    const struct pg_statement go[] = {
        {"DELETE FROM tidings_brokers WHERE name = $1", who},
        {NOTE_EPOCHS, DB_VALUES(l->end.n, l->gives_up)},
        {"COMMIT"},
    };
    static const struct pg_statement end[] = {
        {"DROP TABLE tidings_records, tidings_turn, tidings_brokers,"
         " tidings_cluster, tidings_leases, tidings_streams, tidings_rows,"
         " tidings_notes, tidings_orders"},
        {"COMMIT"},
    };
    struct pg_connection c;
    enum status rc = connect_for(&c, options, false, why);

    if (!rc)
        rc = await_sessions(&c, l->name, why);
    if (!rc)
        rc = pg_run(&c, look, 4, why);
    if (!rc)
        rc = judge_leaving(l, &rows, why);
    if (!rc && l->is_last)
        rc = l->release(l->user, why);
    if (!rc)
        rc = l->is_last ? pg_run(&c, end, 2, why) : pg_run(&c, go, 3, why);
    pg_close(&c);
    return rc;
}
