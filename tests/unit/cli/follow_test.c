/*
 * follow_test.c - tidings follow, as a shell sees it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/places.h"
#include "tests/support/command.h"
#include "tests/support/fake_broker.h"
#include "tests/support/history.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"
#define EPOCH   "0123456789abcdef"

struct stage {
    struct fake_broker *broker;
    struct history history;
    struct command command;
    char dir[64];
    char state[96];
    char option[128]; /* "--state=..." */
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->broker = fake_broker_new();
    history_init(&s->history, EPOCH);
    strcpy(s->dir, "/tmp/follow_test_XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    snprintf(s->state, sizeof(s->state), "%s/state", s->dir);
    snprintf(s->option, sizeof(s->option), "--state=%s", s->state);
    *state = s;
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;
    char digest[sizeof(s->state) + 8];

    fake_broker_free(s->broker);
    history_fini(&s->history);
    unlink(s->state);
    snprintf(digest, sizeof(digest), "%s.digest", s->state);
    unlink(digest);
    assert_int_equal(rmdir(s->dir), 0); /* nothing else was left there */
    free(s);
    return 0;
}

static void
start(struct stage *s, const char *const *more)
{
    const char *argv[10] = {TIDINGS, "follow", fake_broker_url(s->broker)};

    for (size_t i = 0; i < 6 && more[i]; i++)
        argv[3 + i] = more[i];
    command_start(&s->command, argv);
}

#define START(s, ...) start(s, (const char *const[]){__VA_ARGS__, NULL, NULL})

static struct slice
xml(struct stage *s, uint64_t after, uint64_t last)
{
    return history_xml(&s->history, after, last);
}

/* The content of the state file; "" if there is none. */
static const char *
state_of(struct stage *s)
{
    static char text[200];
    FILE *f = fopen(s->state, "r");

    memset(text, 0, sizeof(text));
    if (f) {
        assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
        fclose(f);
    }
    return text;
}

static void
assert_asked(struct stage *s, size_t i, const char *line)
{
    assert_memory_equal(fake_request(s->broker, i), line, strlen(line));
}

FIXTURE(set_stage, clear_stage);

/* Design section 4: SEQ DATETIME CHANGE LOC. */
TEST(prints_a_line_for_each_change)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 4, 4));
    fake_send(s->broker, xml(s, 4, 6));
    fake_broker_start(s->broker);

    START(s, "--after", EPOCH "-4", "--count=2");

    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text,
                        "5 2026-01-01T00:00:05.000000Z created "
                        "http://example.com/r?n=5&x=1\n"
                        "6 2026-01-01T00:00:06.000000Z created "
                        "http://example.com/r?n=6&x=1\n");
    assert_string_equal(s->command.err_text, "");
    assert_asked(s, 0, "GET /sets/news/stream?after=" EPOCH "-4 ");
}

/* Design section 4: or the entry as it came. */
TEST(prints_entries_in_the_form_that_is_asked_for)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 0, 1));
    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 0, 1));
    fake_broker_start(s->broker);

    START(s, "--from-start", "--count=1", "--format=json");
    assert_int_equal(command_end(&s->command), 0);
    assert_memory_equal(s->command.out_text, "{\"loc\":\"http://", 15);
    assert_non_null(strstr(s->command.out_text, "\"seq\":1}\n"));

    START(s, "--from-start", "--count=1", "--format=xml");
    assert_int_equal(command_end(&s->command), 0);
    assert_int_equal(strlen(s->command.out_text), s->history.sizes[1]);
    assert_memory_equal(s->command.out_text, s->history.fragments[1],
                        s->history.sizes[1]);
    assert_asked(s, 1, "GET /sets/news/stream?after=0 ");
}

/* R-344: --count ends it in the middle of a message, and the state with it. */
TEST(counts_changes_not_messages)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 0, 5));
    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 3, 5));
    fake_broker_start(s->broker);

    START(s, "--from-start", "--count=3", s->option);
    assert_int_equal(command_end(&s->command), 0);
    assert_non_null(strstr(s->command.out_text, "\n3 "));
    assert_null(strstr(s->command.out_text, "\n4 "));
    assert_string_equal(state_of(s), EPOCH "-3\n");

    START(s, "--from-start", "--count=2", s->option);
    assert_int_equal(command_end(&s->command), 0);
    assert_memory_equal(s->command.out_text, "4 ", 2);
    assert_string_equal(state_of(s), EPOCH "-5\n");
    assert_asked(s, 1, "GET /sets/news/stream?after=" EPOCH "-3 ");
}

static void
unlink_new(const char *path)
{
    char name[140];

    snprintf(name, sizeof(name), "%s.new", path);
    unlink(name);
}

/* killed at any moment it loses nothing: the lines are out before the
 * position is kept, and "from now on" is kept as well. */
TEST(loses_nothing_when_killed)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 2, 2));
    fake_send(s->broker, xml(s, 2, 3));
    fake_send(s->broker, xml(s, 3, 4));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    START(s, s->option);
    assert_memory_equal(command_line(&s->command), "3 ", 2);
    assert_memory_equal(state_of(s), EPOCH "-", 17);
    assert_memory_equal(command_line(&s->command), "4 ", 2);
    assert_true(!strcmp(state_of(s), EPOCH "-3\n") ||
                !strcmp(state_of(s), EPOCH "-4\n"));
    kill(s->command.pid, SIGKILL);
    assert_int_equal(command_end(&s->command), 128 + SIGKILL);

    unlink_new(s->state); /* it may have been at one of these */
    snprintf(s->option, sizeof(s->option), "%s.digest", s->state);
    unlink_new(s->option);
}

