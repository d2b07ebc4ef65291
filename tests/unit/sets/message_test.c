#include "broker/sets/message.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "broker/base/clock.h"
#include "tests/support/channel.h"
#include "tests/support/schema.h"
#include "tests/support/xpath.h"
#include "tests/test.h"
#include "tests/unit/sets/messages.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* a notification with `from` and `until`, a link up, an entry a
 * change, in order. */
TEST(writes_a_change_notification)
{
    struct sets s;
    struct set *set = open_in(&s, state, 1, 3);
    struct xpath x;
    struct buf text;

    buf_init(&text, SIZE_MAX);
    assert_int_equal(write_on(&text, set, MESSAGE_XML, 0, MIB), 3);
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
    buf_fini(&text);
    sets_close(&s);
}

/* one for simple subscriptions says the same, and leads nowhere. */
TEST(a_plain_message_has_no_links)
{
    struct sets s;
    const struct message_wish wish = {
        .set = open_in(&s, state, 1, 3),
        .upto = UINT64_MAX,
        .max_bytes = MIB,
        .is_plain = true,
    };
    struct buf plain, text;
    struct xpath x;
    uint64_t last;

    buf_init(&plain, SIZE_MAX);
    buf_init(&text, SIZE_MAX);
    assert_int_equal(message_write(&plain, &wish, &last, NULL), STATUS_OK);
    write_on(&text, wish.set, MESSAGE_XML, 0, MIB);
    assert_valid(buf_slice(&plain));
    xpath_open(&x, buf_slice(&plain));
    assert_xpath_count(&x, "/s:urlset/rs:ln", 0);
    assert_xpath_count(&x, "/s:urlset/s:url", 3);
    xpath_close(&x);
    assert_memory_equal(receive(&plain, MESSAGE_XML).coverage.digest.bytes,
                        receive(&text, MESSAGE_XML).coverage.digest.bytes,
                        DIGEST_SIZE);
    buf_fini(&plain);
    buf_fini(&text);
    sets_close(&s);
}

/* a framework message covers a part of the framework
 * log, and what the events of other sets would be is left out. */
TEST(a_framework_message_is_of_the_framework_log)
{
    struct sets s;
    struct message_wish wish = {
        .set = open_in(&s, state, 1, 3),
        .max_bytes = MIB,
        .is_framework = true,
    };
    struct head head;
    struct buf text;
    struct xpath x;
    uint64_t last;

    sets_post(&s, "other", 1, 1);
    wish.upto = channel_last(&s);
    assert_true(log_head(registry_framework(s.registry), &head));
    buf_init(&text, SIZE_MAX);
    assert_int_equal(message_write(&text, &wish, &last, NULL), STATUS_OK);
    assert_int_equal(last, 4);
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
    buf_clear(&text);
    assert_int_equal(message_write(&text, &wish, &last, NULL), STATUS_OK);
    assert_int_equal(last, 4);
    wish.is_silent = true;
    buf_clear(&text);
    assert_int_equal(message_write(&text, &wish, &last, NULL), STATUS_OK);
    assert_int_equal(text.size, 0);
    buf_fini(&text);
    sets_close(&s);
}

/* Design section 4: the JSON form of the same message. */
TEST(writes_the_same_as_json)
{
    char begin[200];
    struct sets s;
    struct set *set = open_in(&s, state, 1, 2);
    struct buf text;

    buf_init(&text, SIZE_MAX);
    assert_int_equal(write_on(&text, set, MESSAGE_JSON, 0, MIB), 2);
    snprintf(begin, sizeof(begin),
             "{\"set\":\"demo\",\"epoch\":\"%s\",\"after\":0,\"last\":2,"
             "\"from\":\"",
             sets_head(&s, "demo").epoch);
    assert_true(text.size > strlen(begin));
    assert_memory_equal(text.data, begin, strlen(begin));
    assert_memory_equal(text.data + text.size - 11, "\"seq\":2}]}\n", 11);
    assert_null(memmem(text.data, text.size, "\"now\"", 5));
    assert_null(memmem(text.data, text.size, "\"next\"", 6));
    buf_fini(&text);
    sets_close(&s);
}

