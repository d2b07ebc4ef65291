#include "broker/journal/pg_journal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"
#include "broker/base/metrics.h"
#include "broker/log/kept_records.h"
#include "broker/log/log.h"
#include "broker/log/record.h"

/* Records are read in pieces of so many bytes, or of one record. */
#define PIECE_BYTES ((uint64_t)262144)

/* Nobody else gets the turn while its owner reads. So it reads all that is
 * there before it asks for the turn, and no more than this under the lock. Each
 * attempt allows twice as much: a broker gets its turn beside others with large
 * records, too. */
#define TURN_BYTES ((uint64_t)65536)

/* A post waits so long at most for a broker that has to catch up first. */
#define CATCH_UP_US 10000000

/* After a failure, the next attempt to connect. Turns before that fail at once:
 * the log thread has other things to do than to wait. */
#define RETRY_US 500000

/* The log refuses a post after two seconds in which nothing moves. It waits
 * TURN_US for a turn, and until POST_US for the end of an append, but for
 * APPEND_MIN_US at least: an append without an answer may be kept. A large
 * record has a second for each 4 MB besides: it is written to several disks. */
#define TURN_US       1500000
#define POST_US       2000000
#define APPEND_MIN_US 500000

/* The follower looks once in LOOK_US, and SOON_US after its last look if
 * readers wait for one: each look costs a commit. */
#define LOOK_US 1000000
#define SOON_US 20000

/* How often it says how far this copy is, and trims. */
#define REPORT_US 1000000

/* So long a broker waits for the reports of others after a change of the
 * server. Those that run need less: a name is lost after the same time. */
#define OTHERS_US 5000000

/* A start waits so long for the name of a process that was killed, and whose
 * session the server has not missed yet (pg_connection.c). */
#define NAME_WAIT_US 7000000

/* A broker whose last turn brought no record of others presumes its next ones
 * for so long. So the journal's time is asked for each second, and what the
 * clocks differ in meanwhile is less than a turn takes. */
#define PRESUME_US 1000000

/* Locks the turn, for a process that has its broker's name. The row is never
 * written: beside an old transaction its versions would pile up, in the way of
 * each post. */
#define TAKE_TURN                                             \
    "SELECT one FROM tidings_turn WHERE one = 1 AND EXISTS"   \
    " (SELECT FROM tidings_brokers WHERE name = $1::text AND" \
    "  instance = $2::text) FOR UPDATE"

/* The last record, and the time, which is never before that of the last record,
 * whichever server has it. Under READ COMMITTED a statement behind the lock
 * sees every commit from before the lock. Brokers of version 1 of the tables
 * keep the time in tidings_turn. */
#define LAST                                                      \
    "SELECT r.n, r.chain, greatest(r.at_us + 1, t.at_us + 1,"     \
    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)" \
    " FROM tidings_records r, tidings_turn t ORDER BY r.n DESC LIMIT 1"

/* Begins a transaction that presumes the turn. Tests know such a transaction by
 * these words. */
#define PRESUME "START TRANSACTION"

/* A record without the turn has a time that is not older. It comes with the
 * turn if its line needs longer. */
#define STAMP_US 30000000

/* A command or a broker that gives records up leaves this note. The turn whose
 * record begins the epochs deletes it. Until then no broker adds a record: its
 * append fails, and its next turn looks for the note. */
#define EPOCHS "FROM tidings_notes WHERE stream = '" PG_EPOCHS "'"

/* Adds a record within a turn, or without one if no broker has the turn: that
 * broker would be first. The values are those of PG_APPEND_IF, the instance $6,
 * the chain of the record before, $7, and how old its time may be, $8. */
#define APPEND(record)                                                     \
    PG_APPEND_IF(record,                                                   \
                 "last.chain = $7::bytea AND $3::bigint + $8::bigint >"    \
                 " (extract(epoch FROM clock_timestamp()) * 1e6)::bigint"  \
                 " AND 1 = (SELECT one FROM"                               \
                 " tidings_turn WHERE one = 1 AND EXISTS"                  \
                 " (SELECT FROM tidings_brokers WHERE name = $4::text AND" \
                 "  instance = $6::text) FOR UPDATE SKIP LOCKED)"          \
                 " AND NOT EXISTS (SELECT " EPOCHS ")")

/* What the next record is likely to end with, $1, as a setting of the session:
 * in no table, so nobody writes, or may write, more for it. A setting is text.
 * OFFSET 0: it is made bytes again once. */
#define STAGE                                                    \
    "SELECT length(set_config('tidings.bulk', encode($1::bytea," \
    " 'base64'), false))::bigint"
#define STAGED \
    "$5::bytea || decode(current_setting('tidings.bulk'), 'base64') OFFSET 0"

/* The chain at number $1, and records behind it: $2 bytes, but $3 records at
 * least. */
