/*
 * follow_static_test.c - `tidings follow` of a ResourceSync site that has no
 * Tidings in it: baselines, and what its lists tell, as the stream of a set of
 * Tidings tells it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/http.h"
#include "tests/support/site.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"
#define NS                                                   \
    "xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" " \
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\""
#define HEAD "<urlset " NS ">\n"

#define AT(day)        "2026-09-" day "T00:00:00Z"
#define RESOURCE(name) "<url><loc>http://r.example/" name "</loc></url>"
#define CHANGE(name, day)                                                \
    "<url><loc>http://r.example/" name "</loc><rs:md change=\"updated\"" \
    " datetime=\"" AT(day) "\"/></url>"

struct stage {
    struct site *site;
    struct tempdir dir;
    struct command command;
    char state[300];
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    s->site = site_new();
    tempdir_open(&s->dir);
    snprintf(s->state, sizeof(s->state), "%s/state", s->dir.path);
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    site_free(s->site);
    tempdir_close(&s->dir);
    free(s);
    return 0;
}

static void
put_source(struct stage *s, const char *path)
{
    const char *url = site_url(s->site);

    site_putf(s->site, path, "application/xml",
              HEAD "<rs:md capability=\"capabilitylist\"/>\n"
                   "<url><loc>%s/resources.xml</loc>"
                   "<rs:md capability=\"resourcelist\"/></url>"
                   "<url><loc>%s/changes.xml</loc>"
                   "<rs:md capability=\"changelist\"/></url></urlset>",
              url, url);
}

static void
put_resources(struct stage *s, const char *at, const char *resources)
{
    site_putf(s->site, "/resources.xml", "application/xml",
              HEAD "<rs:md capability=\"resourcelist\" at=\"%s\"/>%s</urlset>",
              at, resources);
}

static void
put_changes(struct stage *s, const char *from, const char *changes)
{
    site_putf(s->site, "/changes.xml", "application/xml",
              HEAD "<rs:md capability=\"changelist\" from=\"%s\"/>%s</urlset>",
              from, changes);
}

static void
start(struct stage *s, const char *url, const char *const *more)
{
    const char *argv[24] = {TIDINGS, "follow", url};

    for (size_t i = 0; more[i]; i++)
        argv[3 + i] = more[i];
    command_start(&s->command, argv);
}

#define FOLLOW(s, ...)                          \
    start(s, site_link((s)->site, "/caps.xml"), \
          (const char *const[]){__VA_ARGS__, NULL})

/* The lines that come next: what each says last. */
static void
assert_lines(struct stage *s, const char *const *ends)
{
    for (size_t i = 0; ends[i]; i++) {
        const char *line = command_line(&s->command);
        size_t size = strlen(line), n = strlen(ends[i]);

        if (size < n || strcmp(line + size - n, ends[i]) != 0)
            fail_msg("line %zu is \"%s\", not \"...%s\"", i, line, ends[i]);
    }
}

#define LINES(s, ...) assert_lines(s, (const char *const[]){__VA_ARGS__, NULL})

static void
stop(struct stage *s)
{
    kill(s->command.pid, SIGTERM);
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");
}

FIXTURE(set_stage, clear_stage);

/* R-225: all there is, then what happened since, as it happens; the position is
 * kept: what was told is not told again. */
TEST(a_baseline_comes_first)
{
    struct stage *s = *state;

    put_source(s, "/caps.xml");
    put_resources(s, AT("03"), RESOURCE("a") RESOURCE("b"));
    put_changes(s, AT("01"), CHANGE("a", "02") CHANGE("b", "04"));
    FOLLOW(s, "--baseline", "first", "--state", s->state, "--poll", "0.1");
    LINES(s, "- - baseline-begin -", "resource http://r.example/a",
          "resource http://r.example/b");
    LINES(s, "- - baseline-end -");
    LINES(s, "updated http://r.example/b");
    put_changes(s, AT("01"),
                CHANGE("a", "02") CHANGE("b", "04") CHANGE("c", "05"));
    LINES(s, "updated http://r.example/c");
    stop(s);

    put_changes(s, AT("01"),
                CHANGE("a", "02") CHANGE("b", "04") CHANGE("c", "05")
                    CHANGE("d", "05"));
    FOLLOW(s, "--baseline", "first", "--state", s->state, "--poll", "0.1");
    LINES(s, "updated http://r.example/d");
    stop(s);
}

