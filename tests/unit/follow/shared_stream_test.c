/*
 * shared_stream_test.c - one connection for many sets: three followers, "a",
 * "b" and "c", and a server with a script.
 */
#include "client/follow/shared_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/follow/live_connection.h"
#include "client/lib/client.h"
#include "tests/clock.h"
#include "tests/support/fake_broker.h"
#include "tests/support/script.h"
#include "tests/test.h"

#define HOUR_US INT64_C(3600000000)

/* A message of a set, and a heartbeat of the stream. */
#define MESSAGE(set, text)                                \
    "<urlset><rs:ln rel=\"up\" href=\"http://h/sets/" set \
    "/capabilitylist.xml\"/><rs:md td:after=\"" text "\"/></urlset>"
#define RESUME "{\"resume\":\"x\"}"

/* Of a follower, which is at place "E-1" and one further for each message. */
struct member {
    struct sharing *all;
    struct shared_part part;
    struct live *live; /* NULL: not joined */
    char name[2];
    unsigned place;
    bool pauses; /* at its next message */
};

struct sharing {
    struct fake_broker *broker;
    struct td_client *client;
    struct td_follow_options how;
    const char *filters;
    struct shared_stream stream;
    struct member members[3];
    unsigned idle_ms;
    unsigned pause_ms; /* of the last trouble */

    /* "+0 " joined, "-0 " left, "a:h " a heartbeat, "a:2 " the message after 2,
     * "a:again " "a:404 " "a:4410 " the end, "! " trouble with a pause, "? "
     * another transport. */
    char told[2000];
    char why[1024];  /* of the last trouble or end */
    char whys[2048]; /* of all troubles since a test emptied it */
};

static void
tell(struct sharing *s, const char *name, const char *what)
{
    size_t used = strlen(s->told);

    snprintf(s->told + used, sizeof(s->told) - used, "%s%s ", name, what);
}

static void
on_joined(size_t number, bool is_joined, void *user)
{
    char text[] = {(char)('0' + number), '\0'};

    tell(user, is_joined ? "+" : "-", text);
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct sharing *s = user;
    size_t n = strlen(s->whys);

    s->pause_ms = pause_ms;
    snprintf(s->whys + n, sizeof(s->whys) - n, "%s\n", why);
    snprintf(s->why, sizeof(s->why), "%s", why);
    tell(s, pause_ms ? "!" : "?", "");
}

static void
write_place(struct buf *to, void *user)
{
    const struct member *m = user;

    buf_add_format(to, ",\"after\":\"E-%u\"", m->place);
}

static bool
on_message(char *bytes, size_t size, void *user)
{
    struct member *m = user;
    char text[40] = ":h";

    if (size > 0) {
        char *message = slice_dup((struct slice){bytes, size});

        snprintf(text, sizeof(text), ":%u",
                 (unsigned)atoi(strstr(message, "td:after=\"") + 10));
        free(message);
        m->place++;
    }
    tell(m->all, m->name, text);
    if (m->pauses)
        live_hold(m->live, true);
    m->pauses = false;
    return true;
}

static void
on_end(const struct live_end *end, void *user)
{
    struct member *m = user;
    char text[40] = ":again";

    m->live = NULL;
    if (end->how == LIVE_CLOSED)
        snprintf(text, sizeof(text), ":%u", end->code);
    else if (end->how != LIVE_AGAIN)
        snprintf(text, sizeof(text), ":%u", end->why.http_status);
    if (end->how != LIVE_AGAIN)
        snprintf(m->all->why, sizeof(m->all->why), "%s", end->why.text);
    tell(m->all, m->name, text);
}

static void
make_stream(struct sharing *s)
{
    static const struct shared_stream_events events = {on_joined, on_trouble};

    shared_stream_fini(&s->stream);
    shared_stream_init(&s->stream, s->client, &s->how, s->filters, &events, s);
    for (size_t i = 0; i < 3; i++)
        s->members[i].part.stream = &s->stream;
}