#define READ_RECORDS                                                   \
    "SELECT n, chain, CASE WHEN n > $1::bigint THEN record END"        \
    " FROM tidings_records WHERE n BETWEEN $1::bigint AND"             \
    "  $1::bigint + 256 AND (n <= $1::bigint + $3::bigint OR bytes <=" \
    "  $2::bigint + (SELECT bytes FROM tidings_records WHERE n ="      \
    "   $1::bigint)) ORDER BY n"

#define NAME_LOST "another process has taken the name of this broker"

/* Returns a row if the name is still this process's. */
#define REPORT                                                    \
    "UPDATE tidings_brokers SET at = now(), n = $3, server = $4," \
    " keep_bytes = $5, clock_us = $6::bigint"                     \
    "  - (extract(epoch FROM clock_timestamp()) * 1e6)::bigint,"  \
    " chain = $7, state = $8"                                     \
    " WHERE name = $1 AND instance = $2 RETURNING name"

/* The first right that the account lacks, of those that turns and work need. */
#define RIGHTS                                                              \
    "SELECT format('PostgreSQL: the account %s of this broker has no right" \
    " to %s %s', current_user, p, t) FROM unnest("                          \
    " '{records,records,turn,leases,leases,streams,streams,rows,rows,"      \
    "rows,notes,notes,orders,orders,orders}'::text[],"                      \
    " '{INSERT,DELETE,UPDATE,INSERT,UPDATE,INSERT,UPDATE,INSERT,UPDATE,"    \
    "DELETE,INSERT,DELETE,INSERT,UPDATE,DELETE}'::text[]) AS r(n, p),"      \
    " LATERAL (SELECT 'tidings_' || n) AS named(t)"                         \
    " WHERE NOT has_table_privilege(t, p) LIMIT 1"

/* Why the journal $1 of this broker, $2, gives no turn: a broker has records
 * beyond its end (1), or has not reported to this server (0). This broker
 * compares its own copy. */
#define AHEAD                                                               \
    "SELECT (b.n > t.n)::int::bigint, CASE WHEN b.n > t.n THEN format("     \
    "  'the journal has lost records: it ends with record %s, and the"      \
    " broker %s has record %s: see tidingsd cluster mend', t.n, name, b.n)" \
    " ELSE format('PostgreSQL has changed its server, and the broker %s"    \
    " has not said yet how much it has', name) END"                         \
    " FROM tidings_brokers b, (SELECT n FROM tidings_records"               \
    "  ORDER BY n DESC LIMIT 1) AS t"                                       \
    " WHERE b.n > t.n OR (b.server <> $1::bigint AND b.name <> $2::text)"   \
    " ORDER BY b.n > t.n DESC, b.n DESC LIMIT 1"

#define CLOCK                                                      \
    "SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint" \
    " WHERE " PG_IS_OWN_SESSION

/* Of brokers that have not reported. */
#define GIVE_UP                                      \
    "UPDATE tidings_brokers SET server = $1::bigint" \
    " WHERE server <> $1::bigint"

/* How long the oldest transaction of this database lasts that keeps PostgreSQL
 * from forgetting old rows. An account sees its own ones; all, with the rights
 * of pg_read_all_stats.
 *
 * And the time less $1, if nobody has the turn. A broker has that, and so the
 * lock of a row in the table, from before its record has its time, or is looked
 * at (APPEND), until all can see the record. */
#define OLDEST                                                            \
    "SELECT coalesce((extract(epoch FROM max(clock_timestamp() -"         \
    " xact_start)) * 1000000)::bigint, 0), CASE WHEN EXISTS (SELECT FROM" \
    "  pg_locks WHERE relation = 'tidings_turn'::regclass AND database =" \
    "   (SELECT oid FROM pg_database WHERE datname = current_database())" \
    "  AND mode = 'RowShareLock') THEN 0 ELSE (extract(epoch FROM"        \
    "  statement_timestamp()) * 1000000)::bigint - $1::bigint END"        \
    " FROM pg_stat_activity"                                              \
    " WHERE datname = current_database() AND backend_xmin IS NOT NULL"

/* Each broker may forget records for all, so the largest --cluster-keep counts;
 * this broker's is $1. */
#define KEEP \
    "(SELECT greatest($1::bigint, max(keep_bytes)) FROM tidings_brokers)"

/* Forgets the oldest records while there are more bytes than KEEP, some
 * thousand at once; the last one stays. A look at the oldest one is all as long
 * as there are no more; it begins behind $2, the last one that was forgotten:
 * beside an old transaction the index leads over all forgotten ones. */
