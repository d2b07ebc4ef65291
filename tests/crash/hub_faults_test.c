/*
 * hub_faults_test.c - hub.db meets faults: a disk that is full or fails while
 * requests, deliveries and documents are kept, a kill at any write, and files
 * that are damaged, missing, or of another time.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/db.h"
#include "tests/support/faults.h"
#include "tests/support/hub_stage.h"
#include "tests/support/origin.h"
#include "tests/support/patience.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

#define DB  "hub.db"
#define WAL "hub.db-wal"

/* What is kept without an fsync meets no fault of one. */
struct fault {
    int calls, outcome;
};

static const struct fault any_fault[] = {
    {PLAN_WRITE, ENOSPC},
    {PLAN_WRITE, EIO},
    {PLAN_SYNC, EIO},
    {PLAN_SYNC, ENOSPC},
};

/* One at a time: of the brokers that are started meanwhile. */
static struct faults faults;

static int
set_up(void **state)
{
    *state = NULL;
    faults_open(&faults);
    return 0;
}

static int
tear_down(void **state)
{
    faults_disarm(&faults);
    hub_stage_teardown(state);
    faults_close(&faults);
    return 0;
}

static const char *
path_in(const struct hub_stage *s, const char *name)
{
    static char path[600];

    snprintf(path, sizeof(path), "%s/%s", s->broker.data, name);
    return path;
}

/* Asks for a subscription, which cannot be kept. */
static void
subscribe_in_vain(struct hub_stage *s, const struct callback *cb,
                  const char *lease)
{
    HUB_SUBSCRIBE(&s->http, .set = HUB_SET, .callback = callback_url(cb),
                  .lease = lease);
    hub_assert_refused(&s->http, 503, "cannot be kept");
}

/* A disk that is full, or fails */

FIXTURE(set_up, tear_down);

/* W-031, W-032: what was refused is not there, nor done later; and nothing is
 * wrong with what is asked for when there is room. */
TEST(a_request_that_cannot_be_kept_is_refused)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);

    for (size_t i = 0; i < N(any_fault); i++) {
        struct callback *cb;
        char target[40];
        size_t n = hub_count(&s->http, HUB_SET);

        snprintf(target, sizeof(target), "/cb/%zu", i);
        cb = callbacks_add(s->callbacks, target);
        faults_arm(&faults, any_fault[i].calls, WAL, 0, any_fault[i].outcome);
        for (int times = 0; times < 3; times++)
            subscribe_in_vain(s, cb, NULL);
        assert_int_equal(hub_count(&s->http, HUB_SET), n);
        assert_true(faults_disarm(&faults) >= 3);

        hub_join(&s->http, HUB_SET, cb);
        assert_int_equal(callback_count(cb, SEEN_VERIFICATION), 1);
        callback_await_last(cb, hub_stage_post(s, 2));
    }
    assert_true(broker_said(&s->broker, "hub.db was not written"));
    hub_stage_end(s);
}

/* W-036, W-074: of a pair that is asked for again and again the newest request
 * counts, also where one in between could not be kept, and also after a kill.
 */
TEST(an_older_request_does_not_come_back)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    struct callback *other = callbacks_add(s->callbacks, "/cb/2");
    size_t n_old = 0, n;

    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.kind = MANNER_HANG, .times = 2});
    hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                             .callback = callback_url(cb),
                                             .lease = "1111"));
    callback_await(cb, SEEN_VERIFICATION, 1);
    faults_arm(&faults, PLAN_WRITE, WAL, 0, ENOSPC);
    subscribe_in_vain(s, cb, "2222");
    faults_disarm(&faults);
    hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                             .callback = callback_url(cb),
                                             .lease = "3333"));
    seen_assert_parameter(callback_await(cb, SEEN_VERIFICATION, 2),
                          "hub.lease_seconds", "3333");
    broker_kill9(&s->broker);
    broker_restart(&s->broker);

    hub_await_active(&s->http, HUB_SET, callback_url(cb));
    hub_join(&s->http, HUB_SET, other); /* all that came before was asked */
    n = callback_count(cb, SEEN_VERIFICATION);
    for (size_t i = 0; i < n; i++) {
        char lease[40];

        seen_parameter(callback_seen(cb, SEEN_VERIFICATION, i),
                       "hub.lease_seconds", lease, sizeof(lease));
        n_old += !strcmp(lease, "1111");
        assert_string_not_equal(lease, "2222");
    }
    assert_int_equal(n_old, 1);
    hub_stage_end(s);
}

