/*
 * follow_test.c - td_follow against a broker that does as it is told.
 */
#include "tests/test.h"
#include "tests/unit/follow/following.h"

/* The good way */

FIXTURE(set_stage, clear_stage);

/* what was missed, then what is new, each once and in order. */
TEST(hands_over_every_change_in_order)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 2, 2));
    fake_send(s->broker, json(s, 2, 5));
    fake_send(s->broker, json(s, 5, 6));
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, EPOCH "-2", TD_JSON, 6), TD_STOPPED);

    assert_string_equal(s->seen, "h 3 4 5 6 ");
    assert_string_equal(s->position, EPOCH "-6");
    assert_asked(s, 0, "GET /sets/news/stream?after=" EPOCH "-2 HTTP/1.1");
    assert_non_null(strstr(fake_request(s->broker, 0), "resourcesync.json"));
    assert_null(strstr(fake_request(s->broker, 0), "resourcesync.xml"));
}

/* the text of a change is the entry as it came. */
TEST(hands_over_json_as_it_came)
{
    struct stage *s = *state;
    static const char message[] =
        "{ \"set\":\"news\", \"epoch\":\"" EPOCH "\", \"after\":0, \"last\":1,"
        " \"from\":\"2026-01-01T00:00:00Z\","
        " \"until\":\"2026-01-01T00:00:01Z\",\n"
        " \"changes\": [ {\"loc\":\"http://example.com/\\u00e9]}\\\"\", "
        "\"change\":\"updated\", \"datetime\":\"2026-01-01T00:00:01Z\","
        " \"seq\":1} ] }\n";

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, SLICE(message));
    fake_broker_start(s->broker);

    (void)follow(s, "0", TD_JSON, 1);

    assert_string_equal(s->last_text,
                        "{\"loc\":\"http://example.com/\\u00e9]}\\\"\", "
                        "\"change\":\"updated\", "
                        "\"datetime\":\"2026-01-01T00:00:01Z\", \"seq\":1}");
}

/* in XML the line, from <url> to </url>. */
TEST(hands_over_xml_as_it_came)
{
    struct stage *s = *state;
    char *line = s->history.fragments[2];

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 0, 2));
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_XML, 2), TD_STOPPED);

    assert_string_equal(s->seen, "1 2 ");
    assert_int_equal(strlen(s->last_text), s->history.sizes[2] - 1);
    assert_memory_equal(s->last_text, line, s->history.sizes[2] - 1);
    assert_memory_equal(s->digest, "sha-256:", 8);
    assert_int_equal(strlen(s->digest), 72 - 1 + (s->digest[71] != '\0'));
    assert_non_null(strstr(fake_request(s->broker, 0), "resourcesync.xml"));
}

/* "from now on" is settled by the first message: what comes while the
 * connection is lost is not missed. */
TEST(from_now_on_begins_with_the_first_message)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 7, 7));
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 7, 9));
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, NULL, TD_JSON, 9), TD_STOPPED);

    assert_string_equal(s->seen, "h 8 9 ");
    assert_asked(s, 0, "GET /sets/news/stream HTTP/1.1");
    assert_asked(s, 1, "GET /sets/news/stream?after=" EPOCH "-7 HTTP/1.1");
}

/* a message may come in many fragments, pings between them. */
TEST(reads_a_message_in_fragments)
{
    struct stage *s = *state;
    struct slice whole = json(s, 0, 20);

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

/* Repeats and gaps */

/* each change once, though the broker repeats itself. */
TEST(drops_a_repeat)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 0, 3));
    fake_send(s->broker, json(s, 0, 3));
    fake_send(s->broker, json(s, 1, 2));
    fake_send(s->broker, json(s, 2, 2));
    fake_send(s->broker, json(s, 3, 4));
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_JSON, 4), TD_STOPPED);

    assert_string_equal(s->seen, "1 2 3 4 ");
}

/* of a message that begins too early only what is new. */
TEST(takes_what_is_new_of_an_overlap)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 0, 3));
    fake_send(s->broker, xml(s, 1, 5));
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_XML, 5), TD_STOPPED);

    assert_string_equal(s->seen, "1 2 3 4 5 ");
}

/* a hole is filled from the change memory, page by page, before what
 * follows it. */
