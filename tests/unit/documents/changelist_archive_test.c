#include <stdio.h>

#include "tests/unit/documents/stage.h"

/* `n` closed lists of one entry each. */
static void
open_with(struct sets *s, uint64_t index_lists, unsigned n)
{
    s->config.rotate_entries = 1;
    s->config.index_lists = index_lists;
    sets_open(s);
    sets_post(s, "demo", 1, n);
}

/* The bytes of a part, and its tag. */
static struct digest
read_text(struct sets *s, uint64_t first, uint64_t last, struct buf *text)
{
    struct document document =
        stage_open(s, changelist_archive_part_open, first, last);

    assert_false(document.is_final); /* URLs of the day */
    buf_init(text, SIZE_MAX);
    bodies_read(document.body, text);
    return document.tag;
}

static struct digest
tag_of(struct sets *s, document_open_fn *open, uint64_t first, uint64_t last)
{
    struct document document = stage_open(s, open, first, last);

    assert_false(document.is_final);
    document_close(&document);
    return document.tag;
}

static void
read_part(struct sets *s, uint64_t first, uint64_t last, struct xpath *x,
          size_t n)
{
    stage_read(s, changelist_archive_part_open, first, last, x);
    assert_xpath_count(x, "/s:urlset/rs:md[@capability='changelist-archive']",
                       1);
    assert_xpath_text(x, "/*/rs:ln[@rel='up']/@href",
                      SETS_URL "/sets/demo/capabilitylist.xml");
    assert_xpath_count(x, "/s:urlset/s:url/rs:md[@from][@until][@td:digest]",
                       n);
}

FIXTURE(stage_setup, stage_teardown);

/* an index of parts, each with its interval,
 * and no list in neither. */
TEST(the_archive_has_an_index_when_it_is_long)
{
    struct sets *s = *state;
    struct xpath index, part;

    open_with(s, 3, 8);
    stage_read(s, changelist_archive_open, 0, 0, &index);
    assert_xpath_count(
        &index, "/s:sitemapindex/rs:md[@capability='changelist-archive']", 1);
    assert_xpath_text(&index, "/*/rs:ln[@rel='up']/@href",
                      SETS_URL "/sets/demo/capabilitylist.xml");
    assert_xpath_text(&index, "/*/rs:ln[@rel='last']/@href",
                      SETS_URL "/sets/demo/changes/latest.xml");
    assert_xpath_count(&index, "/*/s:sitemap", 3);
    assert_xpath_count(&index, "//s:lastmod", 0);
    /* Only the last may still grow. */
    assert_xpath_count(&index, "/*/s:sitemap/rs:md[@until][@td:digest]", 2);
    assert_xpath_count(&index, "/*/s:sitemap[3]/rs:md[@from][not(@until)]", 1);

    for (unsigned i = 0; i < 3; i++) {
        unsigned first = 3 * i + 1, n = i < 2 ? 3 : 2;
        char question[100], loc[120];

        snprintf(loc, sizeof(loc),
                 SETS_URL "/sets/demo/changelist-archive/%012u-%012u.xml",
                 first, first + 2);
        snprintf(question, sizeof(question), "/*/s:sitemap[%u]/s:loc", i + 1);
        assert_xpath_text(&index, question, loc);
        read_part(s, first, first + 2, &part, n);
        assert_xpath_text(&part, "/*/rs:ln[@rel='index']/@href",
                          SETS_URL "/sets/demo/changelist-archive.xml");
        snprintf(question, sizeof(question),
                 "string(/*/s:sitemap[%u]/rs:md/@from)", i + 1);
        assert_xpath_text(&part, "string(/*/s:url[1]/rs:md/@from)",
                          xpath_get(&index, question));
        snprintf(question, sizeof(question),
                 "string(/*/s:sitemap[%u]/rs:md/@until)", i + 1);
        if (i < 2)
            assert_xpath_text(&part, "string(/*/s:url[last()]/rs:md/@until)",
                              xpath_get(&index, question));
        xpath_close(&part);
    }
    xpath_close(&index);
}

/* a full part stays as it is, whichever lists close later, in any
 * process, with any setting. */
TEST(a_full_part_gets_no_other_lists)
{
    struct sets *s = *state;
    struct digest growing, now;
    struct buf text, then;

    open_with(s, 3, 8);
    read_text(s, 4, 6, &text);
    growing = tag_of(s, changelist_archive_part_open, 7, 9);
    sets_post(s, "demo", 9, 5);
    sets_close(s);
    s->config.index_lists = 5;
    sets_open(s);
    read_text(s, 4, 6, &then);
    assert_true(slice_equal(buf_slice(&text), buf_slice(&then)));
    now = tag_of(s, changelist_archive_part_open, 7, 9);
    assert_memory_not_equal(&growing, &now, sizeof(now));
    buf_fini(&text);
    buf_fini(&then);
}

/* A short archive is one document, at whose end the index begins. */
TEST(the_archive_is_one_document_while_it_is_short)
{
    struct sets *s = *state;
    struct xpath x;
    struct digest tag, more;

    open_with(s, 3, 3);
    tag = tag_of(s, changelist_archive_open, 0, 0);
    stage_read(s, changelist_archive_open, 0, 0, &x);
    assert_xpath_count(&x, "/s:urlset/s:url", 3);
    assert_xpath_count(&x, "/*/rs:ln[@rel='index']", 0);
    xpath_close(&x);
    read_part(s, 1, 3, &x, 3); /* no document names it, but it exists */
    assert_xpath_count(&x, "/*/rs:ln[@rel='index']", 0);
    xpath_close(&x);

    sets_post(s, "demo", 4, 1);
    more = tag_of(s, changelist_archive_open, 0, 0);
    assert_memory_not_equal(&tag, &more, sizeof(tag));
    stage_read(s, changelist_archive_open, 0, 0, &x);
    assert_xpath_count(&x, "/s:sitemapindex/s:sitemap", 2);
    xpath_close(&x);
}

TEST(has_no_part_that_is_none)
{
    struct sets *s = *state;
    static const uint64_t parts[][2] = {
        {4, 3},   {2, 4},          {1, 50001},
        {10, 12}, {1, UINT64_MAX}, {UINT64_MAX, UINT64_MAX},
    };

    open_with(s, 3, 8);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const struct document_wish wish =
            stage_wish(s, parts[i][0], parts[i][1], LOG_DISK);

        stage_refuses(changelist_archive_part_open, &wish, STATUS_NOT_FOUND,
                      NULL);
    }
}

/* An index of more parts than are written at once. */
TEST(an_index_of_many_parts_has_them_all)
{
    struct sets *s = *state;
    struct xpath x;

    open_with(s, 1, 700);
    stage_read(s, changelist_archive_open, 0, 0, &x);
    assert_xpath_count(&x, "/s:sitemapindex/s:sitemap/rs:md[@until]", 700);
    assert_xpath_text(&x, "/*/s:sitemap[700]/s:loc",
                      SETS_URL "/sets/demo/changelist-archive/"
                               "000000000700-000000000700.xml");
    xpath_close(&x);
}