#define TRIM                                                             \
    "WITH gone AS (DELETE FROM tidings_records WHERE n = ANY (ARRAY("    \
    " SELECT oldest.n FROM (SELECT n, bytes FROM tidings_records"        \
    "  ORDER BY n DESC LIMIT 1) AS last, (SELECT n, bytes FROM"          \
    "  tidings_records WHERE n > $2::bigint AND (SELECT bytes FROM"      \
    "   tidings_records WHERE n > $2::bigint ORDER BY n LIMIT 1) <"      \
    "  (SELECT bytes - " KEEP " FROM tidings_records"                    \
    "   ORDER BY n DESC LIMIT 1) ORDER BY n LIMIT 4096) AS oldest"       \
    " WHERE oldest.n < last.n AND oldest.bytes < last.bytes - " KEEP ")" \
    ") RETURNING n) SELECT greatest($2::bigint, max(n)) FROM gone"

struct pg_journal {
    struct journal journal;
    struct pg_connection turns; /* the log thread's */
    int64_t retry_at_us;        /* likewise; steady clock */
    struct problem last;        /* likewise: why there is no connection */
    int64_t now_us;             /* of the turn, or presumed */
    struct digest before;       /* the chain at its begin, likewise */
    int64_t asked_turn_us;      /* when the log asked for it; steady clock */
    int64_t turn_now_us;        /* of the last turn */
    int64_t had_turn_us;        /* when it began; steady clock */
    bool is_alone;    /* that turn brought no records, and the journal has kept
                          all that this broker appended since */
    bool has_judged;  /* this session of the turns has, and none failed since */
    bool was_refused; /* the last append was: another broker was first, or
                          there is a note of new epochs */
    bool begins_epochs;       /* the turn does */
    bool is_presumed;         /* the log has no turn, and appends */
    bool was_early;           /* a large record was sent without the turn, and
                          another one was first: the next time it is sent
                          with the turn */
    struct slice bulk;        /* with which it ends then, likely; lent */
    bool is_staged;           /* this session of the server has that */
    size_t first;             /* of the statements that end the turn */
    size_t append_size;       /* of the record under way */
    struct kept_records kept; /* likewise */
    _Atomic(int64_t) judged;  /* the server whose journal lacks no record of any
                                 broker; 0: none. Relaxed: each thread judges
                                 by itself, too */

    /* The follower's. */
    struct thread thread;
    struct pg_connection looks;
    struct log *log;
    uint64_t keep_bytes;
    int64_t report_at_us; /* steady clock; or when the state is not this: */
    enum copy_state reported;
    int64_t trimmed; /* records up to this one; -1: none is known */
    struct cluster_report report;
    int wake_fd;             /* ends its wait */
    atomic_bool is_asked;    /* readers wait for a look; relaxed, the descriptor
                                orders it */
    atomic_bool is_stopping; /* likewise; a late look costs a record */
    atomic_int own_pid;      /* the session of the turns; likewise */
    int64_t looked_us;       /* the last look at the end began; steady clock */
    bool is_notified;        /* another broker has added a record since */
    bool is_away;            /* and it was said */
};

static struct pg_journal *
journal_of(struct journal *journal)
{
    return (struct pg_journal *)(void *)journal;
}

/* Reading */

struct reading {
    journal_take_fn *take; /* NULL: the first row is all */
    void *user;
    struct log *log;           /* is to know the end first; NULL: it need not */
    uint64_t end;              /* number of the last record */
    int64_t now_us;            /* the journal's time */
    struct digest chain;       /* of the last record */
    struct journal_place read; /* how far it has read */
};

static enum status
say_different(struct problem *why, uint64_t n)
{
    return problem(why, STATUS_DIFFERENT,
                   "the journal has another history than this broker, which "
                   "has record %" PRIu64,
                   n);
}

/* Reads a piece of the records behind r->read, up to the end that it knows:
 * later ones are not proven. The first row is the last record that this copy
 * has. Record 0 is where the cluster began. */
static enum status
on_records(struct pg_rows *rows, void *user, struct problem *why)
{
    struct reading *r = user;
    struct journal_place place = {.n = 0};
    struct slice record;
    enum status rc = STATUS_OK;

    if (r->end < r->read.n)
        return problem(why, STATUS_NOT_FOUND,
                       "the journal ends before record %" PRIu64
                       ", which this broker has: it has lost records",
                       r->read.n);
    if (!PG_NEXT(rows, &place.n, &place.chain) || place.n != r->read.n)
        return problem(why, STATUS_GONE,
                       "the journal does not keep the records behind %" PRIu64
                       " any more, where this broker is: make a new data "
                       "directory with tidingsd cluster join",
                       r->read.n);
    if (!digest_is_equal(&place.chain, &r->read.chain))
        return say_different(why, r->read.n);
    if (r->log)
        log_note_end(r->log, r->end);
    while (!rc && r->take && r->read.n < r->end &&
           PG_NEXT(rows, &place.n, &place.chain, &record)) {
        if (place.n != r->read.n + 1)
            return say_different(why, r->read.n);
        rc = r->take(&place, record, r->user, why);
        if (!rc)
            r->read = place;
    }
    return rc;
}

/* Looks at the end, proves that all up to there is safe, and reads a piece.
 * With `turn_bytes` it takes the turn first, and reads no more than that under
 * the lock. STATUS_LATE: there is no proof. */
