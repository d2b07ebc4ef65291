#include "broker/hub/delivery.h"
#include "tests/test.h"
#include "tests/unit/hub_engine/engine.h"

FIXTURE(engine_setup, engine_teardown);

/* W-072: no delivery after the end of the lease, also of what was due before.
 */
TEST(delivers_nothing_after_the_lease)
{
    struct subscription *s;

    post(1);
    s = subscribe("/", 0);
    s->lease_end_us = clock_now_us() - 1;
    turns();
    pass(10 * SECOND);
    assert_int_equal(e.n_sent, 0);
}

/* A retry's range stands in hub.db: it goes without being written again. */
TEST(does_not_keep_a_range_twice)
{
    struct subscription *s = first_delivery(1);
    finish(s, 500);
    e.disk_is_full = true;
    pass(next_alarm());
    assert_int_equal(e.n_sent, 2);
    assert_int_equal(e.n_kept, 1);
}

/* W-074, R-306: after a restart the hub tries the same range again: the same
 * bytes, the same id, whatever came meanwhile and whatever the limit of a
 * message is now. */
TEST(repeats_the_range_after_a_restart)
{
    struct subscription *s;

    post_heavy(50, 3000);
    s = subscribe("/", 10);
    turns();
    assert_sent(last_sent(), 10, 50);
    engine_stop();

    e.last_id = 0;
    e.sets.config.message_bytes = 64 << 10;
    engine_start();
    post(5);
    s = new_subscription("/", 10);
    s->reader.upto = 50;
    delivery_begin(s);
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, 2);
    assert_same_body(&e.sent[0], &e.sent[1]);
    assert_string_equal(delivery_id(&e.sent[0]), delivery_id(&e.sent[1]));
    finish(s, 200);
    run_jobs();
    assert_sent(last_sent(), 50, 55);
}

/* Many at the same place: one message is made for all. */
TEST(makes_one_body_for_all_at_the_same_place)
{
    enum { CROWD = 2000 };

    static struct subscription *s[CROWD];

    post(1);
    for (unsigned i = 0; i < CROWD; i++)
        s[i] = subscribe_nth("/%u", i, 1);
    turns();
    post(1);
    turns();
    assert_int_equal(e.n_sent, 1000); /* as many as have their turn */
    for (unsigned i = 0; i < CROWD; i++)
        finish(s[i], 204);
    assert_int_equal(e.n_sent, CROWD);
    for (size_t i = 1; i < CROWD; i++)
        assert_ptr_equal(e.sent[i].data, e.sent[0].data);
}

/* With one connection each delivery waits for the one before: the cache keeps
 * the body for the next. */
TEST(keeps_a_body_for_who_comes_next)
{
    struct subscription *a, *b;

    quiet->connections = 1;
    post(1);
    a = subscribe("/a", 0);
    b = subscribe("/b", 0);
    turns();
    finish(a, 200);
    finish(b, 200);
    assert_int_equal(e.n_sent, 2);
    assert_ptr_equal(e.sent[0].data, e.sent[1].data);
}

/* No delivery has less than what waits because others had less: a body that
 * ends before the head, though there was room, is not used again. */
TEST(is_merged_up_to_the_head_whoever_was_there_before)
{
    quiet->connections = 1;
    post(1);
    subscribe("/a", 0);
    subscribe("/b", 0);
    turns();
    post(4);
    finish(e.sent[0].s, 200);
    assert_int_equal(e.n_sent, 2);
    assert_sent(&e.sent[0], 0, 1);
    assert_sent(&e.sent[1], 0, 5);
}

/* The worker pool reads changes that are no longer in memory, once for all who
 * wait for them. */
TEST(reads_what_is_not_in_memory_elsewhere)
{
    struct subscription *a, *b;

    post(5);
    a = subscribe("/0", 5);
    engine_stop();
    engine_start(); /* the earlier entries are only on the disk now */
    a = subscribe("/a", 0);
    b = subscribe("/b", 0);
    turns();
    assert_int_equal(quiet->n_jobs, 1);
    assert_int_equal(e.n_sent, 0);
    run_jobs();
    assert_int_equal(quiet->n_jobs_made, 1);
    assert_int_equal(e.n_sent, 2);
    assert_kept(a, 0, 5);
    assert_kept(b, 0, 5);
}

/* Design 4: the hub sends nothing while nothing passes a filter; the next
 * message begins where the last one ended. */
