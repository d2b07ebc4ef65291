/*
 * follow_test.c - td_follow against a broker that follows the test's script.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/follow/following.h"

/* The good way */

FIXTURE(set_stage, clear_stage);

/* the missed changes, then the new ones, each once and in order. */
TEST(hands_over_every_change_in_order)
{
    struct stage *s = *state;

    assert_follows(s, "d s 2-2 2-5 5-6", EPOCH "-2", 6, "h 3 4 5 6 ", 0);
    assert_asked(s, 0, STREAM "?after=" EPOCH "-2 HTTP/1.1");
    assert_string_equal(s->position, EPOCH "-6");
    assert_non_null(strstr(fake_request(s->broker, 0), "resourcesync.xml"));
    assert_null(strstr(fake_request(s->broker, 0), "resourcesync.json"));
}

/* the text of a change is made from its line, as the broker does
 * it. */
TEST(hands_over_json_of_the_lines)
{
    struct stage *s = *state;
    struct slice whole = json(s, 0, 2);

    assert_follows(s, "d s 0-2", "0", 2, "1 2 ", 0);
    assert_string_not_equal(s->last_text, "");
    assert_non_null(
        memmem(whole.data, whole.size, s->last_text, strlen(s->last_text)));
}

/* td_keep_checkpoints: without it a key is for td_verify alone. */
TEST(a_key_alone_holds_nothing_back)
{
    struct stage *s = *state;

    assert_int_equal(td_trust(s->client,
                              "news.example/0000000000000000+b2fd0dea+"
                              "AQABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f",
                              NULL, 0),
                     TD_OK);
    assert_follows(s, "d s 0-2", "0", 2, "1 2 ", 0);
}

/* in XML the line, from <url> to </url>. */
TEST(hands_over_xml_as_it_came)
{
    struct stage *s = *state;
    char *line = s->history.fragments[2];

    hold_talk(
        s, &(struct talk){NULL, TD_XML, "d s 0-2", "0", 2, TD_STOPPED, "1 2 "});
    assert_int_equal(strlen(s->last_text), s->history.sizes[2] - 1);
    assert_memory_equal(s->last_text, line, s->history.sizes[2] - 1);
    assert_memory_equal(s->digest, "sha-256:", 8);
    assert_int_equal(strlen(s->digest), 72 - 1 + (s->digest[71] != '\0'));
    assert_non_null(strstr(fake_request(s->broker, 0), "resourcesync.xml"));
}

/* a message may come in many fragments, pings between them. */
TEST(reads_a_message_in_fragments)
{
    struct stage *s = *state;
    struct slice whole = xml(s, 0, 20);

    fake_describe(s->broker);
    fake_stream(s->broker);
    for (size_t at = 0; at < whole.size; at += 1000) {
        size_t left = whole.size - at;
        struct slice part = {whole.data + at, left < 1000 ? left : 1000};

        fake_send_part(s->broker, part, at == 0, left <= 1000);
        fake_ping(s->broker);
    }
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_JSON, 20), TD_STOPPED);

    assert_string_equal(s->position, EPOCH "-20");
}

#define NO_FILL "a gap after 1 that cannot be filled"

static const struct talk talks[] = {
    {"\"from now on\" is settled by the first message: what comes while the "
     "connection is lost is not missed",
     TD_JSON, "d s 7-7 s 7-9", NULL, 9, TD_STOPPED, "h 8 9 ", NULL, 1,
     STREAM " HTTP/1.1", STREAM "?after=" EPOCH "-7 HTTP/1.1"},
    {"each change is handed over once, though the broker repeats itself",
     TD_JSON, "d s 0-3 0-3 1-2 2-2 3-4", "0", 4, TD_STOPPED, "1 2 3 4 "},
    {"of a message that begins too early only what is new", TD_XML,
     "d s 0-3 1-5", "0", 5, TD_STOPPED, "1 2 3 4 5 "},
    {"a gap is filled from the change memory, page by page, before what "
     "follows it",
     TD_JSON, "d s 0-1 5-6 6-7 hold p1-3 p3-5", "0", 7, TD_STOPPED,
     "1 2 3 4 5 6 7 ", NULL, 0, NULL, CHANGES "-1 HTTP/1.1",
     CHANGES "-3 HTTP/1.1"},
    {"in XML as well", TD_XML, "d s 0-1 2-3 hold p1-2", "0", 3, TD_STOPPED,
     "1 2 3 ", NULL, 0, NULL, CHANGES "-1 HTTP/1.1"},
    {"a page that reaches past the gap is no reason to repeat anything",
     TD_JSON, "d s 0-1 3-6 6-8 hold p1-5", "0", 8, TD_STOPPED,
     "1 2 3 4 5 6 7 8 "},
    {"a gap that stays is told, not jumped over", TD_JSON,
     "d s 0-1 2-3 hold p1-1", "0", 3, TD_BROKEN, "1 ", NO_FILL},
    {"the same in XML", TD_XML, "d s 0-1 2-3 hold p2-3", "0", 3, TD_BROKEN,
     "1 ", NO_FILL},
    {"a page that cannot be had now is a lost connection, not a lost change",
     TD_JSON, "d s 0-1 2-3 hold 503 s 1-3", "0", 3, TD_STOPPED, "1 2 3 ", NULL,
     1},
    {"entries that are missing and no longer kept are gone", TD_JSON,
     "d s 0-1 2-3 hold 410", "0", 3, TD_GONE, "1 ", "410: " EARLIEST},
    {"a log made anew is told, its entries are not mistaken for ours", TD_JSON,
     "d s o4-5", EPOCH "-4", 5, TD_GONE, "",
     "the set's log was made anew: its epoch is " OTHER_EPOCH ", not " EPOCH},
    {"close code 4410 is told in the broker's words", TD_JSON,
     "d s 2-2 gone 410", EPOCH "-2", 9, TD_GONE, "h ",
     "the broker ended the stream: 4410 " EARLIEST},
    {"so is the answer to the handshake", TD_JSON, "d 410 410 410", EPOCH "-2",
     9, TD_GONE, "", "410: " EARLIEST},
};

