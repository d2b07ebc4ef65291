/*
 * get_test.c - tidings get, against a real broker.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/datetime.h"
#include "tests/support/command.h"
#include "tests/support/jsonpath.h"
#include "tests/support/lists.h"
#include "tests/support/site.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"

struct stage {
    struct lists lists;
    struct command command;
    char set_url[128];
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    LISTS_OPEN(&s->lists, "--rotate-entries", "3");
    snprintf(s->set_url, sizeof(s->set_url), "%s/sets/" LISTS_SET,
             s->lists.broker.url);
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

static int
get(struct stage *s, const char *option)
{
    const char *argv[] = {TIDINGS, "get", s->set_url, option, NULL};

    command_start(&s->command, argv);
    return command_end(&s->command);
}

/* The text has a line of this key and value. */
static void
assert_line(struct stage *s, const char *key, const char *value)
{
    char line[400];

    snprintf(line, sizeof(line), "%-22s %s", key, value);
    if (!strstr(s->command.out_text, line))
        fail_msg("\"%s\" is not in:\n%s", line, s->command.out_text);
}

static int64_t
instant_of(struct jsonpath *j, const char *path)
{
    int64_t us = DATETIME_NONE;

    assert_int_equal(datetime_read(slice_of(jsonpath_text(j, path)), &us),
                     STATUS_OK);
    return us;
}

FIXTURE(set_stage, clear_stage);

/* what the set offers, by its own links; each of them works. */
TEST(tells_what_a_set_offers)
{
    struct stage *s = *state;
    struct jsonpath j;
    struct jsonpath page;
    const char *position;
    char path[40], value[300];
    size_t n;

    source_post(&s->lists.http, LISTS_SET, 1, 7, 0);
    lists_await_closed(&s->lists, 2);
    assert_int_equal(
        http_get(&s->lists.http, "/sets/" LISTS_SET "/changes?after=0"), 200);
    jsonpath_open(&page, buf_slice(&s->lists.http.body));
    snprintf(value, sizeof(value), "%s-7", jsonpath_text(&page, "epoch"));

    assert_int_equal(get(s, "--json"), 0);
    jsonpath_open(&j, slice_of(s->command.out_text));
    assert_string_equal(jsonpath_text(&j, "set"), s->set_url);
    position = jsonpath_text(&j, "position");
    assert_string_equal(position, value);
    /* One writes the zeros at the end of a fraction, the other does not. */
    assert_int_equal(instant_of(&j, "from"), instant_of(&page, "from"));
    assert_int_equal(jsonpath_number(&j, "lists"), 3);
    n = jsonpath_count(&j, "links");
    assert_in_range(n, 4, 100);
    for (size_t i = 0; i < n; i++) {
        const char *href;

        snprintf(path, sizeof(path), "links.%zu.rel", i);
        if (!strcmp(jsonpath_text(&j, path), "urn:tidings:1:stream") ||
            !strcmp(jsonpath_text(&j, path), "urn:tidings:1:events") ||
            !strcmp(jsonpath_text(&j, path), "hub"))
            continue; /* no document */
        snprintf(path, sizeof(path), "links.%zu.href", i);
        href = jsonpath_text(&j, path);
        assert_memory_equal(href, s->lists.broker.url,
                            strlen(s->lists.broker.url));
        href += strlen(s->lists.broker.url);
        assert_int_equal(http_get(&s->lists.http, href), 200);
    }

    assert_int_equal(get(s, NULL), 0);
    assert_line(s, "set", s->set_url);
    assert_line(s, "position", position);
    assert_line(s, "lists", "3");
    snprintf(value, sizeof(value), "%s/changelist.xml", s->set_url);
    assert_line(s, "changelist", value);
    snprintf(value, sizeof(value), "%s/changelist-archive.xml", s->set_url);
    assert_line(s, "changelist-archive", value);
    assert_string_equal(s->command.err_text, "");
    jsonpath_close(&j);
    jsonpath_close(&page);
}

TEST(says_that_there_is_no_such_set)
{
    struct stage *s = *state;

    assert_int_equal(get(s, NULL), 1);
    assert_string_equal(s->command.out_text, "");
    assert_non_null(strstr(s->command.err_text, ": 404: there is no set"));
    assert_non_null(strstr(s->command.err_text, "404: there is no set \""));
}

/* Why there is none is told as the server says it. */
TEST(says_that_a_set_was_removed)
{
    struct stage *s = *state;

    source_post(&s->lists.http, LISTS_SET, 1, 1, 0);
    assert_int_equal(
        http_ask(&s->lists.http, "DELETE", "/sets/" LISTS_SET, NULL), 204);
    assert_int_equal(get(s, NULL), 3);
    assert_string_equal(s->command.out_text, "");
    assert_non_null(strstr(s->command.err_text, "was removed"));
}

/* What a server tells cannot make a line, or move the cursor. */
TEST(prints_nothing_that_is_not_to_be_read)
{
    struct stage *s = *state;
    struct site *site = site_new();

    site_putf(site, "/sets/news", "application/json",
              "{\"name\":\"news\",\"position\":\"a-1\\nlists 9\","
              "\"earliest\":\"b\\u009b1m\",\"digest\":\"c\\u007fm\","
              "\"links\":[{\"rel\":\"changelist\",\"href\":\"%s/c.xml\"}]}",
              site_url(site));
    site_putf(site, "/c.xml", "application/xml",
              "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" "
              "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"
              "<rs:md capability=\"changelist\" "
              "from=\"2026-09-01T00:00:00Z\"/></urlset>");
    snprintf(s->set_url, sizeof(s->set_url), "%s/sets/news", site_url(site));

    assert_int_equal(get(s, NULL), 0);

    assert_line(s, "position", "a-1?lists 9\n");
    assert_line(s, "earliest", "b?1m\n");
    assert_line(s, "digest", "c?m\n");
    site_free(site);
}