TEST(sends_nothing_where_nothing_passes)
{
    struct subscription *s;

    post(10);
    s = new_subscription("/", 0);
    set_filter(s, "prefix=http://example.com/r/77");
    delivery_begin(s);
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, 0);
    assert_int_equal(s->reader.after, 0);
    assert_int_equal(s->reader.reached, 10);
    assert_int_equal(quiet->n_calls, 0);

    sets_post(&e.sets, "demo", 77, 1);
    post(1);
    turns();
    run_jobs();

    assert_int_equal(e.n_sent, 1);
    finish(s, 200);
    assert_true(s->reader.after >= 11);
    assert_int_equal(s->reader.reached, 12);
}

/* W-092: suspects may hold half of the memory for bodies; the others have room
 * however many of them hang. A subscription without room waits, and holds
 * nothing. */
TEST(has_room_for_the_healthy_however_many_hang, engine_configure,
     engine_teardown)
{
    enum { EACH = 10 };

    struct subscription *s[EACH];
    size_t n_suspects;

    e.sets.config.hub_body_bytes = 64 << 10;
    e.sets.config.hub_give_up_us = 86400 * SECOND;
    engine_start();
    for (unsigned i = 0; i < EACH; i++)
        post_heavy(1, 10000);
    quiet->connections = EACH;
    for (unsigned i = 0; i < EACH; i++) {
        s[i] = subscribe_nth("/sick/%u", i, i);
        s[i]->reader.upto = i + 1; /* each its own */
        s[i]->failures = 1;
    }
    /* They were begun healthy: let them come again as suspects. */
    for (unsigned i = 0; i < EACH; i++) {
        delivery_cut(s[i]);
        s[i]->failures = 1;
        delivery_look(s[i]);
    }
    turns();
    run_jobs();
    n_suspects = e.n_sent;
    assert_in_range(n_suspects, 1, 4); /* 32 KiB, and one more */
    for (size_t i = 0; i < n_suspects; i++)
        assert_true(e.sent[i].is_suspect);

    quiet->connections = 2 * EACH;
    for (unsigned i = 0; i < EACH; i++)
        subscribe_nth("/healthy/%u", i, EACH - 1);
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, n_suspects + EACH);
    for (size_t i = n_suspects; i < e.n_sent; i++)
        assert_false(e.sent[i].is_suspect);

    /* As they fail they make room for the next of their kind. */
    break_off(e.sent[0].s, CALL_TIMEOUT, "it took too long");
    run_jobs();
    assert_int_equal(e.n_sent, n_suspects + EACH + 1);
    assert_true(last_sent()->is_suspect);
}

/* A body that is larger than all the memory there is goes out, alone. */
TEST(delivers_what_is_larger_than_the_budget, engine_configure, engine_teardown)
{
    struct subscription *a, *b;

    e.sets.config.hub_body_bytes = 1000;
    engine_start();
    post_heavy(1, 5000);
    post_heavy(1, 5000);
    a = subscribe("/a", 0);
    b = subscribe("/b", 1);
    turns();
    assert_int_equal(e.n_sent, 1);
    finish(a, 200);
    assert_int_equal(e.n_sent, 2);
    finish(b, 200);
}

/* documents of a relay go out one by one, unmerged, byte for byte, with
 * their own type and the Source's links. */
TEST(relays_documents_one_by_one)
{
    static char topic_url[] = "http://source.example/feed";
    static char hub_url[] = "http://hub.example/";
    struct subscription *s;
    struct topic *topic;

    e.foreign.url = topic_url;
    e.foreign.hub_url = hub_url;
    strcpy(e.foreign.epoch, "0123456789abcdef");
    e.documents[0] = "first";
    e.documents[1] = "second";
    e.foreign.kept.last = 2;
    assert_int_equal(
        topic_find(&e.hub, slice_of(topic_url), NULL, &topic, NULL), STATUS_OK);
    s = subscription_at(topic, "http://receiver.example/", 0);
    delivery_begin(s);
    turns();
    assert_true(slice_is(buf_slice(&last_sent()->body), "first"));
    assert_string_equal(header(last_sent(), "Content-Type"),
                        "text/plain; charset=utf-8");
    assert_string_equal(header(last_sent(), "Link"),
                        "<http://hub.example/>; rel=\"hub\", "
                        "<http://source.example/feed>; rel=\"self\"");
    finish(s, 200);
    assert_true(slice_is(buf_slice(&last_sent()->body), "second"));
    finish(s, 200);
    e.documents[2] = "third";
    e.foreign.kept.last = 3;
    watched_mark(&topic->news.watched);
    turns();
    assert_true(slice_is(buf_slice(&last_sent()->body), "third"));

    /* Documents that are no longer kept are skipped, and counted. */
    e.documents[5] = "sixth";
    e.foreign.kept.last = 6;
    e.foreign.kept.earliest = 5;
    finish(s, 200);
    assert_int_equal(s->history.n_skipped, 2);
    assert_true(slice_is(buf_slice(&last_sent()->body), "sixth"));
}
