/*
 * full_test.c - tidings publish --full: a source's documents, as they stand on
 * its web site or disk, become the changes of a set.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/vocab.h"
#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/fake_broker.h"
#include "tests/support/gzip.h"
#include "tests/support/http.h"
#include "tests/support/site.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"
#define XML     "application/xml"

#define SITEMAP(entries) "<urlset xmlns='" NS_SITEMAP "'>" entries "</urlset>"
#define URL(name)        "<url><loc>http://example.com/" name "</loc></url>"
#define INDEX            "<sitemapindex xmlns='" NS_SITEMAP "'>%s</sitemapindex>"

struct stage {
    struct broker broker;
    struct site *site;
    struct command command;
    char set[128];
};

static int
open_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, NULL);
    snprintf(s->set, sizeof(s->set), "%s/sets/demo", s->broker.url);
    s->site = site_new();
    return 0;
}

static int
close_stage(void **state)
{
    struct stage *s = *state;

    site_free(s->site);
    broker_close(&s->broker);
    free(s);
    return 0;
}

/* tidings publish SET-URL --full FROM [--max-delete PERCENT]; its exit status.
 */
static int
full(struct stage *s, const char *from, const char *percent)
{
    const char *argv[] = {TIDINGS,  "publish", s->set,
                          "--full", from,      percent ? "--max-delete" : NULL,
                          percent,  NULL};

    command_start(&s->command, argv);
    command_give(&s->command, "");
    return command_end(&s->command);
}

/* It did that, and says so. */
#define assert_full(s, from, text)                                          \
    do {                                                                    \
        int code_ = full(s, from, NULL);                                    \
        assert_string_equal((s)->command.err_text, "");                     \
        assert_int_equal(code_, 0);                                         \
        assert_memory_equal((s)->command.out_text, text, sizeof(text) - 1); \
    } while (0)

#define assert_not_full(s, from, status, text)          \
    do {                                                \
        assert_int_equal(full(s, from, NULL), status);  \
        assert_string_equal((s)->command.out_text, ""); \
        if (!strstr((s)->command.err_text, text))       \
            fail_msg("%s", (s)->command.err_text);      \
    } while (0)

static void
put_index(struct stage *s, const char *path, const char *one, const char *two)
{
    char entries[1024];

    snprintf(entries, sizeof(entries),
             "<sitemap><loc>%s</loc></sitemap><sitemap><loc>%s</loc></sitemap>",
             site_link(s->site, one), site_link(s->site, two));
    site_putf(s->site, path, XML, INDEX, entries);
}

FIXTURE(open_stage, close_stage);

/* parts of an index together are one state; one is in gzip, and
 * nobody says so. */
TEST(an_index_is_read_with_its_parts)
{
    struct stage *s = *state;
    struct buf zipped;

    buf_init(&zipped, 65536);
    gzip_add(&zipped, SLICE(SITEMAP(URL("c") URL("d"))));
    site_put(s->site, "/1.xml", XML, SLICE(SITEMAP(URL("a") URL("b"))));
    site_put(s->site, "/2.xml.gz", "application/octet-stream",
             buf_slice(&zipped));
    buf_fini(&zipped);
    put_index(s, "/index.xml", "/1.xml", "/2.xml.gz");

    assert_full(s, site_link(s->site, "/index.xml"),
                "created=4 updated=0 deleted=0 unchanged=0 newer=0 position=");
    site_put(s->site, "/1.xml", XML,
             SLICE(SITEMAP(URL("a") URL("b") URL("e"))));
    assert_full(s, site_link(s->site, "/index.xml"),
                "created=1 updated=0 deleted=0 unchanged=4 newer=0 position=");
}

TEST(files_are_read_in_every_form)
{
    struct stage *s = *state;
    struct tempdir dir;
    char path[300];

    tempdir_open(&dir);
    tempdir_write(dir.fd, "list", SITEMAP(URL("a") URL("b")));
    tempdir_write(dir.fd, "lines",
                  "\n{\"loc\":\"http://example.com/a\"}\n"
                  "{\"loc\":\"http://example.com/b\"}");

    snprintf(path, sizeof(path), "%s/list", dir.path);
    assert_full(s, path, "created=2 ");
    snprintf(path, sizeof(path), "%s/lines", dir.path);
    assert_full(s, path, "created=0 updated=0 deleted=0 unchanged=2 ");
    tempdir_close(&dir);
}