TEST(fills_a_gap_from_the_change_memory)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 0, 1));
    fake_send(s->broker, json(s, 5, 6));
    fake_send(s->broker, json(s, 6, 7));
    fake_hold(s->broker);
    fake_answer(s->broker, 200, "application/json", json(s, 1, 3).data);
    fake_answer(s->broker, 200, "application/json", json(s, 3, 5).data);
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_JSON, 7), TD_STOPPED);

    assert_string_equal(s->seen, "1 2 3 4 5 6 7 ");
    assert_asked(s, 1, "GET /sets/news/changes?after=" EPOCH "-1 HTTP/1.1");
    assert_asked(s, 2, "GET /sets/news/changes?after=" EPOCH "-3 HTTP/1.1");
    assert_int_equal(s->troubles, 0);
}

/* a page that reaches past the hole is no reason to repeat anything. */
TEST(repeats_nothing_when_a_page_reaches_past_the_gap)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 0, 1));
    fake_send(s->broker, json(s, 3, 6));
    fake_send(s->broker, json(s, 6, 8));
    fake_hold(s->broker);
    fake_answer(s->broker, 200, "application/json", json(s, 1, 5).data);
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_JSON, 8), TD_STOPPED);

    assert_string_equal(s->seen, "1 2 3 4 5 6 7 8 ");
}

/* in XML as well. */
TEST(fills_a_gap_in_xml_from_the_change_memory)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 0, 1));
    fake_send(s->broker, xml(s, 2, 3));
    fake_hold(s->broker);
    fake_answer(s->broker, 200, "application/xml", xml(s, 1, 2).data);
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_XML, 3), TD_STOPPED);

    assert_string_equal(s->seen, "1 2 3 ");
    assert_asked(s, 1, "GET /sets/news/changes?after=" EPOCH "-1 HTTP/1.1");
    assert_non_null(
        strstr(fake_request(s->broker, 1), "\r\nAccept: application/xml\r\n"));
}

/* a hole that stays is told, not jumped over. */
TEST(tells_of_a_gap_that_cannot_be_filled)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 0, 1));
    fake_send(s->broker, json(s, 2, 3));
    fake_hold(s->broker);
    fake_answer(s->broker, 200, "application/json", json(s, 1, 1).data);
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_JSON, 3), TD_BROKEN);

    assert_string_equal(s->seen, "1 ");
    assert_string_equal(td_problem(s->client),
                        "a gap after 1 that cannot be filled");
}

/* the same in XML. */
TEST(tells_of_a_gap_in_xml_that_cannot_be_filled)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 0, 1));
    fake_send(s->broker, xml(s, 2, 3));
    fake_hold(s->broker);
    fake_answer(s->broker, 200, "application/xml", xml(s, 2, 3).data);
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_XML, 3), TD_BROKEN);

    assert_string_equal(s->seen, "1 ");
    assert_string_equal(td_problem(s->client),
                        "a gap after 1 that cannot be filled");
}

/* when the missing entries are no longer kept, the follower hears it. */
TEST(a_gap_that_is_no_longer_retained_is_gone)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 0, 1));
    fake_send(s->broker, json(s, 2, 3));
    fake_hold(s->broker);
    fake_answer(s->broker, 410, "application/problem+json",
                "{\"status\":410,\"detail\":\"the earliest is 2\"}");
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_JSON, 3), TD_GONE);

    assert_string_equal(td_problem(s->client), "410: the earliest is 2");
}

/* a page that cannot be had now is a lost connection, not a lost
 * change. */
TEST(connects_again_when_the_change_memory_is_away)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 0, 1));
    fake_send(s->broker, json(s, 2, 3));
    fake_hold(s->broker);
    fake_answer(s->broker, 503, "application/problem+json", "{}");
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 1, 3));
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_JSON, 3), TD_STOPPED);

    assert_string_equal(s->seen, "1 2 3 ");
}

/* Positions that are gone */

/* a log made anew is told, its entries are not mistaken for ours. */
TEST(another_epoch_is_gone)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, history_json(&s->other, 4, 5));
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, EPOCH "-4", TD_JSON, 5), TD_GONE);

    assert_string_equal(s->seen, "");
    assert_non_null(strstr(td_problem(s->client), OTHER_EPOCH));
}

/* close code 4410, with the reason in the broker's words. */
TEST(close_4410_is_gone)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 2, 2));
    fake_close(s->broker, 4410, "earliest " EPOCH "-40");
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, EPOCH "-2", TD_JSON, 9), TD_GONE);

    assert_non_null(
        strstr(td_problem(s->client), "4410 earliest " EPOCH "-40"));
}

/* the same, told by the handshake. */
TEST(handshake_410_is_gone)
{
    struct stage *s = *state;
    static const char body[] = "{\"detail\":\"ahead of the log\"}";

    fake_describe(s->broker);
    fake_answer(s->broker, 410, "application/problem+json", body);
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, EPOCH "-2", TD_JSON, 9), TD_GONE);

    assert_string_equal(td_problem(s->client), "410: ahead of the log");
}