/* where a follower begins.: it delivers each change once
 * and in order, and fills or reports a hole. R-345: a position that is gone. */
TEST(hands_over_what_a_conversation_tells)
{
    for (size_t i = 0; i < sizeof(talks) / sizeof(talks[0]); i++) {
        void *stage;

        set_stage(&stage);
        hold_talk(stage, &talks[i]);
        clear_stage(&stage);
    }
}

/* Histories that cannot be right */

/* the digest proves every entry, also the part of a message that
 * begins too early. The first heartbeat of a broker that comes back with
 * another past shows that, too. */
TEST(a_digest_that_does_not_agree_is_refused)
{
    struct stage *s = *state;

    const struct {
        enum td_form form;
        const char *script;
        const char *text;
        uint64_t last;
        const char *seen, *problem;
    } rows[] = {
        {TD_XML, "d s 0-1 x", spoil(s, xml(s, 1, 3), "n=3", "m"), 3, "1 ",
         "digest of entry 3"},
        {TD_XML, "d s 0-2 x", spoil(s, xml(s, 1, 4), "n=4", "m"), 4, "1 2 ",
         "digest of entry 4"},
        {TD_JSON, "d s 0-2 s x", spoil(s, xml(s, 2, 2), "sha-256:", ""), 9,
         "1 2 ", "digest of entry 2"},
        {TD_JSON, "d s 0-2 x", spoil(s, xml(s, 1, 4), "n=4", "m"), 4, "1 2 ",
         "digest of entry 4"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        tell_scenes(s, rows[i].script, &rows[i].text);
    fake_broker_start(s->broker);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        s->seen[0] = '\0';
        if (follow(s, "0", rows[i].form, rows[i].last) != TD_REWOUND ||
            strcmp(s->seen, rows[i].seen) ||
            !strstr(td_problem(s->client), rows[i].problem))
            fail_msg("%s: \"%s\", and then \"%s\"", rows[i].script, s->seen,
                     td_problem(s->client));
    }
}

/* a malformed message ends the follower with a reason. A message must
 * have exactly the entries of its range. In XML a Change List is no
 * notification, and the digest proves only entries that are lines. */
TEST(garbage_is_broken)
{
    struct stage *s = *state;
    const struct slice all = xml(s, 0, 3), lines = xml(s, 0, 2);

    const struct {
        enum td_form form;
        const char *text;
    } rows[] = {
        {TD_JSON, spoil(s, all, "seq=\"2", "seq=\"9")},
        {TD_JSON, spoil(s, all, "last=\"3", "last=\"4")}, /* one too few */
        {TD_JSON, spoil(s, all, "last=\"3", "last=\"2")},
        {TD_JSON, ""},
        {TD_JSON, "hello"},
        {TD_JSON, "{"},
        {TD_JSON, "[]"},
        {TD_JSON, "{}"},
        {TD_JSON, "{\"changes\":[]}"},
        {TD_XML, ""},
        {TD_XML, "<urlset"},
        {TD_XML, "<a/>"},
        {TD_XML,
         spoil(s, lines, "change-notification\"", "changelist\"         ")},
        {TD_XML, spoil(s, lines, "</url>\n<url>", "</url> <url>")},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        tell_scenes(s, "d s x", &rows[i].text);
    fake_broker_start(s->broker);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (follow(s, "0", rows[i].form, 9) != TD_BROKEN ||
            !*td_problem(s->client) || *s->seen)
            fail_msg("\"%s\" is no message, but was taken: \"%s\"",
                     rows[i].text, s->seen);
}

/* messages are text. */
TEST(a_binary_message_is_broken)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send_binary(s->broker, xml(s, 0, 1));
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_JSON, 1), TD_BROKEN);
}

/* memory is bounded for any bytes of the broker. */
TEST(an_endless_message_is_broken)
{
    struct stage *s = *state;
    static char space[1 << 20];

    memset(space, ' ', sizeof(space));
    fake_describe(s->broker);
    fake_stream(s->broker);
    for (int i = 0; i < 20; i++)
        fake_send_part(s->broker, (struct slice){space, sizeof(space)}, i == 0,
                       false);
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_JSON, 1), TD_BROKEN);

    assert_non_null(strstr(td_problem(s->client), "16777216"));
}
