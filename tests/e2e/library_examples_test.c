/*
 * library_examples_test.c - the programs of client/examples, each run against
 * the real broker.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tidings.h"
#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/http.h"
#include "tests/support/sanitized.h"
#include "tests/support/shell.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define EXAMPLES BIN_DIR "/../examples/"
#define LIBRARY  BIN_DIR "/../lib/libtidings.so.0"
#define PYTHON   SPEC_DIR "/../../client/examples/python/follow.py"

struct stage {
    struct broker broker;
    struct http http;
    struct tempdir dir;
    char url[2][100];   /* of two sets */
    char position[300]; /* a file */
};

static int
set_up(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    broker_open(&s->broker, "--heartbeat", "1", NULL);
    http_open(&s->http, s->broker.url);
    tempdir_open(&s->dir);
    snprintf(s->url[0], sizeof(s->url[0]), "%s/sets/a", s->broker.url);
    snprintf(s->url[1], sizeof(s->url[1]), "%s/sets/b", s->broker.url);
    snprintf(s->position, sizeof(s->position), "%s/position", s->dir.path);
    *state = s;
    return 0;
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    tempdir_close(&s->dir);
    http_close(&s->http);
    broker_close(&s->broker);
    free(s);
    return 0;
}

static void
end_it(struct command *c)
{
    kill(c->pid, SIGKILL);
    assert_int_equal(command_end(c), 128 + SIGKILL);
}

TEST(publish_tells_the_position_of_what_it_has_published, set_up, tear_down)
{
    struct stage *s = *state;
    const char *argv[] = {EXAMPLES "publish", s->url[0], NULL};
    struct receipt next;
    struct command c;
    char *dash;

    command_start(&c, argv);
    command_give(&c,
                 "{\"loc\":\"http://example.com/a\",\"change\":\"created\"}\n"
                 "{\"loc\":\"http://example.com/b\",\"change\":\"created\"}\n");
    assert_int_equal(command_end(&c), 0);
    dash = strchr(c.out_text, '-');
    assert_non_null(dash);
    assert_string_equal(dash, "-2\n");
    next = source_post(&s->http, "a", 1, 1);
    assert_int_equal(next.first, 3);

    command_start(&c, argv);
    command_give(&c, "{\"change\":\"created\"}\n");
    assert_int_equal(command_end(&c), 1);
    assert_non_null(strstr(c.err_text, "publish: 422"));
}

/* Several megabytes, read by and by; and input that ends by a failure. */
TEST(publish_reads_to_the_end, set_up, tear_down)
{
    enum { N = 40000 };
    struct stage *s = *state;
    char *said;

    setenv("PUBLISH", EXAMPLES "publish", 1);
    setenv("SET", s->url[0], 1);
    said =
        shell("seq %d | sed 's|.*|{\"loc\":\"http://example.com/long/enough/&"
              "\",\"change\":\"created\"}|' | $PUBLISH $SET",
              N);
    assert_non_null(strstr(said, "-40000\n"));
    free(said);
    said = shell("{ $PUBLISH $SET < /; echo $?; } 2>&1");
    assert_string_equal(said, "publish: cannot read the changes\n1\n");
    free(said);
}

TEST(follow_goes_on_where_it_was_killed, set_up, tear_down)
{
    struct stage *s = *state;
    const char *argv[] = {EXAMPLES "follow", s->url[0], s->position, NULL};
    struct command c;
    char kept[100] = "";
    struct receipt r = source_post(&s->http, "a", 1, 2);

    command_start(&c, argv);
    assert_string_equal(command_line(&c), "created http://example.com/r/1");
    assert_string_equal(command_line(&c), "created http://example.com/r/2");
    source_post(&s->http, "a", 3, 1);
    /* When the test reads this line the program has stored the position of the
     * first message. */
    assert_string_equal(command_line(&c), "created http://example.com/r/3");
    end_it(&c);

    {
        FILE *file = fopen(s->position, "re");

        assert_non_null(file);
        assert_non_null(fgets(kept, sizeof(kept), file));
        fclose(file);
    }
    assert_memory_equal(kept, r.position, 16);
    source_post(&s->http, "a", 4, 1);
    command_start(&c, argv);
    do /* the third again, if the kill came before its position was stored */
        command_line(&c);
    while (!strcmp(c.out_text, "created http://example.com/r/3"));
    assert_string_equal(c.out_text, "created http://example.com/r/4");
    end_it(&c);
}

/* Asks again and again, since the program does not say when it is so far. */
static void
await_positions(struct command *c, unsigned first, unsigned second)
{
    unsigned a = 0, b = 0;

    while (a != first || b != second) {
        assert_int_equal(write(c->in, "?", 1), 1);
        if (sscanf(command_line(c), "%*[^-]-%u %*[^-]-%u", &a, &b) != 2)
            a = b = 0;
    }
}

