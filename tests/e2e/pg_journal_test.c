/*
 * pg_journal_test.c - registries that share a journal in a real PostgreSQL.
 */
#include "broker/journal/pg_journal.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/journal/pg_cluster.h"
#include "broker/journal/pg_connection.h"
#include "tests/support/postgresql.h"
#include "tests/support/set_changes.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define BROKERS 3

/* Of the journal. */
#define KEEP_BYTES ((uint64_t)1 << 30)

struct seat {
    struct pg_options options;
    struct journal *journal;
    struct tempdir dir;
    struct sets s;
};

struct cluster {
    struct postgresql server;
    int64_t patience_us; /* of the next seats */
    struct seat seats[BROKERS];
};

static void
seat_open(struct cluster *c, int i)
{
    static const char *const names[BROKERS] = {"a", "b", "c"};
    struct seat *seat = &c->seats[i];
    struct problem why;

    seat->options = (struct pg_options){.address = c->server.address,
                                        .broker = names[i],
                                        .public_url = SETS_URL,
                                        .instance = names[i],
                                        .durable_by = DURABLE_UNCHECKED,
                                        .clock_us = 60000000,
                                        .patience_us = c->patience_us};
    if (pg_journal_open(&seat->journal, &seat->options, NULL, KEEP_BYTES, &why))
        fail_msg("%s", why.text);
    tempdir_open(&seat->dir);
    sets_configure(&seat->s, seat->dir.path);
    seat->s.journal = seat->journal;
    sets_open(&seat->s);
    if (pg_journal_follow(seat->journal, seat->s.registry->log, &why))
        fail_msg("%s", why.text);
}

static void
seat_close(struct seat *seat)
{
    pg_journal_stop(seat->journal);
    sets_close(&seat->s);
    seat->journal->ops->close(seat->journal);
    tempdir_close(&seat->dir);
}

static int
setup(void **state)
{
    struct cluster *c = calloc(1, sizeof(*c));

    assert_non_null(c);
    postgresql_open(&c->server);
    postgresql_begin_cluster(&c->server, SETS_URL);
    c->patience_us = 3000000;
    for (int i = 0; i < BROKERS; i++)
        seat_open(c, i);
    *state = c;
    return 0;
}

static int
teardown(void **state)
{
    struct cluster *c = *state;

    for (int i = 0; i < BROKERS; i++)
        seat_close(&c->seats[i]);
    free(c);
    return 0;
}

POSTGRESQL_GROUP;
FIXTURE(setup, teardown);

/* A watch that a test waits on. */
struct waiter {
    struct watch watch;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned n;
};

