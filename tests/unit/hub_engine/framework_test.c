#include "broker/hub/topic.h"
#include "tests/support/set_changes.h"
#include "tests/test.h"
#include "tests/unit/hub_engine/engine.h"

/* The log answers a commit before it announces what the commit changed; the
 * answer to a second commit comes after that. */
static void
post_once_more(void)
{
    static unsigned n;

    sets_post(&e.sets, "z", n++, 1);
}

static uint64_t
framework_last(void)
{
    struct head head;

    log_head(e.sets.registry->framework->log, &head);
    return head.last;
}

static void
assert_contains(const struct sent *sent, const char *part)
{
    assert_non_null(
        memmem(sent->body.data, sent->body.size, part, strlen(part)));
}

/* Subscribes to the framework topic of a set, behind `after`; not begun. */
static struct subscription *
subscribe_framework(const char *set, uint64_t after)
{
    char callback[60];

    snprintf(callback, sizeof(callback), "http://receiver.example/%s", set);
    return subscription_at(topic_for(TOPIC_FRAMEWORK, set), callback, after);
}

FIXTURE(engine_setup, engine_teardown);

/* an event wakes the topic of its set only; the Source's
 * wakes all. */
TEST(wakes_the_framework_topic_that_an_event_concerns)
{
    struct subscription *a, *b;
    uint64_t head;
    size_t n;

    sets_post(&e.sets, "a", 0, 1);
    sets_post(&e.sets, "b", 0, 1);
    post_once_more();
    post_once_more();
    a = subscribe_framework("a", 0);
    b = subscribe_framework("b", 0);
    assert_true(topic_head(a->topic, &head));
    reader_move(&a->reader, head);
    reader_move(&b->reader, head);
    delivery_begin(a);
    delivery_begin(b);
    turns();
    assert_int_equal(e.n_sent, 0);

    sets_rotate(&e.sets, "a");
    post_once_more();
    turns();
    run_jobs();
    assert_true(is_under_way(a));
    assert_false(is_under_way(b));
    assert_int_equal(quiet->n_calls, 1);
    assert_int_equal(b->reader.reached, head);
    assert_string_equal(header(last_sent(), "Link"),
                        "<" SETS_URL "/hub>; rel=\"hub\", <" SETS_URL
                        "/sets/a/framework-notifications>; rel=\"self\"");
    assert_contains(last_sent(), "/sets/a/changes/000000000001.xml</loc>");
    assert_contains(last_sent(), "/sets/a/changes/000000000002.xml</loc>");
    assert_contains(last_sent(), "/sets/a/capabilitylist.xml</loc>");
    finish(a, 200);

    sets_rotate(&e.sets, "b");
    post_once_more();
    n = e.n_sent;
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, n + 1);
    assert_ptr_equal(last_sent()->s, b);
    assert_true(b->reader.reached >
                head); /* a's events are not looked at for b */
    finish(b, 200);

    sets_post(&e.sets, "c", 0, 1); /* the Source Description */
    post_once_more();
    n = e.n_sent;
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, n + 2);
}

/* For any number of subscriptions the log is read once at the start; and again
 * only for those that an event concerns. */
TEST(the_log_is_read_once_for_all_at_the_start)
{
    enum { SETS = 20 };
    struct subscription *all[SETS];
    char text[60];
    uint64_t head;

    for (unsigned i = 0; i < SETS; i++) {
        snprintf(text, sizeof(text), "s%u", i);
        sets_post(&e.sets, text, 0, 1);
    }
    post_once_more();
    post_once_more();
    head = framework_last();
    sets_rotate(&e.sets, "s7");
    post_once_more();
    post_once_more();
    engine_stop();

    engine_start();
    for (unsigned i = 0; i < SETS; i++) {
        snprintf(text, sizeof(text), "s%u", i);
        all[i] = subscribe_framework(text, head);
    }
    for (unsigned i = 0; i < SETS; i++)
        delivery_begin(all[i]);
    for (int i = 0; i < 5; i++) {
        turns();
        run_jobs();
    }
    assert_in_range(quiet->n_jobs_made, 1, 4);
    assert_int_equal(e.n_sent, 1);
    assert_true(is_under_way(all[7]));
    finish(all[7], 200);

    sets_rotate(&e.sets, "z");
    sets_rotate(&e.sets, "s3");
    post_once_more();
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, 2);
    assert_true(is_under_way(all[3]));
    assert_true(all[3]->reader.reached > head);
}

/* The hub reads a change that was committed while a worker read, as soon as the
 * worker is done. */
TEST(a_commit_while_the_log_is_read_is_not_forgotten)
{
    struct subscription *a;
    uint64_t head;

    sets_post(&e.sets, "a", 0, 1);
    post_once_more();
    post_once_more();
    head = framework_last();
    sets_rotate(&e.sets, "z");
    post_once_more();
    engine_stop();

    engine_start();
    a = subscribe_framework("a", head);
    delivery_begin(a);
    turns();
    assert_int_equal(quiet->n_jobs, 1);
    sets_rotate(&e.sets, "z");
    post_once_more();
    turns();
    assert_true(e.hub.framework.seen < framework_last());
    run_jobs();
    assert_int_equal(e.hub.framework.seen, framework_last());
    assert_int_equal(e.n_sent, 0);
}

/* An event finds no framework topic: it wakes the hub for the last time, until
 * a framework subscription begins. */
TEST(the_watch_ends_behind_the_last_topic)
{
    struct subscription *s;
    unsigned n_wakes;

    sets_post(&e.sets, "a", 0, 1);
    post_once_more();
    s = subscribe_framework("a", framework_last());
    delivery_begin(s);
    turns();
    end_subscription(s, END_UNSUBSCRIBED);
    sets_rotate(&e.sets, "a");
    post_once_more();
    turns();

    n_wakes = atomic_load(&quiet->n_wakes);
    sets_rotate(&e.sets, "z");
    post_once_more();
    assert_int_equal(atomic_load(&quiet->n_wakes), n_wakes);

    s = subscribe_framework("a", framework_last());
    delivery_begin(s);
    sets_post(&e.sets, "a", 1, 1);
    sets_rotate(&e.sets, "a");
    post_once_more();
    turns();
    run_jobs();
    assert_true(is_under_way(s));
}

/* The hub looks at the events of a removal when the set is gone already, and
 * the topic has not ended yet: its subscriber gets them when it ends. */
TEST(a_removal_is_delivered_when_the_topic_has_ended)
{
    struct subscription *s;

    sets_post(&e.sets, "a", 0, 1);
    post_once_more();
    s = subscribe_framework("a", framework_last());
    delivery_begin(s);
    turns();
    set_changes_remove(&e.sets, "a");
    post_once_more();
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, 0);
    topic_end(s->topic);
    turns();
    run_jobs();
    assert_true(is_under_way(s));
    assert_contains(last_sent(), "change=\"deleted\"");
    finish(s, 200);
    pass(0);
    assert_int_equal(e.n_ended, 1);
    assert_int_equal(e.how, END_REMOVED);
}
