/*
 * documents_lists_test.c - Change Lists, their index and their archive: what
 * each says of itself, of the others, and that they agree.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/notice.h"
#include "tests/support/schema.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define LISTS    5 /* of the set "news": four closed, the last open */
#define TEXT_MAX 160

struct stage {
    struct broker broker;
    struct http http;
    struct xpath lists[LISTS + 1]; /* from 1 on */
    struct xpath index, archive;
};

static void
get(struct stage *s, const char *path, struct xpath *x)
{
    if (http_get(&s->http, path) != 200)
        fail_msg("%s: %ld", path, s->http.status);
    assert_valid(buf_slice(&s->http.body));
    xpath_open(x, buf_slice(&s->http.body));
}

static int
set_up(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, NULL);
    http_open(&s->http, s->broker.url);
    for (unsigned i = 1; i <= LISTS; i++) {
        char path[TEXT_MAX];

        for (unsigned k = 0; k < i; k++)
            source_post(&s->http, "news", 10 * i + k, 1 + k, 0);
        if (i < LISTS)
            source_rotate(&s->http, "news");
        snprintf(path, sizeof(path), "/sets/news/changes/%012u.xml", i);
        get(s, path, &s->lists[i]);
    }
    get(s, "/sets/news/changelist.xml", &s->index);
    get(s, "/sets/news/changelist-archive.xml", &s->archive);
    return 0;
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    for (unsigned i = 1; i <= LISTS; i++)
        xpath_close(&s->lists[i]);
    xpath_close(&s->index);
    xpath_close(&s->archive);
    http_close(&s->http);
    broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

/* The address of a document of the set. */
static const char *
url_of(struct stage *s, const char *name, char text[TEXT_MAX])
{
    snprintf(text, TEXT_MAX, "%s/sets/news/%s", s->broker.url, name);
    return text;
}

static const char *
list_url(struct stage *s, unsigned number, char text[TEXT_MAX])
{
    char name[64];

    snprintf(name, sizeof(name), "changes/%012u.xml", number);
    return url_of(s, name, text);
}

static const char *
root_md(struct xpath *x, const char *attribute)
{
    char expression[TEXT_MAX];

    snprintf(expression, sizeof(expression), "string(/*/rs:md/@%s)", attribute);
    return xpath_get(x, expression);
}

/* An attribute of the md, or the loc, of the entry at a place. */
static const char *
entry(struct xpath *x, unsigned place, const char *what)
{
    char expression[TEXT_MAX];

    snprintf(expression, sizeof(expression), "string(/*/s:*[%u]/%s)", place,
             what);
    return xpath_get(x, expression);
}

static void
assert_link(struct xpath *x, const char *rel, const char *href)
{
    char expression[TEXT_MAX];

    snprintf(expression, sizeof(expression),
             "string(/*/rs:ln[@rel='%s']/@href)", rel);
    assert_xpath_text(x, expression, href);
}

FIXTURE(set_up, tear_down);

/* what a list says of itself.
 */
TEST(a_list_says_what_it_is)
{
    struct stage *s = *state;
    char text[TEXT_MAX];

    for (unsigned i = 1; i <= LISTS; i++) {
        struct xpath *x = &s->lists[i];

        assert_xpath_count(
            x, "/s:urlset/rs:md[@capability='changelist'][@from]", 1);
        assert_xpath_count(x, "/s:urlset/rs:md[@until]", i < LISTS);
        assert_link(x, "up", url_of(s, "capabilitylist.xml", text));
        assert_link(x, "index", url_of(s, "changelist.xml", text));
        assert_xpath_count(x, "/s:urlset/s:url", i * (i + 1) / 2);
        assert_xpath_count(
            x, "/s:urlset/s:url[not(rs:md/@change and rs:md/@datetime)]", 0);
    }
}

/* I-01: in the order of time, each within the list. */
TEST(entries_are_in_order_and_within_the_interval_of_their_list)
{
    struct stage *s = *state;
    unsigned seq = 0;

    for (unsigned i = 1; i <= LISTS; i++) {
        struct xpath *x = &s->lists[i];
        const char *before = root_md(x, "from");
        size_t n = xpath_count(x, "/s:urlset/s:url");

        for (unsigned k = 1; k <= n; k++) {
            const char *time = entry(x, k, "rs:md/@datetime");

            assert_true(strcmp(before, time) < 0);
            assert_int_equal(strtoul(entry(x, k, "rs:md/@td:seq"), NULL, 10),
                             ++seq);
            before = time;
        }
        if (i < LISTS)
            assert_true(strcmp(before, root_md(x, "until")) <= 0);
    }
}