static enum status
read_piece(struct pg_connection *c, struct reading *r, uint64_t turn_bytes,
           struct problem *why)
{
    const struct pg_options *o = &c->options;
    const struct pg_statement statements[] = {
        {"BEGIN"},
        {TAKE_TURN, DB_VALUES(o->broker, o->instance), .absent = STATUS_REFUSED,
         .reason = NAME_LOST, .is_frequent = true},
        {LAST, .into = DB_INTO(&r->end, &r->chain, &r->now_us),
         .absent = STATUS_GONE, .reason = "the journal has no records",
         .is_frequent = true},
        PG_WAITS_FOR_STANDBY(PG_STANDBY_VALUES(c), ),
        {READ_RECORDS,
         DB_VALUES(r->read.n, turn_bytes ? turn_bytes : PIECE_BYTES,
                   turn_bytes ? 0 : 1),
         .each = on_records, .user = r, .is_frequent = true},
    };
    size_t first = turn_bytes ? 0 : 2;

    return pg_run(c, statements + first, 5 - first, why);
}

/* As read_piece without the turn, with the proof if one is needed. */
static enum status
read_some(struct pg_connection *c, struct reading *r, struct problem *why)
{
    enum status rc = read_piece(c, r, 0, why);

    if (rc == STATUS_LATE)
        rc = pg_prove(c, why);
    return rc;
}

/* Turns */

static void
pg_release(struct journal *journal)
{
    struct pg_journal *j = journal_of(journal);

    j->is_alone = false;
    if (j->is_presumed) {
        j->is_presumed = false;
        return;
    }
    j->turns.until_us = clock_steady_us() + APPEND_MIN_US;
    pg_roll_back(&j->turns);
}

/* How much longer the server may need for so many bytes. */
static int64_t
size_us(size_t size)
{
    return (int64_t)(size / 4);
}

/* Compares the clock of the server, which was `ahead_us` after the question and
 * `behind_us` before the answer. A time that the journal gets is never taken
 * back: all later ones follow it. So there are no turns with a wrong clock,
 * whichever of the two it is. */
static enum status
judge_clock(const struct pg_connection *c, int64_t ahead_us, int64_t behind_us,
            struct problem *why)
{
    int64_t us = (ahead_us - behind_us) / 2; /* half a round trip */

    metrics_set(METRIC_CLUSTER_CLOCK, us < 0 ? -us : us);
    /* How long the answer took is no difference. */
    if (ahead_us <= c->options.clock_us && behind_us <= c->options.clock_us)
        return STATUS_OK;
    return problem(why, STATUS_UNREACHABLE,
                   "PostgreSQL: the clock of its server %s is %.3f s from this "
                   "broker's, which is too far (--cluster-clock)",
                   c->name, (double)us / 1e6);
}

/* Looks whether the journal has lost records that any broker has.
 *
 * A broker reports a record when it has it, so a row ahead of the journal
 * proves a loss. After the promotion of a standby that lacks commits the rows
 * lack reports, too, until these brokers report again. So no broker takes a
 * turn of a server before all of them have reported to it (SERVER in
 * pg_connection.c).
 *
 * A broker that is dead for good never does. To wait for it until `cluster
 * leave` would turn each loss of a machine with a broker and a server into an
 * outage that ends by hand; so it has OTHERS_US, and then its row counts as it
 * is, unless the operator prefers that (waits_for_all). The others then go on
 * without the records that it alone has. A broker that runs again afterwards
 * reports, and its row ends the turns of all as any other would, until it has
 * left or `cluster mend`. */
static enum status
judge_journal(struct pg_journal *j, struct pg_connection *c,
              struct problem *why)
{
    const struct pg_options *o = &c->options;
    char fault[256] = "";
    bool is_lost = false;
    int64_t server_us = 0, began_us = clock_now_us(), after_us;
    uint64_t n_epochs = 0;
    const struct pg_statement looks[] = {
        {CLOCK, .into = DB_INTO(&server_us), .absent = STATUS_REFUSED,
         .reason = "PostgreSQL: " PG_POOLER},
        {AHEAD, DB_VALUES(c->server, o->broker),
         .into = DB_INTO(&is_lost, &fault)},
        {"SELECT count(*) " EPOCHS, .into = DB_INTO(&n_epochs)},
    };
    const struct pg_statement give_up = {GIVE_UP, DB_VALUES(c->server)};
    static const struct pg_statement begin_epochs = {"DELETE " EPOCHS};
    enum status rc = pg_run(c, looks, 3, why);

