#include "tests/support/resourcelist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/vocab.h"
#include "tests/support/schema.h"
#include "tests/support/xmldoc.h"
#include "tests/test.h"

void
resourcelist_open(struct resourcelist *r, const struct broker *b,
                  const char *set, size_t max)
{
    memset(r, 0, sizeof(*r));
    http_open(&r->http, b->url);
    r->root = strlen(b->url);
    snprintf(r->capabilitylist, sizeof(r->capabilitylist),
             "%s/sets/%s/capabilitylist.xml", b->url, set);
    r->max = max;
    r->seqs = calloc(max, sizeof(*r->seqs));
    assert_non_null(r->seqs);
}

static void
forget(struct resourcelist *r)
{
    if (r->has_index)
        xpath_close(&r->index);
    r->has_index = false;
    r->n = r->n_parts = 0;
    r->generation = 0;
    memset(r->seqs, 0, r->max * sizeof(*r->seqs));
}

void
resourcelist_close(struct resourcelist *r)
{
    forget(r);
    http_close(&r->http);
    free(r->seqs);
}

struct slice
resourcelist_get(struct resourcelist *r, const char *url)
{
    if (strncmp(url, r->http.url, r->root) != 0)
        fail_msg("%s is not of the broker", url);
    if (http_get(&r->http, url + r->root) != 200)
        fail_msg("%s: %ld", url, r->http.status);
    assert_valid(buf_slice(&r->http.body));
    assert_in_range(r->http.body.size, 1, DOCUMENT_BYTES_MAX);
    return buf_slice(&r->http.body);
}

void
resourcelist_offered(struct resourcelist *r, const char *capability, char *to,
                     size_t size)
{
    char question[100];
    struct xpath x;

    xpath_open(&x, resourcelist_get(r, r->capabilitylist));
    snprintf(question, sizeof(question),
             "/*/s:url[rs:md/@capability='%s']/s:loc", capability);
    assert_in_range(xpath_count(&x, question), 0, 1); /* */
    snprintf(to, size, "%s", xpath_get(&x, question));
    xpath_close(&x);
}

/* Entries are read by the tree, not by XPath: there are many. */
static void
take_entries(struct resourcelist *r, struct slice text)
{
    static const char before[] = "http://example.com/r/";
    struct problem why = {""};
    struct xmldoc d;

    if (!xmldoc_read(&d, text, &why))
        fail_msg("%s", why.text);
    assert_false(d.is_index);
    assert_in_range(d.n_entries, 0, DOCUMENT_ENTRIES_MAX);
    for (size_t i = 0; i < d.n_entries; i++) {
        const struct xmldoc_entry *e = &d.entries[i];
        unsigned long number;

        if (strncmp(e->loc, before, sizeof(before) - 1) != 0)
            fail_msg("%s is not of the set", e->loc);
        number = strtoul(e->loc + sizeof(before) - 1, NULL, 10);
        assert_in_range(number, 0, r->max - 1);
        if (r->seqs[number])
            fail_msg("%s is there twice", e->loc);
        assert_in_range(e->seq, 1, r->last);
        assert_string_equal(e->change, ""); /* */
        assert_string_equal(e->datetime, "");
        r->seqs[number] = e->seq;
        r->n++;
    }
    xmldoc_free(&d);
}

static void
copy(char *to, size_t size, struct xpath *x, const char *question)
{
    snprintf(to, size, "%s", xpath_get(x, question));
}

void
resourcelist_begin_at(struct resourcelist *r, const char *url)
{
    struct slice text = resourcelist_get(r, url);

    forget(r);
    snprintf(r->url, sizeof(r->url), "%s", url);
    xpath_open(&r->index, text);
    r->has_index = true;
    assert_xpath_count(&r->index, "/*/rs:md[@capability='resourcelist'][@at]",
                       1);
    assert_xpath_text(&r->index, "/*/rs:ln[@rel='up']/@href",
                      r->capabilitylist);
    assert_xpath_count(&r->index, "/*/rs:ln[@rel='index']", 0);
    copy(r->archive, sizeof(r->archive), &r->index,
         "/*/rs:ln[@rel='archives']/@href");
    copy(r->at, sizeof(r->at), &r->index, "/*/rs:md/@at");
    copy(r->epoch, sizeof(r->epoch), &r->index, "/*/rs:md/@td:epoch");
    r->last = strtoull(xpath_get(&r->index, "/*/rs:md/@td:last"), NULL, 10);
    r->n_parts = xpath_count(&r->index, "/s:sitemapindex/s:sitemap");
    if (r->n_parts == 0) {
        r->n_parts = 1;
        take_entries(r, text);
    }
}

void
resourcelist_begin(struct resourcelist *r)
{
    char url[300];

    resourcelist_offered(r, "resourcelist", url, sizeof(url));
    resourcelist_begin_at(r, url);
}

static void
read_part(struct resourcelist *r, const char *url)
{
    struct slice text = resourcelist_get(r, url);
    char last[24], folder[300];
    const char *index;
    struct xpath x;

    xpath_open(&x, text);
    snprintf(last, sizeof(last), "%llu", (unsigned long long)r->last);
    assert_xpath_count(&x, "/s:urlset/rs:md[@capability='resourcelist']", 1);
    assert_xpath_text(&x, "/*/rs:ln[@rel='up']/@href", r->capabilitylist);
    assert_xpath_text(&x, "/*/rs:md/@at", r->at);
    assert_xpath_text(&x, "/*/rs:md/@td:epoch", r->epoch);
    assert_xpath_text(&x, "/*/rs:md/@td:last", last);
    index = xpath_get(&x, "/*/rs:ln[@rel='index']/@href");
    snprintf(folder, sizeof(folder), "%.*s/",
             (int)(strlen(index) - strlen(".xml")), index);
    if (strncmp(url, folder, strlen(folder)) != 0)
        fail_msg("%s has the index %s", url, index);
    r->generation = strtoull(strrchr(index, '/') + 1, NULL, 10);
    xpath_close(&x);
    take_entries(r, text);
}

void
resourcelist_end(struct resourcelist *r)
{
    size_t n = xpath_count(&r->index, "/s:sitemapindex/s:sitemap");

    for (size_t i = 1; i <= n; i++) {
        char question[64];
        uint64_t before = r->generation;

        snprintf(question, sizeof(question), "/*/s:sitemap[%zu]/rs:md/@at", i);
        assert_xpath_text(&r->index, question, r->at); /* */
        snprintf(question, sizeof(question), "/*/s:sitemap[%zu]/s:loc", i);
        read_part(r, xpath_get(&r->index, question));
        assert_true(before == 0 || r->generation == before);
    }
}
