#include <stdio.h>
#include <unistd.h>

#include "tests/support/schema.h"
#include "tests/unit/documents/stage.h"

/* Reads list `number`; returns how often its body waited. */
static unsigned
read_list(struct sets *s, uint64_t number, struct buf *text)
{
    buf_clear(text);
    return stage_text(s, changelist_open, number, 0, text);
}

static void
open_with(struct sets *s, uint64_t rotate_entries)
{
    s->config.rotate_entries = rotate_entries;
    sets_open(s);
}

FIXTURE(stage_setup, stage_teardown);

/* the open list:
 * each change, in order, no `until`. */
TEST(serves_the_open_list_from_memory)
{
    struct sets *s = *state;
    struct document_wish wish;
    struct xpath x;
    struct buf text;
    struct body *body;

    open_with(s, 50000);
    buf_init(&text, SIZE_MAX);
    sets_post(s, "demo", 1, 3);
    sets_post(s, "demo", 1, 2); /* the same resources again */
    wish = stage_wish(s, 1, 0, LOG_MEMORY);
    body = stage_body(changelist_open, &wish);
    assert_int_equal(bodies_read(body, &text), 0);
    assert_valid(buf_slice(&text));
    xpath_open(&x, buf_slice(&text));
    assert_xpath_count(&x, "/s:urlset/rs:md[@capability='changelist'][@from]",
                       1);
    assert_xpath_count(&x, "/s:urlset/rs:md/@until", 0);
    assert_xpath_count(&x, "/s:urlset/s:url/rs:md[@change][@datetime]", 5);
    for (int i = 1; i <= 5; i++) {
        char question[80];

        snprintf(question, sizeof(question),
                 "/s:urlset/s:url[%d]/rs:md/@td:seq = %d", i, i);
        assert_xpath(&x, question);
    }
    xpath_close(&x);
    buf_fini(&text);
}

/* The document shows one moment: later posts are not in it, and the stated size
 * holds. */
TEST(keeps_to_the_moment_it_was_asked_at)
{
    struct sets *s = *state;
    struct document_wish wish;
    struct slice piece;
    struct buf text, rest;
    struct body *body;

    open_with(s, 5);
    buf_init(&text, SIZE_MAX);
    buf_init(&rest, SIZE_MAX);
    sets_post(s, "demo", 1, 3);
    wish = stage_wish(s, 1, 0, LOG_MEMORY);
    body = stage_body(changelist_open, &wish);
    assert_int_equal(body->next(body, false, &piece), BODY_DATA);
    buf_add_slice(&text, piece);
    body->size -= piece.size;
    sets_post(s, "demo", 4, 20); /* closes the list, and others */
    sets_file_all(s);
    bodies_read(body, &rest);
    buf_add_slice(&text, buf_slice(&rest));
    assert_null(memmem(text.data, text.size, "td:seq=\"4\"", 10));
    assert_non_null(memmem(text.data, text.size, "td:seq=\"3\"", 10));
    assert_null(memmem(text.data, text.size, "until", 5));
    buf_fini(&text);
    buf_fini(&rest);
}

/* a closed list has the same bytes from the moment it closes:
 * before its file exists, after it, after a restart, with another setting. */
TEST(serves_a_closed_list_the_same_for_ever)
{
    struct sets *s = *state;
    struct buf first[3], text;

    open_with(s, 1000);
    buf_init(&text, SIZE_MAX);
    sets_post(s, "demo", 1, 3100);
    for (int i = 0; i < 3; i++) {
        buf_init(&first[i], SIZE_MAX);
        assert_int_equal(read_list(s, (uint64_t)i + 1, &first[i]), 0);
        assert_valid(buf_slice(&first[i]));
    }
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 3; i++) {
            read_list(s, (uint64_t)i + 1, &text);
            assert_true(slice_equal(buf_slice(&text), buf_slice(&first[i])));
        }
        sets_close(s);
        s->config.rotate_entries = 500;
        s->config.index_lists = 2;
        sets_open(s);
        if (round == 1)
            sets_file_all(s);
        if (round == 2)
            sets_post(s, "demo", 1, 5); /* a commit, which forgets */
    }
    for (int i = 0; i < 3; i++)
        buf_fini(&first[i]);
    buf_fini(&text);
}

/* closed lists have `until`, are linked both ways, and
 * meet in time. */
