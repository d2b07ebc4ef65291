/*
 * follow_test.c - the commands `tidings follow` and `tidings publish` against a
 * real broker, as a shell sees them.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/support/source.h"
#include "tests/support/walk.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"
#define SET     "news"

/* A position of a log that is not this one. */
#define FOREIGN "0123456789abcdef-1"

struct stage {
    struct broker broker;
    struct http http;
    struct walk walk;
    struct command command;
    char set_url[128];
    char state[300];
    char line[4096]; /* what next_line lends */
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--rotate-entries", "5", "--heartbeat", "0.5",
                NULL);
    http_open(&s->http, s->broker.url);
    walk_open(&s->walk, &s->broker, SET);
    snprintf(s->set_url, sizeof(s->set_url), "%s/sets/" SET, s->broker.url);
    snprintf(s->state, sizeof(s->state), "%s/state", s->broker.dir.path);
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    http_close(&s->http);
    walk_close(&s->walk);
    if (s->broker.pid)
        broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

/* Runs `tidings COMMAND SET-URL ...`. */
static void
start(struct stage *s, const char *command, const char *const *more)
{
    const char *argv[20] = {TIDINGS, command, s->set_url};

    for (size_t i = 0; more[i]; i++)
        argv[3 + i] = more[i];
    command_start(&s->command, argv);
}

#define FOLLOW(s, ...) \
    start(s, "follow", (const char *const[]){__VA_ARGS__, NULL})

#define PUBLISH(s, ...) \
    start(s, "publish", (const char *const[]){__VA_ARGS__, NULL})

/* Its next line, which is to tell entry `seq`: in text, as the lists have it
 * (the walk is to be up to date). */
static void
assert_line(struct stage *s, uint64_t seq)
{
    const struct trace_entry *e = trace_at(&s->walk.trace, seq);
    char line[500];

    assert_non_null(e);
    snprintf(line, sizeof(line), "%" PRIu64 " %s %s %s", seq, e->datetime,
             e->change, e->loc);
    assert_string_equal(command_line(&s->command), line);
}

/* Posts entries `from` to `to`, the seqs they get, and looks at the lists. */
static struct receipt
post(struct stage *s, unsigned from, unsigned to)
{
    struct receipt r = source_post(&s->http, SET, from, to - from + 1, 0);

    assert_int_equal(r.first, from);
    assert_int_equal(r.last, to);
    walk_all(&s->walk);
    return r;
}

static void
interrupt(struct stage *s)
{
    kill(s->command.pid, SIGINT);
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");
    assert_string_equal(s->command.err_text, "");
}

/* tidings follow */

/* Waits until the state file holds `position`. */
static void
await_state(struct stage *s, const char *position)
{
    struct patience p = {.with = s->state};
    char kept[80] = "", wanted[80];

    snprintf(wanted, sizeof(wanted), "%s\n", position);
    while (strcmp(kept, wanted) != 0) {
        FILE *f = fopen(s->state, "re");

        patience_step(&p);
        if (f && !fgets(kept, sizeof(kept), f))
            kept[0] = '\0';
        if (f)
            fclose(f);
    }
}

FIXTURE(set_stage, clear_stage);

/* what was missed first, across lists, then what comes; SIGINT is a good
 * end. */
TEST(follow_prints_what_was_missed_and_then_what_comes)
{
    struct stage *s = *state;

    post(s, 1, 12);
    FOLLOW(s, "--from-start");
    for (unsigned seq = 1; seq <= 12; seq++)
        assert_line(s, seq);

    post(s, 13, 14);
    assert_line(s, 13);
    assert_line(s, 14);
    interrupt(s);
}

/* without a position it is from now on, which the state tells before
 * there is a change. */
TEST(follow_begins_now_if_not_told_otherwise)
{
    struct stage *s = *state;
    struct receipt r = post(s, 1, 3);

    FOLLOW(s, "--state", s->state);
    await_state(s, r.position);
    post(s, 4, 4);
    assert_line(s, 4);
    interrupt(s);
}

