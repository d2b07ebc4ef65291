/*
 * postponement_test.c - clients that come from another broker of the cluster,
 * with positions that this broker does not have yet.
 *
 * Broker 0 takes posts; broker 1 serves, and follows when the test says so.
 */
#include "broker/http/postponement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "broker/access/tokens.h"
#include "broker/http/origins.h"
#include "broker/push/subscribers.h"
#include "tests/clock.h"
#include "tests/support/sets.h"
#include "tests/support/shared_journal.h"
#include "tests/support/tempdir.h"
#include "tests/support/wire.h"
#include "tests/test.h"

static struct world {
    struct shared_journal all;
    struct seat seats[2];
    struct tempdir dirs[2];
    struct sets s[2];
    struct http http;
    struct server *server;
    struct wire *w;
} world;

static void
on_wake(struct service *service, void *user)
{
    (void)user;
    push_on_wake(world.http.push, service);
}

static void
on_tick(struct service *service, void *user)
{
    (void)user;
    push_on_tick(world.http.push, service);
}

static void
on_certain(void *user)
{
    if (user == &world.s[1] && world.http.push)
        push_copy_is_certain(world.http.push);
}

/* Both brokers have the entries 1 to 3 of "demo". */
static int
set_up(void **state)
{
    struct server_options options = {
        .host = "127.0.0.1",
        .threads = 1,
        .request_timeout_us = INT64_C(300000000),
        .on_request = http_on_request,
        .on_wake = on_wake,
        .on_tick = on_tick,
        .user = &world.http,
    };
    char url[64];

    (void)state;
    memset(&world, 0, sizeof(world));
    shared_journal_init(&world.all);
    for (int i = 0; i < 2; i++) {
        tempdir_open(&world.dirs[i]);
        sets_configure(&world.s[i], world.dirs[i].path);
        world.s[i].journal = seat_take(&world.seats[i], &world.all);
        world.s[i].on_certain = on_certain;
        sets_open(&world.s[i]);
    }
    sets_post(&world.s[0], "demo", 1, 3);
    seat_follow(&world.seats[1], world.s[1].registry->log);
    assert_int_equal(tokens_open(&world.http.tokens, world.dirs[1].path, NULL),
                     STATUS_OK);
    world.s[1].registry->tokens = world.http.tokens;
    world.http.registry = world.s[1].registry;
    assert_int_equal(push_open(&world.http.push, world.s[1].registry, 1, NULL),
                     STATUS_OK);
    assert_int_equal(server_open(&world.server, &options, NULL), STATUS_OK);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u",
             server_port(world.server));
    origins_init(&world.http, url);
    atomic_store(&world.http.is_ready, true);
    world.w = wire_connect("127.0.0.1", server_port(world.server));
    assert_non_null(world.w);
    clock_pass_us(1); /* what the copy had before is not certain now */
    return 0;
}

static void
close_server(void)
{
    if (world.server) {
        push_farewell(world.http.push, world.server);
        server_close(world.server, 1000000);
    }
    world.server = NULL;
}

static int
tear_down(void **state)
{
    (void)state;
    wire_close(world.w);
    close_server();
    for (int i = 0; i < 2; i++)
        log_stop(world.s[i].registry->log);
    push_close(world.http.push);
    tokens_close(world.http.tokens);
    for (int i = 0; i < 2; i++) {
        sets_close(&world.s[i]);
        tempdir_close(&world.dirs[i]);
    }
    shared_journal_fini(&world.all);
    return 0;
}

FIXTURE(set_up, tear_down);

/* The position of the last entry at broker 0. */
static const char *
position(const char *name)
{
    static char text[POSITION_MAX];
    struct head head = sets_head(&world.s[0], name);

    position_write(text, head.epoch, head.last);
    return text;
}

/* Sends a GET. */
static void
ask(const char *path, const char *fields)
{
    assert_true(wire_send_format(world.w,
                                 "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                 "%s\r\n",
                                 path, fields));
}

static struct wire_answer
answer(unsigned status)
{
    struct wire_answer a;

    assert_true(wire_answer(world.w, &a, false));
    if (a.status != status)
        fail_msg("%s%s", a.head, a.body);
    return a;
}

/* Broker 1 gets what broker 0 has, once it has asked for it `n` times. */
static void
follow_when_asked(unsigned n)
{
    seat_await_looks(&world.seats[1], n);
    seat_follow(&world.seats[1], world.s[1].registry->log);
    clock_pass_us(1);
}

/* The broker asks for the `n`th time, and gets no answer in time. Its thread
 * and those of both logs wait, then. */