    after_us = clock_now_us();
    if (!rc)
        rc = judge_clock(c, server_us - began_us, after_us - server_us, why);
    if (!rc && (is_lost ||
                (fault[0] && (o->waits_for_all ||
                              clock_steady_us() < c->since_us + OTHERS_US))))
        rc = problem(why, STATUS_UNREACHABLE, "%s", fault);
    else if (!rc && fault[0])
        rc = pg_run(c, &give_up, 1, why);
    if (!rc && n_epochs > 0 && c == &j->turns) {
        rc = pg_run(c, &begin_epochs, 1, why);
        j->begins_epochs = !rc;
    }
    /* While there is a note, each turn looks, and none is presumed. */
    store_relaxed(&j->judged, rc || n_epochs > 0 ? 0 : c->server);
    return rc;
}

static bool
is_judged(struct pg_journal *j)
{
    return load_relaxed(&j->judged) == j->turns.server;
}

/* Of a turn that began at number `before`. The clock may be set at any time; and
 * nobody was first if there is no record. */
static bool
needs_judgement(struct pg_journal *j, const struct reading *r, uint64_t before)
{
    return !is_judged(j) || !j->has_judged ||
           (j->was_refused && r->read.n == before) ||
           r->now_us > clock_now_us() + j->turns.options.clock_us;
}

/* Sends what is known of the next record, reads all that is there, and then
 * takes the turn. */
static enum status
begin_turn(struct pg_journal *j, struct reading *r, struct problem *why)
{
    const struct pg_statement stage = {STAGE, DB_VALUES(j->bulk)};
    int64_t until_us;
    uint64_t allowed = TURN_BYTES, before = r->read.n;
    enum status rc = STATUS_OK;

    if (j->bulk.size > 0 || j->is_staged) { /* an old one makes room */
        j->turns.until_us += size_us(j->bulk.size);
        rc = pg_run(&j->turns, &stage, 1, why);
        j->turns.until_us = clock_steady_us() + TURN_US;
    }
    j->is_staged = j->bulk.size > 0 && !rc;
    until_us = clock_steady_us() + CATCH_UP_US;
    for (r->end = j->is_alone ? 0 : UINT64_MAX;; allowed *= 2) {
        while (!rc && r->read.n < r->end)
            rc = clock_steady_us() < until_us
                     ? read_some(&j->turns, r, why)
                     : problem(why, STATUS_BUSY,
                               "this broker is still %" PRIu64
                               " records behind the others",
                               r->end - r->read.n);
        if (!rc)
            rc = read_piece(&j->turns, r, allowed, why);
        if (rc ? rc != STATUS_LATE : r->read.n == r->end)
            break;
        pg_roll_back(&j->turns);
        rc = rc ? pg_prove(&j->turns, why) : STATUS_OK;
    }
    if (!rc && !digest_is_equal(&r->chain, &r->read.chain))
        rc = say_different(why, r->end);
    if (!rc && needs_judgement(j, r, before))
        rc = judge_journal(j, &j->turns, why);
    j->has_judged = !rc;
    j->was_refused &= rc != STATUS_OK;
    return rc;
}

static enum status
pg_turn(struct journal *journal, const struct journal_place *at,
        struct slice bulk, journal_take_fn *take, void *user, int64_t *now_us,
        struct problem *why)
{
    struct pg_journal *j = journal_of(journal);
    struct reading r = {.take = take, .user = user, .read = *at};
    bool was_kept = j->turns.handle != NULL;
    uint64_t before = at->n; /* it moves with the records */
    enum status rc;

    j->is_presumed = j->begins_epochs = false;
    j->has_judged &= was_kept;
    j->bulk = bulk;
    j->asked_turn_us = clock_steady_us();
    j->turns.until_us = j->asked_turn_us + TURN_US;
    if (!was_kept && clock_steady_us() < j->retry_at_us)
        return problem(why, STATUS_UNREACHABLE, "%s", j->last.text);
    /* A kept connection may have ended long ago: one more attempt, if there is
     * time, which hands over what the first one did not. */
    for (;; was_kept = false) {
        rc = pg_connect(&j->turns, &j->last);
        if (!rc)
            rc = begin_turn(j, &r, &j->last);
        if (rc != STATUS_IO || !was_kept ||
            clock_steady_us() >= j->turns.until_us)
            break;
    }
    if (!rc) {
        *now_us = j->now_us = j->turn_now_us = r.now_us;
        j->before = r.read.chain;
        j->had_turn_us = clock_steady_us();
        j->is_alone = r.read.n == before;
        return STATUS_OK;
    }
    pg_release(journal);
    j->has_judged = false; /* its name may have been taken, for a note */
    if (!j->turns.handle)
        j->retry_at_us = clock_steady_us() + RETRY_US;
    problem_set(why, "%s", j->last.text);
    return rc == STATUS_IO || rc == STATUS_REFUSED || rc == STATUS_INVALID ||
                   rc == STATUS_CONFLICT
               ? STATUS_UNREACHABLE
               : rc;
}