TEST(links_closed_lists_into_a_chain)
{
    struct sets *s = *state;
    char until[40] = "";

    open_with(s, 4);
    sets_post(s, "demo", 1, 14);
    for (uint64_t n = 1; n <= 4; n++) {
        struct xpath x;
        char href[100];

        stage_read(s, changelist_open, n, 0, &x);
        if (n > 1)
            assert_xpath_text(&x, "/s:urlset/rs:md/@from", until);
        assert_xpath_count(&x, "/s:urlset/rs:md/@until", n < 4);
        assert_xpath_count(&x, "/s:urlset/s:url", n < 4 ? 4 : 2);
        snprintf(until, sizeof(until), "%s",
                 xpath_get(&x, "/s:urlset/rs:md/@until"));
        snprintf(href, sizeof(href), SETS_URL "/sets/demo/changes/%012d.xml",
                 (int)n + 1);
        assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='next']/@href",
                          n < 4 ? href : "");
        snprintf(href, sizeof(href), SETS_URL "/sets/demo/changes/%012d.xml",
                 (int)n - 1);
        assert_xpath_text(&x, "/s:urlset/rs:ln[@rel='prev']/@href",
                          n > 1 ? href : "");
        xpath_close(&x);
    }
}

/* only lists that are there have an address. */
TEST(serves_no_list_that_is_not_there)
{
    struct sets *s = *state;
    struct document_wish wish;

    open_with(s, 4);
    sets_post(s, "demo", 1, 9);
    wish = stage_wish(s, 4, 0, LOG_DISK);
    stage_refuses(changelist_open, &wish, STATUS_NOT_FOUND,
                  "there is no such Change List");
    wish = stage_wish(s, 1000000, 0, LOG_MEMORY);
    stage_refuses(changelist_open, &wish, STATUS_NOT_FOUND, NULL);
}

/* an open list may be empty: right after a rotation it is served. */
TEST(serves_an_empty_open_list)
{
    struct sets *s = *state;
    struct xpath x;

    open_with(s, 4);
    sets_post(s, "demo", 1, 4);
    stage_read(s, changelist_open, 2, 0, &x);
    assert_xpath_count(&x, "/s:urlset/s:url", 0);
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:after", "4");
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:last", "4");
    xpath_close(&x);
}

/* Design section 3: a service thread never touches the disk: for the list or a
 * piece of it that may wait, it gets STATUS_AGAIN or BODY_WAITS. */
TEST(says_when_it_would_wait_for_a_disk)
{
    struct sets *s = *state;
    struct document_wish wish;
    struct buf text;
    struct body *body;

    open_with(s, 4);
    buf_init(&text, SIZE_MAX);
    sets_post(s, "demo", 1, 6);
    wish = stage_wish(s, 1, 0, LOG_MEMORY);
    stage_refuses(changelist_open, &wish, STATUS_AGAIN, NULL);
    sets_close(s);
    sets_open(s); /* with nothing in memory */
    wish = stage_wish(s, 2, 0, LOG_MEMORY);
    body = stage_body(changelist_open, &wish);
    assert_int_equal(bodies_read(body, &text), 1);
    assert_non_null(memmem(text.data, text.size, "td:seq=\"6\"", 10));
    assert_int_equal(read_list(s, 1, &text), 1);
    buf_fini(&text);
}

/* A cancelled body is freed at any point. */
TEST(can_be_given_up_in_the_middle)
{
    struct sets *s = *state;
    struct document_wish wish;

    open_with(s, 50000);
    sets_post(s, "demo", 1, 3);
    wish = stage_wish(s, 1, 0, LOG_MEMORY);
    for (int pieces = 0; pieces < 4; pieces++) {
        struct slice piece;
        struct body *body = stage_body(changelist_open, &wish);

        for (int i = 0; i < pieces; i++)
            assert_int_equal(body->next(body, false, &piece), BODY_DATA);
        body->free(body);
    }
}

/* A known gap gives an error answer. If a file turns out to be missing later,
 * the body fails and the connection is cut, so no client takes half a document
 * for a whole one. */
TEST(fails_when_the_file_is_gone)
{
    struct sets *s = *state;
    char path[sizeof(s->config.data) + 50];
    struct document_wish wish;
    struct problem why = {""};
    struct slice piece;
    struct body *body;

    open_with(s, 4);
    sets_post(s, "demo", 1, 5);
    sets_file_all(s);
    for (int i = 0; i < 3; i++) /* rows and memory are let go */
        sets_post(s, "other", 1, 1);
    sets_close(s);
    sets_open(s);
    snprintf(path, sizeof(path), "%s/sets/demo/changes/000000000001.xml.gz",
             s->config.data);
    wish = stage_wish(s, 1, 0, LOG_DISK);
    body = stage_body(changelist_open, &wish);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(body->next(body, false, &piece), BODY_DATA);
    assert_int_equal(body->next(body, true, &piece), BODY_FAILED);
    body->free(body);

    assert_int_equal(bodies_open(changelist_open, &wish, &body, &why),
                     STATUS_IO);
    assert_non_null(strstr(why.text, "000000000001.xml.gz"));
}
