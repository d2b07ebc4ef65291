#include "broker/journal/pg_journal.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "broker/base/diag.h"
#include "broker/log/kept_records.h"
#include "broker/log/log.h"

/* A turn hands over so many records at most: nobody else gets the turn
 * meanwhile. A copy that is farther behind follows without a turn first. */
#define TURN_RECORDS 1000

/* Of one look: records in memory, beside the last one. */
#define LOOK_BYTES "16000000"

/* After a failure, the next attempt to connect. Turns before that fail at once:
 * the log thread has other things to do than to wait. */
#define RETRY_US 500000

/* The log refuses a post after two seconds without the journal. It waits
 * TURN_US for a turn, and until POST_US for the end of an append, but for
 * APPEND_MIN_US at least: an append without an answer may be kept. */
#define TURN_US       1500000
#define POST_US       2000000
#define APPEND_MIN_US 500000

/* The follower looks once in LOOK_US, and SOON_US after its last look if
 * readers wait for one: each look costs a commit. */
#define LOOK_US 1000000
#define SOON_US 20000

/* How often it says how far this copy is, and trims. */
#define REPORT_US 1000000

/* A start waits so long for the name of a process that was killed, and whose
 * session the server has not missed yet (pg_connection.c). */
#define NAME_WAIT_US 7000000

/* A broker whose last turn brought no record of others presumes its next ones
 * for so long. So the journal's time is asked for each second, and what the
 * clocks differ in meanwhile is less than a turn takes. */
#define PRESUME_US 1000000

/* The last number, and the time, for a process that has its broker's name. The
 * time is never before that of the last record, whichever server has the row.
 * Under READ COMMITTED, later statements of the transaction see every commit
 * from before the lock. */
#define TAKE_TURN                                                        \
    "SELECT n, greatest(at_us + 1,"                                      \
    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), chain" \
    " FROM tidings_turn WHERE one = 1 AND EXISTS (SELECT FROM"           \
    "  tidings_brokers WHERE name = $1 AND instance = $2) FOR UPDATE"

/* Begins a transaction that presumes the turn. Tests know such a transaction by
 * these words. */
#define PRESUME "START TRANSACTION"

/* Adds a record within a turn, or without one if no broker has the turn: that
 * broker would be first. The values are those of PG_APPEND_IF, the instance $6,
 * and the chain of the record before, $7. */
#define APPEND                                                             \
    PG_APPEND_IF("one = (SELECT one FROM tidings_turn WHERE one = 1 AND"   \
                 " n = $1::bigint - 1 AND chain = $7::bytea AND EXISTS"    \
                 " (SELECT FROM tidings_brokers WHERE name = $4::text AND" \
                 "  instance = $6::text) FOR UPDATE SKIP LOCKED)")

/* The chain at a number, and the records behind it. */
#define READ_RECORDS                                                     \
    "SELECT n, chain, record FROM"                                       \
    " (SELECT n, chain, CASE WHEN n > $1 THEN record END AS record,"     \
    "   coalesce(sum(length(record)) OVER (ORDER BY n ROWS BETWEEN"      \
    "    UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before"             \
    "  FROM tidings_records WHERE n >= $1 ORDER BY n LIMIT 256) AS part" \
    " WHERE before <= " LOOK_BYTES

#define NAME_LOST "another process has taken the name of this broker"

/* Returns a row if the name is still this process's. */
#define REPORT                                      \
    "UPDATE tidings_brokers SET at = now(), n = $3" \
    " WHERE name = $1 AND instance = $2 RETURNING name"

#define LAST "SELECT n FROM tidings_turn"

/* Forgets the oldest records while there are more bytes than $1, some thousand
 * at once; the last one stays. A look at the oldest one is all as long as there
 * are no more. */
#define TRIM                                                                \
    "DELETE FROM tidings_records WHERE n = ANY (ARRAY("                     \
    " SELECT oldest.n FROM tidings_turn t, (SELECT n, bytes FROM"           \
    "  tidings_records WHERE (SELECT bytes FROM tidings_records ORDER BY n" \
    "   LIMIT 1) < (SELECT bytes - $1::bigint FROM tidings_turn)"           \
    "  ORDER BY n LIMIT 4096) AS oldest"                                    \
    " WHERE oldest.n < t.n AND oldest.bytes < t.bytes - $1::bigint))"

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
    bool is_presumed; /* the log has no turn, and appends */
    struct kept_records kept; /* likewise */

    /* The follower's. */
    struct thread thread;
    struct pg_connection looks;
    struct log *log;
    uint64_t keep_bytes;
    int64_t report_at_us;    /* steady clock */
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
    journal_take_fn *take;
    void *user;
    uint64_t end;   /* number of the last record, by the turn; 0: unknown */
    int64_t now_us; /* likewise */
    struct digest chain;
    struct journal_place read; /* how far it has read */
};

