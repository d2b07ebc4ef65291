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

/* A conversation with new, repeated, missing or expired messages. */
struct talk {
    const char *what;
    enum td_form form;

    /* d: the set is described. s: a stream begins. 2-5: a message on it with
     * the changes after 2 up to 5; o4-5: of a log made anew. hold: it stands.
     * gone: a farewell. p1-3: a page of the change memory. 410, 503: a
     * refusal. */
    const char *script;
    const char *after;
    uint64_t until;
    enum td_status rc;
    const char *seen;
    const char *problem; /* NULL: none */
    unsigned troubles;
    const char *first, *second, *third; /* requests begin so; NULL: anyhow */
};

#define STREAM   "GET /sets/news/stream"
#define CHANGES  "GET /sets/news/changes?after=" EPOCH
#define NO_FILL  "a gap after 1 that cannot be filled"
#define EARLIEST "earliest " EPOCH "-40"

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
    {"close code 4410 is told in the broker's words", TD_JSON, "d s 2-2 gone",
     EPOCH "-2", 9, TD_GONE, "h ",
     "the broker ended the stream: 4410 " EARLIEST},
    {"so is the answer to the handshake", TD_JSON, "d 410", EPOCH "-2", 9,
     TD_GONE, "", "410: " EARLIEST},
};

static struct slice
message(struct stage *s, const struct talk *t, const char *word)
{
    struct history *h = *word == 'o' ? &s->other : &s->history;
    unsigned long long after, last;

    word += strspn(word, "op");
    assert_int_equal(sscanf(word, "%llu-%llu", &after, &last), 2);
    return t->form == TD_XML ? history_xml(h, after, last)
                             : history_json(h, after, last);
}

static void
tell_word(struct stage *s, const struct talk *t, const char *word)
{
    static const char detail[] = "{\"detail\":\"" EARLIEST "\"}";

    if (!strcmp(word, "d"))
        fake_describe(s->broker);
    else if (!strcmp(word, "s"))
        fake_stream(s->broker);
    else if (!strcmp(word, "hold"))
        fake_hold(s->broker);
    else if (!strcmp(word, "gone"))
        fake_close(s->broker, 4410, EARLIEST);
    else if (*word == 'p')
        fake_answer(s->broker, 200,
                    t->form == TD_XML ? "application/xml" : "application/json",
                    message(s, t, word).data);
    else if (strchr(word, '-'))
        fake_send(s->broker, message(s, t, word));
    else
        fake_answer(s->broker, (unsigned)atoi(word), "application/problem+json",
                    detail);
}

static void
hold_talk(struct stage *s, const struct talk *t)
{
    const char *asked[] = {t->first, t->second, t->third};
    char script[64], *rest = script;
    enum td_status rc;

    snprintf(script, sizeof(script), "%s", t->script);
    for (char *word; (word = strsep(&rest, " "));)
        tell_word(s, t, word);
    fake_broker_start(s->broker);
    rc = follow(s, t->after, t->form, t->until);

    if (rc != t->rc || strcmp(s->seen, t->seen) || s->troubles != t->troubles)
        fail_msg("%s: it ended with %d, \"%s\", %u troubles", t->what, rc,
                 s->seen, s->troubles);
    if (strcmp(td_problem(s->client), t->problem ? t->problem : ""))
        fail_msg("%s: its problem is \"%s\"", t->what, td_problem(s->client));
    for (size_t i = 0; i < 3; i++)
        if (asked[i])
            assert_asked(s, i, asked[i]);
    if (t->form == TD_XML && t->second)
        assert_non_null(strstr(fake_request(s->broker, 1),
                               "\r\nAccept: application/xml\r\n"));
}

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
