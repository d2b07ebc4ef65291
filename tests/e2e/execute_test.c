/*
 * execute_test.c - what tidings follow --exec runs: what it has, what it may
 * do, what becomes of it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/lists.h"
#include "tests/support/sanitized.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"

/* Changes whose locs have so many bytes, between two looks at the memory: kept,
 * they would be LONG * LONG_SIZE bytes. */
#define LONG       400
#define LONG_SIZE  1900
#define GROWTH_KIB 400

struct stage {
    struct lists lists;
    struct command command;
    char set_url[200];
    char state[300];
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    LISTS_OPEN(&s->lists, "--rotate-entries", "10000");
    snprintf(s->set_url, sizeof(s->set_url), "%s/sets/%s", s->lists.broker.url,
             LISTS_SET);
    snprintf(s->state, sizeof(s->state), "%s/state", s->lists.broker.dir.path);
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    lists_close(&s->lists);
    free(s);
    return 0;
}

/* Runs `command` for all changes there are that the state does not know of. */
static void
follow(struct stage *s, const char *command)
{
    const char *const argv[] = {
        TIDINGS,   "follow", s->set_url, "--from-start", "--until-caught-up",
        "--state", s->state, "--exec",   command,        NULL};

    command_start(&s->command, argv);
}

static void
post_loc(struct stage *s, const char *loc)
{
    struct buf body;

    buf_init(&body, 1 << 20);
    buf_add_format(&body, "[{\"loc\":\"%s\",\"change\":\"updated\"}]", loc);
    assert_int_equal(source_send(&s->lists.http, LISTS_SET, "application/json",
                                 buf_slice(&body), NULL),
                     200);
    buf_fini(&body);
}

/* How many connections it has open, and its signals, but for those above 28,
 * two of which are the C library's own. */
#define GIVEN                                                          \
    "for i in $(ls -l /proc/$$/fd | sed -n 's/.*socket:.\\([0-9]*\\)." \
    "$/\\1/p'); do grep \" $i \" /proc/net/tcp; done | wc -l; "        \
    "exec sed -nE 's/^(SigBlk|SigIgn).*(.{7})$/\\1 \\2/p' /proc/self/status"

FIXTURE(set_stage, clear_stage);

/* Not our connections, nor our signals: what it would have without us. */
TEST(a_command_is_given_nothing_of_ours)
{
    static const char *const plain[] = {"/bin/sh", "-c", GIVEN, NULL};
    static struct command without;
    struct stage *s = *state;

    source_post(&s->lists.http, LISTS_SET, 1, 2, 0);
    follow(s, GIVEN);
    for (int i = 0; i < 2; i++) {
        command_start(&without, plain);
        for (int line = 0; line < 3; line++) {
            char expected[100];

            snprintf(expected, sizeof(expected), "%s", command_line(&without));
            assert_string_equal(command_line(&s->command), expected);
        }
        assert_int_equal(command_end(&without), 0);
    }
    assert_int_equal(command_end(&s->command), 0);
}

/* What a source says is data, whatever a shell would make of it. */
TEST(a_change_is_no_part_of_the_command)
{
    struct stage *s = *state;

    post_loc(s, "http://example.com/$(echo+no);exit'`echo+no`");
    follow(s, "echo \"$TIDINGS_LOC\"");
    assert_string_equal(command_line(&s->command),
                        "http://example.com/$(echo+no);exit'`echo+no`");
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");
    assert_string_equal(s->command.err_text, "");
}

/* More than a pipe holds. */
TEST(a_command_need_not_read)
{
    struct stage *s = *state;

    source_post(&s->lists.http, LISTS_SET, 1, 3, 200000);
    follow(s, "exec 0<&-; echo $TIDINGS_SEQ");
    for (unsigned n = 1; n <= 3; n++)
        assert_int_equal(strtoul(command_line(&s->command), NULL, 10), n);
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.err_text, "");
}

TEST(a_command_that_is_killed_has_failed)
{
    struct stage *s = *state;

    source_post(&s->lists.http, LISTS_SET, 1, 1, 0);
    follow(s, "kill -9 $$");
    assert_int_equal(command_end(&s->command), 1);
    assert_string_equal(s->command.err_text,
                        "tidings: the command was ended by signal 9 at "
                        "http://example.com/r/1\n");
}

/* Its end is awaited; that it was no good end is nobody's fault, and it is run
 * again. */
TEST(an_interrupted_command_is_run_again)
{
    struct stage *s = *state;
    pid_t pid;

    source_post(&s->lists.http, LISTS_SET, 1, 2, 0);
    follow(s, "echo $$; test $TIDINGS_SEQ = 1 || exec sleep 1000");
    command_line(&s->command);
    pid = (pid_t)strtol(command_line(&s->command), NULL, 10);
    assert_true(pid > 1);
    kill(s->command.pid, SIGTERM);
    kill(pid, SIGKILL);
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.err_text, "");

    follow(s, "echo $TIDINGS_SEQ");
    assert_string_equal(command_line(&s->command), "2");
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");
}

/* Nothing of a change is kept when its command has ended. */
TEST(many_commands_need_no_more_memory_than_one)
{
    struct stage *s = *state;
    char fill[LONG_SIZE];
    unsigned long before, after;
    struct buf body;

    memset(fill, 'x', sizeof(fill));
    buf_init(&body, 4 << 20);
    for (unsigned i = 0; i < 2 * LONG; i++)
        buf_add_format(&body,
                       "%s{\"loc\":\"http://example.com/%u/%.*s\",\"change\":"
                       "\"updated\"}",
                       i ? "," : "[", i, (int)sizeof(fill), fill);
    BUF_ADD(&body, "]");
    assert_int_equal(source_send(&s->lists.http, LISTS_SET, "application/json",
                                 buf_slice(&body), NULL),
                     200);
    buf_fini(&body);

    follow(s, "test $((TIDINGS_SEQ % 400)) -ne 0 || "
              "sed -n 's/^RssAnon: *//p' /proc/$PPID/status");
    before = strtoul(command_line(&s->command), NULL, 10);
    after = strtoul(command_line(&s->command), NULL, 10);
    assert_int_equal(command_end(&s->command), 0);
    assert_true(before > 0);
    if (!IS_SANITIZED)
        assert_in_range(after, 1, before + GROWTH_KIB);
}