TEST(a_fault_anywhere_is_told_with_its_document_and_nothing_is_sent)
{
    struct stage *s = *state;
    struct http h;

    site_put(s->site, "/1.xml", XML, SLICE(SITEMAP(URL("a"))));
    site_put(s->site, "/bad.xml", XML,
             SLICE("<urlset xmlns='" NS_SITEMAP "'>"));
    site_put(s->site, "/changes.xml", XML,
             SLICE("<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS "'>"
                   "<rs:md capability='changelist'/></urlset>"));
    site_put(s->site, "/page.html", "text/html", SLICE("<html></html>"));
    put_index(s, "/index.xml", "/1.xml", "/bad.xml");
    put_index(s, "/missing.xml", "/1.xml", "/none.xml");
    put_index(s, "/deep.xml", "/1.xml", "/index.xml");
    site_put(s->site, "/cut.xml", XML, SLICE(SITEMAP(URL("a") URL("b"))));
    site_cut(s->site, "/cut.xml", 100);

    assert_not_full(s, site_link(s->site, "/index.xml"), 1, "/bad.xml: line 1");
    assert_not_full(s, site_link(s->site, "/missing.xml"), 1, "/none.xml: 404");
    assert_not_full(s, site_link(s->site, "/deep.xml"), 1,
                    "an index within an index");
    assert_not_full(s, site_link(s->site, "/changes.xml"), 1,
                    "capability: not resourcelist");
    assert_not_full(s, site_link(s->site, "/page.html"), 1, "/page.html: ");
    assert_not_full(s, site_link(s->site, "/cut.xml"), 1, "/cut.xml: ");
    assert_not_full(s, "/dev/null", 1, "/dev/null: it has no root");
    assert_not_full(s, "/nonesuch", 1, "cannot read /nonesuch");

    http_open(&h, s->broker.url);
    assert_int_equal(http_get(&h, "/sets/demo"), 404);
    http_close(&h);
}

TEST(what_is_told_twice_or_deletes_too_much_is_refused)
{
    struct stage *s = *state;

    site_put(s->site, "/1.xml", XML, SLICE(SITEMAP(URL("a") URL("b"))));
    site_put(s->site, "/2.xml", XML, SLICE(SITEMAP(URL("c") URL("a"))));
    put_index(s, "/index.xml", "/1.xml", "/2.xml");

    assert_not_full(s, site_link(s->site, "/index.xml"), 1,
                    "422: entry 4: loc: told already in entry 1");
    assert_full(s, site_link(s->site, "/1.xml"), "created=2 ");
    assert_not_full(s, site_link(s->site, "/2.xml"), 1,
                    "409: 1 of 2 resources would be deleted");
    assert_int_equal(full(s, site_link(s->site, "/2.xml"), "50"), 0);
    assert_string_equal(s->command.err_text, "");
}

TEST(what_does_not_go_together_is_bad_usage)
{
    static const char *const more[][3] = {
        {"--key", "k", NULL},        {"--type", "xml", NULL},
        {"--max-delete", "0", NULL}, {"--max-delete", "101", NULL},
        {"--max-delete", "x", NULL}, {"--change", "created", NULL},
        {"FILE", NULL, NULL},
    };
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        const char *argv[] = {TIDINGS, "publish",  s->set,     "--full",
                              "x.xml", more[i][0], more[i][1], NULL};

        command_start(&s->command, argv);
        command_give(&s->command, "");
        assert_int_equal(command_end(&s->command), 2);
        assert_string_equal(s->command.out_text, "");
    }
}

/* What a source's server says is told, as far as it is short: one that never
 * comes to an end is not waited for. */
TEST(a_refusal_of_the_source_is_told)
{
    struct stage *s = *state;
    struct fake_broker *source = fake_broker_new();
    char *lot = malloc(40000);

    assert_non_null(lot);
    memset(lot, ' ', 40000);
    fake_answer(source, 404, "application/problem+json",
                "{\"detail\":\"no such list\"}");
    fake_answer(source, 410, "text/plain", "it was here");
    fake_plain(source);
    fake_raw(source, SLICE("HTTP/1.1 503 No\r\nContent-Length: 1000000\r\n"
                           "\r\n"));
    fake_raw(source, (struct slice){lot, 40000});
    fake_hold(source);
    fake_broker_start(source);

    assert_not_full(s, fake_broker_url(source), 1, "404: no such list");
    assert_not_full(s, fake_broker_url(source), 1, "410: ");
    assert_not_full(s, fake_broker_url(source), 1, "503: ");
    fake_broker_free(source);
    free(lot);
}
