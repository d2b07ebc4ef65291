#include "broker/journal/pg_connection.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/random.h"
#include "broker/journal/libpq.h"
#include "broker/journal/pg_schema.h"

/* The first version whose quorum, pipelines and views are as used here. */
#define VERSION_MIN 150000

enum status
pg_make_instance(char instance[PG_INSTANCE_SIZE + 1], struct problem *why)
{
    return random_hex(instance, PG_INSTANCE_SIZE + 1)
               ? STATUS_OK
               : problem(why, STATUS_IO, "the system has no random numbers");
}

/* Its own words may contain the address, and so a password. */
enum status
pg_check_address(const char *address, struct problem *why)
{
    PQconninfoOption *parsed;
    bool has_secret = false;
    enum status rc = libpq_load(why);

    if (rc)
        return rc;
    parsed = libpq.PQconninfoParse(address, NULL);
    for (PQconninfoOption *o = parsed; o && o->keyword; o++)
        has_secret |= o->val && *o->val &&
                      (!strcmp(o->keyword, "password") ||
                       !strcmp(o->keyword, "sslpassword"));
    libpq.PQconninfoFree(parsed);
    if (has_secret)
        return problem(why, STATUS_INVALID,
                       "an address has no password: put it into a file, and "
                       "name that with passfile=FILE, or use a certificate");
    return parsed ? STATUS_OK
                  : problem(why, STATUS_INVALID,
                            "no address of PostgreSQL: it is "
                            "\"postgresql://USER@HOST/DATABASE\" or "
                            "\"host=HOST dbname=DATABASE user=USER\"");
}

void
pg_close(struct pg_connection *c)
{
    if (c->handle)
        libpq.PQfinish(c->handle);
    c->handle = NULL;
}

/* Rows: integers are big-endian, as PostgreSQL has them. */

static int64_t
get_number(struct slice bytes)
{
    uint64_t big = 0;

    if (bytes.size == sizeof(big))
        memcpy(&big, bytes.data, sizeof(big));
    return (int64_t)be64toh(big);
}

bool
pg_next(struct pg_rows *rows, const struct db_target *into)
{
    int row = rows->next;

    if (row >= libpq.PQntuples(rows->result))
        return false;
    rows->next++;
    for (int column = 0; into[column].to; column++) {
        const struct db_target *target = &into[column];
        const struct slice bytes = {
            libpq.PQgetvalue(rows->result, row, column),
            (size_t)libpq.PQgetlength(rows->result, row, column)};

        if (target->type == DB_64)
            *(int64_t *)target->to = get_number(bytes);
        else if (target->type == DB_BOOL)
            *(bool *)target->to = get_number(bytes) != 0;
        else
            db_put_bytes(target, bytes);
    }
    return true;
}

/* Waiting */

/* A wait goes on beyond its deadline as long as so many bytes move in so long a
 * time, in either direction: a slow line is waited for, and one that drips is
 * not. How many moved is asked once in LOOK_US. */
#define MOVED_BYTES 16384
#define MOVED_US    1000000
#define LOOK_US     200000

static void
extend(struct pg_connection *c, int64_t until_us)
{
    if (c->deadline_us < until_us)
        c->deadline_us = until_us;
    if (c->until_us && c->until_us < until_us)
        c->until_us = until_us;
}

/* While it connects: more after each attempt in which a server was late. */
#define LATE_MOST 1

static int64_t
patience_of(const struct pg_connection *c)
{
    return c->options.patience_us << c->n_late;
}

/* Begins something that the owner's time ends, or its patience, or later while
 * bytes move. */
static void
begin_wait(struct pg_connection *c)
{
    int64_t now_us = clock_steady_us();

    c->deadline_us = c->until_us ? c->until_us : now_us + patience_of(c);
    c->look_us = now_us + LOOK_US;
    c->moved = 0;
}

/* Looks what the other machine has acknowledged and sent since the connection
 * was made. A unix socket does not say that. */
static void
look_for_progress(struct pg_connection *c, int64_t now_us)
{
    struct tcp_info info = {.tcpi_bytes_acked = 0, .tcpi_bytes_received = 0};
    socklen_t size = sizeof(info);
    uint64_t moved;

    (void)getsockopt(libpq.PQsocket(c->handle), IPPROTO_TCP, TCP_INFO, &info,
                     &size);
    moved = info.tcpi_bytes_acked + info.tcpi_bytes_received;
    c->look_us = now_us + LOOK_US;
    if (c->moved > 0 && moved < c->moved + MOVED_BYTES)
        return;
    if (c->moved > 0)
        extend(c, now_us + MOVED_US);
    c->moved = moved;
}