static void
let_it_wait(unsigned n)
{
    seat_await_looks(&world.seats[1], n);
    clock_await_waits_us(3, 1000000);
    clock_pass_us(CATCH_UP_WAIT_US + 1000000);
}

static void
look_for(const char *path)
{
    char text[200];

    snprintf(text, sizeof(text), "%s?after=%s", path, position("demo"));
    ask(text, "");
}

/* Issue, 3: change memory of a position that another broker has sent waits for
 * this copy. The connection goes on, with a request that came meanwhile. */
TEST(a_page_waits_for_the_copy)
{
    struct wire_answer a;

    sets_post(&world.s[0], "demo", 4, 2);
    look_for("/sets/demo/changes");
    ask("/sets/demo/changes?after=0", "");
    follow_when_asked(1);
    a = answer(200);
    assert_non_null(strstr(a.body, "\"changes\":[]"));
    assert_non_null(strstr(a.body, "\"last\":5"));
    a = answer(200);
    assert_non_null(strstr(a.body, "\"last\":5"));
    assert_int_equal(world.seats[1].n_looks, 1);
}

/* The set itself has come to the other broker only. */
TEST(a_set_that_is_not_here_is_waited_for)
{
    char text[200];

    sets_post(&world.s[0], "new", 1, 1);
    snprintf(text, sizeof(text), "/sets/new/changes?after=%s", position("new"));
    ask(text, "");
    follow_when_asked(1);
    (void)answer(200);
}

/* Positions that this copy has ask nobody. */
TEST(known_positions_wait_for_nothing)
{
    look_for("/sets/demo/changes");
    (void)answer(200);
    ask("/sets/demo/changes?after=2", "");
    (void)answer(200);
    ask("/sets/none/changes?after=0", "");
    (void)answer(404);
    ask("/sets/demo/changes?after=x", "");
    (void)answer(400);
    assert_int_equal(world.seats[1].n_looks, 0);
}

/* the journal alone says that a position is gone. */
TEST(a_position_is_gone_when_the_journal_says_so)
{
    ask("/sets/demo/changes?after=0000000000000000-2", "");
    follow_when_asked(1);
    (void)answer(410);
    ask("/sets/demo/changes?after=99", "");
    follow_when_asked(2);
    (void)answer(410);
}

/* After five seconds without the journal the client is sent away for a while. A
 * look that began before the request proves nothing. */
TEST(a_wait_has_an_end)
{
    struct wire_answer a;
    char value[8];

    sets_post(&world.s[0], "demo", 4, 2);
    look_for("/sets/demo/changes");
    seat_await_looks(&world.seats[1], 1);
    log_note_copy(world.s[1].registry->log, clock_steady_us() - 1, 0, STATUS_OK,
                  NULL);
    clock_pass_us(CATCH_UP_WAIT_US - 1);
    assert_true(wire_is_silent(world.w));
    clock_pass_us(1000001); /* a tick later */
    a = answer(503);
    assert_true(wire_header(&a, "Retry-After", value, sizeof(value)));
    assert_non_null(strstr(a.body, "does not know yet"));
    look_for("/sets/demo/changes");
    follow_when_asked(2);
    (void)answer(200);
}

/* The message that begins a stream: where it begins. */
static void
assert_begins_at(const char *text)
{
    assert_non_null(strstr(text, "\"after\":5"));
    assert_non_null(strstr(text, "\"last\":5"));
}

static void
read_events(const char *until)
{
    char text[4096] = "";
    size_t n = 0;

    while (!strstr(text, until)) {
        assert_true(n + 1 < sizeof(text));
        assert_true(wire_read(world.w, text + n, 1));
        text[++n] = '\0';
    }
}

/* Asks for events behind a position that this broker does not have yet. */
static void
ask_for_events(const char *path)
{
    char fields[200];

    sets_post(&world.s[0], "demo", 4, 2);
    snprintf(fields, sizeof(fields),
             "Accept: text/event-stream\r\nLast-Event-ID: %s\r\n",
             position("demo"));
    ask(path, fields);
}

/* An EventSource connects again, and comes to another broker. */
TEST(an_event_stream_waits_for_the_copy)
{
    struct wire_answer a;

    ask_for_events("/sets/demo/stream?after=1");
    follow_when_asked(1);
    assert_true(wire_answer_head(world.w, &a));
    assert_int_equal(a.status, 200);
    read_events("\"after\":5,\"last\":5");
}

