#include "broker/readers/message.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/support/channel.h"
#include "tests/support/schema.h"
#include "tests/support/xpath.h"
#include "tests/test.h"
#include "tests/unit/readers/messages.h"

FIXTURE(messages_open, messages_close);

/* a notification with `from` and `until`, a
 * link up, an entry a change, in order. */
TEST(writes_a_change_notification)
{
    struct set *set = post_each(1, 3);
    struct xpath x;

    assert_int_equal(write_on(set, MESSAGE_XML, 0, MIB), 3);
    assert_valid(buf_slice(&text));
    xpath_open(&x, buf_slice(&text));
    assert_xpath_count(
        &x, "/s:urlset/rs:md[@capability='change-notification'][@from][@until]",
        1);
    assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='up']/@href",
                      SETS_URL "/sets/demo/capabilitylist.xml");
    assert_xpath_count(&x, "/s:urlset/s:url/rs:md[@change='updated']", 3);
    assert_xpath(&x, "/s:urlset/s:url[3]/rs:md/@datetime ="
                     " /s:urlset/rs:md/@until");
    assert_xpath_count(&x, "//@td:now | //@td:heartbeat", 0);
    xpath_close(&x);
}

/* one for simple subscriptions says the same, and leads nowhere. */
TEST(a_plain_message_has_no_links)
{
    const struct message_wish wish = {
        .set = post_each(1, 3),
        .upto = UINT64_MAX,
        .max_bytes = MIB,
        .form = MESSAGE_PLAIN,
    };
    struct coverage plain;
    struct xpath x;

    write_wish(&wish);
    assert_valid(buf_slice(&text));
    xpath_open(&x, buf_slice(&text));
    assert_xpath_count(&x, "/s:urlset/rs:ln", 0);
    assert_xpath_count(&x, "/s:urlset/s:url", 3);
    xpath_close(&x);
    plain = receive_all(MESSAGE_XML);
    write_on(wish.set, MESSAGE_XML, 0, MIB);
    assert_memory_equal(plain.digest.bytes,
                        receive_all(MESSAGE_XML).digest.bytes, DIGEST_SIZE);
}

/* a framework message covers a part of the
 * framework log, and what the events of other sets would be is left out. */
TEST(a_framework_message_is_of_the_framework_log)
{
    struct message_wish wish = {
        .set = post_each(1, 3),
        .max_bytes = MIB,
        .is_framework = true,
    };
    struct head head;
    struct xpath x;
    sets_post(&s, "other", 1, 1);
    wish.upto = channel_last(&s);
    assert_true(log_head(s.registry->framework->log, &head));
    assert_int_equal(write_wish(&wish), 4);
    assert_valid(buf_slice(&text));
    xpath_open(&x, buf_slice(&text));
    assert_xpath_text(&x, "/s:urlset/rs:md/@capability",
                      "framework-notification");
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:epoch", head.epoch);
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:after", "0");
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:last", "4");
    assert_xpath_count(&x, "/s:urlset/rs:md[@from][@until][@td:digest]", 1);
    assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='up']/@href",
                      SETS_URL "/sets/demo/capabilitylist.xml");
    assert_xpath_count(&x, "/s:urlset/s:url", 3);
    assert_xpath_count(
        &x, "/s:urlset/s:url/rs:md[@change][@capability][@datetime][@td:seq]",
        3);
    assert_xpath_count(&x, "//rs:md[@td:tags='set:demo']", 1);
    assert_xpath_count(&x, "//rs:md[@td:tags='source']", 2);
    xpath_close(&x);

    /* At its head it says so, as any message does. */
    wish.after = 4;
    assert_int_equal(write_wish(&wish), 4);
    wish.is_silent = true;
    write_wish(&wish);
    assert_int_equal(text.size, 0);
}

/* W-094: a batch of CloudEvents is a JSON array; one alone has one entry, and
 * the message goes as far as the next one. */
TEST(writes_cloud_events)
{
    struct set *set = post_each(2, 2);
    char begin[300];
    uint64_t last = 0;

    assert_int_equal(write_on(set, MESSAGE_CLOUDEVENTS, 1, MIB), 4);
    snprintf(begin, sizeof(begin),
             "[{\"specversion\":\"1.0\",\"id\":\"%s-2\",\"source\":\"" SETS_URL
             "/sets/demo\",\"type\":\"org.resourcesync.change.updated\"",
             sets_head(&s, "demo").epoch);
    assert_true(slice_starts(buf_slice(&text), begin));
    assert_true(slice_ends(buf_slice(&text), "}}]\n"));
    for (unsigned n = 1; n <= 4; n++) {
        last = write_on(set, MESSAGE_CLOUDEVENT, last, MIB);
        assert_int_equal(last, n);
        snprintf(begin, sizeof(begin),
                 "{\"specversion\":\"1.0\",\"id\":\"%s-%u\"",
                 sets_head(&s, "demo").epoch, n);
        assert_true(slice_starts(buf_slice(&text), begin));
        assert_true(slice_ends(buf_slice(&text), "}}"));
    }
}