/* Design section 1: any part of the log, over the boundaries of its batches,
 * says what it covers and carries the digest of its last event. */
TEST(covers_exactly_what_it_says_over_any_batches)
{
    struct sets s;
    struct set *set = open_in(&s, state, 5, 4);
    struct buf text;

    buf_init(&text, SIZE_MAX);
    for (size_t f = 0; f < 2; f++)
        for (uint64_t after = 0; after < 20; after++)
            for (uint64_t upto = after; upto <= 20; upto++) {
                uint64_t last;

                assert_int_equal(write_message(&text, set, forms[f], after,
                                               upto, MIB, LOG_MEMORY, &last),
                                 STATUS_OK);
                assert_int_equal(last, upto);
                assert_covers(&s, set, &text, forms[f], after, upto);
            }
    buf_fini(&text);
    sets_close(&s);
}

/* However little a message may hold, it has an entry: who cannot take that one
 * learns its size. */
TEST(has_an_entry_however_small_it_is_to_be)
{
    struct sets s;
    struct set *set = open_in(&s, state, 2, 3);
    struct buf text;

    buf_init(&text, SIZE_MAX);
    for (size_t f = 0; f < 2; f++)
        for (uint64_t after = 0; after < 6; after++) {
            uint64_t last;

            assert_int_equal(write_message(&text, set, forms[f], after,
                                           UINT64_MAX, 1, LOG_MEMORY, &last),
                             STATUS_OK);
            assert_int_equal(last, after + 1);
            assert_covers(&s, set, &text, forms[f], after, last);
        }
    buf_fini(&text);
    sets_close(&s);
}

/* log.md, times; R-287: parts that meet in seq meet in time, whoever merged
 * what. */
TEST(meets_in_time_where_it_meets_in_seq)
{
    struct sets s;
    struct set *set = open_in(&s, state, 4, 5);
    struct buf text;

    buf_init(&text, SIZE_MAX);
    for (size_t f = 0; f < 2; f++)
        for (uint64_t seq = 1; seq < 20; seq++) {
            struct received before, after;
            uint64_t last;

            assert_int_equal(write_message(&text, set, forms[f], seq / 2, seq,
                                           MIB, LOG_MEMORY, &last),
                             STATUS_OK);
            before = receive(&text, forms[f]);
            write_on(&text, set, forms[f], seq, MIB);
            after = receive(&text, forms[f]);
            assert_int_equal(before.coverage.until_us, after.coverage.from_us);
        }
    write_on(&text, set, MESSAGE_XML, 0, MIB);
    assert_int_equal(receive(&text, MESSAGE_XML).coverage.from_us,
                     sets_head(&s, "demo").created_us);
    buf_fini(&text);
    sets_close(&s);
}

/* At the head: a message without entries, `after` = `last`. */
TEST(is_empty_at_the_head)
{
    struct sets s;
    struct set *set = open_in(&s, state, 1, 3);
    struct buf text;
    uint64_t last;

    buf_init(&text, SIZE_MAX);
    for (size_t f = 0; f < 2; f++) {
        struct received r;

        assert_int_equal(write_message(&text, set, forms[f], 3, UINT64_MAX, MIB,
                                       LOG_MEMORY, &last),
                         STATUS_OK);
        assert_int_equal(last, 3);
        assert_covers(&s, set, &text, forms[f], 3, 3);
        r = receive(&text, forms[f]);
        assert_int_equal(r.coverage.from_us, r.coverage.until_us);
        assert_int_equal(r.coverage.now_us, DATETIME_NONE);
    }
    buf_fini(&text);
    sets_close(&s);
}