/* R-225, R-345: a list that no longer reaches back is gone: without --baseline
 * that is the end, with it all there is comes anew. */
TEST(a_baseline_comes_where_changes_are_gone)
{
    struct stage *s = *state;

    put_source(s, "/caps.xml");
    put_resources(s, AT("03"), RESOURCE("a"));
    put_changes(s, AT("01"), CHANGE("a", "02"));
    FOLLOW(s, "--since", AT("01"), "--state", s->state, "--until-caught-up");
    LINES(s, "updated http://r.example/a");
    assert_int_equal(command_end(&s->command), 0);

    put_resources(s, AT("08"), RESOURCE("b") RESOURCE("c"));
    put_changes(s, AT("07"), CHANGE("c", "09"));
    FOLLOW(s, "--state", s->state, "--until-caught-up");
    assert_int_equal(command_end(&s->command), 3);
    assert_string_equal(s->command.out_text, "");

    FOLLOW(s, "--baseline", "gone", "--state", s->state, "--poll", "0.1");
    LINES(s, "- - baseline-begin -");
    LINES(s, "resource http://r.example/b", "resource http://r.example/c");
    LINES(s, "- - baseline-end -");
    LINES(s, "updated http://r.example/c");
    stop(s);
}

/* The source is away (503), then gone (404), then there again as another one:
 * the first is waited for, the second is the end, the third begins anew. */
TEST(a_source_that_is_gone_may_come_back)
{
    struct stage *s = *state;

    put_source(s, "/caps.xml");
    put_resources(s, AT("03"), RESOURCE("a"));
    put_changes(s, AT("01"), CHANGE("a", "04"));
    FOLLOW(s, "--baseline", "first", "--state", s->state, "--poll", "0.1",
           "--verbose");
    LINES(s, "- - baseline-begin -", "resource http://r.example/a");
    LINES(s, "- - baseline-end -");
    LINES(s, "updated http://r.example/a");

    site_status(s->site, NULL, 503, NULL, 0);
    command_complains(&s->command, "503");
    put_changes(s, AT("01"), CHANGE("a", "04") CHANGE("b", "05"));
    site_status(s->site, NULL, 0, NULL, 0);
    LINES(s, "updated http://r.example/b");

    site_status(s->site, NULL, 404, NULL, 0);
    assert_int_equal(command_end(&s->command), 1);
    assert_string_equal(s->command.out_text, "");
    assert_non_null(strstr(s->command.err_text, "404"));

    site_status(s->site, NULL, 0, NULL, 0);
    put_resources(s, AT("12"), RESOURCE("z"));
    put_changes(s, AT("12"), CHANGE("z", "13"));
    FOLLOW(s, "--baseline", "first", "--state", s->state, "--poll", "0.1");
    LINES(s, "- - baseline-begin -");
    LINES(s, "resource http://r.example/z");
    LINES(s, "- - baseline-end -");
    LINES(s, "updated http://r.example/z");
    stop(s);
}

/* R-143, R-162: a list that is closed while it is followed, and an index at
 * another address in its place. */