static int
set_sharing(void **state)
{
    struct sharing *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->broker = fake_broker_new();
    s->client = td_open();
    assert_non_null(s->client);
    s->idle_ms = 60000;
    s->how.transports = TD_WEBSOCKET | TD_EVENTS;
    s->filters = "";
    for (size_t i = 0; i < 3; i++) {
        struct member *m = &s->members[i];

        m->all = s;
        m->name[0] = (char)('a' + i);
        m->place = 1;
        m->part = (struct shared_part){
            .number = i, .set = m->name, .write_place = write_place};
    }
    make_stream(s);
    *state = s;
    return 0;
}

static int
clear_sharing(void **state)
{
    struct sharing *s = *state;

    script_finish();
    for (size_t i = 0; i < 3; i++)
        live_free(s->members[i].live);
    shared_stream_fini(&s->stream);
    td_close(s->client);
    fake_broker_free(s->broker);
    free(s);
    return 0;
}

static void
join(struct member *m)
{
    struct sharing *s = m->all;
    const struct live_request request = {.transport = LIVE_SHARED,
                                         .url = fake_broker_url(s->broker),
                                         .idle_ms = &s->idle_ms,
                                         .shared = &m->part};

    assert_true(
        shared_stream_takes(&s->stream, fake_broker_url(s->broker), m->name));
    m->live = live_start(s->client, &request, on_message, on_end, m);
    assert_non_null(m->live);
    assert_false(
        shared_stream_takes(&s->stream, fake_broker_url(s->broker), m->name));
}

static bool
turn(struct sharing *s)
{
    return handle_loop_service(s->client->loop) == STATUS_OK;
}

static void
leave(struct member *m)
{
    live_free(m->live);
    m->live = NULL;
}

/* The client's steps; after each of them it does what is due:
 *
 *     join ab | leave a | pause a | resume a | pauses a
 *     pass MS | rest      rest: the pause of the last trouble
 *     go                  a fake_wait
 *     told WORDS          waits until the end of what was told says so
 *     says PART           the last trouble or end
 */
static bool
step(void *user, const char *verb, char *rest)
{
    struct sharing *s = user;
    struct member *m = &s->members[(*rest - 'a') % 3U];
    char words[sizeof(s->told)];

    if (!strcmp(verb, "join"))
        for (; *rest; rest++)
            join(&s->members[*rest - 'a']);
    else if (!strcmp(verb, "leave"))
        leave(m);
    else if (!strcmp(verb, "pause"))
        live_hold(m->live, true);
    else if (!strcmp(verb, "resume"))
        live_hold(m->live, false);
    else if (!strcmp(verb, "pauses"))
        m->pauses = true;
    else if (!strcmp(verb, "pass"))
        clock_pass_us(script_number(&rest) * INT64_C(1000));
    else if (!strcmp(verb, "rest"))
        clock_pass_us((s->pause_ms + 1) * INT64_C(1000));
    else if (!strcmp(verb, "go"))
        fake_go(s->broker);
    else if (!strcmp(verb, "says"))
        script_expect_in(s->why, rest);
    else if (!strcmp(verb, "told")) {
        snprintf(words, sizeof(words), "%s ", rest);
        AWAIT((turn(s) &&

               strlen(s->told) >= strlen(words)));
        script_expect(s->told, words);
        s->told[0] = '\0';
    } else {
        return false;
    }
    turn(s);
    return true;
}

static void
play(struct sharing *s, const char *script)
{
    char copy[1000];

    assert_true(strlen(script) < sizeof(copy));
    strcpy(copy, script);
    script_run(copy, step, s);
}

/* The server has read `text` on connection `i`, in its request or as a command.
 */
static void
assert_read(struct sharing *s, size_t i, const char *text)
{
    AWAIT((turn(s) && fake_has_read(s->broker, i, text)));
}

FIXTURE(set_sharing, clear_sharing);

