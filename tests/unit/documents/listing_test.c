#include "broker/documents/listing.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/bodies.h"
#include "tests/support/schema.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

static struct document_wish
wish_of(struct sets *s, enum log_patience patience)
{
    return (struct document_wish){
        .registry = s->registry,
        .set = sets_find(s, "demo"),
        .head = sets_head(s, "demo"),
        .patience = patience,
    };
}

static void
open_document(struct sets *s, document_open_fn *open, struct xpath *x,
              struct buf *text)
{
    const struct document_wish wish = wish_of(s, LOG_DISK);
    struct body *body;

    assert_int_equal(bodies_open(open, &wish, &body, NULL), STATUS_OK);
    buf_init(text, SIZE_MAX);
    bodies_read(body, text);
    assert_valid(buf_slice(text));
    xpath_open(x, buf_slice(text));
}

/* Six lists of two entries; the last, open one has one. */
static void
open_with(struct sets *s, void **state, uint64_t index_lists)
{
    sets_configure(s, tempdir_path(state));
    s->config.rotate_entries = 2;
    s->config.index_lists = index_lists;
    sets_open(s);
    sets_post(s, "demo", 1, 11);
}

static void
assert_loc(struct xpath *x, const char *element, unsigned place,
           unsigned number)
{
    char question[80], loc[100];

    snprintf(question, sizeof(question), "/*/s:%s[%u]/s:loc", element, place);
    snprintf(loc, sizeof(loc), SETS_URL "/sets/demo/changes/%012u.xml", number);
    assert_xpath_text(x, question, loc);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* while a set has one Change List, the fixed address is that list. */
TEST(serves_the_only_list_at_the_fixed_address)
{
    struct document_wish wish;
    struct xpath x;
    struct buf text, list;
    struct body *body;
    struct sets s;

    sets_configure(&s, tempdir_path(state));
    sets_open(&s);
    sets_post(&s, "demo", 1, 3);
    open_document(&s, changelist_current_open, &x, &text);
    assert_xpath_count(&x, "/s:urlset/s:url", 3);
    wish = wish_of(&s, LOG_MEMORY);
    wish.number = 1;
    buf_init(&list, SIZE_MAX);
    assert_int_equal(bodies_open(changelist_open, &wish, &body, NULL),
                     STATUS_OK);
    bodies_read(body, &list);
    assert_true(slice_equal(buf_slice(&text), buf_slice(&list)));
    xpath_close(&x);
    buf_fini(&text);
    buf_fini(&list);
    sets_close(&s);
}

/* the index: links up and to the archive, lists in order, each
 * with its own times, the open one last and alone without `until`. */
TEST(lists_closed_lists_and_the_open_one_in_the_index)
{
    struct xpath x;
    struct buf text;
    struct sets s;

    open_with(&s, state, 1000);
    open_document(&s, changelist_current_open, &x, &text);
    assert_xpath_count(&x, "/s:sitemapindex/rs:md[@capability='changelist']",
                       1);
    assert_xpath_count(&x, "/s:sitemapindex/rs:md/@until", 0);
    assert_xpath_text(&x, "/*/rs:ln[@rel='up']/@href",
                      SETS_URL "/sets/demo/capabilitylist.xml");
    assert_xpath_text(&x, "/*/rs:ln[@rel='archives']/@href",
                      SETS_URL "/sets/demo/changelist-archive.xml");
    assert_xpath_count(&x, "/*/s:sitemap", 6);
    for (unsigned i = 1; i <= 6; i++)
        assert_loc(&x, "sitemap", i, i);
    assert_xpath_count(&x, "/*/s:sitemap[position() < 6]/rs:md[@from][@until]",
                       5);
    assert_xpath_count(&x, "/*/s:sitemap[6]/rs:md[@from][not(@until)]", 1);
    assert_xpath(&x, "/*/rs:md/@from = /*/s:sitemap[1]/rs:md/@from");
    for (unsigned i = 1; i < 6; i++) {
        char question[120];

        snprintf(question, sizeof(question),
                 "/*/s:sitemap[%u]/rs:md/@until = /*/s:sitemap[%u]/rs:md/@from",
                 i, i + 1);
        assert_xpath(&x, question);
    }
    assert_xpath_count(&x, "//s:lastmod", 0);
    xpath_close(&x);
    buf_fini(&text);
    sets_close(&s);
}

/* the index keeps so many closed lists as it is set to;
 * those that left it are in the archive, in parts as large. */
TEST(moves_old_lists_to_the_archive)
{
    struct xpath x;
    struct buf text;
    struct sets s;

    open_with(&s, state, 3);
    open_document(&s, changelist_current_open, &x, &text);
    assert_xpath_count(&x, "/*/s:sitemap", 4);
    assert_loc(&x, "sitemap", 1, 3);
    assert_loc(&x, "sitemap", 4, 6);
    assert_xpath(&x, "/*/rs:md/@from = /*/s:sitemap[1]/rs:md/@from");
    xpath_close(&x);
    buf_fini(&text);

    open_document(&s, archives_changelist_open, &x, &text);
    assert_xpath_count(&x, "/s:sitemapindex/s:sitemap", 2);
    assert_xpath_text(&x, "/*/s:sitemap[2]/s:loc",
                      SETS_URL "/sets/demo/changelist-archive/"
                               "000000000004-000000000006.xml");
    xpath_close(&x);
    buf_fini(&text);
    sets_close(&s);
}

/* the archive: closed lists only, in order, with times and the
 * digest of each. */
TEST(archives_every_closed_list)
{
    struct xpath x;
    struct buf text;
    struct sets s;

    open_with(&s, state, 1000);
    open_document(&s, archives_changelist_open, &x, &text);
    assert_xpath_count(&x, "/s:urlset/rs:md[@capability='changelist-archive']",
                       1);
    assert_xpath_text(&x, "/*/rs:ln[@rel='up']/@href",
                      SETS_URL "/sets/demo/capabilitylist.xml");
    assert_xpath_text(&x, "/*/rs:ln[@rel='last']/@href",
                      SETS_URL "/sets/demo/changes/latest.xml");
    assert_xpath_count(&x, "/*/rs:ln", 2);
    assert_xpath_count(&x, "/*/s:url/rs:md[@from][@until][@td:digest]", 5);
    xpath_close(&x);
    buf_fini(&text);
    sets_close(&s);
}

/* what a listing says of a list is what the list says itself. */
TEST(tells_of_each_list_what_the_list_tells)
{
    struct xpath index;
    struct buf text;
    struct sets s;

    open_with(&s, state, 1000);
    open_document(&s, changelist_current_open, &index, &text);
    for (unsigned i = 1; i <= 6; i++) {
        static const char *const members[] = {"from", "until"};
        struct document_wish wish = wish_of(&s, LOG_DISK);
        struct buf list;
        struct xpath x;
        struct body *body;

        wish.number = i;
        buf_init(&list, SIZE_MAX);
        assert_int_equal(bodies_open(changelist_open, &wish, &body, NULL),
                         STATUS_OK);
        bodies_read(body, &list);
        xpath_open(&x, buf_slice(&list));
        for (size_t k = 0; k < 2; k++) {
            char mine[80], its[80];

            snprintf(mine, sizeof(mine), "/*/s:sitemap[%u]/rs:md/@%s", i,
                     members[k]);
            snprintf(its, sizeof(its), "/*/rs:md/@%s", members[k]);
            assert_xpath_text(&x, its, xpath_get(&index, mine));
        }
        if (i < 6) {
            char mine[80];

            snprintf(mine, sizeof(mine), "/*/s:sitemap[%u]/rs:md/@td:digest",
                     i);
            assert_xpath_text(&x, "/*/rs:md/@td:digest",
                              xpath_get(&index, mine));
        }
        xpath_close(&x);
        buf_fini(&list);
    }
    xpath_close(&index);
    buf_fini(&text);
    sets_close(&s);
}

/* no archive before there is something in it. */
TEST(has_no_archive_before_a_list_is_closed)
{
    struct document_wish wish;
    struct problem why = {""};
    struct body *body;
    struct sets s;

    sets_configure(&s, tempdir_path(state));
    sets_open(&s);
    sets_post(&s, "demo", 1, 3);
    wish = wish_of(&s, LOG_DISK);
    assert_int_equal(bodies_open(archives_changelist_open, &wish, &body, &why),
                     STATUS_NOT_FOUND);
    assert_string_equal(why.text, "no Change List of this set is closed yet");
    sets_close(&s);
}

/* a listing is of the moment of its head, whatever was closed since. */
TEST(is_of_the_moment_it_was_asked_at)
{
    struct document_wish wish;
    struct xpath x;
    struct buf text;
    struct body *body;
    struct sets s;

    open_with(&s, state, 1000);
    wish = wish_of(&s, LOG_DISK);
    sets_post(&s, "demo", 12, 20);
    buf_init(&text, SIZE_MAX);
    assert_int_equal(bodies_open(changelist_current_open, &wish, &body, NULL),
                     STATUS_OK);
    bodies_read(body, &text);
    xpath_open(&x, buf_slice(&text));
    assert_xpath_count(&x, "/*/s:sitemap", 6);
    assert_xpath_count(&x, "/*/s:sitemap/rs:md[not(@until)]", 1);
    assert_xpath_count(&x, "/*/s:sitemap[6]/rs:md[not(@until)]", 1);
    xpath_close(&x);
    buf_fini(&text);
    sets_close(&s);
}

/* More lists than are read at once are all there. */
TEST(lists_many_lists)
{
    struct xpath x;
    struct buf text;
    struct sets s;

    sets_configure(&s, tempdir_path(state));
    s.config.rotate_entries = 1;
    s.config.index_lists = 600;
    sets_open(&s);
    for (int i = 0; i < 6; i++)
        sets_post(&s, "demo", 1, 100);
    open_document(&s, archives_changelist_open, &x, &text);
    assert_xpath_count(&x, "/*/s:url", 600);
    for (unsigned i = 1; i <= 600; i += 37)
        assert_loc(&x, "url", i, i);
    xpath_close(&x);
    buf_fini(&text);
    s.config.index_lists = 500;
    open_document(&s, changelist_current_open, &x, &text);
    assert_xpath_count(&x, "/*/s:sitemap", 501);
    assert_loc(&x, "sitemap", 1, 101);
    assert_loc(&x, "sitemap", 501, 601);
    xpath_close(&x);
    buf_fini(&text);
    sets_close(&s);
}

/* Design rule 6: a long listing is made as it is read: whoever is slow holds a
 * part of it. The parts are the whole: its size, all lists, each in its place.
 */
TEST(hands_out_a_long_listing_in_parts)
{
    struct document_wish wish;
    struct xpath x;
    struct buf text;
    struct body *body;
    struct slice piece;
    enum body_result result;
    struct sets s;

    sets_configure(&s, tempdir_path(state));
    s.config.rotate_entries = 1;
    sets_open(&s);
    for (int i = 0; i < 7; i++)
        sets_post(&s, "demo", 1, 100);
    wish = wish_of(&s, LOG_DISK);
    assert_int_equal(bodies_open(archives_changelist_open, &wish, &body, NULL),
                     STATUS_OK);
    buf_init(&text, SIZE_MAX);
    while ((result = body->next(body, true, &piece)) == BODY_DATA) {
        assert_true(piece.size <= body->size / 2);
        buf_add_slice(&text, piece);
    }
    assert_int_equal(result, BODY_END);
    assert_int_equal(text.size, body->size);
    body->free(body);

    xpath_open(&x, buf_slice(&text));
    assert_xpath_count(&x, "/s:urlset/s:url", 700);
    for (unsigned i = 1; i <= 700; i++)
        assert_loc(&x, "url", i, i);
    xpath_close(&x);
    buf_fini(&text);
    sets_close(&s);
}

/* Design section 3: rows are read where that may wait. */
TEST(says_when_it_would_wait_for_a_disk)
{
    struct document_wish wish;
    struct body *body;
    struct sets s;

    open_with(&s, state, 1000);
    wish = wish_of(&s, LOG_MEMORY);
    assert_int_equal(bodies_open(changelist_current_open, &wish, &body, NULL),
                     STATUS_AGAIN);
    assert_int_equal(bodies_open(archives_changelist_open, &wish, &body, NULL),
                     STATUS_AGAIN);
    sets_close(&s);
}
