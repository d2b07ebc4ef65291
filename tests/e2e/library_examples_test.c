/*
 * library_examples_test.c - the C programs of client/examples, each run against
 * the real broker.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tidings.h"
#include "tests/places.h"
#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/http.h"
#include "tests/support/shell.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define EXAMPLES BIN_DIR "/../examples/"

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