static bool
lags(const struct hub_state *state)
{
    return state->lag > 0;
}

/* W-074, R-306: nothing goes out whose range is not kept; and nothing is lost.
 */
TEST(a_delivery_waits_until_its_range_is_kept)
{
    static const int outcomes[] = {ENOSPC, EIO};
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = hub_stage_join(s, "/cb/1");
    uint64_t last = 0;

    for (size_t i = 0; i < N(outcomes); i++) {
        struct callback *more;
        char target[40];
        size_t n = callback_count(cb, SEEN_DELIVERY);
        struct patience p = {.with = "the fourth write to fail"};

        snprintf(target, sizeof(target), "/cb/more/%zu", i);
        more = callbacks_add(s->callbacks, target);
        faults_arm(&faults, PLAN_WRITE, WAL, 0, outcomes[i]);
        last = hub_stage_post(s, 3);
        faults_await(&faults);
        subscribe_in_vain(s, more, NULL);
        last = hub_stage_post(s, 3);
        hub_await(&s->http, HUB_SET, callback_url(cb), lags, "lag");
        while (faults_met(&faults) < 4) /* one a second */
            patience_step(&p);
        assert_int_equal(callback_count(cb, SEEN_DELIVERY), n);
        faults_disarm(&faults);
        callback_await_last(cb, last);
        assert_int_equal(callback_journal(cb).n_holes, 0);
        hub_join(&s->http, HUB_SET, more);
    }
    broker_kill9(&s->broker);
    broker_restart(&s->broker);
    callback_await_last(cb, hub_stage_post(s, 1));
    assert_int_equal(callback_journal(cb).n_holes, 0);
    hub_stage_end(s);
}

/* W-072, R-305, R-306: who has left, and where the others are, is made good. */
TEST(what_could_not_be_kept_is_kept_later)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);

    for (size_t i = 0; i < N(any_fault); i++) {
        struct callback *stays, *leaves;
        struct hub_state kept;
        char target[40];
        size_t n;

        snprintf(target, sizeof(target), "/cb/stays/%zu", i);
        stays = hub_stage_join(s, target);
        snprintf(target, sizeof(target), "/cb/leaves/%zu", i);
        leaves = hub_stage_join(s, target);
        CALLBACK_DOES(stays, SEEN_DELIVERY, {.waits = true, .times = 1});
        CALLBACK_DOES(leaves, SEEN_DELIVERY,
                      {.status = 410, .waits = true, .times = 1});
        n = hub_count(&s->http, HUB_SET);
        hub_stage_post(s, 1);
        callback_await(stays, SEEN_DELIVERY, 1);
        callback_await(leaves, SEEN_DELIVERY, 1);
        faults_arm(&faults, any_fault[i].calls, WAL, 0, any_fault[i].outcome);
        callback_release(leaves);
        callback_release(stays);
        faults_await(&faults);
        hub_await_gone(&s->http, HUB_SET, callback_url(leaves));
        faults_disarm(&faults);
        /* Whatever is kept from now on has it. */
        hub_assert_taken(&s->http,
                         HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                       .callback = callback_url(stays)));
        broker_kill9(&s->broker);
        broker_restart(&s->broker);

        assert_false(hub_look(&s->http, HUB_SET, callback_url(leaves), &kept));
        hub_await_active(&s->http, HUB_SET, callback_url(stays));
        callback_await_last(stays, hub_stage_post(s, 1));
        hub_await_count(&s->http, HUB_SET, n - 1);
        assert_int_equal(callback_count(leaves, SEEN_DELIVERY), 1);
    }
    hub_stage_end(s);
}

/* Relays */

static const char *const json[] = {"Content-Type: application/json", NULL};