/* Design section 4: the JSON form of the same message. */
TEST(writes_the_same_as_json)
{
    char begin[200];
    struct set *set = post_each(1, 2);

    assert_int_equal(write_on(set, MESSAGE_JSON, 0, MIB), 2);
    snprintf(begin, sizeof(begin),
             "{\"set\":\"demo\",\"epoch\":\"%s\",\"after\":0,\"last\":2,"
             "\"from\":\"",
             sets_head(&s, "demo").epoch);
    assert_true(text.size > strlen(begin));
    assert_memory_equal(text.data, begin, strlen(begin));
    assert_memory_equal(text.data + text.size - 11, "\"seq\":2}]}\n", 11);
    assert_null(memmem(text.data, text.size, "\"now\"", 5));
    assert_null(memmem(text.data, text.size, "\"next\"", 6));
}

/* Design section 1: any part of the log, over the boundaries of its batches,
 * says what it covers and carries the digest of its last event. */
TEST(covers_exactly_what_it_says_over_any_batches)
{
    struct set *set = post_each(5, 4);

    for (size_t f = 0; f < 2; f++)
        for (uint64_t after = 0; after < 20; after++)
            for (uint64_t upto = after; upto <= 20; upto++) {
                assert_int_equal(
                    write_part(set, forms[f], after, upto, MIB, LOG_MEMORY),
                    upto);
                assert_covers(set, forms[f], after, upto);
            }
}

/* A message has an entry, however little it may hold: a reader that cannot take
 * that entry learns its size. */
TEST(has_an_entry_however_small_it_is_to_be)
{
    struct set *set = post_each(2, 3);

    for (size_t f = 0; f < 2; f++)
        for (uint64_t after = 0; after < 6; after++) {
            assert_int_equal(
                write_part(set, forms[f], after, UINT64_MAX, 1, LOG_MEMORY),
                after + 1);
            assert_covers(set, forms[f], after, after + 1);
        }
}

/* log.md, times; R-287: parts that meet in seq meet in time, also if different
 * threads merged them. */
TEST(meets_in_time_where_it_meets_in_seq)
{
    struct set *set = post_each(4, 5);

    for (size_t f = 0; f < 2; f++)
        for (uint64_t seq = 1; seq < 20; seq++) {
            struct coverage before, after;
            write_part(set, forms[f], seq / 2, seq, MIB, LOG_MEMORY);
            before = receive_all(forms[f]);
            write_on(set, forms[f], seq, MIB);
            after = receive_all(forms[f]);
            assert_int_equal(before.until_us, after.from_us);
        }
    write_on(set, MESSAGE_XML, 0, MIB);
    assert_int_equal(receive_all(MESSAGE_XML).from_us,
                     sets_head(&s, "demo").created_us);
}

/* At the head: a message without entries, `after` = `last`. */
TEST(is_empty_at_the_head)
{
    struct set *set = post_each(1, 3);
    for (size_t f = 0; f < 2; f++) {
        struct coverage r;

        assert_int_equal(
            write_part(set, forms[f], 3, UINT64_MAX, MIB, LOG_MEMORY), 3);
        assert_covers(set, forms[f], 3, 3);
        r = receive_all(forms[f]);
        assert_int_equal(r.from_us, r.until_us);
        assert_int_equal(r.now_us, DATETIME_NONE);
    }
}

/* beyond the head is an error; a set without a first post is none. */
TEST(refuses_what_the_log_does_not_have)
{
    struct set *set = post_each(1, 3);
    struct set *unborn = sets_unborn(&s, "unborn");
    for (size_t f = 0; f < 2; f++) {
        assert_int_equal(try_part(set, forms[f], 4, UINT64_MAX, LOG_DISK),
                         STATUS_GONE);
        assert_int_equal(try_part(set, forms[f], 4, 4, LOG_DISK), STATUS_GONE);
        assert_int_equal(try_part(unborn, forms[f], 0, UINT64_MAX, LOG_DISK),
                         STATUS_NOT_FOUND);
        assert_int_equal(try_heartbeat(set, forms[f], 4, LOG_DISK),
                         STATUS_GONE);
        assert_int_equal(try_heartbeat(unborn, forms[f], 0, LOG_DISK),
                         STATUS_NOT_FOUND);
    }
}