/* no gap, no overlap, and a link from each to the next. */
TEST(lists_follow_one_another)
{
    struct stage *s = *state;
    char text[TEXT_MAX];

    for (unsigned i = 1; i < LISTS; i++) {
        struct xpath *x = &s->lists[i], *next = &s->lists[i + 1];

        assert_string_equal(root_md(next, "from"), root_md(x, "until"));
        assert_string_equal(root_md(next, "td:after"), root_md(x, "td:last"));
        assert_string_equal(root_md(next, "td:epoch"), root_md(x, "td:epoch"));
        assert_link(x, "next", list_url(s, i + 1, text));
        assert_link(next, "prev", list_url(s, i, text));
        assert_xpath_text(next, "string(/*/rs:ln[@rel='prev']/@td:digest)",
                          root_md(x, "td:digest"));
    }
    assert_xpath_count(&s->lists[1], "/*/rs:ln[@rel='prev']", 0);
    assert_xpath_count(&s->lists[LISTS], "/*/rs:ln[@rel='next']", 0);
}

/* History proves itself: each digest follows from the bytes. */
TEST(digests_follow_from_the_bytes)
{
    struct stage *s = *state;
    char digest[NOTICE_DIGEST_SIZE];

    notice_digest_start(digest, root_md(&s->lists[1], "td:epoch"));
    for (unsigned i = 1; i <= LISTS; i++) {
        char path[TEXT_MAX];
        const char *at, *end;

        snprintf(path, sizeof(path), "/sets/news/changes/%012u.xml", i);
        assert_int_equal(http_get(&s->http, path), 200);
        at = s->http.body.data;
        end = at + s->http.body.size;
        while ((at = memmem(at, (size_t)(end - at), "<url>", 5))) {
            const char *line = memchr(at, '\n', (size_t)(end - at));

            assert_non_null(line);
            notice_digest_add(digest,
                              (struct slice){at, (size_t)(line + 1 - at)});
            at = line;
        }
        assert_string_equal(root_md(&s->lists[i], "td:digest"), digest);
    }
}

/* */
TEST(the_index_says_of_its_lists_what_they_say)
{
    struct stage *s = *state;
    struct xpath *x = &s->index;
    char text[TEXT_MAX];

    assert_xpath_count(x, "/s:sitemapindex/rs:md[@capability='changelist']", 1);
    assert_xpath_count(x, "/s:sitemapindex/rs:md[@until]", 0); /* I-12 */
    assert_string_equal(root_md(x, "from"), root_md(&s->lists[1], "from"));
    assert_link(x, "up", url_of(s, "capabilitylist.xml", text));
    assert_link(x, "archives", url_of(s, "changelist-archive.xml", text));
    assert_xpath_count(x, "/s:sitemapindex/s:sitemap", LISTS);
    assert_xpath_count(x, "/s:sitemapindex/s:sitemap/s:lastmod", 0); /* */
    for (unsigned i = 1; i <= LISTS; i++) {
        assert_string_equal(entry(x, i, "s:loc"), list_url(s, i, text));
        assert_string_equal(entry(x, i, "rs:md/@from"),
                            root_md(&s->lists[i], "from"));
        assert_string_equal(entry(x, i, "rs:md/@until"),
                            root_md(&s->lists[i], "until"));
    }
    assert_xpath_count(x, "/s:sitemapindex/s:sitemap[not(rs:md/@until)]", 1);
    assert_xpath_count(
        x, "/s:sitemapindex/s:sitemap[last()][not(rs:md/@until)]", 1);
}

/* */
TEST(the_archive_has_the_closed_lists_in_order)
{
    struct stage *s = *state;
    struct xpath *x = &s->archive;
    char text[TEXT_MAX];

    assert_xpath_count(x, "/s:urlset/rs:md[@capability='changelist-archive']",
                       1);
    assert_link(x, "up", url_of(s, "capabilitylist.xml", text));
    assert_xpath_count(x, "/s:urlset/s:url", LISTS - 1);
    for (unsigned i = 1; i < LISTS; i++) {
        assert_string_equal(entry(x, i, "s:loc"), list_url(s, i, text));
        assert_string_equal(entry(x, i, "rs:md/@from"),
                            root_md(&s->lists[i], "from"));
        assert_string_equal(entry(x, i, "rs:md/@until"),
                            root_md(&s->lists[i], "until"));
        assert_string_equal(entry(x, i, "rs:md/@td:digest"),
                            root_md(&s->lists[i], "td:digest"));
        if (i > 1)
            assert_string_equal(entry(x, i, "rs:md/@from"),
                                entry(x, i - 1, "rs:md/@until"));
    }
}