/* One connection, at the places of all, and each message to its follower. */
TEST(one_connection_carries_all_sets)
{
    struct sharing *s = *state;

    fake_stream(s->broker);
    fake_command(s->broker);
    fake_send(s->broker, slice_of(MESSAGE("b", "1")));
    fake_send(s->broker, slice_of(MESSAGE("a", "1")));
    fake_send(s->broker, slice_of(MESSAGE("b", "2")));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    play(s, "join ab; told +0 +1 a:h b:h b:1 a:1 b:2");

    assert_read(s, 0,
                "{\"follow\":[{\"set\":\"a\",\"after\":\"E-1\"},"
                "{\"set\":\"b\",\"after\":\"E-1\"}]}\n");
}

/* Sets join and leave while the connection runs. A late message of a set that
 * has left is dropped; a set that joins again begins at its place. */
TEST(sets_join_and_leave)
{
    struct sharing *s = *state;

    fake_stream(s->broker);
    fake_command(s->broker);
    fake_send(s->broker, slice_of(MESSAGE("a", "1")));
    fake_command(s->broker);
    fake_command(s->broker);
    fake_send(s->broker, slice_of(MESSAGE("a", "2")));
    fake_send(s->broker, slice_of(MESSAGE("b", "1")));
    fake_command(s->broker);
    fake_send(s->broker, slice_of(MESSAGE("a", "2")));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    play(s, "join a; told +0 a:h a:1; leave a; join b; told -0 +1 b:h b:1;"
            "join a; told +0 a:h a:2");

    assert_read(s, 0,
                "{\"unfollow\":[\"a\"]}\n"
                "{\"follow\":[{\"set\":\"b\",\"after\":\"E-1\"}]}\n"
                "{\"follow\":[{\"set\":\"a\",\"after\":\"E-2\"}]}\n");
}

/* A follower that pauses blocks no other follower, and costs no memory. */
TEST(a_pause_is_a_leave)
{
    struct sharing *s = *state;

    fake_stream(s->broker);
    fake_command(s->broker);
    fake_send(s->broker, slice_of(MESSAGE("a", "1")));
    fake_send(s->broker, slice_of(MESSAGE("a", "2")));
    fake_send(s->broker, slice_of(MESSAGE("b", "1")));
    fake_command(s->broker);
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    play(s, "pauses a; join ab; told +0 +1 a:h -0 b:h b:1;"
            "resume a; told a:again");
    assert_read(s, 0, "{\"unfollow\":[\"a\"]}\n");
}

/* The end of one set is that of its follower alone. */
TEST(a_set_ends_alone)
{
    static const struct {
        const char *end, *told;
    } rows[] = {
        {"\"removed\",\"detail\":\"reason", "a:4404"},
        {"\"gone\",\"detail\":\"reason", "a:4410"},
        {"\"failed\",\"detail\":\"reason", "a:1011"},
        {"\"anything\",\"detail\":\"reason", "a:1011"},
        {"\"unknown\",\"detail\":\"reason", "a:404"},
    };
    struct sharing *s = *state;
    char text[200];

    fake_stream(s->broker);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text), "{\"set\":\"a\",\"end\":%s\"}",
                 rows[i].end);
        fake_command(s->broker);
        fake_send(s->broker, slice_of(text));
        fake_send(s->broker, slice_of(MESSAGE("b", "1")));
    }
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text), "join %s -0 b:1 %s",
                 i ? "a; told +0 a:h" : "ab; told +0 +1 a:h b:h", rows[i].told);
        play(s, text);
        play(s, "says reason");
    }
}

/* The end of the connection: no follower notices, and after one pause the next
 * one continues each set at its place. */
TEST(a_connection_that_ends_is_continued)
{
    struct sharing *s = *state;

    for (int i = 0; i < 2; i++) {
        fake_stream(s->broker);
        fake_command(s->broker);
        fake_send(s->broker, slice_of(MESSAGE("a", "1")));
        if (i == 1)
            fake_close(s->broker, 1001, "restart");
    }
    fake_answer(s->broker, 503, "text/plain", "");
    fake_stream(s->broker);
    fake_command(s->broker);
    fake_send(s->broker, slice_of(RESUME));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    play(s, "join ab; told +0 +1 a:h b:h a:1 !; says broke;"
            "rest; told a:h b:h a:1 !; says 1001 restart;"
            "rest; told !; says 503; join c; rest; told +2 a:h b:h c:h");

    assert_read(s, 1,
                "[{\"set\":\"a\",\"after\":\"E-2\"},"
                "{\"set\":\"b\",\"after\":\"E-1\"}]");
    assert_read(s, 3,
                "[{\"set\":\"a\",\"after\":\"E-3\"},"
                "{\"set\":\"b\",\"after\":\"E-1\"},"
                "{\"set\":\"c\",\"after\":\"E-1\"}]");
}