/* A browser ends an EventSource at any status but 200. */
TEST(an_event_stream_that_waits_in_vain_comes_again)
{
    struct wire_answer a;

    ask_for_events("/sets/demo/stream");
    let_it_wait(1);
    a = answer(200);
    assert_string_equal(a.body, "retry: 1000\n\n");
}

TEST(a_websocket_waits_for_the_copy)
{
    struct wire_answer a;
    struct wire_frame f;

    sets_post(&world.s[0], "demo", 4, 2);
    assert_true(wire_send_format(
        world.w,
        "GET /sets/demo/stream?after=%s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        position("demo")));
    follow_when_asked(1);
    assert_true(wire_answer_head(world.w, &a));
    assert_int_equal(a.status, 101);
    assert_true(wire_message(world.w, &f));
    assert_begins_at(f.payload);
}

/* A stream that waits at the head gets it. */
static void
post_one_more(void)
{
    sets_post(&world.s[0], "demo", 1, 1);
    seat_follow(&world.seats[1], world.s[1].registry->log);
    clock_pass_us(1);
}

/* Of a stream of many sets: the query, a body, and messages. */
TEST(a_stream_of_many_waits_for_the_copy)
{
    struct wire_answer a;
    char text[300], body[200];

    sets_post(&world.s[0], "demo", 4, 2);
    snprintf(text, sizeof(text), "/stream?set=demo@%s", position("demo"));
    ask(text, "Accept: text/event-stream\r\n");
    follow_when_asked(1);
    assert_true(wire_answer_head(world.w, &a));
    assert_int_equal(a.status, 200);
    post_one_more();
    read_events("\"after\":5,\"last\":6");
    wire_close(world.w);

    sets_post(&world.s[0], "demo", 7, 1);
    world.w = wire_connect("127.0.0.1", server_port(world.server));
    snprintf(body, sizeof(body),
             "{\"follow\":[{\"set\":\"demo\",\"after\":\"%s\"}]}",
             position("demo"));
    assert_true(wire_send_format(
        world.w,
        "POST /stream HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Accept: text/event-stream\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\n\r\n%s",
        strlen(body), body));
    follow_when_asked(2);
    assert_true(wire_answer_head(world.w, &a));
    assert_int_equal(a.status, 200);
    post_one_more();
    read_events("\"after\":7,\"last\":8");
}

static void
follow_by_message(void)
{
    char text[200];

    snprintf(text, sizeof(text),
             "{\"follow\":[{\"set\":\"demo\",\"after\":\"%s\"}]}",
             position("demo"));
    assert_true(wire_send_frame(world.w, WIRE_TEXT, true, text, strlen(text)));
}

/* Messages behind it wait, too: they keep their order. */
TEST(a_message_waits_for_the_copy)
{
    static const char none[] = "{\"follow\":[{\"set\":\"none\"}]}";
    struct wire_answer a;
    struct wire_frame f;
    bool has_end = false, has_entry = false;
    unsigned n_looks; /* the second message may have asked for one, too */

    assert_true(wire_upgrade(world.w, "/stream", NULL, &a));
    sets_post(&world.s[0], "demo", 4, 2);
    follow_by_message();
    assert_true(
        wire_send_frame(world.w, WIRE_TEXT, true, none, sizeof(none) - 1));
    follow_when_asked(1);
    post_one_more();
    while (!has_end || !has_entry) { /* the entry may be there first */
        assert_true(wire_message(world.w, &f));
        has_end |= strstr(f.payload, "\"none\",\"end\":") != NULL;
        has_entry |= strstr(f.payload, "\"after\":5") != NULL;
    }

    n_looks = seat_looks(&world.seats[1]);
    sets_post(&world.s[0], "demo", 7, 1);
    follow_by_message();
    let_it_wait(n_looks + 1);
    do
        assert_true(wire_message(world.w, &f));
    while (f.opcode != WIRE_CLOSE);
    assert_int_equal(wire_close_code(&f), 1013);
}

/* A client that leaves, and one at the end of the broker, leave nothing behind.
 */
TEST(a_wait_ends_with_its_client_and_with_the_broker)
{
    struct wire *other = wire_connect("127.0.0.1", server_port(world.server));

    sets_post(&world.s[0], "demo", 4, 2);
    look_for("/sets/demo/changes");
    seat_await_looks(&world.seats[1], 1);
    wire_abort(world.w);
    world.w = other;
    look_for("/sets/demo/changes");
    seat_await_looks(&world.seats[1], 2);
    push_farewell(world.http.push, world.server);
    (void)answer(503);
    server_close(world.server, 1000000);
    world.server = NULL;
}