static bool
pg_presume(struct journal *journal, const struct journal_place *at,
           int64_t *now_us)
{
    struct pg_journal *j = journal_of(journal);
    int64_t steady_us = clock_steady_us();
    int64_t since_us = steady_us - j->had_turn_us;

    if (!j->is_alone || since_us > PRESUME_US || !is_judged(j) ||
        !j->has_judged || !pg_is_quiet(&j->turns))
        return false;
    j->is_presumed = true;
    j->begins_epochs = false;
    j->before = at->chain;
    j->asked_turn_us = steady_us;
    j->now_us = j->turn_now_us + since_us > j->now_us
                    ? j->turn_now_us + since_us
                    : j->now_us + 1;
    *now_us = j->now_us;
    return true;
}

static bool
pg_begins_epochs(struct journal *journal)
{
    return journal_of(journal)->begins_epochs;
}

/* The statements that end a turn, without their values. A presumed turn has the
 * first one, too. With the turn, it is another one before a large record: the
 * server takes the turn from a broker that sends no statement for two seconds,
 * and does not look while there are more. */
enum { END_BEGIN, END_APPEND, END_COMMIT, END_STANDBY, N_END };
static const struct pg_statement ends[N_END] = {
    [END_BEGIN] = {PRESUME},
    [END_APPEND] = {APPEND(PG_WHOLE), .absent = STATUS_CONFLICT,
                    .reason = "another broker was first", .is_frequent = true},
    [END_COMMIT] = {"COMMIT", .is_frequent = true},
    [END_STANDBY] = PG_WAITS_FOR_STANDBY(),
};

/* Any thread. */
static void
pg_look(struct journal *journal)
{
    struct pg_journal *j = journal_of(journal);

    store_relaxed(&j->is_asked, true);
    (void)eventfd_write(j->wake_fd, 1);
}

/* What the log thread waits for until the end of an append, from now on. */
static void
limit_append(struct pg_journal *j)
{
    int64_t least_us = clock_steady_us() + APPEND_MIN_US;

    j->turns.until_us = j->asked_turn_us + POST_US;
    if (j->turns.until_us < least_us)
        j->turns.until_us = least_us;
    j->turns.until_us += size_us(j->append_size);
}

static enum status
note_appended(struct pg_journal *j, enum status rc)
{
    if (rc)
        j->is_alone = false;
    j->was_refused = rc == STATUS_CONFLICT;
    if (rc == STATUS_IO) {
        store_relaxed(&j->own_pid, 0);
        pg_look(&j->journal); /* the record may be there */
    }
    /* The server refused a statement before COMMIT: nothing is kept. */
    return rc == STATUS_REFUSED ? STATUS_UNREACHABLE : rc;
}

/* Cuts what the server has off the end of a record. */
static bool
cut_bulk(const struct pg_journal *j, struct slice *record)
{
    size_t size = j->bulk.size;

    if (j->is_presumed || !j->is_staged || record->size < size ||
        memcmp(record->data + record->size - size, j->bulk.data, size) != 0)
        return false;
    record->size -= size;
    return true;
}

static enum status
pg_append(struct journal *journal, const struct journal_place *place,
          struct slice record, struct problem *why)
{
    struct pg_journal *j = journal_of(journal);
    const struct pg_options *o = &j->turns.options;
    struct pg_statement statements[N_END];
    bool is_cut;

    memcpy(statements, ends, sizeof(ends));
    j->append_size = record.size;
    is_cut = cut_bulk(j, &record);
    /* The server locks the turn when it has the whole record. */
    if (record.size > RECORD_LARGE && !j->is_presumed && !j->was_early) {
        pg_release(journal);
        j->is_presumed = j->was_early = true;
    }
    j->first =
        j->is_presumed || record.size > RECORD_LARGE ? END_BEGIN : END_APPEND;
    if (!j->is_presumed)
        statements[END_BEGIN].sql = "SELECT 1";
    if (is_cut)
        statements[END_APPEND] =
            (struct pg_statement){APPEND(STAGED), .absent = STATUS_CONFLICT,
                                  .reason = ends[END_APPEND].reason};
    statements[END_APPEND].values = DB_VALUES(
        place->n, &place->chain, j->now_us, o->broker, record, o->instance,
        &j->before, j->is_presumed ? STAMP_US : INT64_MAX / 2);
    statements[END_STANDBY].values = PG_STANDBY_VALUES(&j->turns);
    limit_append(j);
    store_relaxed(&j->own_pid, pg_session(&j->turns));
    return note_appended(
        j, pg_send(&j->turns, statements + j->first, N_END - j->first, why));
}

static enum status
pg_outcome(struct journal *journal, struct problem *why)
{
    struct pg_journal *j = journal_of(journal);
    enum status rc;

    /* Once more, for the log thread may have waited for its own disk: the
     * server has answered meanwhile. */
    limit_append(j);
    rc = pg_receive(&j->turns, ends + j->first, why);
    if (rc == STATUS_LATE)
        rc = pg_prove(&j->turns, why);
    j->was_early &= rc == STATUS_CONFLICT;
    return note_appended(j, rc);
}

/* Following */