/* Exit status 0 when it is interrupted; the state stands. */
TEST(ends_well_by_signal)
{
    struct stage *s = *state;
    static const int signals[] = {SIGTERM, SIGINT};

    for (size_t i = 0; i < 2; i++) {
        fake_describe(s->broker);
        fake_stream(s->broker);
        fake_send(s->broker, xml(s, i, i + 1));
        fake_hold(s->broker);
    }
    fake_broker_start(s->broker);

    for (size_t i = 0; i < 2; i++) {
        START(s, "--from-start", s->option);
        command_line(&s->command);
        kill(s->command.pid, signals[i]);
        assert_int_equal(command_end(&s->command), 0);
        assert_string_equal(s->command.err_text, "");
    }
    assert_string_equal(state_of(s), EPOCH "-2\n");
}

/* Nobody reads any more, as behind `| head`: it ends with 1, says nothing, and
 * does not move the position. */
TEST(ends_quietly_when_nobody_reads)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 0, 1));
    fake_wait(s->broker);
    fake_send(s->broker, xml(s, 1, 2));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    START(s, "--from-start", s->option);
    command_line(&s->command);
    command_deafen(&s->command);
    fake_go(s->broker);

    assert_int_equal(command_end(&s->command), 1);
    assert_string_equal(s->command.err_text, "");
    assert_string_equal(state_of(s), EPOCH "-1\n");
}

/* Standard output is a full disk: it ends with 1, says so, and does not move
 * the position. */
TEST(tells_that_its_lines_could_not_be_written)
{
    struct stage *s = *state;
    char line[400];
    const char *argv[] = {"/bin/sh", "-c", line, NULL};

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 0, 1));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    snprintf(line, sizeof(line),
             "exec " TIDINGS " follow %s --from-start %s > /dev/full",
             fake_broker_url(s->broker), s->option);
    command_start(&s->command, argv);
    assert_int_equal(command_end(&s->command), 1);
    assert_string_equal(s->command.err_text,
                        "tidings: cannot write to standard output: "
                        "No space left on device\n");
    assert_string_equal(state_of(s), "");
}

/* status 3 lets scripts begin anew, and the text explains to people
 * how. A refusal is 1. */
TEST(tells_gone_from_refused)
{
    struct stage *s = *state;
    static const char gone[] = "{\"detail\":\"the earliest is 40\"}";
    static const char unknown[] = "{\"detail\":\"no such set\"}";

    fake_describe(s->broker);
    fake_answer(s->broker, 410, "application/problem+json", gone);
    fake_answer(s->broker, 410, "application/problem+json", gone);
    fake_answer(s->broker, 410, "application/problem+json", gone); /* memory */
    fake_answer(s->broker, 404, "application/problem+json", unknown);
    fake_answer(s->broker, 404, "application/problem+json", unknown);
    fake_broker_start(s->broker);

    START(s, "--after=" EPOCH "-4");
    assert_int_equal(command_end(&s->command), 3);
    assert_string_equal(
        s->command.err_text,
        "tidings: 410: the earliest is 40\ntidings: --baseline gone prints all "
        "resources of the source, and continues from there\n");

    START(s, NULL);
    assert_int_equal(command_end(&s->command), 1);
    assert_non_null(strstr(s->command.err_text, ": 404: no such set\n"));
}

/* The error names the wrong datetime, and shows the right form. */
TEST(tells_how_a_datetime_is_given)
{
    struct stage *s = *state;

    START(s, "--since=yesterday");
    assert_int_equal(command_end(&s->command), 2);
    assert_string_equal(s->command.err_text,
                        "tidings: not a W3C Datetime, such as "
                        "2026-11-20T21:00:00Z: \"yesterday\"\n");
}

/* A state that is none is not taken for "from now on". */
TEST(refuses_a_damaged_state)
{
    struct stage *s = *state;
    static const char *const damaged[] = {"", "\n", "soon\n"};

    for (size_t i = 0; i < 3; i++) {
        FILE *f = fopen(s->state, "w");

        assert_non_null(f);
        fputs(damaged[i], f);
        fclose(f);

        START(s, s->option);
        assert_int_equal(command_end(&s->command), 1);
        assert_non_null(strstr(s->command.err_text, "holds no position"));
    }
}

/* A position that cannot be stored ends the program: otherwise it would repeat
 * lines for ever. */
TEST(ends_when_the_state_cannot_be_kept)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, xml(s, 0, 1));
    fake_hold(s->broker);
    fake_broker_start(s->broker);

    START(s, "--from-start", "--state=/no/such/folder/state");

    assert_int_equal(command_end(&s->command), 1);
    assert_non_null(strstr(s->command.err_text, "No such file or directory"));
}

/* The program reports lost connections only on request. */
TEST(tells_of_lost_connections_when_asked)
{
    struct stage *s = *state;

    for (int i = 0; i < 2; i++) {
        fake_nothing(s->broker);
        fake_describe(s->broker);
        fake_stream(s->broker);
        fake_send(s->broker, xml(s, 0, 1));
    }
    fake_broker_start(s->broker);

    START(s, "--from-start", "--count=1");
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.err_text, "");

    START(s, "--from-start", "--count=1", "--verbose");
    assert_int_equal(command_end(&s->command), 0);
    assert_memory_equal(s->command.err_text, "tidings: http://127.0.0.1:", 26);
    assert_non_null(strstr(s->command.err_text, "; again in 0."));
}