TEST(a_source_may_go_on_elsewhere)
{
    struct stage *s = *state;
    const char *url = site_url(s->site);

    put_source(s, "/caps.xml");
    put_changes(s, AT("01"), CHANGE("a", "04"));
    FOLLOW(s, "--after", "@" AT("02"), "--poll", "0.1");
    LINES(s, "updated http://r.example/a");

    site_putf(s->site, "/index.xml", "application/xml",
              "<sitemapindex " NS "><rs:md capability=\"changelist\" "
              "from=\"%s\"/>"
              "<sitemap><loc>%s/changes.xml</loc>"
              "<rs:md capability=\"changelist\" from=\"%s\" "
              "until=\"%s\"/></sitemap>"
              "<sitemap><loc>%s/2.xml</loc>"
              "<rs:md capability=\"changelist\" from=\"%s\"/></sitemap>"
              "</sitemapindex>",
              AT("01"), url, AT("01"), AT("05"), url, AT("05"));
    site_putf(s->site, "/2.xml", "application/xml",
              HEAD "<rs:md capability=\"changelist\" from=\"%s\"/>%s</urlset>",
              AT("05"), CHANGE("b", "06"));
    site_putf(s->site, "/caps.xml", "application/xml",
              HEAD "<rs:md capability=\"capabilitylist\"/>\n"
                   "<url><loc>%s/index.xml</loc>"
                   "<rs:md capability=\"changelist\"/></url></urlset>",
              url);
    site_putf(s->site, "/changes.xml", "application/xml",
              HEAD "<rs:ln rel=\"index\" href=\"%s/index.xml\"/>"
                   "<rs:md capability=\"changelist\" from=\"%s\" "
                   "until=\"%s\"/>%s</urlset>",
              url, AT("01"), AT("05"), CHANGE("a", "04"));
    LINES(s, "updated http://r.example/b");
    stop(s);
}

#define ENTRIES                                                              \
    "[{\"loc\":\"http://r.example/a\",\"change\":\"created\",\"lastmod\":"   \
    "\"2026-01-01T00:00:00Z\",\"hash\":{\"sha-256\":\"0123456789abcdef0123"  \
    "456789abcdef0123456789abcdef0123456789abcdef\"},\"length\":3,\"type\":" \
    "\"text/plain\",\"encoding\":\"gzip\",\"changefreq\":\"daily\","         \
    "\"priority\":\"0.5\",\"tags\":[\"x\",\"y\"],\"links\":[{\"rel\":"       \
    "\"duplicate\",\"href\":\"http://m.example/a?x=1&y=2\",\"pri\":1,"       \
    "\"modified\":\"2026-01-01T00:00:00Z\"}]},"                              \
    "{\"loc\":\"http://r.example/b?x=1&y=%3C%22\",\"change\":\"deleted\"}]"

/* R-342: what comes by lists is, byte for byte, what comes by the stream, in
 * each format. */
TEST(lists_tell_what_the_stream_tells)
{
    static const char *const formats[] = {"text", "xml", "json"};
    static char stream[65536];
    struct stage *s = *state;
    struct broker broker;
    struct http http;
    char url[200];

    broker_open(&broker, NULL);
    http_open(&http, broker.url);
    assert_int_equal(http_post(&http, "/sets/news/changes", "application/json",
                               SLICE(ENTRIES)),
                     200);
    snprintf(url, sizeof(url), "%s/sets/news", broker.url);
    for (size_t i = 0; i < 3; i++) {
        const char *const by_stream[] = {"--from-start", "--until-caught-up",
                                         "--format", formats[i], NULL};
        const char *const by_lists[] = {"--from-start",
                                        "--until-caught-up",
                                        "--format",
                                        formats[i],
                                        "--transport",
                                        "poll",
                                        NULL};

        start(s, url, by_stream);
        assert_int_equal(command_end(&s->command), 0);
        strcpy(stream, s->command.out_text);
        assert_non_null(strstr(stream, "http://r.example/b"));
        start(s, url, by_lists);
        assert_int_equal(command_end(&s->command), 0);
        assert_string_equal(s->command.out_text, stream);
    }
    http_close(&http);
    broker_stop(&broker);
    broker_close(&broker);
}