/* Hands a record to the log thread, and waits: so records are in memory once,
 * and in order. */
static enum status
hand_over(const struct journal_place *place, struct slice record, void *user,
          struct problem *why)
{
    struct pg_journal *j = user;
    struct post post = {.kind = POST_RECORD, .record = record, .place = *place};
    enum status rc;

    if (load_relaxed(&j->is_stopping))
        return STATUS_STOPPED;
    rc = log_post_and_wait(j->log, &post, why);
    /* It cannot read the record: that is no other history. */
    return rc == STATUS_DIFFERENT ? STATUS_UNSUPPORTED : rc;
}

/* Looks whether the account may write what turns and work need, and forgets old
 * records. */
static enum status
use_rights(struct pg_journal *j, struct problem *why)
{
    struct problem lacks = {""};
    const struct pg_statement rights = {RIGHTS, .into = DB_INTO(&lacks.text)};
    const struct pg_statement trim = {TRIM,
                                      DB_VALUES(j->keep_bytes, j->trimmed),
                                      .into = DB_INTO(&j->trimmed)};
    enum status rc = pg_run(&j->looks, &rights, 1, why);

    if (!rc)
        log_note_rights(j->log, lacks.text[0] ? &lacks : NULL);
    return rc || lacks.text[0] ? rc : pg_run(&j->looks, &trim, 1, why);
}

/* Reports how far this copy is, whether it works, and that this process lives;
 * trims. Also while it catches up, lest others take its name.
 * Sets *past_us to a time of the journal: all records that this connection
 * cannot see yet will have later ones. 0: a broker has the turn, or it is not
 * time to report. */
static enum status
report_place(struct pg_journal *j, int64_t *past_us, struct problem *why)
{
    struct journal_place place;
    const struct pg_options *o = &j->looks.options;
    int64_t oldest_us = 0;
    struct log_copy copy;
    struct problem state;
    enum status rc = STATUS_OK;

    log_copy(j->log, &copy);
    if (clock_steady_us() < j->report_at_us && copy.state == j->reported)
        return STATUS_OK;
    if (!o->is_reader)
        rc = use_rights(j, why);
    log_place(j->log, &place);
    log_copy(j->log, &copy);
    problem_set(&state, "%s%s%s", copy_state_names[copy.state],
                copy.state ? " " : "", copy.state ? copy.why.text : "");

    const struct pg_statement statements[] = {
        {REPORT,
         DB_VALUES(o->broker, o->instance, place.n, j->looks.server,
                   o->is_reader ? 0 : j->keep_bytes, clock_now_us(),
                   &place.chain, state.text),
         .absent = STATUS_REFUSED, .reason = NAME_LOST},
        {OLDEST, DB_VALUES(STAMP_US), .into = DB_INTO(&oldest_us, past_us)},
    };

    if (!rc)
        rc = pg_run(&j->looks, statements, 2, why);
    if (!rc && !o->is_reader && judge_journal(j, &j->looks, why)) {
        log_note_copy(j->log, 0, 0, STATUS_FORBIDDEN, why);
        if (!j->looks.handle)
            rc = STATUS_UNREACHABLE;
    }
    if (!rc)
        rc = cluster_report_read(&j->report, &j->looks, why);
    j->reported = copy.state;
    metrics_set(METRIC_CLUSTER_OLDEST, oldest_us);
    if (rc == STATUS_REFUSED)
        pg_close(&j->looks); /* claims the name, or learns who has it */
    j->report_at_us = clock_steady_us() + REPORT_US;
    return rc;
}

/* Follows all that there is. The log thread may have read a part meanwhile. */
static enum status
catch_up(struct pg_journal *j, struct problem *why)
{
    struct reading r = {.take = hand_over, .user = j, .log = j->log};
    int64_t unread_us; /* there may be records before, which are not read yet */
    enum status rc;

    do {
        log_place(j->log, &r.read);
        rc = read_some(&j->looks, &r, why);
        if (!rc)
            rc = report_place(j, &unread_us, why);
    } while (!rc && r.read.n < r.end);
    return rc;
}

/* How long until the next look at the end. */
static int64_t
time_to_look(const struct pg_journal *j)
{
    bool is_asked = load_relaxed(&j->is_asked);

    if (load_relaxed(&j->is_stopping))
        return 0;
    return j->looked_us + (is_asked ? SOON_US : LOOK_US) - clock_steady_us();
}

/* Ignores notifications of this broker's own records: the log has the records,
 * or asks for them after an unknown outcome (pg_append). */