/* beyond the head is an error; a set without a first post is none. */
TEST(refuses_what_the_log_does_not_have)
{
    struct sets s;
    struct set *set = open_in(&s, state, 1, 3);
    struct set *unborn = registry_make(s.registry, SLICE("unborn"));
    struct buf text;
    uint64_t last;

    buf_init(&text, SIZE_MAX);
    for (size_t f = 0; f < 2; f++) {
        assert_int_equal(write_message(&text, set, forms[f], 4, UINT64_MAX, MIB,
                                       LOG_DISK, &last),
                         STATUS_GONE);
        assert_int_equal(
            write_message(&text, set, forms[f], 4, 4, MIB, LOG_DISK, &last),
            STATUS_GONE);
        assert_int_equal(write_message(&text, unborn, forms[f], 0, UINT64_MAX,
                                       MIB, LOG_DISK, &last),
                         STATUS_NOT_FOUND);
        assert_int_equal(write_heartbeat(&text, set, forms[f], 4, LOG_DISK),
                         STATUS_GONE);
        assert_int_equal(write_heartbeat(&text, unborn, forms[f], 0, LOG_DISK),
                         STATUS_NOT_FOUND);
        assert_int_equal(text.size, 0);
    }
    buf_fini(&text);
    sets_close(&s);
}

/* log.md, times: a heartbeat stands at its position, tells clock and interval,
 * at the head as in the middle and at the beginning. */
TEST(beats_at_any_position)
{
    struct sets s;
    struct set *set = open_in(&s, state, 3, 4);
    struct buf text;

    buf_init(&text, SIZE_MAX);
    for (size_t f = 0; f < 2; f++)
        for (uint64_t seq = 0; seq <= 12; seq++) {
            struct received r;
            struct batch *b;

            buf_clear(&text);
            assert_int_equal(
                write_heartbeat(&text, set, forms[f], seq, LOG_MEMORY),
                STATUS_OK);
            assert_covers(&s, set, &text, forms[f], seq, seq);
            r = receive(&text, forms[f]);
            assert_int_equal(r.coverage.now_us, clock_now_us());
            assert_int_equal(r.coverage.heartbeat_us, s.config.heartbeat_us);
            assert_int_equal(r.coverage.from_us, r.coverage.until_us);
            if (seq == 12)
                continue;
            assert_int_equal(log_read(registry_log(s.registry), set->log, seq,
                                      LOG_MEMORY, &b, NULL),
                             STATUS_OK);
            assert_int_equal(r.coverage.until_us, batch_time(b, seq));
            batch_unref(b);
        }
    buf_fini(&text);
    sets_close(&s);
}

/* log.md, reading: no thread that others wait for waits for a disk: it is told
 * to ask again; what the head tells, it has at once. */
TEST(says_again_rather_than_wait_for_a_disk)
{
    struct sets s;
    struct set *set = open_in(&s, state, 3, 4);
    struct buf text;
    uint64_t last;

    sets_close(&s);
    sets_open(&s);
    set = sets_find(&s, "demo");
    buf_init(&text, SIZE_MAX);
    for (size_t f = 0; f < 2; f++) {
        assert_int_equal(write_message(&text, set, forms[f], 4, UINT64_MAX, MIB,
                                       LOG_MEMORY, &last),
                         STATUS_AGAIN);
        assert_int_equal(write_heartbeat(&text, set, forms[f], 4, LOG_MEMORY),
                         STATUS_AGAIN);
        assert_int_equal(text.size, 0);
        assert_int_equal(write_heartbeat(&text, set, forms[f], 12, LOG_MEMORY),
                         STATUS_OK);
        buf_clear(&text);
        assert_int_equal(write_heartbeat(&text, set, forms[f], 0, LOG_MEMORY),
                         STATUS_OK);
        assert_int_equal(write_on(&text, set, forms[f], 4, MIB), 12);
    }
    buf_fini(&text);
    sets_close(&s);
}

/* log.md, reading: a form over 64 KB is made where it may take its time; once
 * it is there everybody has it. The XML form needs no making. */
