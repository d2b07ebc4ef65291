/*
 * live_websocket_test.c - one WebSocket that stands: messages, and how they
 * end.
 */
#include "tests/support/gzip.h"
#include "tests/test.h"
#include "tests/unit/follow/transports.h"

static char long_text[70000];

FIXTURE(set_websocket, living_clear);

/* Messages */

/* Others on the loop get their turn in between. */
TEST(many_messages_take_many_turns)
{
    struct living *s = *state;
    char text[700 * 3];

    for (size_t i = 0; i < sizeof(text); i += 3)
        memcpy(text + i, "\x81\x01x", 3);
    s->enough = 700;
    fake_stream_with(s->broker, (struct slice){text, 66 * 3});
    fake_raw(s->broker, (struct slice){text, 634 * 3});
    serves(s, "hold");

    living_run(s);

    assert_int_equal(s->n_seen, 700);
    assert_end(s, LIVE_ENOUGH, "");
}

TEST(the_form_names_the_subprotocol_and_the_request_its_server)
{
    struct living *s = *state;
    char line[64];

    assert_int_equal(td_header(s->client, s->url, "Authorization: Bearer x"),
                     TD_OK);
    assert_int_equal(td_header(s->client, "http://example.com/", "X-Not: it"),
                     TD_OK);
    s->enough = 1;
    fake_stream(s->broker);
    fake_send(s->broker, SLICE("<urlset/>"));
    fake_broker_start(s->broker);

    living_run(s);

    assert_string_equal(s->seen, "<urlset/>|");
    snprintf(line, sizeof(line), "\r\nHost: 127.0.0.1:%u\r\n",
             fake_broker_port(s->broker));
    assert_non_null(strstr(fake_request(s->broker, 0), line));
    assert_memory_equal(fake_request(s->broker, 0),
                        "GET /sets/news/stream?after=0 HTTP/1.1\r\n", 40);
    assert_non_null(strstr(fake_request(s->broker, 0),
                           "\r\nSec-WebSocket-Protocol: resourcesync.xml\r\n"));
    assert_non_null(
        strstr(fake_request(s->broker, 0), "\r\nAuthorization: Bearer x\r\n"));
    assert_null(strstr(fake_request(s->broker, 0), "X-Not"));
}

TEST(parts_of_a_message_are_put_together)
{
    struct living *s = *state;

    memset(long_text, 'x', sizeof(long_text));
    s->enough = 3;
    fake_stream(s->broker);
    fake_send_part(s->broker, SLICE("on"), true, false);
    fake_ping(s->broker);
    fake_send_part(s->broker, SLICE(""), false, false);
    fake_send_part(s->broker, SLICE("e"), false, true);
    fake_send_part(s->broker, (struct slice){long_text, sizeof(long_text)},
                   true, false);
    fake_send_part(s->broker, (struct slice){long_text, sizeof(long_text)},
                   false, true);
    serves(s, "three hold");

    living_run(s);

    assert_string_equal(s->seen, "one|(140000)|three|");
}

/* Deflated messages */

#define EXTENSION                                     \
    "permessage-deflate; server_no_context_takeover;" \
    " client_no_context_takeover"
#define ONE "\xca\xcf\x4b\x05\x00" /* "one" */

/* RFC 7692 section 7.2.3: whole, in parts with a ping between, beside messages
 * as they are, and empty. */
TEST(deflated_messages_are_inflated)
{
    struct living *s = *state;

    s->enough = 5;
    fake_stream_extended(s->broker, EXTENSION);
    fake_raw(s->broker, SLICE("\xc1\x05" ONE));
    fake_raw(s->broker, SLICE("\x41\x02\xca\xcf"));
    fake_ping(s->broker);
    fake_raw(s->broker, SLICE("\x00\x00\x80\x03\x4b\x05\x00"));
    fake_raw(s->broker, SLICE("\x81\x03two"));
    fake_raw(s->broker, SLICE("\xc1\x01\x00\xc1\x05" ONE));
    serves(s, "hold");

    living_run(s);

    assert_string_equal(s->seen, "one|one|two||one|");
    assert_end(s, LIVE_ENOUGH, "");
}