/* Silence, which "resume" breaks. */
TEST(a_connection_without_a_sign_of_life_ends)
{
    struct sharing *s = *state;

    fake_stream(s->broker);
    fake_command(s->broker);
    fake_send(s->broker, SLICE("{\"now\":\"x\",\"heartbeat\":0.5}"));
    fake_send(s->broker, slice_of(MESSAGE("a", "1")));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    play(s, "join a; told +0 a:h a:1; pass 1499; pass 20; pass 20; told !; "
            "says silence for 1.5 s");
}

/* After an interval of silence a set gets a heartbeat, with the next message of
 * any set. */
TEST(silent_sets_get_heartbeats)
{
    struct sharing *s = *state;

    fake_stream(s->broker);
    fake_send(s->broker, SLICE("{\"now\":\"x\",\"heartbeat\":10}"));
    fake_command(s->broker);
    fake_send(s->broker, slice_of(MESSAGE("a", "1")));
    fake_wait(s->broker);
    fake_send(s->broker, slice_of(MESSAGE("a", "2")));
    fake_wait(s->broker);
    fake_send(s->broker, slice_of(RESUME));
    fake_send(s->broker, slice_of(RESUME));
    fake_send(s->broker, slice_of(MESSAGE("b", "1")));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    play(s, "join ab; told +0 +1 a:h b:h a:1; pass 9000; go; told a:2 b:h;"
            "pass 9000; go; told a:h b:h b:1");
}

/* What is no stream of many sets: the next transport, and if there is none,
 * each follower has to connect alone, for a while. */
TEST(followers_go_on_alone_where_no_transport_works)
{
    static const struct {
        const char *sent, *why;
    } rows[] = {
        {MESSAGE("c", "1"), "a set that nobody asked for"},
        {"[]", "that is no message"},
        {"nonsense", "that is no message"},
    };
    struct sharing *s = *state;
    const char *url = fake_broker_url(s->broker);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fake_stream(s->broker);
        fake_command(s->broker);
        fake_send(s->broker, slice_of(rows[i].sent));
        fake_plain(s->broker);
        fake_raw(s->broker, SLICE("HTTP/1.1 404 no\r\n"
                                  "Content-Length: 0\r\n\r\n"));
    }
    fake_broker_start(s->broker);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        make_stream(s); /* which has said nothing yet */
        s->whys[0] = '\0';
        /* With libwebsockets 4.3.5, the next transport fails in that turn. */
        play(s, "join ab; told +0 +1 a:h b:h ?");
        script_expect_in(s->whys, rows[i].why);
        script_expect_in(s->whys, "no WebSocket for all sets together here, "
                                  "server-sent events instead: ");
        play(s, "told ? -0 -1 a:again b:again; says no server-sent events");
        script_expect_in(s->why, ", each set by itself instead: ");
        assert_false(shared_stream_takes(&s->stream, url, "a"));
        clock_pass_us(24 * HOUR_US);
        assert_true(shared_stream_takes(&s->stream, url, "a"));
    }
}

/* What the broker does not want at all, no transport carries: too many sets. */
TEST(a_refusal_is_one_of_all_transports)
{
    struct sharing *s = *state;

    fake_stream(s->broker);
    fake_command(s->broker);
    fake_close(s->broker, 1008, "too many sets");
    for (int i = 0; i < 4; i++)
        fake_answer(s->broker, 429, "text/plain", "");
    fake_broker_start(s->broker);

    play(s, "join a; told +0 a:h ? -0 a:again; says 1008 too many sets");
    clock_pass_us(24 * HOUR_US);
    play(s, "join a; told +0 !; rest; told !; rest; told !; rest;"
            "told -0 a:again; says 429");
}