TEST(says_again_rather_than_make_a_large_form)
{
    struct sets s;
    struct set *set = open_in(&s, state, 1, 600);
    struct buf text;
    uint64_t last;

    buf_init(&text, SIZE_MAX);
    assert_int_equal(write_message(&text, set, MESSAGE_XML, 0, UINT64_MAX, MIB,
                                   LOG_MEMORY, &last),
                     STATUS_OK);
    assert_int_equal(last, 600);
    assert_int_equal(write_message(&text, set, MESSAGE_JSON, 0, UINT64_MAX, MIB,
                                   LOG_MEMORY, &last),
                     STATUS_AGAIN);
    assert_int_equal(write_on(&text, set, MESSAGE_JSON, 0, MIB), 600);
    assert_int_equal(write_message(&text, set, MESSAGE_JSON, 300, UINT64_MAX,
                                   MIB, LOG_MEMORY, &last),
                     STATUS_OK);
    assert_covers(&s, set, &text, MESSAGE_JSON, 300, 600);
    buf_fini(&text);
    sets_close(&s);
}

/* What is at hand goes out at once; the rest comes in the next message. */
TEST(gives_what_is_at_hand_before_it_says_again)
{
    struct sets s;
    struct set *set = open_in(&s, state, 1, 5);
    struct buf text;
    uint64_t last;

    sets_post(&s, "demo", 6, 600);
    buf_init(&text, SIZE_MAX);
    assert_int_equal(write_message(&text, set, MESSAGE_JSON, 0, UINT64_MAX, MIB,
                                   LOG_MEMORY, &last),
                     STATUS_OK);
    assert_int_equal(last, 5);
    assert_covers(&s, set, &text, MESSAGE_JSON, 0, 5);
    buf_fini(&text);
    sets_close(&s);
}

/* change memory's pages name the next one. */
TEST(names_the_next_page_of_change_memory)
{
    char next[200];
    struct sets s;
    struct set *set = open_in(&s, state, 1, 5);
    struct message_wish wish = {
        .set = set,
        .form = MESSAGE_JSON,
        .after = 1,
        .upto = 4,
        .max_bytes = MIB,
        .has_next = true,
    };
    struct buf text;
    uint64_t last;

    buf_init(&text, SIZE_MAX);
    assert_int_equal(message_write(&text, &wish, &last, NULL), STATUS_OK);
    snprintf(next, sizeof(next),
             "\"next\":\"" SETS_URL "/sets/demo/changes?after=%s-4\"",
             sets_head(&s, "demo").epoch);
    assert_non_null(memmem(text.data, text.size, next, strlen(next)));
    buf_fini(&text);
    sets_close(&s);
}

#define THREADS 4

struct maker {
    pthread_t id;
    struct set *set;
    struct buf text;
    enum status rc;
};

static void *
make_message(void *user)
{
    struct maker *m = user;
    uint64_t last;

    m->rc = write_message(&m->text, m->set, MESSAGE_JSON, 2, 58, MIB, LOG_DISK,
                          &last);
    return NULL;
}

/* Any thread: who makes the form first, all say the same. */
TEST(is_the_same_for_threads_that_make_it_at_once)
{
    struct maker makers[THREADS];
    struct sets s;
    struct set *set = open_in(&s, state, 6, 10);

    for (int i = 0; i < THREADS; i++) {
        makers[i] = (struct maker){.set = set};
        buf_init(&makers[i].text, SIZE_MAX);
        assert_int_equal(
            pthread_create(&makers[i].id, NULL, make_message, &makers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(makers[i].id, NULL);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(makers[i].rc, STATUS_OK);
        assert_true(slice_equal(buf_slice(&makers[i].text),
                                buf_slice(&makers[0].text)));
    }
    assert_covers(&s, set, &makers[0].text, MESSAGE_JSON, 2, 58);
    for (int i = 0; i < THREADS; i++)
        buf_fini(&makers[i].text);
    sets_close(&s);
}