static enum status
say_different(struct problem *why, uint64_t n)
{
    return problem(why, STATUS_DIFFERENT,
                   "the journal has another history than this broker, which "
                   "has record %llu",
                   (unsigned long long)n);
}

/* Reads a part of the records behind r->read. */
static enum status
on_records(struct pg_rows *rows, void *user, struct problem *why)
{
    struct reading *r = user;
    struct journal_place place;
    struct slice record;
    enum status rc = STATUS_OK;

    if (r->end > r->read.n + TURN_RECORDS)
        return problem(why, STATUS_BUSY,
                       "this broker is still %llu records behind the others",
                       (unsigned long long)(r->end - r->read.n));
    /* The first row is the last record that this copy has. Record 0 is where
     * the cluster began. */
    if (!PG_NEXT(rows, &place.n, &place.chain))
        return problem(why, STATUS_DIFFERENT,
                       "the journal ends before record %llu, which this broker "
                       "has: it has lost records",
                       (unsigned long long)r->read.n);
    if (place.n != r->read.n)
        return problem(why, STATUS_GONE,
                       "the journal does not keep the records behind %llu any "
                       "more, where this broker is: make a new data directory "
                       "with tidingsd cluster join",
                       (unsigned long long)r->read.n);
    if (!digest_is_equal(&place.chain, &r->read.chain))
        return say_different(why, r->read.n);
    while (!rc && PG_NEXT(rows, &place.n, &place.chain, &record)) {
        if (place.n != r->read.n + 1)
            return say_different(why, r->read.n);
        rc = r->take(&place, record, r->user, why);
        if (!rc)
            r->read = place;
    }
    return rc;
}

#define READ_BEHIND(r)                                                         \
    {                                                                          \
        READ_RECORDS, DB_VALUES((r)->read.n), .each = on_records, .user = (r), \
                                              .is_frequent = true,             \
    }