/* log.md, times: a heartbeat stands at its position, states clock and interval,
 * at the head as in the middle and at the beginning. */
TEST(beats_at_any_position)
{
    struct set *set = post_each(3, 4);

    for (size_t f = 0; f < 2; f++)
        for (uint64_t seq = 0; seq <= 12; seq++) {
            struct coverage r;
            struct batch *b;

            assert_int_equal(try_heartbeat(set, forms[f], seq, LOG_MEMORY),
                             STATUS_OK);
            assert_covers(set, forms[f], seq, seq);
            r = receive_all(forms[f]);
            assert_int_equal(r.now_us, clock_now_us());
            assert_int_equal(r.heartbeat_us, s.config.heartbeat_us);
            assert_int_equal(r.from_us, r.until_us);
            if (seq == 12)
                continue;
            assert_int_equal(
                log_read(s.registry->log, set->log, seq, LOG_MEMORY, &b, NULL),
                STATUS_OK);
            assert_int_equal(r.until_us, batch_time(b, seq));
            batch_unref(b);
        }
}

/* log.md, reading: a thread that others wait for never waits for a disk: it
 * gets STATUS_AGAIN; facts of the head it has at once. */
TEST(says_again_rather_than_wait_for_a_disk)
{
    struct set *set;

    post_each(3, 4);
    stage_restart();
    set = sets_find(&s, "demo");
    for (size_t f = 0; f < 2; f++) {
        assert_int_equal(try_part(set, forms[f], 4, UINT64_MAX, LOG_MEMORY),
                         STATUS_AGAIN);
        assert_int_equal(try_heartbeat(set, forms[f], 4, LOG_MEMORY),
                         STATUS_AGAIN);
        assert_int_equal(try_heartbeat(set, forms[f], 12, LOG_MEMORY),
                         STATUS_OK);
        assert_int_equal(try_heartbeat(set, forms[f], 0, LOG_MEMORY),
                         STATUS_OK);
        assert_int_equal(write_on(set, forms[f], 4, MIB), 12);
    }
}

/* log.md, reading: what is in memory needs nobody who may wait, in any form and
 * of any size; the batches of two posts are there at once. */
TEST(makes_every_form_of_what_is_in_memory)
{
    struct set *set = post_each(1, 5);

    sets_post(&s, "demo", 6, 2000);
    for (size_t f = 0; f < 2; f++) {
        assert_int_equal(
            write_part(set, forms[f], 0, UINT64_MAX, MIB, LOG_MEMORY), 2005);
        assert_covers(set, forms[f], 0, 2005);
    }
}

/* change memory's pages name the next one. */
TEST(names_the_next_page_of_change_memory)
{
    char next[200];
    const struct message_wish wish = {
        .set = post_each(1, 5),
        .form = MESSAGE_JSON,
        .after = 1,
        .upto = 4,
        .max_bytes = MIB,
        .has_next = true,
    };
    write_wish(&wish);
    snprintf(next, sizeof(next),
             "\"next\":\"" SETS_URL "/sets/demo/changes?after=%s-4\"",
             sets_head(&s, "demo").epoch);
    assert_non_null(memmem(text.data, text.size, next, strlen(next)));
}

#define THREADS 4

struct maker {
    pthread_t id;
    struct message_wish wish;
    struct buf text;
    enum status rc;
};

static void *
make_message(void *user)
{
    struct maker *m = user;
    uint64_t last;

    m->rc = message_write(&m->text, &m->wish, &last, NULL);
    return NULL;
}

/* Threads that make the form at the same time have the same message. */
TEST(is_the_same_for_threads_that_make_it_at_once)
{
    struct maker makers[THREADS];
    struct set *set = post_each(6, 10);

    for (int i = 0; i < THREADS; i++) {
        makers[i].wish = (struct message_wish){.set = set,
                                               .form = MESSAGE_JSON,
                                               .after = 2,
                                               .upto = 58,
                                               .max_bytes = MIB,
                                               .patience = LOG_DISK};
        buf_init(&makers[i].text, SIZE_MAX);
        assert_int_equal(
            pthread_create(&makers[i].id, NULL, make_message, &makers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(makers[i].id, NULL);
    buf_add_slice(&text, buf_slice(&makers[0].text));
    assert_covers(set, MESSAGE_JSON, 2, 58);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(makers[i].rc, STATUS_OK);
        assert_true(slice_equal(buf_slice(&makers[i].text), buf_slice(&text)));
        buf_fini(&makers[i].text);
    }
}