static long
notify(struct hub_stage *s, const char *topic, const char *text)
{
    char links[900];
    const char *headers[] = {"Content-Type: text/plain", links, NULL};

    snprintf(links, sizeof(links),
             "Link: <%s>; rel=\"self\", <%s>; rel=\"hub\"", topic, s->hub.text);
    return http_request(&s->http, "POST", "/hub", headers,
                        (struct slice){text, strlen(text)});
}

/* a document is answered when it is kept, and delivered when it
 * is kept. (Of an fsync that fails nobody knows what it has done: after a kill
 * the document may be there. Whoever was told 503 repeats it, and it is there
 * once.) */
TEST(a_document_that_cannot_be_kept_is_refused)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct origin *origin = origin_new("/feed");
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    const char *topic = origin_url(origin);
    char body[400];

    origin_names(origin, topic, s->hub.text);
    snprintf(body, sizeof(body), "{\"topic\":\"%s\"}", topic);
    for (size_t i = 0; i < N(any_fault); i++) {
        faults_arm(&faults, any_fault[i].calls, WAL, 0, any_fault[i].outcome);
        assert_int_equal(http_request(&s->http, "PUT", "/relays/feed", json,
                                      (struct slice){body, strlen(body)}),
                         503);
        faults_disarm(&faults);
        assert_int_equal(http_get(&s->http, "/relays/feed"), 404);
    }
    assert_int_equal(http_request(&s->http, "PUT", "/relays/feed", json,
                                  (struct slice){body, strlen(body)}),
                     201);
    hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .topic = topic,
                                             .callback = callback_url(cb)));
    callback_await(cb, SEEN_VERIFICATION, 1);
    assert_int_equal(notify(s, topic, "first"), 200);
    callback_await(cb, SEEN_DELIVERY, 1);

    for (size_t i = 0; i < N(any_fault); i++) {
        const struct seen *seen;
        char text[40];

        snprintf(text, sizeof(text), "document %zu", i);
        faults_arm(&faults, any_fault[i].calls, WAL, 0, any_fault[i].outcome);
        assert_int_equal(notify(s, topic, i < 2 ? "not kept" : text), 503);
        assert_int_equal(notify(s, topic, text), 503);
        assert_true(faults_disarm(&faults) >= 2);
        if (i % 2 == 1) {
            broker_kill9(&s->broker);
            broker_restart(&s->broker);
        }
        assert_int_equal(notify(s, topic, text), 200);
        callback_await_accepted(cb, i + 2);
        seen = callback_seen(cb, SEEN_DELIVERY,
                             callback_count(cb, SEEN_DELIVERY) - 1);
        assert_string_equal(seen->body, text);
    }
    for (size_t i = 0; i < callback_count(cb, SEEN_DELIVERY); i++)
        assert_string_not_equal(callback_seen(cb, SEEN_DELIVERY, i)->body,
                                "not kept");
    origin_free(origin);
    hub_stage_end(s);
}

/* Killed in the middle of a write */

/* Posts, to a broker that may be killed meanwhile. */
static void
post_once(struct hub_stage *s, unsigned n)
{
    struct buf body;

    buf_init(&body, 1 << 20);
    source_entries(&body, s->n_posted, n, 0);
    s->n_posted += n;
    source_send(&s->http, HUB_SET, "application/json", buf_slice(&body), NULL);
    buf_fini(&body);
}

/* W-074, W-091, R-306: whichever write is the last. */
TEST(a_kill_at_any_write_loses_nothing)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *all[4];
    uint64_t last;

    for (size_t i = 0; i < N(all); i++) {
        char target[40];

        snprintf(target, sizeof(target), "/cb/%zu", i);
        all[i] = hub_stage_join(s, target);
    }
    for (int n = 0; n < 24; n++) {
        faults_arm(&faults, n % 4 == 3 ? PLAN_SYNC : PLAN_WRITE, WAL,
                   n % 4 == 3 ? n / 8 : n, PLAN_KILL);
        while (faults_met(&faults) == 0)
            post_once(s, 1 + (unsigned)n % 5);
        assert_int_equal(broker_wait(&s->broker), 128 + SIGKILL);
        faults_disarm(&faults);
        broker_restart(&s->broker);
    }
    last = hub_stage_post(s, 1);
    for (size_t i = 0; i < N(all); i++) {
        struct trace t;

        callback_await_last(all[i], last);
        assert_int_equal(callback_journal(all[i]).n_holes, 0);
        callback_trace(all[i], &t);
        assert_int_equal(t.last, last);
        trace_fini(&t);
    }
    hub_stage_end(s);
}