/* */
TEST(follow_begins_after_a_position)
{
    struct stage *s = *state;
    struct receipt r = post(s, 1, 7);

    post(s, 8, 9);
    FOLLOW(s, "--after", r.position, "--count", "2");
    assert_line(s, 8);
    assert_line(s, 9);
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");
}

/* --count ends it in the middle of a message; --state is where it goes on. */
TEST(follow_goes_on_where_its_state_says)
{
    struct stage *s = *state;

    post(s, 1, 12);
    for (unsigned seq = 1; seq <= 12; seq += 4) {
        FOLLOW(s, "--from-start", "--count", "4", "--state", s->state);
        for (unsigned k = 0; k < 4; k++)
            assert_line(s, seq + k);
        assert_int_equal(command_end(&s->command), 0);
        assert_string_equal(s->command.out_text, "");
        assert_string_equal(s->command.err_text, "");
    }
}

/* Killed at the moment its state tells of the last line: that is out by then,
 * and it goes on behind it. */
TEST(follow_keeps_its_place_when_the_lines_are_out)
{
    struct stage *s = *state;
    struct receipt r = post(s, 1, 4);

    FOLLOW(s, "--from-start", "--state", s->state);
    await_state(s, r.position);
    kill(s->command.pid, SIGKILL);
    for (unsigned seq = 1; seq <= 4; seq++)
        assert_line(s, seq);
    assert_int_equal(command_end(&s->command), 128 + SIGKILL);

    post(s, 5, 5);
    FOLLOW(s, "--from-start", "--state", s->state, "--count", "1");
    assert_line(s, 5);
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");
}

/* Design section 4: xml is the <url> of the lists, json the entry. */
TEST(follow_prints_entries_as_lists_and_messages_have_them)
{
    struct stage *s = *state;
    struct problem why = {""};
    struct trace heard;

    post(s, 1, 12);
    trace_init(&heard);
    assert_true(trace_epoch(&heard, s->walk.trace.epoch, &why));
    FOLLOW(s, "--from-start", "--count", "12", "--format", "xml");
    for (unsigned seq = 1; seq <= 12; seq++) {
        snprintf(s->line, sizeof(s->line), "%s\n", command_line(&s->command));
        if (!trace_line(&heard, slice_of(s->line), &why))
            fail_msg("%s", why.text);
    }
    assert_int_equal(command_end(&s->command), 0);
    if (!trace_is_same(&heard, &s->walk.trace, &why))
        fail_msg("%s", why.text);
    assert_memory_equal(trace_digest(&heard, 12),
                        trace_digest(&s->walk.trace, 12),
                        sizeof(struct digest));
    trace_fini(&heard);

    FOLLOW(s, "--from-start", "--count", "12", "--format", "json");
    for (unsigned seq = 1; seq <= 12; seq++) {
        const struct trace_entry *e = trace_at(&s->walk.trace, seq);
        struct jsonpath j;

        jsonpath_open(&j, slice_of(command_line(&s->command)));
        assert_int_equal(jsonpath_number(&j, "seq"), seq);
        assert_string_equal(jsonpath_text(&j, "loc"), e->loc);
        assert_string_equal(jsonpath_text(&j, "change"), e->change);
        assert_string_equal(jsonpath_text(&j, "datetime"), e->datetime);
        jsonpath_close(&j);
    }
    assert_int_equal(command_end(&s->command), 0);
}

/* a broker that ends, or is killed, and comes back on the same
 * port: no line twice, none missing. */
TEST(follow_reconnects_without_missing_or_doubling_a_line)
{
    struct stage *s = *state;
    uint64_t seq = 1;

    post(s, 1, 3);
    FOLLOW(s, "--from-start");
    for (unsigned round = 0; round < 4; round++) {
        unsigned next = 4 + round * 6;

        while (seq < next)
            assert_line(s, seq++);
        if (round % 2)
            broker_stop(&s->broker);
        else
            broker_kill9(&s->broker);
        broker_restart(&s->broker);
        post(s, next, next + 3);
        while (seq < next + 4)
            assert_line(s, seq++);
        post(s, next + 4, next + 5);
    }
    while (seq <= s->walk.trace.last)
        assert_line(s, seq++);
    /* What it says of the broker depends on how long that was away. */
    kill(s->command.pid, SIGINT);
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");
}

