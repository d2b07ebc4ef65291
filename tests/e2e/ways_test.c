/*
 * ways_test.c - tidings follow against a real broker, with what does not let
 * everything through between them; and all that is done with a change.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/gate.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"
#define SET     "news"

struct stage {
    struct broker broker;
    struct http http;
    struct command command;
    struct gate *gate;
    char set_url[128];
    char state[300];
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    s->gate = gate_new();
    broker_open(&s->broker, "--rotate-entries", "5", "--public-url",
                gate_url(s->gate), NULL);
    http_open(&s->http, s->broker.url);
    snprintf(s->set_url, sizeof(s->set_url), "%s/sets/" SET, gate_url(s->gate));
    snprintf(s->state, sizeof(s->state), "%s/state", s->broker.dir.path);
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    http_close(&s->http);
    gate_free(s->gate);
    broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

static void
start(struct stage *s, const char *const *more)
{
    const char *argv[24] = {TIDINGS, "follow", s->set_url};

    for (size_t i = 0; more[i]; i++)
        argv[3 + i] = more[i];
    command_start(&s->command, argv);
}

#define FOLLOW(s, ...) start(s, (const char *const[]){__VA_ARGS__, NULL})

static void
assert_lines(struct stage *s, uint64_t first, uint64_t last)
{
    for (uint64_t seq = first; seq <= last; seq++)
        assert_int_equal(strtoull(command_line(&s->command), NULL, 10), seq);
}

FIXTURE(set_stage, clear_stage);

/* a proxy that knows no WebSockets, and one that ends event streams as
 * well: the changes come by what is left, each once. */
TEST(finds_a_way_past_what_stands_between)
{
    struct stage *s = *state;

    gate_open(s->gate, s->broker.port, GATE_NO_UPGRADE);
    source_post(&s->http, SET, 1, 7, 0);
    FOLLOW(s, "--from-start", "--state", s->state, "--verbose");
    assert_lines(s, 1, 7);
    source_post(&s->http, SET, 8, 3, 0);
    assert_lines(s, 8, 10);
    kill(s->command.pid, SIGTERM);
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");
    assert_memory_equal(s->command.err_text, "tidings: no WebSocket here: 400",
                        31);
    assert_int_equal(gate_n(s->gate, GATE_NO_UPGRADE), 1);
    assert_int_equal(gate_n(s->gate, GATE_NO_EVENTS), 1);
}

TEST(finds_a_way_past_what_ends_events_too)
{
    struct stage *s = *state;

    gate_open(s->gate, s->broker.port, GATE_NO_UPGRADE | GATE_NO_EVENTS);
    source_post(&s->http, SET, 1, 7, 0);
    FOLLOW(s, "--from-start", "--verbose");
    assert_lines(s, 1, 7);
    source_post(&s->http, SET, 8, 3, 0);
    assert_lines(s, 8, 10);
    kill(s->command.pid, SIGTERM);
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");
    assert_non_null(strstr(s->command.err_text, "no server-sent events here"));
    assert_int_equal(gate_n(s->gate, GATE_NO_UPGRADE), 1);
}

/* whatever carries them, the changes are the same, live and missed ones.
 */
TEST(each_way_carries_all_changes)
{
    static const char *const ways[] = {"websocket", "events", "longpoll",
                                       "poll"};
    struct stage *s = *state;

    gate_open(s->gate, s->broker.port, 0);
    source_post(&s->http, SET, 1, 12, 0);
    for (size_t i = 0; i < 4; i++) {
        uint64_t last = 12 + i;

        FOLLOW(s, "--from-start", "--transport", ways[i], "--poll", "0.2");
        assert_lines(s, 1, last);
        source_post(&s->http, SET, (unsigned)last + 1, 1, 0);
        assert_lines(s, last + 1, last + 1);
        kill(s->command.pid, SIGTERM);
        assert_int_equal(command_end(&s->command), 0);
        assert_string_equal(s->command.out_text, "");
        assert_string_equal(s->command.err_text, "");
    }
}

/* It ends with what there was; and at once where there is no more. */
TEST(ends_when_it_has_caught_up)
{
    static const char *const ways[] = {"websocket", "events", "longpoll",
                                       "poll"};
    struct stage *s = *state;

    gate_open(s->gate, s->broker.port, 0);
    source_post(&s->http, SET, 1, 12, 0);
    FOLLOW(s, "--from-start", "--until-caught-up", "--state", s->state);
    assert_lines(s, 1, 12);
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");
    FOLLOW(s, "--until-caught-up", "--state", s->state);
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");

    /* Also where the last ones do not pass. */
    FOLLOW(s, "--from-start", "--until-caught-up", "--prefix",
           "http://nowhere.example/");
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");

    for (size_t i = 0; i < 4; i++) {
        FOLLOW(s, "--from-start", "--until-caught-up", "--transport", ways[i]);
        assert_lines(s, 1, 12);
        assert_int_equal(command_end(&s->command), 0);
        assert_string_equal(s->command.out_text, "");
    }
}

/* The command gets the change; where it fails the position is the one before,
 * and it is run again. */
TEST(a_command_is_run_for_each_change)
{
    struct stage *s = *state;
    char expected[200];
    struct receipt r;

    gate_open(s->gate, s->broker.port, 0);
    r = source_post(&s->http, SET, 1, 3, 0);
    FOLLOW(s, "--from-start", "--until-caught-up", "--state", s->state,
           "--exec",
           "cat; echo \"$TIDINGS_SEQ $TIDINGS_CHANGE $TIDINGS_POSITION\"; "
           "test $TIDINGS_SEQ != 3");
    for (unsigned seq = 1; seq <= 3; seq++) {
        assert_memory_equal(command_line(&s->command), "{\"loc\":\"http", 12);
        snprintf(expected, sizeof(expected), "%u created %.16s-%u", seq,
                 r.position, seq);
        assert_string_equal(command_line(&s->command), expected);
    }
    assert_int_equal(command_end(&s->command), 1);
    assert_non_null(strstr(s->command.err_text,
                           "tidings: the command failed with status 1 at "
                           "http://"));
    snprintf(expected, sizeof(expected), "%.16s-2\n", r.position);
    assert_file(s->broker.dir.fd, "state", expected);

    /* One that reads nothing. */
    FOLLOW(s, "--from-start", "--until-caught-up", "--state", s->state,
           "--exec", "echo again $TIDINGS_SEQ");
    assert_string_equal(command_line(&s->command), "again 3");
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");
    snprintf(expected, sizeof(expected), "%.16s-3\n", r.position);
    assert_file(s->broker.dir.fd, "state", expected);
}