/* Closes the connection, whose state is unknown. */
static enum status
lose(struct pg_connection *c, const char *what, struct problem *why)
{
    const char *said = c->handle ? libpq.PQerrorMessage(c->handle) : "";
    size_t size = strcspn(said, "\n");

    /* libpq begins with which server it is, and says nothing more in time. */
    problem_set(why, "PostgreSQL: %.*s%s", (int)size, said,
                size > 0 && said[size - 1] != ' ' ? "" : what);
    pg_close(c);
    return STATUS_IO;
}

/* False: the deadline. */
static bool
await_socket(struct pg_connection *c, short events)
{
    struct pollfd p = {.fd = libpq.PQsocket(c->handle), .events = events};
    int n = 0;

    while (n == 0 && p.fd >= 0) {
        int64_t now_us = clock_steady_us(), until_us;

        if (now_us >= c->look_us)
            look_for_progress(c, now_us);
        until_us = c->deadline_us < c->look_us ? c->deadline_us : c->look_us;
        c->is_late = now_us >= c->deadline_us;
        if (c->is_late)
            return false;
        n = poll(&p, 1, (int)((until_us - now_us) / 1000) + 1);
    }
    return n != 0;
}

/* Running */

static void
note_notice(void *user, const PGresult *notice)
{
    struct pg_connection *c = user;
    const char *state = libpq.PQresultErrorField(notice, PG_DIAG_SQLSTATE);

    /* "canceling the wait for synchronous replication", by an administrator or
     * by the end of the server. */
    if (state && (!strcmp(state, "57014") || !strcmp(state, "57P01")))
        c->is_cancelled = true;
}

/* The results of a run. */
struct run {
    const struct pg_statement *statements;
    size_t at; /* the one whose result is next */
    enum status rc;
    struct problem *why;
};

#define NAME_SIZE 16

/* Sets `name` to the name of a frequent statement, which is known by the place
 * of its text, and sends its preparation if
 * the server has not prepared it yet; sets it to "" for any other statement.
 * `*n_new` counts the preparations of this run. */
static bool
prepare_statement(struct pg_connection *c, size_t at,
                  const struct pg_statement *s, unsigned *n_new,
                  char name[NAME_SIZE])
{
    unsigned i = 0;

    while (i < c->n_prepared && c->prepared[i] != s->sql)
        i++;
    name[0] = '\0';
    if (i == c->n_prepared)
        i += *n_new;
    if (!s->is_frequent || i >= PG_PREPARED_MAX)
        return true;
    snprintf(name, NAME_SIZE, "s%u", i);
    if (i < c->n_prepared)
        return true;
    c->prepared[i] = s->sql;
    c->preparing |= UINT64_C(1) << at;
    (*n_new)++;
    return libpq.PQsendPrepare(c->handle, name, s->sql, 0, NULL);
}