static void
remove_set(struct hub_stage *s)
{
    http_request(&s->http, "DELETE", "/sets/" HUB_SET, NULL, SLICE(""));
}

/* W-031, W-042, W-044: the set was removed, and the broker killed before that
 * could be written, or told, to those who belong to it. */
TEST(who_waited_for_a_removed_set_is_denied_after_a_kill)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *waits = callbacks_add(s->callbacks, "/cb/waits");
    struct callback *gets = hub_stage_join(s, "/cb/gets");
    struct callback *all[] = {waits, gets};

    CALLBACK_DOES(waits, SEEN_VERIFICATION, {.kind = MANNER_HANG, .times = 1});
    hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                             .callback = callback_url(waits)));
    callback_await(waits, SEEN_VERIFICATION, 1);
    faults_arm(&faults, PLAN_WRITE, WAL, 0, PLAN_KILL);
    remove_set(s);
    assert_int_equal(broker_wait(&s->broker), 128 + SIGKILL);
    faults_disarm(&faults);
    for (size_t i = 0; i < N(all); i++) /* nothing is told that is not kept */
        assert_int_equal(callback_count(all[i], SEEN_DENIAL), 0);
    broker_restart(&s->broker);

    for (size_t i = 0; i < N(all); i++) {
        const struct seen *denial = callback_await(all[i], SEEN_DENIAL, 1);

        seen_assert_parameter(denial, "hub.topic", s->topic.text);
        seen_assert_parameter(denial, "hub.reason", "the topic is no more");
    }
    broker_stop(&s->broker);
    broker_restart(&s->broker); /* and that was all */
    assert_int_equal(
        http_request(&s->http, "PUT", "/sets/" HUB_SET, json, SLICE("{}")),
        201);
    assert_int_equal(hub_count(&s->http, HUB_SET), 0);
    hub_stage_fence(s, hub_stage_join(s, "/cb/fence"));
    for (size_t i = 0; i < N(all); i++) {
        assert_int_equal(callback_count(all[i], SEEN_DENIAL), 1);
        assert_int_equal(callback_count(all[i], SEEN_DELIVERY), 0);
    }
    hub_stage_end(s);
}

/* Files */

static void
remove_files(const struct hub_stage *s, const char *name)
{
    static const char *const ends[] = {"", "-wal", "-shm"};

    for (size_t i = 0; i < N(ends); i++) {
        char path[600];

        snprintf(path, sizeof(path), "%s/%s%s", s->broker.data, name, ends[i]);
        unlink(path);
    }
    assert_int_not_equal(access(path_in(s, name), F_OK), 0);
}

static void
run_command(const char *format, const char *a, const char *b)
{
    char command[1300];

    snprintf(command, sizeof(command), format, a, b);
    assert_int_equal(system(command), 0);
}

/* A start ends with 1, names the file, says why, and has not changed it. */
static void
assert_not_started(struct hub_stage *s, const char *reason)
{
    char said[4000], copy[600];
    int status;

    snprintf(copy, sizeof(copy), "%s/copy", s->broker.dir.path);
    run_command("cp '%s' '%s'", path_in(s, DB), copy);
    status = broker_run(said, sizeof(said), "--listen", "127.0.0.1:0", "--data",
                        s->broker.data, NULL);
    if (status != 1 || !strstr(said, path_in(s, DB)) || !strstr(said, reason) ||
        strstr(said, "ready"))
        fail_msg("%d, not for %s: %s", status, reason, said);
    run_command("cmp '%s' '%s'", path_in(s, DB), copy);
}

static void
overwrite(const char *path, off_t at, const char *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, size, at), size);
    close(fd);
}

