#include "broker/hub/framework.h"

#include "tests/test.h"
#include "tests/unit/hub_engine/engine.h"

/* What a commit brought about is told after it was answered; the next one's
 * answer comes later. */
static void
post_once_more(unsigned n)
{
    sets_post(&e.sets, "z", n, 1);
}

static uint64_t
sets_framework_last(void)
{
    struct head head;

    log_head(registry_framework(e.sets.registry), &head);
    return head.last;
}

/* All events of one commit are in what is sent: none is passed over. */
static void
assert_tells(const struct sent *sent, const char *part)
{
    assert_non_null(
        memmem(sent->body.data, sent->body.size, part, strlen(part)));
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* an event wakes the topic of its set only; the Source's
 * wakes all. */
TEST(wakes_the_framework_topic_that_an_event_concerns)
{
    struct subscription *a, *b;
    uint64_t head;
    size_t n;

    engine_open(state);
    sets_post(&e.sets, "a", 0, 1);
    sets_post(&e.sets, "b", 0, 1);
    post_once_more(0);
    post_once_more(1);
    a = subscription_at(topic_for(TOPIC_FRAMEWORK, "a"),
                        "http://receiver.example/a", 0);
    b = subscription_at(topic_for(TOPIC_FRAMEWORK, "b"),
                        "http://receiver.example/b", 0);
    assert_true(topic_head(a->topic, &head));
    a->after = a->reached = b->after = b->reached = head;
    deliver_begin(a);
    deliver_begin(b);
    turns();
    assert_int_equal(e.n_sent, 0);

    sets_rotate(&e.sets, "a");
    post_once_more(2);
    turns();
    run_jobs();
    assert_true(is_under_way(a));
    assert_false(is_under_way(b));
    assert_int_equal(quiet->n_calls, 1);
    assert_int_equal(b->reached, head);
    assert_string_equal(header(last_sent(), "Link"),
                        "<" SETS_URL "/hub>; rel=\"hub\", <" SETS_URL
                        "/sets/a/framework-notifications>; rel=\"self\"");
    assert_tells(last_sent(), "/sets/a/changes/000000000001.xml</loc>");
    assert_tells(last_sent(), "/sets/a/changes/000000000002.xml</loc>");
    assert_tells(last_sent(), "/sets/a/capabilitylist.xml</loc>");
    finish(a, 200);

    sets_rotate(&e.sets, "b");
    post_once_more(3);
    n = e.n_sent;
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, n + 1);
    assert_ptr_equal(last_sent()->s, b);
    assert_true(b->reached > head); /* a's events are not looked at for b */
    finish(b, 200);

    sets_post(&e.sets, "c", 0, 1); /* the Source Description */
    post_once_more(4);
    n = e.n_sent;
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, n + 2);
    engine_close();
}

/* However many there are, the log is read once at the start; and again for
 * those only that an event concerns. */
TEST(the_log_is_read_once_for_all_at_the_start)
{
    enum { SETS = 20 };
    struct subscription *all[SETS];
    char text[60];
    uint64_t head;

    engine_open(state);
    for (unsigned i = 0; i < SETS; i++) {
        snprintf(text, sizeof(text), "s%u", i);
        sets_post(&e.sets, text, 0, 1);
    }
    post_once_more(0);
    post_once_more(1);
    head = sets_framework_last();
    sets_rotate(&e.sets, "s7");
    post_once_more(2);
    post_once_more(3);
    engine_stop();

    engine_start();
    for (unsigned i = 0; i < SETS; i++) {
        snprintf(text, sizeof(text), "s%u", i);
        all[i] = subscription_at(topic_for(TOPIC_FRAMEWORK, text), "", head);
        free(all[i]->callback);
        snprintf(text, sizeof(text), "http://receiver.example/%u", i);
        all[i]->callback = strdup(text);
    }
    for (unsigned i = 0; i < SETS; i++)
        deliver_begin(all[i]);
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
    post_once_more(4);
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, 2);
    assert_true(is_under_way(all[3]));
    assert_true(all[3]->reached > head);
    engine_close();
}

/* What is committed while a worker reads is looked at as soon as it has. */
TEST(a_commit_while_the_log_is_read_is_not_forgotten)
{
    struct subscription *a;
    uint64_t head;

    engine_open(state);
    sets_post(&e.sets, "a", 0, 1);
    post_once_more(0);
    post_once_more(1);
    head = sets_framework_last();
    sets_rotate(&e.sets, "z");
    post_once_more(2);
    engine_stop();

    engine_start();
    a = subscription_at(topic_for(TOPIC_FRAMEWORK, "a"),
                        "http://receiver.example/a", head);
    deliver_begin(a);
    turns();
    assert_int_equal(quiet->n_jobs, 1);
    sets_rotate(&e.sets, "z");
    post_once_more(3);
    turns();
    assert_true(framework_seen(&e.hub) < sets_framework_last());
    run_jobs();
    assert_int_equal(framework_seen(&e.hub), sets_framework_last());
    assert_int_equal(e.n_sent, 0);
    engine_close();
}