static void
on_wake(struct watch *watch)
{
    struct waiter *w = (struct waiter *)(void *)watch;

    pthread_mutex_lock(&w->mutex);
    w->n++;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

/* Waits until the set has entry `last`. */
static void
await_last(struct set *set, uint64_t last)
{
    struct waiter w = {.watch = {.wake = on_wake},
                       .mutex = PTHREAD_MUTEX_INITIALIZER,
                       .changed = PTHREAD_COND_INITIALIZER};
    struct head head;

    log_watch(set->log, &w.watch);
    pthread_mutex_lock(&w.mutex);
    for (;;) {
        unsigned seen = w.n;

        pthread_mutex_unlock(&w.mutex);
        log_head(set->log, &head);
        pthread_mutex_lock(&w.mutex);
        if (head.last >= last)
            break;
        while (w.n == seen)
            pthread_cond_wait(&w.changed, &w.mutex);
    }
    pthread_mutex_unlock(&w.mutex);
    log_unwatch(set->log, &w.watch);
}

/* Waits until the set ends with entry `last` at all brokers, and compares. */
static void
assert_equal_sets(struct cluster *c, const char *name, uint64_t last)
{
    struct head heads[BROKERS];

    for (int i = 0; i < BROKERS; i++) {
        await_last(sets_find(&c->seats[i].s, name), last);
        heads[i] = sets_head(&c->seats[i].s, name);
        assert_int_equal(heads[i].last, last);
        assert_string_equal(heads[i].epoch, heads[0].epoch);
        assert_int_equal(heads[i].last_us, heads[0].last_us);
        assert_int_equal(heads[i].list, heads[0].list);
        assert_true(digest_is_equal(&heads[i].digest, &heads[0].digest));
    }
}

/* Issue, 2: posts of many brokers at once have one order. */
struct poster {
    struct sets *s;
    unsigned from;
};

static void *
post_many(void *user)
{
    struct poster *p = user;

    for (unsigned i = 0; i < 20; i++)
        (void)sets_post(p->s, "news", p->from + i * 5, 5);
    return NULL;
}

TEST(posts_at_three_brokers_have_one_order)
{
    struct cluster *c = *state;
    struct poster posters[BROKERS];
    pthread_t threads[BROKERS];

    for (int i = 0; i < BROKERS; i++) {
        posters[i] = (struct poster){&c->seats[i].s, 1000 * (unsigned)i};
        assert_int_equal(
            pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    }
    for (int i = 0; i < BROKERS; i++)
        pthread_join(threads[i], NULL);
    assert_equal_sets(c, "news", BROKERS * 100);
}

/* Readers of a broker without posts hear of those of others. */
TEST(a_broker_follows_without_posts)
{
    struct cluster *c = *state;
    struct set *set = sets_unborn(&c->seats[2].s, "news");

    (void)sets_post(&c->seats[0].s, "news", 1, 4);
    await_last(set, 4);
    (void)sets_post(&c->seats[1].s, "news", 5, 1);
    assert_equal_sets(c, "news", 5);
}

/* Changes with each report of broker c. */
static void
get_report(struct cluster *c, char report[32])
{
    snprintf(report, 32, "%s",
             postgresql_query(&c->server, "SELECT xmin FROM tidings_brokers"
                                          " WHERE name = 'c'"));
}

/* A follower reads a record as soon as it is notified, and not with its next
 * report only. */
TEST(a_notification_brings_a_record)
{
    struct cluster *c = *state;
    struct set *set = sets_unborn(&c->seats[2].s, "news");
    char before[32], after[32];
    unsigned n = 0;

    do {
        get_report(c, before);
        n++;
        (void)sets_post(&c->seats[0].s, "news", n, 1);
        await_last(set, n);
        get_report(c, after);
    } while (strcmp(before, after) != 0 && n < 20); /* one was due */
    assert_string_equal(before, after);
}

static struct sets_outcome
try_post(struct cluster *c, int i)
{
    return sets_post_body(
        &c->seats[i].s, "news", "application/json",
        SLICE("{\"loc\":\"http://example.com/x\",\"change\":\"updated\"}"), 0);
}

/* Issue, 7: without PostgreSQL posts are refused; afterwards they go on, and
 * nothing is lost. */
TEST(goes_on_when_the_server_is_back)
{
    struct cluster *c = *state;
    struct sets_outcome outcome;

    (void)sets_post(&c->seats[0].s, "news", 1, 2);
    postgresql_kill();
    outcome = try_post(c, 0);
    assert_int_equal(outcome.rc, STATUS_BUSY);
    assert_non_null(strstr(outcome.why.text, "PostgreSQL"));
    postgresql_start();
    do
        outcome = try_post(c, 0);
    while (outcome.rc == STATUS_BUSY);
    assert_int_equal(outcome.rc, STATUS_OK);
    assert_int_equal(outcome.first, 3);
    do
        outcome = try_post(c, 1);
    while (outcome.rc == STATUS_BUSY);
    assert_int_equal(outcome.first, 4);
    (void)sets_post(&c->seats[2].s, "news", 5, 1);
    assert_equal_sets(c, "news", 5);
}

/* Connections that end at any time cost no order, and no entry that was
 * acknowledged: a post that was refused may be there. */
TEST(goes_on_over_cut_connections)
{
    struct cluster *c = *state;
    struct sets_outcome outcome = {.last = 0};

    for (unsigned i = 0; i < 12; i++) {
        uint64_t before = outcome.last;

        postgresql_query(&c->server,
                         "SELECT count(pg_terminate_backend(pid)) FROM"
                         " pg_stat_activity WHERE application_name ="
                         " 'tidingsd'");
        do
            outcome = try_post(c, (int)(i % BROKERS));
        while (outcome.rc == STATUS_BUSY);
        assert_int_equal(outcome.rc, STATUS_OK);
        assert_true(outcome.first > before);
    }
    assert_equal_sets(c, "news", outcome.last);
}

/* A server that answers before a second machine has a commit is not believed.
 */
TEST(refuses_a_server_that_may_forget)
{
    struct cluster *c = *state;
    struct pg_options options = c->seats[0].options;
    struct pg_connection connection;
    struct problem why;

    options.durable_by = DURABLE_STANDBYS;
    connection = (struct pg_connection){.options = options};
    assert_int_equal(pg_connect(&connection, &why), STATUS_REFUSED);
    assert_string_equal(why.text,
                        "PostgreSQL: its fsync is off: it loses commits with a "
                        "power failure");
}

/* A broker whose network ends in the middle of a turn's statements has the turn
 * until another broker ends its session. */
TEST(a_broker_that_falls_silent_within_its_turn_loses_it)
{
    struct cluster *c = *state;
    struct sets_outcome outcome;
    char address[256];
    PGconn *silent;

    (void)sets_post(&c->seats[0].s, "news", 1, 1);
    snprintf(address, sizeof(address), "%s application_name='tidingsd x'",
             c->server.address);
    silent = PQconnectdb(address);
    assert_true(PQenterPipelineMode(silent));
    assert_true(
        PQsendQueryParams(silent, "BEGIN", 0, NULL, NULL, NULL, NULL, 0));
    assert_true(PQsendQueryParams(silent,
                                  "SELECT n FROM tidings_turn FOR UPDATE", 0,
                                  NULL, NULL, NULL, NULL, 0));
    assert_true(PQsendFlushRequest(silent));
    for (int i = 0; i < 4; i++) /* two results, a NULL after each */
        PQclear(PQgetResult(silent));
    do
        outcome = try_post(c, 0);
    while (outcome.rc == STATUS_BUSY);
    assert_int_equal(outcome.rc, STATUS_OK);
    assert_int_equal(outcome.first, 2);
    PQfinish(silent);
}

/* A host that is silent has its part of the time, and then the next one is
 * asked, which is the first one from then on. */
TEST(asks_the_next_host_when_one_is_silent)
{
    struct cluster *c = *state;
    struct pg_options options = c->seats[0].options;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pg_connection connection;
    struct problem why;
    char address[256];

    assert_int_equal(bind(silent, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(silent, 8), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&at, &size), 0);
    snprintf(address, sizeof(address),
             "host=127.0.0.1,%s port=%d,5432 user=postgres dbname=%s",
             c->server.host, ntohs(at.sin_port), c->server.name);
    options.broker = "d";
    options.address = address;
    options.patience_us = 1000000;
    connection = (struct pg_connection){.options = options};
    if (pg_connect(&connection, &why))
        fail_msg("%s", why.text);
    assert_int_equal(connection.host, 1);
    pg_close(&connection);
    close(silent);
}

/* A journal of other brokers, or an older backup of it. */
TEST(refuses_another_history)
{
    struct cluster *c = *state;
    struct sets_outcome outcome;

    (void)sets_post(&c->seats[0].s, "news", 1, 2);
    postgresql_query(&c->server, "UPDATE tidings_records SET chain ="
                                 " decode(repeat('11', 32), 'hex')");
    postgresql_query(&c->server, "UPDATE tidings_turn SET chain ="
                                 " decode(repeat('11', 32), 'hex')");
    outcome = try_post(c, 0);
    assert_int_equal(outcome.rc, STATUS_BUSY);
    assert_non_null(strstr(outcome.why.text, "another history"));
}

/* Waits until the copy has all that was kept before `us`. */
static void
await_certain(struct log *log, int64_t us)
{
    while (!log_is_certain(log, us))
        sched_yield();
}

/* Issue, 3: a broker that is asked knows what the others had kept before. */
TEST(a_copy_that_is_asked_is_certain)
{
    struct cluster *c = *state;
    struct log *log = c->seats[2].s.registry->log;
    struct log_copy copy;

    for (unsigned i = 0; i < 5; i++) {
        int64_t us;

        (void)sets_post(&c->seats[0].s, "news", i, 1);
        us = clock_steady_us();
        log_ask_journal(log);
        await_certain(log, us);
        assert_int_equal(sets_head(&c->seats[2].s, "news").last, i + 1);
    }
    log_copy(log, &copy);
    assert_false(copy.is_cut_off);
    assert_true(copy.place > 0);
    assert_int_equal(copy.behind, 0);
}

/* Issue, 7: a broker without posts notices, too, that it is cut off, and that
 * it is not any more. */
TEST(a_broker_without_posts_notices_that_it_is_cut_off)
{
    struct cluster *c = *state;
    struct log *log = c->seats[1].s.registry->log;
    struct log_copy copy;

    await_certain(log, clock_steady_us());
    postgresql_kill();
    do
        log_copy(log, &copy);
    while (!copy.is_cut_off);
    assert_non_null(strstr(copy.why.text, "PostgreSQL"));
    assert_true(copy.as_of_us <= clock_now_us());
    postgresql_start();
    await_certain(log, clock_steady_us());
    do /* turns come when all brokers have reported */
        log_copy(log, &copy);
    while (copy.is_cut_off);
}

/* Issue, 7: a post is refused in two seconds, however patient the connection
 * is: another session has the turn, and does not give it back. */
TEST(a_post_waits_for_no_turn_for_long)
{
    struct cluster *c = *state;
    PGconn *other = PQconnectdb(c->server.address);
    struct sets_outcome outcome;

    seat_close(&c->seats[0]);
    c->patience_us = INT64_C(3600000000);
    seat_open(c, 0);
    (void)sets_post(&c->seats[0].s, "news", 1, 1);
    PQclear(PQexec(other, "BEGIN"));
    PQclear(PQexec(other, "SELECT n FROM tidings_turn FOR UPDATE"));
    outcome = try_post(c, 0);
    assert_int_equal(outcome.rc, STATUS_BUSY);
    assert_string_equal(outcome.why.text,
                        "PostgreSQL: it did not answer in time");
    PQfinish(other);
    do
        outcome = try_post(c, 0);
    while (outcome.rc == STATUS_BUSY);
    assert_int_equal(outcome.first, 2);
}

/* A session of a process that has the name of a broker, and has been silent for
 * so many seconds. */
static PGconn *
take_name(struct cluster *c, const char *name, int silent_s)
{
    PGconn *session;
    char text[256];

    snprintf(text, sizeof(text), "%s application_name='tidingsd x'",
             c->server.address);
    session = PQconnectdb(text);
    assert_int_equal(PQstatus(session), CONNECTION_OK);
    snprintf(text, sizeof(text),
             "INSERT INTO tidings_brokers AS b(name, instance, at)"
             " VALUES('%s', 'x', now() - interval '%d s')"
             " ON CONFLICT(name) DO UPDATE SET instance = 'x',"
             " at = now() - interval '%d s'",
             name, silent_s, silent_s);
    postgresql_query(&c->server, text);
    return session;
}

/* A broker that stood still for long does not go on beside the one that was
 * started in its place. */
TEST(a_broker_whose_name_was_taken_takes_no_posts)
{
    struct cluster *c = *state;
    struct sets_outcome outcome;
    PGconn *other;

    (void)sets_post(&c->seats[0].s, "news", 1, 1);
    other = take_name(c, "a", -86400);
    outcome = try_post(c, 0);
    assert_int_equal(outcome.rc, STATUS_BUSY);
    assert_non_null(strstr(outcome.why.text, "the name"));
    (void)sets_post(&c->seats[1].s, "news", 2, 1);
    PQfinish(other);
    do
        outcome = try_post(c, 0);
    while (outcome.rc == STATUS_BUSY);
    assert_int_equal(outcome.first, 3);
}

/* Would the log append to this journal, which it has followed up to `at`,
 * without a turn? While no log thread uses it: between two posts that had their
 * turns. */
static bool
presumes(struct journal *journal, const struct journal_place *at)
{
    int64_t now_us;

    return journal->ops->presume(journal, at, &now_us);
}

static bool
posts_presume(struct seat *seat)
{
    struct journal_place at;

    log_place(seat->s.registry->log, &at);
    return presumes(seat->journal, &at);
}

/* A broker that is alone waits for no turn, for a second after its last one. A
 * broker that hears of records of others too late is not alone. */
TEST(a_broker_that_is_alone_presumes_its_turns)
{
    struct cluster *c = *state;
    struct journal_place at;
    unsigned n = 0;

    do
        (void)sets_post(&c->seats[0].s, "news", ++n, 1);
    while (!posts_presume(&c->seats[0]));
    pg_journal_stop(c->seats[0].journal); /* its follower */
    (void)sets_post(&c->seats[1].s, "news", ++n, 1);
    (void)sets_post(&c->seats[0].s, "news", ++n, 1);
    assert_false(posts_presume(&c->seats[0]));
    await_last(sets_unborn(&c->seats[2].s, "news"), n);
    assert_equal_sets(c, "news", n);
    postgresql_kill();
    assert_int_equal(try_post(c, 0).rc, STATUS_BUSY);
    log_place(c->seats[0].s.registry->log, &at);
    sets_close(&c->seats[0].s); /* its log thread asks for turns by itself */
    assert_false(presumes(c->seats[0].journal, &at));
    postgresql_start();
    sets_open(&c->seats[0].s);
}

/* The session of a vanished machine keeps its name for some seconds only. */
TEST(a_start_waits_for_the_name_of_a_killed_process)
{
    static const struct journal_place nowhere = {.n = 0};
    struct cluster *c = *state;
    struct pg_options options = c->seats[0].options;
    struct journal *journal;
    struct problem why;
    PGconn *other = take_name(c, "d", 3);

    options.broker = options.instance = "d";
    assert_int_equal(
        pg_journal_open(&journal, &options, NULL, KEEP_BYTES, &why), 0);
    if (pg_journal_check(journal, &nowhere, &why))
        fail_msg("%s", why.text);
    journal->ops->close(journal);
    PQfinish(other);
}