/* It is there before the broker is. */
TEST(follow_waits_for_a_broker_that_is_away)
{
    struct stage *s = *state;

    post(s, 1, 2);
    broker_stop(&s->broker);
    FOLLOW(s, "--from-start", "--count", "2", "--verbose");
    broker_restart(&s->broker);
    assert_line(s, 1);
    assert_line(s, 2);
    assert_int_equal(command_end(&s->command), 0);
}

/* Nobody wonders why it is silent; once is enough. */
TEST(follow_says_that_a_broker_is_away_and_that_it_is_back)
{
    struct stage *s = *state;
    const char *said;

    post(s, 1, 2);
    broker_stop(&s->broker);
    FOLLOW(s, "--from-start", "--count", "2");
    command_complains(&s->command, "connect to server; it is tried again\n");
    broker_restart(&s->broker);
    assert_line(s, 1);
    assert_line(s, 2);
    assert_int_equal(command_end(&s->command), 0);
    said = strstr(s->command.err_text, "; it is tried again\n");
    assert_non_null(said);
    assert_string_equal(strchr(said, '\n') + 1,
                        "tidings: the source is back\n");
}

TEST(follow_looks_at_its_state_before_it_prints)
{
    struct stage *s = *state;

    post(s, 1, 2);
    FOLLOW(s, "--from-start", "--count", "2", "--state", "/nowhere/state");
    assert_int_equal(command_end(&s->command), 1);
    assert_string_equal(s->command.out_text, "");
    assert_non_null(strstr(s->command.err_text, "cannot write /nowhere/state"));
}

/* R-345; exit status 3 is "gone", with the reason. */
TEST(follow_ends_with_3_where_the_position_is_gone)
{
    struct stage *s = *state;

    post(s, 1, 2);
    FOLLOW(s, "--after", FOREIGN);
    assert_int_equal(command_end(&s->command), 3);
    assert_string_equal(s->command.out_text, "");
    assert_memory_equal(s->command.err_text, "tidings: ", 9);
    assert_non_null(strstr(s->command.err_text, "gone"));

    /* The same from a state file, and ahead of the log. */
    tempdir_write(s->broker.dir.fd, "state", FOREIGN "\n");
    FOLLOW(s, "--from-start", "--state", s->state);
    assert_int_equal(command_end(&s->command), 3);
    assert_file(s->broker.dir.fd, "state", FOREIGN "\n");
    FOLLOW(s, "--after", "3");
    assert_int_equal(command_end(&s->command), 3);
}

/* Exit status 1, and why. */
TEST(follow_says_that_a_set_does_not_exist)
{
    struct stage *s = *state;

    FOLLOW(s, "--from-start");
    assert_int_equal(command_end(&s->command), 1);
    assert_string_equal(s->command.out_text, "");
    assert_non_null(
        strstr(s->command.err_text, ": 404: there is no set \"" SET "\"\n"));
}

/* tidings publish */

/* What it prints when all were kept. */
static void
assert_published(struct stage *s, uint64_t first, uint64_t last)
{
    const struct trace_entry *e;
    char line[300];

    if (command_end(&s->command) != 0)
        fail_msg("tidings publish: %s", s->command.err_text);
    walk_all(&s->walk);
    assert_int_equal(s->walk.trace.last, last);
    e = trace_at(&s->walk.trace, last);
    snprintf(line, sizeof(line),
             "first=%" PRIu64 " last=%" PRIu64 " position=%s-%" PRIu64
             " datetime=%s\n",
             first, last, s->walk.trace.epoch, last, e->datetime);
    assert_string_equal(s->command.out_text, line);
    assert_string_equal(s->command.err_text, "");
}