TEST(poll_follows_two_sets_and_answers_its_user, set_up, tear_down)
{
    struct stage *s = *state;
    const char *argv[] = {EXAMPLES "poll", s->url[0], s->url[1], NULL};
    const char *wrong[] = {EXAMPLES "poll", s->url[0], "news", NULL};
    struct command c;

    source_post(&s->http, "a", 1, 1);
    source_post(&s->http, "b", 1, 2);
    command_start(&c, argv);
    await_positions(&c, 1, 2);
    source_post(&s->http, "a", 2, 1);
    assert_string_equal(command_line(&c), "a: created http://example.com/r/2");
    source_post(&s->http, "b", 3, 1);
    assert_string_equal(command_line(&c), "b: created http://example.com/r/3");
    assert_int_equal(command_end(&c), 0); /* its input ends */

    command_start(&c, wrong);
    assert_int_equal(command_end(&c), 2);
    assert_non_null(strstr(c.err_text, "poll: not the URL of a set"));
}

/* Python has no sanitizer's runtime in it. */
static void
leave_sanitizers_out(void)
{
    if (IS_SANITIZED)
        skip();
}

TEST(python_publishes_and_follows, set_up, tear_down)
{
    static const char change[] =
        "[{\"loc\":\"http://example.com/a\",\"change\":\"created\","
        "\"lastmod\":\"2026-04-05T08:30:00Z\",\"length\":42,\"type\":"
        "\"text/csv\",\"encoding\":\"gzip\",\"tags\":[\"x\",\"y\"],"
        "\"hash\":{\"md5\":\"abababababababababababababababab\"},\"links\":[{"
        "\"rel\":\"duplicate\",\"href\":\"http://mirror.example.com/a\","
        "\"pri\":7}]}]";
    struct stage *s = *state;
    char *said, *line;

    leave_sanitizers_out();
    assert_int_equal(
        source_send(&s->http, "a", "application/json", SLICE(change), NULL),
        200);
    setenv("LIBTIDINGS", LIBRARY, 1);
    said = shell("python3 " PYTHON " %s http://example.com/b", s->url[0]);
    assert_non_null(strstr(said, "{\"published\": 2, \"first\": 2, "));
    line = strstr(said, "{\"seq\": 1, ");
    assert_non_null(line);
    assert_non_null(strstr(line, "\"change\": \"created\", \"loc\": "
                                 "\"http://example.com/a\", \"lastmod\": "
                                 "\"2026-04-05T08:30:00Z\", \"hash\": "
                                 "\"md5:abababababababababababababababab\", "
                                 "\"length\": 42, \"type\": \"text/csv\", "
                                 "\"encoding\": \"gzip\", \"tags\": \"x y\""));
    assert_non_null(strstr(line, "\"links\": [{\"rel\": \"duplicate\", "
                                 "\"href\": \"http://mirror.example.com/a\", "
                                 "\"pri\": 7}]"));
    line = strstr(line, "{\"seq\": 2, ");
    assert_non_null(line);
    assert_non_null(strstr(line, "\"loc\": \"http://example.com/b\""));
    assert_non_null(strstr(line, "{\"set\": \"a\", \"kind\": 0, \"after\": "));
    free(said);
}

#define AT(part, name) offsetof(struct part, name)

/* The layouts that a user of ctypes writes down are those of the headers. */
TEST(python_has_the_layouts_of_the_headers)
{
    char expected[1000];
    char *said;

    snprintf(
        expected, sizeof(expected),
        "Receipt %zu %zu %zu %zu %zu\n"
        "Link %zu %zu %zu %zu %zu %zu %zu %zu %zu\n"
        "Change %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu "
        "%zu\n"
        "Message %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu\n"
        "FollowOptions %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu "
        "%zu %zu %zu %zu %zu\n",
        sizeof(struct td_receipt), AT(td_receipt, first), AT(td_receipt, last),
        AT(td_receipt, position), AT(td_receipt, datetime),
        sizeof(struct td_link), AT(td_link, rel), AT(td_link, href),
        AT(td_link, type), AT(td_link, hash), AT(td_link, length),
        AT(td_link, pri), AT(td_link, modified), AT(td_link, path),
        sizeof(struct td_change), AT(td_change, seq), AT(td_change, datetime),
        AT(td_change, change), AT(td_change, loc), AT(td_change, lastmod),
        AT(td_change, hash), AT(td_change, length), AT(td_change, type),
        AT(td_change, encoding), AT(td_change, tags), AT(td_change, links),
        AT(td_change, n_links), AT(td_change, file), AT(td_change, text),
        AT(td_change, text_size), sizeof(struct td_message),
        AT(td_message, kind), AT(td_message, set), AT(td_message, set_url),
        AT(td_message, after), AT(td_message, last), AT(td_message, position),
        AT(td_message, digest), AT(td_message, reason),
        AT(td_message, n_changes), AT(td_message, changes),
        sizeof(struct td_follow_options), AT(td_follow_options, after),
        AT(td_follow_options, since), AT(td_follow_options, filters),
        AT(td_follow_options, n_filters), AT(td_follow_options, form),
        AT(td_follow_options, idle_ms), AT(td_follow_options, on_trouble),
        AT(td_follow_options, transports), AT(td_follow_options, poll_ms),
        AT(td_follow_options, baseline), AT(td_follow_options, scratch),
        AT(td_follow_options, until_caught_up),
        AT(td_follow_options, patience_ms), AT(td_follow_options, listing),
        AT(td_follow_options, max_delete_percent),
        AT(td_follow_options, on_progress), AT(td_follow_options, on_end));
    said = shell("python3 " PYTHON " --sizes");
    assert_string_equal(said, expected);
    free(said);
}