static void
run_sql(const struct hub_stage *s, const char *sql)
{
    struct problem why = {""};
    struct db db;

    assert_int_equal(db_open(&db, path_in(s, DB), DB_SMALL, &why), STATUS_OK);
    assert_int_equal(db_exec(&db, sql, &why), STATUS_OK);
    db_close(&db);
}

/* who has subscribed is not forgotten by mistake. */
TEST(a_damaged_database_is_found_at_the_start)
{
    static const struct {
        const char *sql, *reason;
    } rows[] = {
        {"UPDATE subscriptions SET topic_kind=9", "topic"},
        {"UPDATE subscriptions SET kind=-1", "kind"},
        {"UPDATE subscriptions SET filter='change=foo'", "foo"},
        {"UPDATE subscriptions SET secret=zeroblob(1000)", "secret"},
        {"DELETE FROM cursors", "cursor"},
    };
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    char zeros[4096] = {0}, kept[600];

    hub_stage_join(s, "/cb/1");
    broker_stop(&s->broker);
    snprintf(kept, sizeof(kept), "%s/kept", s->broker.dir.path);
    run_command("cp '%s' '%s'", path_in(s, DB), kept);

    overwrite(path_in(s, DB), 0, "This is not a database", 22);
    assert_not_started(s, "not a database");
    run_command("cp '%s' '%s'", kept, path_in(s, DB));
    /* The schema stands on the first page, the tables on those behind it. */
    for (off_t page = 1; page < 4; page++) {
        overwrite(path_in(s, DB), page * 4096, zeros, sizeof(zeros));
        assert_not_started(s, "malformed");
        run_command("cp '%s' '%s'", kept, path_in(s, DB));
    }
    run_sql(s, "PRAGMA user_version=99");
    assert_not_started(s, "version 99");
    run_command("cp '%s' '%s'", kept, path_in(s, DB));
    for (size_t i = 0; i < N(rows); i++) {
        run_sql(s, rows[i].sql);
        assert_not_started(s, rows[i].reason);
        run_command("cp '%s' '%s'", kept, path_in(s, DB));
    }

    broker_restart(&s->broker);
    assert_int_equal(hub_count(&s->http, HUB_SET), 1);
    hub_stage_end(s);
}

/* Subscriptions can be had again, so that is no reason not to start. */
TEST(without_its_database_the_hub_begins_anew)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = hub_stage_join(s, "/cb/1");

    callback_await_last(cb, hub_stage_post(s, 2));
    broker_stop(&s->broker);
    remove_files(s, DB);
    broker_restart(&s->broker);
    assert_int_equal(hub_count(&s->http, HUB_SET), 0);
    hub_join(&s->http, HUB_SET, cb);
    callback_await_last(cb, hub_stage_post(s, 2));
    hub_stage_end(s);
}

/* W-042, W-044: another log is another topic, whatever its name. */
TEST(without_the_log_subscriptions_are_ended_and_told)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = hub_stage_join(s, "/cb/1");
    struct callback *waits = callbacks_add(s->callbacks, "/cb/2");

    callback_await_last(cb, hub_stage_post(s, 2));
    CALLBACK_DOES(waits, SEEN_VERIFICATION, {.kind = MANNER_HANG});
    hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                             .callback = callback_url(waits)));
    callback_await(waits, SEEN_VERIFICATION, 1);
    broker_kill9(&s->broker);
    remove_files(s, "tidings.db");
    /* A state that the archive thread has written already would stop the start.
     */
    run_command("rm -rf '%s/%s'", s->broker.data, "sets");
    broker_restart(&s->broker);

    seen_assert_parameter(callback_await(cb, SEEN_DENIAL, 1), "hub.topic",
                          s->topic.text);
    seen_assert_parameter(callback_await(waits, SEEN_DENIAL, 1), "hub.topic",
                          s->topic.text);
    assert_int_equal(
        http_request(&s->http, "PUT", "/sets/" HUB_SET, json, SLICE("{}")),
        201);
    assert_int_equal(hub_count(&s->http, HUB_SET), 0);
    hub_stage_post(s, 1);
    hub_stage_fence(s, hub_stage_join(s, "/cb/fence"));
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 1);
    hub_stage_end(s);
}
