#include <stdio.h>
#include <string.h>

#include "broker/documents/documents.h"
#include "tests/support/bodies.h"
#include "tests/support/schema.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

/* `n` closed lists of one entry each. */
static void
open_with(struct sets *s, void **state, uint64_t index_lists, unsigned n)
{
    sets_configure(s, tempdir_path(state));
    s->config.rotate_entries = 1;
    s->config.index_lists = index_lists;
    sets_open(s);
    sets_post(s, "demo", 1, n);
}

static struct document_wish
wish_of(struct sets *s, uint64_t first, uint64_t last)
{
    return (struct document_wish){
        .registry = s->registry,
        .set = sets_find(s, "demo"),
        .head = sets_head(s, "demo"),
        .number = first,
        .last = last,
        .patience = LOG_DISK,
    };
}

static void
read_document(struct sets *s, document_open_fn *open, uint64_t first,
              uint64_t last, struct buf *text, struct digest *tag)
{
    struct document_wish wish = wish_of(s, first, last);
    struct document document;

    assert_int_equal(open(&wish, &document, NULL), STATUS_OK);
    *tag = document.tag;
    assert_false(document.is_final); /* URLs of the day */
    buf_init(text, SIZE_MAX);
    bodies_read(document.body, text);
    assert_valid(buf_slice(text));
}

static void
read_part(struct sets *s, uint64_t first, uint64_t last, struct xpath *x,
          size_t n)
{
    struct digest tag;
    struct buf text;

    read_document(s, archives_part_open, first, last, &text, &tag);
    xpath_open(x, buf_slice(&text));
    assert_xpath_count(x, "/s:urlset/rs:md[@capability='changelist-archive']",
                       1);
    assert_xpath_text(x, "/*/rs:ln[@rel='up']/@href",
                      SETS_URL "/sets/demo/capabilitylist.xml");
    assert_xpath_count(x, "/s:urlset/s:url/rs:md[@from][@until][@td:digest]",
                       n);
    buf_fini(&text);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* an index of parts, each with its interval, and no
 * list in neither. */
TEST(the_archive_has_an_index_when_it_is_long)
{
    struct xpath index, part;
    struct digest tag;
    struct buf text;
    struct sets s;

    open_with(&s, state, 3, 8);
    read_document(&s, archives_changelist_open, 0, 0, &text, &tag);
    xpath_open(&index, buf_slice(&text));
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
        read_part(&s, first, first + 2, &part, n);
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
    buf_fini(&text);
    sets_close(&s);
}

/* a part that is full stays what it is, whatever closes, in whatever
 * process, with whatever setting. */
TEST(a_full_part_gets_no_other_lists)
{
    struct digest tag, tag_then, growing, growing_then;
    struct buf text, then, part;
    struct sets s;

    open_with(&s, state, 3, 8);
    read_document(&s, archives_part_open, 4, 6, &text, &tag);
    read_document(&s, archives_part_open, 7, 9, &part, &growing);
    buf_fini(&part);
    sets_post(&s, "demo", 9, 5);
    sets_close(&s);
    s.config.index_lists = 5;
    sets_open(&s);
    read_document(&s, archives_part_open, 4, 6, &then, &tag_then);
    assert_true(slice_equal(buf_slice(&text), buf_slice(&then)));
    read_document(&s, archives_part_open, 7, 9, &part, &growing_then);
    assert_memory_not_equal(&growing, &growing_then, sizeof(growing));
    buf_fini(&part);
    buf_fini(&text);
    buf_fini(&then);
    sets_close(&s);
}

/* One with few lists is one document, at whose end the index begins. */
TEST(the_archive_is_one_document_while_it_is_short)
{
    struct xpath x;
    struct digest tag, more;
    struct buf text;
    struct sets s;

    open_with(&s, state, 3, 3);
    read_document(&s, archives_changelist_open, 0, 0, &text, &tag);
    xpath_open(&x, buf_slice(&text));
    assert_xpath_count(&x, "/s:urlset/s:url", 3);
    assert_xpath_count(&x, "/*/rs:ln[@rel='index']", 0);
    xpath_close(&x);
    buf_fini(&text);
    read_part(&s, 1, 3, &x, 3); /* nobody names it, but it is there */
    assert_xpath_count(&x, "/*/rs:ln[@rel='index']", 0);
    xpath_close(&x);

    sets_post(&s, "demo", 4, 1);
    read_document(&s, archives_changelist_open, 0, 0, &text, &more);
    assert_memory_not_equal(&tag, &more, sizeof(tag));
    xpath_open(&x, buf_slice(&text));
    assert_xpath_count(&x, "/s:sitemapindex/s:sitemap", 2);
    xpath_close(&x);
    buf_fini(&text);
    sets_close(&s);
}

TEST(has_no_part_that_is_none)
{
    static const uint64_t parts[][2] = {
        {4, 3},   {2, 4},          {1, 50001},
        {10, 12}, {1, UINT64_MAX}, {UINT64_MAX, UINT64_MAX},
    };
    struct sets s;

    open_with(&s, state, 3, 8);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct document_wish wish = wish_of(&s, parts[i][0], parts[i][1]);
        struct document document;

        assert_int_equal(archives_part_open(&wish, &document, NULL),
                         STATUS_NOT_FOUND);
    }
    sets_close(&s);
}

/* An index of more parts than are written at once. */
TEST(an_index_of_many_parts_has_them_all)
{
    struct xpath x;
    struct digest tag;
    struct buf text;
    struct sets s;

    open_with(&s, state, 1, 700);
    read_document(&s, archives_changelist_open, 0, 0, &text, &tag);
    xpath_open(&x, buf_slice(&text));
    assert_xpath_count(&x, "/s:sitemapindex/s:sitemap/rs:md[@until]", 700);
    assert_xpath_text(&x, "/*/s:sitemap[700]/s:loc",
                      SETS_URL "/sets/demo/changelist-archive/"
                               "000000000700-000000000700.xml");
    xpath_close(&x);
    buf_fini(&text);
    sets_close(&s);
}