/* A frame that comes in pieces has its bits in each of them. */
TEST(a_long_deflated_frame_is_one)
{
    static const char head[] = "\xc1\x7f\0\0\0\0\0\x01\x38\x8b";
    struct living *s = *state;

    memset(long_text, 'x', sizeof(long_text));
    s->enough = 1;
    fake_stream_extended(s->broker, EXTENSION);
    fake_raw(s->broker, (struct slice){head, 10}); /* 80,011 bytes */
    for (int i = 0; i < 2; i++) {
        fake_raw(s->broker, SLICE("\x00\x40\x9c\xbf\x63")); /* 40,000 as is */
        fake_raw(s->broker, (struct slice){long_text, 40000});
    }
    fake_raw(s->broker, SLICE("\x00"));
    serves(s, "hold");

    assert_runs(s, "(80000)|", LIVE_ENOUGH, "");
}

/* RFC 7692 section 6.1 */
TEST(what_does_not_inflate_ends_it)
{
    static const struct slice ends[] = {
        {"\xc1\x01\xff", 3},             /* no kind of block */
        {"\xc1\x02\xca\xcf", 4},         /* cut off */
        {"\xc1\x03\x42\x04\x00", 5},     /* bytes before the first */
        {"\xc1\x04\x3a\xac\x01\x00", 6}, /* not UTF-8 */
        {"\xa1\x01!", 3},                /* the other reserved bits */
        {"\xd1\x01!", 3},
        {"\xe1\x01!", 3},
        {"\x41\x02\xca\xcf\xa0\x01!", 7},
        {"\x41\x02\xca\xcf\xc0\x03\x4b\x05\x00", 9}, /* not the first frame */
        {"\x01\x01!\xc0\x01!", 6}, /* a message that began as it is */
    };
    struct living *s = *state;

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        fake_stream_extended(s->broker, EXTENSION);
        fake_raw(s->broker, SLICE("\xc1\x05" ONE));
        fake_raw(s->broker, ends[i]);
        fake_hold(s->broker);
    }
    fake_broker_start(s->broker);

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        print_message("row %zu\n", i);
        assert_runs(s, "one|", LIVE_LOST,
                    "the broker broke the rules of WebSocket");
    }
}

/* A few KB become more than 16 MiB. */
TEST(a_message_that_inflates_without_end_is_too_long)
{
    static const char head[] = "\xc1\x7f\0\0\0\0\0";
    struct living *s = *state;
    struct buf bomb;
    size_t size;

    /* ten bytes of gzip before the blocks, eight behind */
    buf_init(&bomb, SIZE_MAX);
    gzip_add_bomb(&bomb, 'x', LIVE_MESSAGE_MAX + 1);
    size = bomb.size - 18;
    assert_true(size < 65536);
    fake_stream_extended(s->broker, EXTENSION);
    fake_raw(s->broker, (struct slice){head, 7});
    fake_raw(s->broker,
             (struct slice){(const char[]){(char)(size >> 16),
                                           (char)(size >> 8), (char)size},
                            3});
    fake_raw(s->broker, (struct slice){bomb.data + 10, size});
    serves(s, "hold");

    assert_runs(s, "", LIVE_BROKEN,
                "the broker sent a message of more than 16777216 bytes");
    buf_fini(&bomb);
}

/* Ends */