/* While the broker is away, the connection tries both transports, and all
 * followers stay. */
TEST(a_broker_that_is_away_is_waited_for)
{
    struct sharing *s = *state;

    fake_stream(s->broker);
    fake_command(s->broker);
    fake_hold(s->broker);

    play(s,
         "join a; told +0 !; rest; told !; rest; told !; says cannot connect;"
         "rest; told ? !");
    fake_broker_start(s->broker);
    play(s, "rest; told a:h");

    assert_read(s, 0, "GET /sets/news?lines=yes HTTP/1.1\r\n");
}

/* Server-sent events */

#define EVENTS                                                          \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: " \
    "1000\n\nid: x\n\n"

#define EVENT(name, data) "event: " name "\ndata: " data "\n\n"

/* The sets are the body of the request: those that join later need another
 * one, together. */
TEST(events_carry_all_sets)
{
    struct sharing *s = *state;

    s->how.transports = TD_EVENTS;
    s->filters = "&tag=x&tag=y";
    make_stream(s);
    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(EVENTS EVENT("changes", MESSAGE("b", "1")) EVENT(
                            "heartbeat", RESUME) EVENT("heartbeat", RESUME)));
    fake_wait(s->broker);
    fake_raw(s->broker,
             SLICE(EVENT("end", "{\"set\":\"a\",\"end\":\"removed\"}")
                       EVENT("changes", MESSAGE("b", "2"))));
    fake_hold(s->broker);
    fake_plain(s->broker);
    fake_raw(s->broker, SLICE(EVENTS EVENT("changes", MESSAGE("c", "1"))));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    play(s, "join ab; told +0 +1 a:h b:h b:1;"
            "go; told -0 b:2 a:4404; join c; pass 500; join a; told +2 +0;"
            "pass 499; pass 1; told a:h b:h c:h c:1");

    assert_read(s, 0, "POST /sets/news?lines=yes&tag=x&tag=y HTTP/1.1\r\n");
    assert_read(s, 0, "\r\nContent-Type: application/json\r\n");
    assert_read(s, 0,
                "\r\n\r\n{\"follow\":[{\"set\":\"a\",\"after\":\"E-1\"},"
                "{\"set\":\"b\",\"after\":\"E-1\"}]}");
    assert_read(s, 1,
                "\r\n\r\n{\"follow\":[{\"set\":\"a\",\"after\":\"E-1\"},"
                "{\"set\":\"b\",\"after\":\"E-3\"},"
                "{\"set\":\"c\",\"after\":\"E-1\"}]}");
}

/* A broker of an earlier version sends JSON, which has no lines. */
TEST(messages_without_lines_are_left)
{
    struct sharing *s = *state;

    s->how.transports = TD_EVENTS;
    make_stream(s);
    fake_plain(s->broker);
    fake_raw(s->broker,
             SLICE(EVENTS EVENT("changes", "{\"set\":\"a\",\"after\":1,"
                                           "\"changes\":[]}")));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    play(s, "join a; told +0 a:h ? -0 a:again; says no lines of the log");
}

/* Who joins */

TEST(only_sets_of_one_address_join)
{
    struct sharing *s = *state;
    const char *url = fake_broker_url(s->broker);

    assert_true(shared_stream_takes(&s->stream, url, "a"));
    assert_true(shared_stream_takes(&s->stream, "http://127.0.0.1:1/", "a"));
    assert_false(shared_stream_takes(&s->stream, url, "no name \"of\" a set"));
    join(&s->members[0]);
    assert_true(shared_stream_takes(&s->stream, url, "b"));
    assert_false(shared_stream_takes(&s->stream, "http://127.0.0.1:1/", "b"));
    leave(&s->members[0]);
    assert_true(shared_stream_takes(&s->stream, url, "a"));

    s->how.transports = TD_LONG_POLL | TD_POLL;
    make_stream(s);
    assert_false(shared_stream_takes(&s->stream, url, "a"));
}