/* */
TEST(publish_posts_a_file)
{
    struct stage *s = *state;
    char xml[300], json[300];

    snprintf(xml, sizeof(xml), "%s/changes.xml", s->broker.dir.path);
    snprintf(json, sizeof(json), "%s/changes", s->broker.dir.path);
    tempdir_write(
        s->broker.dir.fd, "changes.xml",
        "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\""
        " xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"
        "<rs:md capability=\"changelist\"/>"
        "<url><loc>http://example.com/a</loc><rs:md change=\"created\"/></url>"
        "<url><loc>http://example.com/b</loc><rs:md change=\"updated\"/></url>"
        "</urlset>");
    tempdir_write(s->broker.dir.fd, "changes",
                  " [{\"loc\":\"http://example.com/c?x&y\","
                  "\"change\":\"deleted\"}]");

    PUBLISH(s, xml);
    assert_published(s, 1, 2);
    assert_string_equal(trace_at(&s->walk.trace, 2)->loc,
                        "http://example.com/b");
    PUBLISH(s, json);
    assert_published(s, 3, 3);
    assert_string_equal(trace_at(&s->walk.trace, 3)->loc,
                        "http://example.com/c?x&y");
    PUBLISH(s, json, "--type", "json");
    assert_published(s, 4, 4);
}

TEST(publish_posts_its_standard_input)
{
    struct stage *s = *state;
    static const char text[] =
        "{\"loc\":\"http://example.com/a\",\"change\":\"created\"}";

    PUBLISH(s, "-");
    command_give(&s->command, text);
    assert_published(s, 1, 1);
    PUBLISH(s, NULL);
    command_give(&s->command, text);
    assert_published(s, 2, 2);
}

/* what the options say is in the list. */
TEST(publish_makes_changes_from_options)
{
    struct stage *s = *state;
    struct buf *body = &s->http.body;

    PUBLISH(s, "--change", "updated", "--lastmod", "2026-01-02T03:04:05Z",
            "--length", "17", "--media-type", "text/csv", "--hash",
            "md5:0123456789abcdef0123456789abcdef", "http://example.com/a?1&2",
            "http://example.com/b");
    assert_published(s, 1, 2);
    assert_string_equal(trace_at(&s->walk.trace, 1)->loc,
                        "http://example.com/a?1&2");
    assert_string_equal(trace_at(&s->walk.trace, 2)->change, "updated");

    assert_int_equal(http_get(&s->http, "/sets/" SET "/changelist.xml"), 200);
    buf_add(body, "", 1);
    assert_non_null(strstr(body->data, "<lastmod>2026-01-02T03:04:05Z<"));
    assert_non_null(strstr(body->data, " length=\"17\" type=\"text/csv\"/>"));
    assert_non_null(
        strstr(body->data, " hash=\"md5:0123456789abcdef0123456789abcdef\""));
}

/* Design section 5, rule 5: refused whole, with the entry and the reason; exit
 * status 1. */
TEST(publish_says_why_a_post_is_refused)
{
    struct stage *s = *state;

    PUBLISH(s, "--change", "created", "http://example.com/a", "not-a-uri-1234");
    assert_int_equal(command_end(&s->command), 1);
    assert_string_equal(s->command.out_text, "");
    assert_memory_equal(s->command.err_text, "tidings: 422: ", 14);
    assert_non_null(strstr(s->command.err_text, "entry 2"));
    assert_int_equal(http_get(&s->http, "/sets/" SET "/changelist.xml"), 404);

    broker_stop(&s->broker);
    PUBLISH(s, "--change", "created", "http://example.com/a");
    assert_int_equal(command_end(&s->command), 1);
    assert_string_equal(s->command.out_text, "");
    assert_memory_equal(s->command.err_text, "tidings: ", 9);
}

/* A line that could not be written is not gone past, though those after it
 * could: the pipe has room for little, not for a buffer full. */
TEST(keeps_no_place_behind_lines_that_are_lost)
{
    struct stage *s = *state;
    int ends[2];
    pid_t pid;

    post(s, 1, 100);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
    assert_int_equal(write(ends[1], "x", 1), 1);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 1);
        execl(TIDINGS, TIDINGS, "follow", s->set_url, "--from-start",
              "--until-caught-up", "--state", s->state, NULL);
        _exit(127);
    }

    assert_int_equal(process_status(pid), 1);

    assert_int_equal(access(s->state, F_OK), -1);
    close(ends[0]);
    close(ends[1]);
}