/* A broken frame is no farewell, and no message either. */
TEST(what_is_no_message_ends_it)
{
#define TOO_LONG "the broker sent a message of more than 16777216 bytes"

    static const struct {
        struct slice bytes;
        enum live_how how; /* LIVE_LOST: against the rules */
        const char *text;
    } ends[] = {
        /* headers announce 16 MiB and a byte, at once and in parts; 64 KB are
         * sent */
        {SLICE("\x81\x7f\0\0\0\0\x01\0\0\x01"), LIVE_BROKEN, TOO_LONG},
        {SLICE("\x01\x03one\x80\x7f\0\0\0\0\0\xff\xff\xfe"), LIVE_BROKEN,
         TOO_LONG},
        {SLICE("\x82\x03two"), LIVE_BROKEN, "the broker sent a binary message"},
        /* Half a code is none, but still a farewell. */
        {SLICE("\x88\x00"), LIVE_CLOSED, "the broker ended the connection"},
        {SLICE("\x88\x01\x03"), LIVE_CLOSED, "the broker ended the connection"},
        {{"\xff\x01\x02\x03\x04", 5}, LIVE_LOST}, /* reserved bits */
        {{"\x09\x01!", 3}, LIVE_LOST},            /* a ping in parts */
        {{"\x89\x7e\x00\x7e", 4}, LIVE_LOST},     /* a ping of 126 bytes */
        {{"\x80\x01!", 3}, LIVE_LOST},            /* the end of nothing */
        {{"\x88\x02\x03\xec", 4}, LIVE_LOST},     /* 1004 */
        {{"\x83\x01!", 3}, LIVE_LOST},            /* an opcode that is none */
        {{"\x81\x02\xc3\x28", 4}, LIVE_LOST},     /* not UTF-8 */
        {{"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", 10}, LIVE_LOST},
        {{"\xc1\x01!", 3}, LIVE_LOST}, /* one reserved bit each */
        {{"\xa1\x01!", 3}, LIVE_LOST},
        {{"\x91\x01!", 3}, LIVE_LOST},
        {{"\xa9\x01!", 3}, LIVE_LOST},          /* of a ping */
        {{"\x8b\x01!", 3}, LIVE_LOST},          /* control that is none */
        {{"\x08\x02\x03\xe8", 4}, LIVE_LOST},   /* a farewell in parts */
        {{"\x01\x01!\x81\x01!", 6}, LIVE_LOST}, /* a message in another */
        {{"\x01\x01!\x82\x01!", 6}, LIVE_LOST},
        {{"\x00\x01!", 3}, LIVE_LOST},        /* the middle of nothing */
        {{"\x88\x02\x00\x00", 4}, LIVE_LOST}, /* 0 */
        {{"\x88\x02\x03\xe7", 4}, LIVE_LOST}, /* 999 */
        {{"\x88\x02\x03\xed", 4}, LIVE_LOST}, /* 1005: nobody says so */
        {{"\x88\x02\x03\xee", 4}, LIVE_LOST}, /* 1006 */
        {{"\x88\x02\x03\xf7", 4}, LIVE_LOST}, /* 1015 */
        {{"\x88\x02\x07\xd0", 4}, LIVE_LOST}, /* 2000 */
        {{"\x88\x02\x13\x88", 4}, LIVE_LOST}, /* 5000 */
        {{"\x88\x02\xff\xff", 4}, LIVE_LOST},
        {{"\x88\x04\x03\xe8\xc3\x28", 6},
         LIVE_LOST}, /* a reason that is not UTF-8 */
    };
    struct living *s = *state;

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        serve(s, "stream one");
        fake_raw(s->broker, ends[i].bytes);
        if (ends[i].text && !strcmp(ends[i].text, TOO_LONG))
            fake_raw(s->broker, (struct slice){long_text, 65536});
        fake_hold(s->broker);
    }
    fake_broker_start(s->broker);

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        print_message("row %zu\n", i);
        assert_runs(s, "one|", ends[i].how,
                    ends[i].text ? ends[i].text
                                 : "the broker broke the rules of WebSocket");
        assert_int_equal(s->end.why.rc, ends[i].how == LIVE_BROKEN
                                            ? STATUS_MALFORMED
                                            : STATUS_UNREACHABLE);
        assert_int_equal(s->end.code, 0);
    }
}

TEST(a_reset_in_the_middle_of_a_frame_is_no_more)
{
    struct living *s = *state;

    s->pause_at = 1;
    /* a reset may discard unread bytes */
    serve(s, "stream one wait");
    fake_raw(s->broker, SLICE("\x81\x05th"));
    serves(s, "reset");

    living_run(s);
    fake_go(s->broker);
    assert_false(s->has_end);
    live_hold(s->live, false);
    living_turn(s);

    assert_string_equal(s->seen, "one|");
    assert_end(s, LIVE_LOST, "the connection broke");
}

/* The client answers pings, though not each of many that come at once
 * (RFC 6455 section 5.5.3). */
TEST(pings_are_answered)
{
    struct living *s = *state;

    fake_stream(s->broker);
    for (int i = 0; i < 20; i++)
        fake_ping(s->broker);
    fake_send(s->broker, SLICE("one"));
    fake_expect(s->broker, 6 + 13);
    serves(s, "two hold");
    s->enough = 2;

    living_run(s);

    assert_string_equal(s->seen, "one|two|");
}

/* a long frame may come slowly: what has come of it is a sign of life,
 * as far as one looks. */
TEST(a_slow_frame_is_no_silence)
{
    struct living *s = *state;

    serve(s, "stream wait");
    fake_raw(s->broker, SLICE("\x81\x03o"));
    fake_wait(s->broker);
    fake_raw(s->broker, SLICE("n"));
    serves(s, "hold");
    living_start(s);
    living_until_answered(s);
    living_until_rest(s, 1);

    for (int i = 0; i < 2; i++) {
        fake_go(s->broker);
        living_await_ready(s);
        living_rest(s);
        living_pass(s, s->idle_ms);
        assert_false(s->has_end);
    }

    assert_ends_after(s, s->idle_ms, LIVE_UNFIT, "silence for 60.0 s");
}