static enum status
read_some(struct pg_connection *c, struct reading *r, struct problem *why)
{
    const struct pg_statement look = READ_BEHIND(r);

    return pg_run(c, &look, 1, why);
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

static enum status
begin_turn(struct pg_journal *j, struct reading *r, struct problem *why)
{
    const struct pg_options *o = &j->turns.options;
    const struct pg_statement statements[] = {
        {"BEGIN"},
        {TAKE_TURN, DB_VALUES(o->broker, o->instance),
         .into = DB_INTO(&r->end, &r->now_us, &r->chain),
         .absent = STATUS_REFUSED, .reason = NAME_LOST, .is_frequent = true},
        READ_BEHIND(r),
    };
    enum status rc = pg_run(&j->turns, statements, 3, why);

    while (!rc && r->read.n < r->end)
        rc = read_some(&j->turns, r, why);
    if (!rc && !digest_is_equal(&r->chain, &r->read.chain))
        rc = say_different(why, r->end);
    return rc;
}

static enum status
pg_turn(struct journal *journal, const struct journal_place *at,
        journal_take_fn *take, void *user, int64_t *now_us, struct problem *why)
{
    struct pg_journal *j = journal_of(journal);
    struct reading r = {.take = take, .user = user, .read = *at};
    bool was_kept = j->turns.handle != NULL;
    uint64_t before = at->n; /* it moves with the records */
    enum status rc;

    j->is_presumed = false;
    j->asked_turn_us = clock_steady_us();
    j->turns.until_us = j->asked_turn_us + TURN_US;
    if (!was_kept && clock_steady_us() < j->retry_at_us)
        return problem(why, STATUS_UNREACHABLE, "%s", j->last.text);
    rc = pg_connect(&j->turns, &j->last);
    if (!rc)
        rc = begin_turn(j, &r, &j->last);
    /* A kept connection may have ended long ago: one more attempt, if there is
     * time, which hands over what the first one did not. */
    if (rc == STATUS_IO && was_kept && clock_steady_us() < j->turns.until_us) {
        rc = pg_connect(&j->turns, &j->last);
        if (!rc)
            rc = begin_turn(j, &r, &j->last);
    }
    if (!rc) {
        *now_us = j->now_us = j->turn_now_us = r.now_us;
        j->before = r.read.chain;
        j->had_turn_us = clock_steady_us();
        j->is_alone = r.read.n == before;
        return STATUS_OK;
    }
    pg_release(journal);
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

    if (!j->is_alone || since_us > PRESUME_US || !pg_is_quiet(&j->turns))
        return false;
    j->is_presumed = true;
    j->before = at->chain;
    j->asked_turn_us = steady_us;
    j->now_us = j->turn_now_us + since_us > j->now_us
                    ? j->turn_now_us + since_us
                    : j->now_us + 1;
    *now_us = j->now_us;
    return true;
}

/* The statements that end a turn, without their values. A presumed turn has the
 * first one, too. */
enum { END_BEGIN, END_APPEND, END_COMMIT, END_STANDBY, N_END };
static const struct pg_statement ends[N_END] = {
    [END_BEGIN] = {PRESUME},
    [END_APPEND] = {APPEND, .absent = STATUS_CONFLICT,
                    .reason = "another broker was first", .is_frequent = true},
    [END_COMMIT] = {"COMMIT", .is_frequent = true},
    [END_STANDBY] = PG_WAITS_FOR_STANDBY(),
};

/* Any thread. */
static void
pg_look(struct journal *journal)
{
    struct pg_journal *j = journal_of(journal);

    atomic_store_explicit(&j->is_asked, true, memory_order_relaxed);
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
}

static enum status
note_appended(struct pg_journal *j, enum status rc)
{
    if (rc)
        j->is_alone = false;
    if (rc == STATUS_IO) {
        atomic_store_explicit(&j->own_pid, 0, memory_order_relaxed);
        pg_look(&j->journal); /* the record may be there */
    }
    /* The server refused a statement before COMMIT: nothing is kept. */
    return rc == STATUS_REFUSED ? STATUS_UNREACHABLE : rc;
}

static enum status
pg_append(struct journal *journal, const struct journal_place *place,
          struct slice record, struct problem *why)
{
    struct pg_journal *j = journal_of(journal);
    const struct pg_options *o = &j->turns.options;
    struct pg_statement statements[N_END];
    size_t first = j->is_presumed ? END_BEGIN : END_APPEND;

    memcpy(statements, ends, sizeof(ends));
    statements[END_APPEND].values =
        DB_VALUES(place->n, &place->chain, j->now_us, o->broker, record,
                  o->instance, &j->before);
    statements[END_STANDBY].values = DB_VALUES(o->is_unsafe);
    limit_append(j);
    atomic_store_explicit(&j->own_pid, pg_session(&j->turns),
                          memory_order_relaxed);
    return note_appended(
        j, pg_send(&j->turns, statements + first, N_END - first, why));
}

static enum status
pg_outcome(struct journal *journal, struct problem *why)
{
    struct pg_journal *j = journal_of(journal);
    size_t first = j->is_presumed ? END_BEGIN : END_APPEND;

    /* Once more, for the log thread may have waited for its own disk: the
     * server has answered meanwhile. */
    limit_append(j);
    return note_appended(j, pg_receive(&j->turns, ends + first, why));
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

    if (atomic_load_explicit(&j->is_stopping, memory_order_relaxed))
        return STATUS_STOPPED;
    return log_post_and_wait(j->log, &post, why);
}

/* Follows all that there is. */
static enum status
catch_up(struct pg_journal *j, struct problem *why)
{
    struct reading r = {.take = hand_over, .user = j};
    uint64_t before;
    enum status rc;

    log_place(j->log, &r.read);
    do {
        before = r.read.n;
        rc = read_some(&j->looks, &r, why);
    } while (!rc && r.read.n > before);
    return rc;
}

/* Reports how far this copy is, and that this process lives; trims. */
static enum status
report_place(struct pg_journal *j, struct problem *why)
{
    struct journal_place place;
    const struct pg_options *o = &j->looks.options;
    uint64_t end = 0;
    bool is_due = clock_steady_us() >= j->report_at_us;
    bool trims = is_due && !o->is_reader;
    enum status rc;

    log_place(j->log, &place);
    {
        const struct pg_statement statements[] = {
            {REPORT, DB_VALUES(o->broker, o->instance, place.n),
             .absent = STATUS_REFUSED, .reason = NAME_LOST},
            PG_WAITS_FOR_STANDBY(DB_VALUES(o->is_unsafe), ),
            {LAST, .into = DB_INTO(&end)},
            {TRIM, DB_VALUES(j->keep_bytes)},
        };

        rc = pg_run(&j->looks, statements, trims ? 4 : 3, why);
    }
    if (!rc)
        log_note_end(j->log, end);
    if (rc == STATUS_REFUSED)
        pg_close(&j->looks); /* claims the name, or learns who has it */
    if (is_due)
        j->report_at_us = clock_steady_us() + REPORT_US;
    return rc;
}

/* How long until the next look at the end. */
static int64_t
time_to_look(const struct pg_journal *j)
{
    bool is_asked = atomic_load_explicit(&j->is_asked, memory_order_relaxed);

    if (atomic_load_explicit(&j->is_stopping, memory_order_relaxed))
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
    int64_t wait_us;

    (void)eventfd_read(j->wake_fd, &n); /* before the look at is_asked */
    if (!rc && is_new)
        rc = pg_run(&j->looks, &listen, 1, why);
    if (!rc && time_to_look(j) <= 0) {
        /* Follows all records that the journal has kept before this look. The
         * report is a commit: it proves that this server is the primary still.
         * Another one might show fewer records than a client has heard of. */
        atomic_store_explicit(&j->is_asked, false, memory_order_relaxed);
        j->looked_us = clock_steady_us();
        rc = report_place(j, why);
        if (!rc)
            rc = catch_up(j, why);
        if (!rc)
            log_note_copy(j->log, j->looked_us, STATUS_OK, NULL);
    } else if (!rc && (is_new || j->is_notified)) {
        rc = catch_up(j, why);
    }
    if (rc) {
        j->is_notified = true; /* the next attempt catches up */
        return rc;
    }
    wait_us = time_to_look(j);
    return pg_listen(&j->looks, j->wake_fd, wait_us > 0 ? wait_us : 0,
                     atomic_load_explicit(&j->own_pid, memory_order_relaxed),
                     &j->is_notified, why);
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

        bool is_away;

        if (rc && rc != STATUS_STOPPED)
            log_note_copy(j->log, 0, rc, &why);
        is_away = rc && rc != STATUS_STOPPED;
        if (is_away && !j->is_away)
            DIAG(DIAG_WARNING, "journal",
                 "changes of other brokers do not come",
                 diag_text("error", why.text));
        else if (!is_away && j->is_away)
            diag(DIAG_WARNING, "journal",
                 "changes of other brokers come again");
        j->is_away = is_away;
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

    atomic_store_explicit(&j->is_stopping, true, memory_order_relaxed);
    (void)eventfd_write(j->wake_fd, 1);
    thread_stop(&j->thread);
}

/* Opening */

static void
pg_journal_close(struct journal *journal)
{
    struct pg_journal *j = journal_of(journal);

    pg_journal_stop(journal);
    pg_close(&j->turns);
    kept_records_fini(&j->kept);
    close(j->wake_fd);
    free(j);
}

static const struct journal_ops ops = {
    .turn = pg_turn,
    .presume = pg_presume,
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

/* A reading that wants no record: the check of the first row is all. */
static enum status
want_none(const struct journal_place *place, struct slice record, void *user,
          struct problem *why)
{
    (void)place;
    (void)record;
    (void)user;
    return problem(why, STATUS_STOPPED, "enough");
}

enum status
pg_journal_check(struct journal *journal, const struct journal_place *at,
                 struct problem *why)
{
    struct pg_journal *j = journal_of(journal);
    struct reading r = {.take = want_none, .read = *at};
    int64_t until_us = clock_steady_us() + NAME_WAIT_US;
    enum status rc;

    while ((rc = pg_connect(&j->looks, why)) == STATUS_CONFLICT &&
           clock_steady_us() < until_us)
        (void)poll(NULL, 0, 200);
    if (!rc)
        rc = read_some(&j->looks, &r, why);
    pg_close(&j->looks); /* the follower's, which also listens */
    return rc == STATUS_STOPPED ? STATUS_OK : rc;
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
    kept_records_init(&j->kept, dir);
    pg_init(&j->turns, options);
    pg_init(&j->looks, options);
    atomic_init(&j->is_asked, false);
    atomic_init(&j->own_pid, 0);
    atomic_init(&j->is_stopping, false);
    j->looked_us = -LOOK_US; /* at once */
    j->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (j->wake_fd < 0) {
        free(j);
        return problem(why, STATUS_IO, "no descriptor for the journal");
    }
    *journal = &j->journal;
    return STATUS_OK;
}