static bool
send_statement(struct pg_connection *c, const struct pg_statement *s,
               const char *name)
{
    static const int binary[PG_VALUES_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
    const char *values[PG_VALUES_MAX];
    int sizes[PG_VALUES_MAX], n = 0;
    uint64_t numbers[PG_VALUES_MAX];

    for (const struct db_value *v = s->values; v && v->type; v++, n++)
        if (v->type == DB_INTEGER) {
            numbers[n] = htobe64((uint64_t)v->number);
            values[n] = (const char *)&numbers[n];
            sizes[n] = sizeof(numbers[n]);
        } else {
            values[n] = v->bytes.size ? v->bytes.data : "";
            sizes[n] = (int)v->bytes.size;
        }
    return *name ? libpq.PQsendQueryPrepared(c->handle, name, n, values, sizes,
                                             binary, 1)
                 : libpq.PQsendQueryParams(c->handle, s->sql, n, NULL, values,
                                           sizes, binary, 1);
}

/* True if the next result is that of a statement's preparation. */
static bool
is_preparing(const struct pg_connection *c, const struct run *run)
{
    return c->preparing & UINT64_C(1) << run->at;
}

/* True: the run is over. */
static bool
take_result(struct pg_connection *c, struct run *run, PGresult *result)
{
    const struct pg_statement *s = &run->statements[run->at];
    struct pg_rows rows = {result, 0};
    ExecStatusType kind =
        result ? libpq.PQresultStatus(result) : PGRES_COMMAND_OK;
    const char *said, *state;

    if (!result && is_preparing(c, run))
        c->preparing &= ~(UINT64_C(1) << run->at);
    else if (!result) /* behind each statement */
        run->at++;
    else if (kind == PGRES_COMMAND_OK && is_preparing(c, run))
        c->n_prepared++;
    else if (kind == PGRES_TUPLES_OK && !run->rc)
        run->rc = s->each ? s->each(&rows, s->user, run->why)
                  : pg_next(&rows, s->into ? s->into : DB_INTO()) || !s->absent
                      ? STATUS_OK
                      : problem(run->why, s->absent, "%s", s->reason);
    else if (kind == PGRES_FATAL_ERROR && run->rc != STATUS_REFUSED) {
        said = libpq.PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        state = libpq.PQresultErrorField(result, PG_DIAG_SQLSTATE);
        /* A prepared statement is there already, or not there at all, or it is
         * another one, with other parameters. */
        if (state && (!strcmp(state, "42P05") || !strcmp(state, "26000") ||
                      !strcmp(state, "08P01")))
            said = PG_POOLER;
        run->rc = problem(run->why, STATUS_REFUSED, "PostgreSQL: %s",
                          said ? said : "it refused a statement");
    }
    libpq.PQclear(result);
    return kind == PGRES_PIPELINE_SYNC;
}

static enum status
send_all(struct pg_connection *c, const struct pg_statement *statements,
         size_t n, struct problem *why)
{
    char name[NAME_SIZE];
    unsigned n_new = 0;
    int unsent;
    bool is_sent = c->handle && libpq.PQenterPipelineMode(c->handle);

    c->preparing = 0;
    for (size_t i = 0; is_sent && i < n; i++)
        is_sent = prepare_statement(c, i, &statements[i], &n_new, name) &&
                  send_statement(c, &statements[i], name);
    if (!is_sent || !libpq.PQpipelineSync(c->handle))
        return lose(c, "the connection is lost", why);
    /* Reads meanwhile, for the server may want that first. */
    while ((unsent = libpq.PQflush(c->handle)) > 0)
        if (!await_socket(c, POLLIN | POLLOUT) ||
            !libpq.PQconsumeInput(c->handle))
            break;
    return unsent ? lose(c, "it did not answer in time", why) : STATUS_OK;
}

static enum status
receive_all(struct pg_connection *c, const struct pg_statement *statements,
            struct problem *why)
{
    struct run run = {.statements = statements, .why = why};

    do {
        while (libpq.PQisBusy(c->handle)) /* until a result is whole */
            if (!await_socket(c, POLLIN) || !libpq.PQconsumeInput(c->handle))
                return lose(c, "it did not answer in time", why);
    } while (!take_result(c, &run, libpq.PQgetResult(c->handle)));
    extend(c, clock_steady_us() + MOVED_US); /* the next one may move, too */
    if (c->is_cancelled || !libpq.PQexitPipelineMode(c->handle))
        return lose(c, "a wait for a standby was cancelled", why);
    if (run.rc == STATUS_IO ||
        (run.rc == STATUS_REFUSED &&
         libpq.PQtransactionStatus(c->handle) != PQTRANS_IDLE))
        pg_close(c); /* its end takes the transaction along */
    return run.rc;
}

enum status
pg_send(struct pg_connection *c, const struct pg_statement *statements,
        size_t n, struct problem *why)
{
    begin_wait(c);
    return send_all(c, statements, n, why);
}

enum status
pg_receive(struct pg_connection *c, const struct pg_statement *statements,
           struct problem *why)
{
    begin_wait(c);
    return receive_all(c, statements, why);
}

enum status
pg_run(struct pg_connection *c, const struct pg_statement *statements, size_t n,
       struct problem *why)
{
    enum status rc = pg_send(c, statements, n, why);

    return rc ? rc : receive_all(c, statements, why);
}

void
pg_roll_back(struct pg_connection *c)
{
    static const struct pg_statement rollback = {"ROLLBACK"};
    struct problem why;

    if (c->handle && pg_run(c, &rollback, 1, &why))
        pg_close(c);
}

bool
pg_is_quiet(const struct pg_connection *c)
{
    struct pollfd p = {.fd = c->handle ? libpq.PQsocket(c->handle) : -1,
                       .events = POLLIN};

    return p.fd >= 0 && poll(&p, 1, 0) == 0;
}

int
pg_session(const struct pg_connection *c)
{
    return libpq.PQbackendPID(c->handle);
}

/* True if a session other than `own_pid` has sent a notification. */
static bool
take_notifications(struct pg_connection *c, int own_pid)
{
    bool is_notified = false;
    PGnotify *n;

    while ((n = libpq.PQnotifies(c->handle))) {
        is_notified |= n->be_pid != own_pid;
        libpq.PQfreemem(n);
    }
    return is_notified;
}

enum status
pg_listen(struct pg_connection *c, int fd, int64_t wait_us, int own_pid,
          bool *is_notified, struct problem *why)
{
    struct pollfd all[2] = {{.fd = libpq.PQsocket(c->handle), .events = POLLIN},
                            {.fd = fd, .events = POLLIN}};

    /* First those that came with the results of the last run. */
    *is_notified = take_notifications(c, own_pid);
    if (!*is_notified && poll(all, 2, (int)(wait_us / 1000)) > 0 &&
        all[0].revents) {
        if (!libpq.PQconsumeInput(c->handle))
            return lose(c, "the connection is lost", why);
        *is_notified = take_notifications(c, own_pid);
    }
    return STATUS_OK;
}

/* Connecting */

/* The words of an address that may be lists, with a part for each host. */
static const char *const host_words[] = {"host", "hostaddr", "port"};

#define HOST_WORDS N_ELEMENTS(host_words)

/* Sets `parts` to what the address says of host number `i`, NULL where it says
 * nothing; the caller frees them. Returns how many hosts it names. */
static unsigned
take_host(const char *address, unsigned i, char *parts[HOST_WORDS])
{
    PQconninfoOption *parsed = libpq.PQconninfoParse(address, NULL);
    unsigned n_hosts = 1, n;

    for (size_t w = 0; w < HOST_WORDS; w++) {
        parts[w] = NULL;
        for (PQconninfoOption *o = parsed; o && o->keyword; o++)
            if (!strcmp(o->keyword, host_words[w]) && o->val) {
                const char *part = o->val; /* number `i`, or the last */

                n = 1;
                for (const char *at = part; (at = strchr(at, ',')); at++)
                    if (n++ <= i)
                        part = at + 1;
                parts[w] = slice_dup((struct slice){part, strcspn(part, ",")});
                n_hosts = n > n_hosts ? n : n_hosts;
            }
    }
    libpq.PQconninfoFree(parsed);
    return n_hosts;
}

/* Among several hosts libpq would wait without a limit for a silent one, and
 * give up when one hangs up. A failover manager may promote a standby and
 * forbid writes until the old primary is surely gone
 * (default_transaction_read_only): that one is not "read-write". */
enum status
pg_open(struct pg_connection *c, const char *kind, bool is_one_of_all,
        unsigned *n_hosts, struct problem *why)
{
    char session[sizeof(PG_SESSION) + PG_INSTANCE_SIZE];
    char *parts[HOST_WORDS];
    const char *const names[] = {
        "dbname",          "target_session_attrs", "application_name",
        "client_encoding", "tcp_user_timeout",     host_words[0],
        host_words[1],     host_words[2],          NULL};
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    int64_t patience_us = patience_of(c), now_us = clock_steady_us();
    int64_t end_us = now_us + 2 * patience_us;
    const char *is_standby;

    snprintf(session, sizeof(session), PG_SESSION "%s",
             c->options.broker ? c->options.instance : "");
    *n_hosts = take_host(c->options.address, c->host, parts);
    if (is_one_of_all)
        patience_us /= *n_hosts;
    begin_wait(c);
    if (c->deadline_us > now_us + patience_us)
        c->deadline_us = now_us + patience_us;

    const char *const values[] = {
        c->options.address, kind,     session,  "UTF8", "3000",
        parts[0],           parts[1], parts[2], NULL};

    c->handle = libpq.PQconnectStartParams(names, values, 1);
    for (size_t w = 0; w < HOST_WORDS; w++)
        free(parts[w]);
    c->is_cancelled = c->is_standby = false;
    c->n_prepared = 0;
    if (!c->handle)
        return problem_memory(why);
    snprintf(c->name, sizeof(c->name), "%s:%s", libpq.PQhost(c->handle),
             libpq.PQport(c->handle));
    while (libpq.PQstatus(c->handle) != CONNECTION_BAD &&
           next != PGRES_POLLING_FAILED && next != PGRES_POLLING_OK) {
        if (!await_socket(c, next == PGRES_POLLING_READING ? POLLIN : POLLOUT))
            return lose(c, "it did not answer in time", why);
        next = libpq.PQconnectPoll(c->handle);
        if (clock_steady_us() < end_us) /* few bytes, and each one counts */
            extend(c, clock_steady_us() + patience_us);
    }
    is_standby = libpq.PQparameterStatus(c->handle, "in_hot_standby");
    c->is_standby = is_standby && !strcmp(is_standby, "on");
    if (libpq.PQstatus(c->handle) != CONNECTION_OK)
        return lose(c, "it did not answer", why);
    libpq.PQsetNoticeReceiver(c->handle, note_notice, c);
    return libpq.PQsetnonblocking(c->handle, 1) ? lose(c, "no memory", why)
                                                : STATUS_OK;
}

/* A server since its start, and the database there. Whatever may lose commits
 * changes it: the promotion of a standby, which has another start and another
 * timeline; a server that starts with an older directory; another database of
 * the same name. */
#define SERVER                                                          \
    "hashtextextended(concat_ws('/',"                                   \
    " extract(epoch FROM pg_postmaster_start_time()),"                  \
    " left(pg_walfile_name(pg_current_wal_lsn()), 8), (SELECT oid FROM" \
    " pg_database WHERE datname = current_database())), 0)"

enum status
pg_check_schema(const struct pg_connection *c, struct problem *why)
{
    return c->has_cluster || !c->schema[0]
               ? STATUS_OK
               : problem(why, STATUS_REFUSED,
                         "PostgreSQL: the tables of the cluster are in the "
                         "schema \"%s\", and the search_path of this session "
                         "does not name it",
                         c->schema);
}

/* A step may write a large table anew, and others wait for that. */
#define UPGRADE_US 60000000

static enum status
check_server(struct pg_connection *c, struct problem *why)
{
    enum { STANDBYS = 1 << DURABLE_STANDBYS, DISK = 1 << DURABLE_DISK };

    enum { PROVIDER = 1 << DURABLE_PROVIDER };

    static const struct {
        unsigned durable_by; /* where it counts */
        const char *reason;
    } faults[] = {
        {STANDBYS | PROVIDER | DISK,
         "PostgreSQL: its fsync is off: it loses commits with a power failure"},
        /* Storage of a service may write whole pages by itself. */
        {STANDBYS | DISK,
         "PostgreSQL: its full_page_writes is off: a power failure may damage "
         "it"},
        {STANDBYS, PG_NO_STANDBY},
        {PROVIDER | DISK,
         "PostgreSQL: its synchronous_commit is off: it answers before its "
         "disk has a commit"},
    };
    /* It has to see what another broker has changed before the lock. */
    static const struct pg_statement upgrade[] = {
        {"BEGIN ISOLATION LEVEL READ COMMITTED"},
        {PG_SCHEMA_UPGRADE},
        {"COMMIT"},
    };
    int64_t version = 0;
    bool is_set[N_ELEMENTS(faults)], is_old = false;
    const struct pg_statement check = {
        "SELECT current_setting('server_version_num')::bigint,"
        " (current_setting('fsync') = 'on')::int::bigint,"
        " (current_setting('full_page_writes') = 'on')::int::bigint,"
        " (current_setting('synchronous_standby_names') <> '')::int::bigint,"
        " (current_setting('synchronous_commit') <> 'off')::int::bigint,"
        " (to_regclass('tidings_cluster') IS NOT NULL)::int::bigint,"
        " (SELECT coalesce(min(schemaname::text), '') FROM pg_tables"
        "  WHERE tablename = 'tidings_cluster'),"
        " " PG_SCHEMA_IS_OLD ", " SERVER,
        .into =
            DB_INTO(&version, &is_set[0], &is_set[1], &is_set[2], &is_set[3],
                    &c->has_cluster, &c->schema, &is_old, &c->server)};
    enum status rc = pg_run(c, &check, 1, why);

    if (rc)
        return rc;
    if (version < VERSION_MIN)
        return problem(why, STATUS_REFUSED,
                       "PostgreSQL: it is older than version 15");
    if (c->options.broker && pg_check_schema(c, why))
        return STATUS_REFUSED;
    if (c->options.broker && !c->has_cluster)
        return problem(why, STATUS_INVALID,
                       "PostgreSQL: this database has no cluster; tidingsd "
                       "cluster init begins one");
    for (size_t i = 0; i < N_ELEMENTS(faults); i++)
        if (!is_set[i] && faults[i].durable_by & 1U << c->options.durable_by)
            return problem(why, STATUS_REFUSED, "%s", faults[i].reason);
    if (is_old) {
        int64_t until_us = c->until_us;

        c->until_us = clock_steady_us() + UPGRADE_US;
        rc = pg_run(c, upgrade, 3, why);
        c->until_us = until_us;
    }
    return rc == STATUS_REFUSED
               ? problem_prefix(why, rc,
                                "the tables of the cluster are of an earlier "
                                "version, and cannot be changed now: ")
               : rc;
}

/* Ends the sessions of brokers that fell silent in the middle of a turn's
 * statements, and so hold it. The server waits for the rest as long as the
 * connection stands: no timeout of idle transactions counts. The barrier behind
 * it waits for all that such a session has committed at the last moment. */
#define END_SILENT                                                             \
    "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity"             \
    " WHERE datname = current_database() AND usename = current_user"           \
    " AND application_name LIKE '" PG_SESSION "%' AND pid <> pg_backend_pid()" \
    " AND state = 'active' AND wait_event IN ('ClientRead', 'ClientWrite')"    \
    " AND state_change < now() - interval '10s' AND pid IN"                    \
    " (SELECT pid FROM pg_locks WHERE relation = 'tidings_turn'::regclass)"

/* The settings of this session: its server and its database may have others.
 * Keepalives, and looks at the connection during a wait, tell the server of a
 * broker that is gone. Statements are planned once, while tables may still be
 * empty: without seqscan they use the indexes. */
static const struct pg_statement settings[] = {
    {"SELECT set_config('tidings.session', pg_backend_pid()::text, false)"},
    {"SET synchronous_commit = on"},
    {"SET statement_timeout = 0"},
    {"SET lock_timeout = 0"},
    {"SET default_transaction_isolation = 'read committed'"},
    {"SET idle_in_transaction_session_timeout = '2s'"},
    {"SET plan_cache_mode = force_generic_plan"},
    {"SET enable_seqscan = off"},
    {"SET jit = off"},
    {"SET client_connection_check_interval = '1s'"},
    {"SET tcp_keepalives_idle = 1"},
    {"SET tcp_keepalives_interval = 1"},
    {"SET tcp_keepalives_count = 3"},
    {"SET tcp_user_timeout = '3s'"},
};

/* Returns a row if the name is this process's now. A new row has nothing to be
 * lost; any other counts at a new server when it is reported. */
#define CLAIM                                                                 \
    "INSERT INTO tidings_brokers AS b(name, instance, at, is_reader, server)" \
    " SELECT $1, $2, now(), $4::bigint = 1, $5 FROM tidings_cluster"          \
    "  WHERE public_url = $3"                                                 \
    " ON CONFLICT(name) DO UPDATE SET instance = $2, at = now(),"             \
    "   is_reader = $4::bigint = 1,"                                          \
    "   state = CASE b.instance WHEN $2 THEN b.state ELSE '' END"             \
    "  WHERE b.instance = $2 OR " PG_IS_SILENT " OR NOT " PG_IS_RUNNING       \
    " RETURNING 1::bigint"

static enum status
claim_name(struct pg_connection *c, struct problem *why)
{
    const struct pg_options *o = &c->options;
    bool has_name = false;
    char url[512] = "";
    const struct pg_statement statements[] = {
        {END_SILENT},
        {CLAIM,
         DB_VALUES(o->broker, o->instance, o->public_url, o->is_reader,
                   c->server),
         .into = DB_INTO(&has_name)},
        {"SELECT public_url FROM tidings_cluster", .into = DB_INTO(&url),
         .absent = STATUS_REFUSED,
         .reason = "PostgreSQL: tidings_cluster is empty"},
    };
    enum status rc = pg_run(c, statements, 3, why);

    if (rc)
        return rc;
    if (strcmp(url, o->public_url) != 0)
        return problem(why, STATUS_INVALID,
                       "the cluster has the public URL %s, and this broker %s",
                       url, o->public_url);
    if (!has_name)
        return problem(why, STATUS_CONFLICT,
                       "another broker of the cluster has the name \"%s\": "
                       "give each one its own with --cluster-name",
                       o->broker);
    return STATUS_OK;
}

/* A session reads new settings for itself, but a commit waits for standbys when
 * the server's checkpointer has read that there are any, which may be later. */
#define SETTLE                                            \
    "SELECT pg_sleep(1 - least(1, abs(extract(epoch FROM" \
    " clock_timestamp() - pg_conf_load_time()))))"

enum status
pg_prove(struct pg_connection *c, struct problem *why)
{
    int64_t loaded_us = 0;
    bool counts = c->options.durable_by == DURABLE_STANDBYS, waits = false;
    const struct pg_statement statements[] = {
        {SETTLE},
        {"SELECT " PG_LOADED, .into = DB_INTO(&loaded_us)},
        {"BEGIN"},
        {"SELECT pg_logical_emit_message(true, 'tidings', '')"},
        {"COMMIT"},
        {"SELECT " PG_LOADED ", (" PG_WAITS ")::int::bigint",
         .into = DB_INTO(&c->loaded_us, &waits)},
    };
    size_t first = counts ? 0 : 1;
    enum status rc = pg_run(c, statements + first, 6 - first, why);

    if (rc || !counts || (waits && loaded_us == c->loaded_us))
        return rc;
    pg_close(c);
    return problem(why, STATUS_IO, "%s",
                   waits ? "PostgreSQL: its settings change at this moment"
                         : PG_NO_STANDBY);
}

/* Connects to the next host, with all checks. */
static enum status
try_host(struct pg_connection *c, unsigned *n_hosts, struct problem *why)
{
    enum status rc = pg_open(c, "read-write", false, n_hosts, why);

    if (!rc)
        rc = check_server(c, why);
    if (!rc)
        rc = pg_run(c, settings, N_ELEMENTS(settings), why);
    if (!rc && c->options.broker)
        rc = claim_name(c, why);
    if (!rc && c->options.broker)
        rc = pg_prove(c, why);
    return rc;
}

/* How much the reason says that it failed with: the last primary's the most,
 * and that a server is a standby the least. */
static int
weight_of(const struct pg_connection *c, enum status rc)
{
    return rc != STATUS_IO         ? 4
           : c->is_standby         ? 1
           : c->host != c->primary ? 2
                                   : 3;
}

enum status
pg_connect(struct pg_connection *c, struct problem *why)
{
    int64_t until_us;
    unsigned tried = 0, n_hosts = 1;
    int weight = 0;
    bool was_late = false;
    struct problem one;
    enum status rc = libpq_load(why); /* unless pg_check_address has */

    if (rc)
        return rc;
    begin_wait(c);
    if (c->n_late > 0 && !c->handle) /* more time than the owner has */
        extend(c, clock_steady_us() + patience_of(c));
    until_us = c->deadline_us;
    while (!c->handle) {
        c->is_late = false;
        problem_clear(&one);
        rc = try_host(c, &n_hosts, &one);
        if (!rc) {
            c->since_us = clock_steady_us();
            c->primary = c->host;
            break;
        }
        if (weight < weight_of(c, rc)) {
            weight = weight_of(c, rc);
            *why = one;
        }
        was_late |= c->is_late;
        pg_close(c);
        c->host = (c->host + 1) % n_hosts;
        if (rc != STATUS_IO || ++tried == n_hosts ||
            (c->until_us && clock_steady_us() >= until_us))
            break; /* who has no time of its own asks them all */
    }
    c->n_late = rc ? c->n_late + (was_late && c->n_late < LATE_MOST) : 0;
    return rc == STATUS_IO ? STATUS_UNREACHABLE : rc;
}
