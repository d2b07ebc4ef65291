/* Messages of a broker of messages that come again, or one behind the other:
 * their ids, and the order in which they are kept. */
#include <string.h>

#include "broker/sets/set_change.h"
#include "broker/store/store.h"
#include "tests/test.h"
#include "tests/unit/posts/arrivals.h"

#define MESSAGE(n) "{\"changes\":[" ENTRY(n) "],\"id\":\"k\"}"

FIXTURE(stage_open, ingests_close);

/* If nothing is left to be committed, the answer comes at once, and no set
 * begins. */
TEST(answers_at_once_where_there_is_nothing_to_commit)
{
    static const char *const bodies[] = {
        "{\"set\":\"x\",\"epoch\":\"" EPOCH "\",\"after\":3,\"last\":3,"
        "\"changes\":[]}",
        "[]",
        "{\"id\":\"k\",\"changes\":[]}",
    };
    struct arrival a, again;

    for (size_t i = 0; i < 3; i++) {
        struct post_line line = {true};

        arrival_begin(&a, "demo", JSON);
        a.ingest->post.line = &line;
        assert_int_equal(arrival_set_key(&a, "key"), STATUS_OK);
        arrival_feed(&a, slice_of(bodies[i]));
        assert_int_equal(a.outcome.rc, STATUS_OK);
        assert_true(a.is_answered);
        assert_null(a.ingest->set);

        /* It is at work no longer. */
        arrival_begin(&again, "demo", JSON);
        assert_int_equal(arrival_set_key(&again, "key"), STATUS_OK);
        ingest_free(again.ingest);
        assert_int_equal(arrival_end(&a).last, 0);
    }
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
}

/* The id of a message is the key of its post. */
TEST(keeps_a_message_with_an_id_once)
{
    struct sets_outcome o;

    for (int i = 0; i < 2; i++)
        assert_int_equal(arrive_json("demo", MESSAGE("1")).first, 1);
    /* The same entries under the same name, in another form of it. */
    assert_int_equal(
        arrive_json("demo", "{\"id\":\"k\",\"loc\":\"http://example.com/1\","
                            "\"change\":\"updated\"}")
            .last,
        1);
    o = arrive_json("demo", MESSAGE("2"));
    assert_int_equal(o.rc, STATUS_INVALID);
    assert_non_null(strstr(o.why.text, "\"k\""));
    assert_int_equal(sets_head(&s, "demo").last, 1);

    /* The digest counts entries, without the skipped ones. */
    assert_int_equal(
        arrive_json("demo", "{\"id\":4,\"changes\":[" ENTRY("4") "]}").last, 2);
    assert_int_equal(arrive_json("demo", "{\"id\":\"4\",\"changes\":[" ENTRY(
                                             "4") "," ENTRY("4") "]}")
                         .rc,
                     STATUS_INVALID);
}

/* A key beside the message wins over the id in it. */
TEST(prefers_the_key_that_it_was_given)
{
    struct arrival a;

    for (int i = 0; i < 2; i++) {
        arrival_begin(&a, "demo", JSON);
        assert_int_equal(arrival_set_key(&a, i == 0 ? "one" : "two"),
                         STATUS_OK);
        arrival_feed(&a, SLICE(MESSAGE("1")));
        assert_int_equal(arrival_end(&a).first, 1 + i);
    }
    assert_int_equal(arrive_json("demo", MESSAGE("2")).last, 3);
}

/* The id is known at the end of the message: only then it may turn out that the
 * id is at work. */
TEST(says_at_its_end_that_it_is_at_work)
{
    struct sets_outcome o;
    struct arrival first;

    arrival_begin(&first, "demo", JSON);
    assert_int_equal(arrival_set_key(&first, "k"), STATUS_OK);
    o = arrive_json("demo", MESSAGE("1"));
    assert_int_equal(o.rc, STATUS_RUNNING);
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
    arrival_feed(&first, SLICE(MESSAGE("1")));
    assert_int_equal(arrival_end(&first).last, 1);
    assert_int_equal(arrive_json("demo", MESSAGE("1")).last, 1);
}

/* The log does not keep a message before an earlier message of its line. */
TEST(keeps_nothing_in_a_broken_line)
{
    struct post_line line = {true};
    struct arrival a;

    for (int i = 0; i < 2; i++) {
        struct sets_outcome o;

        arrival_begin(&a, "demo", JSON);
        a.ingest->post.line = &line;
        arrival_feed(&a, SLICE(MESSAGE("1")));
        o = arrival_end(&a);
        assert_int_equal(o.rc, i == 0 ? STATUS_BUSY : STATUS_OK);
        assert_int_equal(o.last, i);
        line.is_broken = false;
    }
}

/* A set is removed while messages for it are on their way. */
struct removal {
    struct arrival before, after;
    sem_t is_held, may_go;
    bool is_removed;
};

/* Holds the log thread. */
static void
hold(struct ingest *ingest, void *user)
{
    struct removal *r = user;

    (void)ingest;
    sem_post(&r->is_held);
    sem_wait(&r->may_go);
}

/* Log thread: from here on the removal is visible. */
static void
on_changed(void *user)
{
    struct removal *r = user;

    if (r->is_removed)
        return;
    r->is_removed = true;
    arrival_feed(&r->after, SLICE(ENTRY("2")));
}

static void
on_removed(struct set_change *change, void *user)
{
    (void)user;
    set_change_free(change);
}

/* The new set begins with the message that came first, not with the message
 * that was read first for it. */
TEST(keeps_the_order_when_the_set_is_removed, stage_configure, ingests_close)
{
    struct removal r = {.is_removed = false};
    struct registry_options options = {
        .config = &s.config,
        .public_url = SETS_URL,
        .open_engine = store_open,
        .on_changed = on_changed,
        .user = &r,
    };
    struct post_line line = {false};
    struct arrival held;

    assert_int_equal(registry_open(&s.registry, &options, NULL), STATUS_OK);
    posts_init(&s.posts, s.registry);
    sem_init(&r.is_held, 0, 0);
    sem_init(&r.may_go, 0, 0);
    sets_post(&s, "demo", 1, 3);
    arrival_begin(&held, "other", JSON);
    arrival_begin(&r.before, "demo", JSON);
    arrival_begin(&r.after, "demo", JSON);
    r.before.ingest->post.line = &line;
    r.after.ingest->post.line = &line;

    assert_int_equal(ingest_feed(held.ingest, SLICE(ENTRY("1")), NULL),
                     STATUS_OK);
    assert_int_equal(ingest_end(held.ingest, hold, &r, NULL), STATUS_OK);
    log_wake(s.registry->log);
    sem_wait(&r.is_held);
    assert_int_equal(
        set_change_remove(sets_find(&s, "demo"), NULL, on_removed, NULL, NULL),
        STATUS_OK);
    arrival_feed(&r.before, SLICE(ENTRY("1")));
    sem_post(&r.may_go);

    assert_int_equal(arrival_end(&r.before).first, 1);
    assert_int_equal(arrival_end(&r.after).first, 2);
    assert_true(r.is_removed);
    assert_false(line.is_broken);
    ingest_free(held.ingest);
    sem_destroy(&held.is_done);
    sem_destroy(&r.is_held);
    sem_destroy(&r.may_go);
}