static enum status
look(struct pg_journal *j, struct problem *why)
{
    static const struct pg_statement listen = {"LISTEN tidings_records"};
    bool is_new = !j->looks.handle;
    enum status rc = pg_connect(&j->looks, why);
    eventfd_t n;
    int64_t wait_us, past_us = 0, later_us;

    (void)eventfd_read(j->wake_fd, &n); /* before the look at is_asked */
    if (!rc && is_new) {                /* other brokers wait for the report */
        rc = pg_run(&j->looks, &listen, 1, why);
        j->looked_us = j->report_at_us = -LOOK_US;
    }
    if (!rc && time_to_look(j) <= 0) {
        /* Follows all records that the journal has kept before this look. The
         * proof is a commit, so this server is the primary still. Another one
         * might show fewer records than a client has heard of. */
        store_relaxed(&j->is_asked, false);
        j->looked_us = clock_steady_us();
        rc = report_place(j, &past_us, why);
        if (!rc)
            rc = pg_prove(&j->looks, why);
        if (!rc)
            rc = catch_up(j, why);
        if (!rc) {
            log_note_copy(j->log, j->looked_us, past_us, STATUS_OK, NULL);
            rc = report_place(j, &later_us, why);
        }
    } else if (!rc && (is_new || j->is_notified)) {
        rc = catch_up(j, why);
    }
    if (rc) {
        j->is_notified = true; /* the next attempt catches up */
        return rc;
    }
    wait_us = time_to_look(j);
    return pg_listen(&j->looks, j->wake_fd, wait_us > 0 ? wait_us : 0,
                     load_relaxed(&j->own_pid), &j->is_notified, why);
}

/* Log thread. */
static void
pg_keep(struct journal *journal, uint64_t n, struct slice record)
{
    kept_records_add(&journal_of(journal)->kept, n, record);
}

static void
run_follower(struct thread *t)
{
    struct pg_journal *j = t->user;
    int64_t wait_us = 0;

    while (thread_wait(t, wait_us)) {
        struct problem why = {""};
        enum status rc = look(j, &why);
        bool is_away = rc && rc != STATUS_STOPPED;

        if (is_away)
            log_note_copy(j->log, 0, 0, rc, &why);
        diag_failure(&j->is_away, is_away, "journal",
                     "changes of other brokers do not come", why.text,
                     "changes of other brokers come again");
        wait_us = rc ? RETRY_US : 0;
    }
    pg_close(&j->looks);
}

enum status
pg_journal_follow(struct journal *journal, struct log *log, struct problem *why)
{
    struct pg_journal *j = journal_of(journal);

    j->log = log;
    return thread_start(&j->thread, "journal", run_follower, j, why);
}

void
pg_journal_stop(struct journal *journal)
{
    struct pg_journal *j = journal_of(journal);

    store_relaxed(&j->is_stopping, true);
    (void)eventfd_write(j->wake_fd, 1);
    thread_stop(&j->thread);
}

struct cluster_report *
pg_journal_report(struct journal *journal)
{
    return &journal_of(journal)->report;
}

/* Opening */

static void
pg_journal_close(struct journal *journal)
{
    struct pg_journal *j = journal_of(journal);

    pg_journal_stop(journal);
    pg_close(&j->turns);
    file_close(&j->kept.fd);
    buf_fini(&j->report.text);
    close(j->wake_fd);
    free(j);
}

static const struct journal_ops ops = {
    .turn = pg_turn,
    .presume = pg_presume,
    .begins_epochs = pg_begins_epochs,
    .append = pg_append,
    .outcome = pg_outcome,
    .release = pg_release,
    .look = pg_look,
    .keep = pg_keep,
    .close = pg_journal_close,
};

static const struct journal_ops reader_ops = {
    .look = pg_look,
    .keep = pg_keep,
    .close = pg_journal_close,
};

enum status
pg_journal_check(struct journal *journal, const struct journal_place *at,
                 struct problem *why)
{
    struct pg_journal *j = journal_of(journal);
    struct reading r = {.read = *at};
    int64_t until_us = clock_steady_us() + NAME_WAIT_US;
    enum status rc;

    while ((rc = pg_connect(&j->looks, why)) == STATUS_CONFLICT &&
           clock_steady_us() < until_us)
        (void)poll(NULL, 0, 200);
    if (!rc)
        rc = read_some(&j->looks, &r, why);
    pg_close(&j->looks); /* the follower's, which also listens */
    return rc;
}

enum status
pg_journal_open(struct journal **journal, const struct pg_options *options,
                const char *dir, uint64_t keep_bytes, struct problem *why)
{
    struct pg_journal *j;
    enum status rc = pg_check_address(options->address, why);

    if (rc)
        return rc;
    j = memory_new(1, sizeof(*j));
    j->journal.ops = options->is_reader ? &reader_ops : &ops;
    j->keep_bytes = keep_bytes;
    j->trimmed = -1;
    pthread_mutex_init(&j->report.mutex, NULL);
    j->kept = (struct kept_records){.dir = dir, .fd = -1};
    j->turns.options = j->looks.options = *options;
    j->looked_us = -LOOK_US; /* at once */
    j->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (j->wake_fd < 0) {
        free(j);
        return problem(why, STATUS_IO, "no descriptor for the journal");
    }
    *journal = &j->journal;
    return STATUS_OK;
}