/* Histories that cannot be right */

/* in XML every entry is proven by the digest. */
TEST(a_changed_entry_breaks_the_digest)
{
    struct stage *s = *state;
    char *spoilt = history_copy(&s->history, xml(s, 1, 3));

    *strstr(spoilt, "n=3") = 'm';
    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 0, 1));
    fake_send(s->broker, slice_of(spoilt));
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_XML, 3), TD_BROKEN);

    assert_string_equal(s->seen, "1 ");
    assert_non_null(strstr(td_problem(s->client), "digest at 3"));
}

/* so is the part of a message that begins too early. */
TEST(a_changed_entry_in_an_overlap_breaks_the_digest)
{
    struct stage *s = *state;
    char *spoilt = history_copy(&s->history, xml(s, 1, 4));

    *strstr(spoilt, "n=4") = 'm';
    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 0, 2));
    fake_send(s->broker, slice_of(spoilt));
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_XML, 4), TD_BROKEN);

    assert_string_equal(s->seen, "1 2 ");
}

/* a broker that comes back with another past is found out by its first
 * heartbeat, in JSON too. */
TEST(another_past_breaks_the_digest)
{
    struct stage *s = *state;
    char *spoilt = history_copy(&s->history, json(s, 2, 2));
    char *digit = strstr(spoilt, "sha-256:") + strlen("sha-256:");

    *digit = *digit == '0' ? '1' : '0';
    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 0, 2));
    fake_stream(s->broker);
    fake_send(s->broker, slice_of(spoilt));
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_JSON, 9), TD_BROKEN);

    assert_string_equal(s->seen, "1 2 ");
}

/* a message whose entries are not those it says it covers: another one
 * among them, one too few, one too many. */
TEST(entries_must_be_those_covered)
{
    struct stage *s = *state;
    char *other = history_copy(&s->history, json(s, 0, 3));
    char *fewer = history_copy(&s->history, json(s, 0, 3));
    char *more = history_copy(&s->history, json(s, 0, 3));
    char *spoilt[] = {other, fewer, more};

    memcpy(strstr(other, "\"seq\":2"), "\"seq\":9", 7);
    memcpy(strstr(fewer, "\"last\":3"), "\"last\":4", 8);
    memcpy(strstr(more, "\"last\":3"), "\"last\":2", 8);
    for (size_t i = 0; i < 3; i++) {
        fake_describe(s->broker);
        fake_stream(s->broker);
        fake_send(s->broker, slice_of(spoilt[i]));
    }
    fake_broker_start(s->broker);

    for (size_t i = 0; i < 3; i++)
        assert_int_equal(follow(s, "0", TD_JSON, 9), TD_BROKEN);

    assert_string_equal(s->seen, "");
}

/* what is no message ends it, with a reason. */
TEST(garbage_is_broken)
{
    struct stage *s = *state;
    static const char *const garbage[] = {
        "", "hello", "{", "[]", "{}", "{\"changes\":[]}",
    };

    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        fake_describe(s->broker);
        fake_stream(s->broker);
        fake_send(s->broker, slice_of(garbage[i]));
    }
    fake_broker_start(s->broker);

    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        assert_int_equal(follow(s, "0", TD_JSON, 3), TD_BROKEN);
        assert_string_not_equal(td_problem(s->client), "");
    }
    assert_string_equal(s->seen, "");
}

/* the same in XML; a Change List is no notification, and entries that
 * are not lines cannot be proven. */
TEST(garbage_in_xml_is_broken)
{
    struct stage *s = *state;
    char *list = history_copy(&s->history, xml(s, 0, 2));
    char *word = strstr(list, "change-notification");
    char *joined = history_copy(&s->history, xml(s, 0, 2));
    const char *garbage[] = {"", "<urlset", "<a/>", list, joined};

    strstr(strstr(joined, "<url>"), "\n<url>")[0] = ' ';
    memcpy(word, "changelist\"        ", 19);
    word[19] = ' ';
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        fake_describe(s->broker);
        fake_stream(s->broker);
        fake_send(s->broker, slice_of(garbage[i]));
    }
    fake_broker_start(s->broker);

    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++)
        assert_int_equal(follow(s, "0", TD_XML, 3), TD_BROKEN);
    assert_string_equal(s->seen, "");
}

/* messages are text. */
TEST(a_binary_message_is_broken)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send_binary(s->broker, json(s, 0, 1));
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, "0", TD_JSON, 1), TD_BROKEN);
}

/* memory is bounded, whatever the broker sends. */
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
