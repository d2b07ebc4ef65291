#include <stdio.h>

#include "broker/documents/documents.h"
#include "tests/support/schema.h"
#include "tests/unit/documents/stage.h"

static void
open_with(struct sets *s, uint64_t rotate_entries, uint64_t index_lists)
{
    s->config.rotate_entries = rotate_entries;
    s->config.index_lists = index_lists;
    sets_open(s);
}

/* Six lists of two entries; the last, open one has one. */
static void
open_six_lists(struct sets *s, uint64_t index_lists)
{
    open_with(s, 2, index_lists);
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

FIXTURE(stage_setup, stage_teardown);

/* while a set has one Change List, the fixed address is that list. */
TEST(serves_the_only_list_at_the_fixed_address)
{
    struct sets *s = *state;
    struct buf text, list;
    struct xpath x;

    sets_open(s);
    sets_post(s, "demo", 1, 3);
    buf_init(&text, SIZE_MAX);
    buf_init(&list, SIZE_MAX);
    stage_text(s, changelist_current_open, 0, 0, &text);
    stage_text(s, changelist_open, 1, 0, &list);
    assert_true(slice_equal(buf_slice(&text), buf_slice(&list)));
    assert_valid(buf_slice(&text));
    xpath_open(&x, buf_slice(&text));
    assert_xpath_count(&x, "/s:urlset/s:url", 3);
    xpath_close(&x);
    buf_fini(&text);
    buf_fini(&list);
}

/* the
 * index: links up and to the archive, lists in order, each with its own times,
 * the open one last and alone without `until`. */
TEST(lists_closed_lists_and_the_open_one_in_the_index)
{
    struct sets *s = *state;
    struct xpath x;

    open_six_lists(s, 1000);
    stage_read(s, changelist_current_open, 0, 0, &x);
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
}

/* the index has as many closed lists as its setting; the
 * older ones are in the archive, in parts of that size. */
TEST(moves_old_lists_to_the_archive)
{
    struct sets *s = *state;
    struct xpath x;

    open_six_lists(s, 3);
    stage_read(s, changelist_current_open, 0, 0, &x);
    assert_xpath_count(&x, "/*/s:sitemap", 4);
    assert_loc(&x, "sitemap", 1, 3);
    assert_loc(&x, "sitemap", 4, 6);
    assert_xpath(&x, "/*/rs:md/@from = /*/s:sitemap[1]/rs:md/@from");
    xpath_close(&x);

    stage_read(s, changelist_archive_open, 0, 0, &x);
    assert_xpath_count(&x, "/s:sitemapindex/s:sitemap", 2);
    assert_xpath_text(&x, "/*/s:sitemap[2]/s:loc",
                      SETS_URL "/sets/demo/changelist-archive/"
                               "000000000004-000000000006.xml");
    xpath_close(&x);
}

/* the archive:
 * closed lists only, in order, with times and the digest of each. */
TEST(archives_every_closed_list)
{
    struct sets *s = *state;
    struct xpath x;

    open_six_lists(s, 1000);
    stage_read(s, changelist_archive_open, 0, 0, &x);
    assert_xpath_count(&x, "/s:urlset/rs:md[@capability='changelist-archive']",
                       1);
    assert_xpath_text(&x, "/*/rs:ln[@rel='up']/@href",
                      SETS_URL "/sets/demo/capabilitylist.xml");
    assert_xpath_text(&x, "/*/rs:ln[@rel='last']/@href",
                      SETS_URL "/sets/demo/changes/latest.xml");
    assert_xpath_count(&x, "/*/rs:ln", 2);
    assert_xpath_count(&x, "/*/s:url/rs:md[@from][@until][@td:digest]", 5);
    xpath_close(&x);
}

/* an index and a list give the same times and digest. */
TEST(tells_of_each_list_what_the_list_tells)
{
    static const char *const members[] = {"from", "until", "td:digest"};
    struct sets *s = *state;
    struct xpath index;

    open_six_lists(s, 1000);
    stage_read(s, changelist_current_open, 0, 0, &index);
    for (unsigned i = 1; i <= 6; i++) {
        struct xpath list;

        stage_read(s, changelist_open, i, 0, &list);
        /* The open list's digest changes: the index has none. */
        for (size_t k = 0; k < (i < 6 ? 3 : 2); k++) {
            char in_index[80], in_list[80];

            snprintf(in_index, sizeof(in_index), "/*/s:sitemap[%u]/rs:md/@%s",
                     i, members[k]);
            snprintf(in_list, sizeof(in_list), "/*/rs:md/@%s", members[k]);
            assert_xpath_text(&list, in_list, xpath_get(&index, in_index));
        }
        xpath_close(&list);
    }
    xpath_close(&index);
}

/* no archive before there is something in it. */
TEST(has_no_archive_before_a_list_is_closed)
{
    struct sets *s = *state;
    struct document_wish wish;

    sets_open(s);
    sets_post(s, "demo", 1, 3);
    wish = stage_wish(s, 0, 0, LOG_DISK);
    stage_refuses(changelist_archive_open, &wish, STATUS_NOT_FOUND,
                  "no Change List of this set is closed yet");
}

/* a listing shows the moment of its head, whichever lists closed
 * since. */
TEST(is_of_the_moment_it_was_asked_at)
{
    struct sets *s = *state;
    struct document_wish wish;
    struct xpath x;
    struct buf text;

    open_six_lists(s, 1000);
    wish = stage_wish(s, 0, 0, LOG_DISK);
    sets_post(s, "demo", 12, 20);
    buf_init(&text, SIZE_MAX);
    bodies_read(stage_body(changelist_current_open, &wish), &text);
    xpath_open(&x, buf_slice(&text));
    assert_xpath_count(&x, "/*/s:sitemap", 6);
    assert_xpath_count(&x, "/*/s:sitemap/rs:md[not(@until)]", 1);
    assert_xpath_count(&x, "/*/s:sitemap[6]/rs:md[not(@until)]", 1);
    xpath_close(&x);
    buf_fini(&text);
}

/* More lists than are read at once are all there. */
TEST(lists_many_lists)
{
    struct sets *s = *state;
    struct xpath x;

    open_with(s, 1, 600);
    for (int i = 0; i < 6; i++)
        sets_post(s, "demo", 1, 100);
    stage_read(s, changelist_archive_open, 0, 0, &x);
    assert_xpath_count(&x, "/*/s:url", 600);
    for (unsigned i = 1; i <= 600; i += 37)
        assert_loc(&x, "url", i, i);
    xpath_close(&x);
    s->config.index_lists = 500;
    stage_read(s, changelist_current_open, 0, 0, &x);
    assert_xpath_count(&x, "/*/s:sitemap", 501);
    assert_loc(&x, "sitemap", 1, 101);
    assert_loc(&x, "sitemap", 501, 601);
    xpath_close(&x);
}

/* Design rule 6: the broker writes a long listing as it is read: a slow reader
 * holds a part of it. The parts are the whole: its size, all lists, each in its
 * place. */
TEST(hands_out_a_long_listing_in_parts)
{
    struct sets *s = *state;
    struct document_wish wish;
    struct xpath x;
    struct buf text;
    struct body *body;
    struct slice piece;
    enum body_result result;

    s->config.rotate_entries = 1;
    sets_open(s);
    for (int i = 0; i < 7; i++)
        sets_post(s, "demo", 1, 100);
    wish = stage_wish(s, 0, 0, LOG_DISK);
    body = stage_body(changelist_archive_open, &wish);
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
}

/* Design section 3: rows are read where that may wait. */
TEST(says_when_it_would_wait_for_a_disk)
{
    struct sets *s = *state;
    struct document_wish wish;

    open_six_lists(s, 1000);
    wish = stage_wish(s, 0, 0, LOG_MEMORY);
    stage_refuses(changelist_current_open, &wish, STATUS_AGAIN, NULL);
    stage_refuses(changelist_archive_open, &wish, STATUS_AGAIN, NULL);
}

/* behind a new epoch the Resource List is the only beginning: it is
 * offered before it is built, and not refused for good. */
TEST(a_new_epoch_offers_the_list_that_it_builds)
{
    struct sets *s = *state;
    struct document_wish wish;
    struct problem why = {""};
    struct xpath x;

    sets_open(s);
    sets_post(s, "demo", 1, 3);
    stage_read(s, capabilitylist_open, 0, 0, &x);
    assert_xpath_count(&x, "//rs:md[@capability='resourcelist']", 0);
    xpath_close(&x);
    assert_int_equal(
        log_begin_epoch(s->registry->log, sets_find(s, "demo")->log, "", &why),
        STATUS_OK);
    stage_read(s, capabilitylist_open, 0, 0, &x);
    assert_xpath_count(&x, "//rs:md[@capability='resourcelist']", 1);
    xpath_close(&x);
    wish = stage_wish(s, 0, 0, LOG_DISK);
    wish.kind = GENERATION_RESOURCELIST;
    stage_refuses(resourcelist_current_open, &wish, STATUS_BUSY,
                  "this broker has not built the Resource List yet");
}
