#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/documents/documents.h"
#include "tests/support/bodies.h"
#include "tests/support/schema.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

static struct document_wish
wish_for(struct sets *s, uint64_t number, enum log_patience patience)
{
    return (struct document_wish){
        .registry = s->registry,
        .set = sets_find(s, "demo"),
        .head = sets_head(s, "demo"),
        .number = number,
        .patience = patience,
    };
}

/* Reads list `number`; returns how often its body waited. */
static unsigned
read_list(struct sets *s, uint64_t number, struct buf *text)
{
    const struct document_wish wish = wish_for(s, number, LOG_DISK);
    struct body *body;

    buf_clear(text);
    assert_int_equal(bodies_open(changelist_open, &wish, &body, NULL),
                     STATUS_OK);
    return bodies_read(body, text);
}

static void
open_with(struct sets *s, void **state, uint64_t rotate_entries)
{
    sets_configure(s, tempdir_path(state));
    s->config.rotate_entries = rotate_entries;
    sets_open(s);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* the open list: each change, in order, no `until`. */
TEST(serves_the_open_list_from_memory)
{
    struct document_wish wish;
    struct xpath x;
    struct buf text;
    struct body *body;
    struct sets s;

    open_with(&s, state, 50000);
    buf_init(&text, SIZE_MAX);
    sets_post(&s, "demo", 1, 3);
    sets_post(&s, "demo", 1, 2); /* the same resources again */
    wish = wish_for(&s, 1, LOG_MEMORY);
    assert_int_equal(bodies_open(changelist_open, &wish, &body, NULL),
                     STATUS_OK);
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
    sets_close(&s);
}

/* The document is of one moment: what is posted while it is sent is not in it,
 * and the size that was told holds. */
TEST(keeps_to_the_moment_it_was_asked_at)
{
    struct document_wish wish;
    struct slice piece;
    struct buf text, rest;
    struct body *body;
    struct sets s;

    open_with(&s, state, 5);
    buf_init(&text, SIZE_MAX);
    buf_init(&rest, SIZE_MAX);
    sets_post(&s, "demo", 1, 3);
    wish = wish_for(&s, 1, LOG_MEMORY);
    assert_int_equal(bodies_open(changelist_open, &wish, &body, NULL),
                     STATUS_OK);
    assert_int_equal(body->next(body, false, &piece), BODY_DATA);
    buf_add_slice(&text, piece);
    body->size -= piece.size;
    sets_post(&s, "demo", 4, 20); /* closes the list, and others */
    sets_file_all(&s);
    bodies_read(body, &rest);
    buf_add_slice(&text, buf_slice(&rest));
    assert_null(memmem(text.data, text.size, "td:seq=\"4\"", 10));
    assert_non_null(memmem(text.data, text.size, "td:seq=\"3\"", 10));
    assert_null(memmem(text.data, text.size, "until", 5));
    buf_fini(&text);
    buf_fini(&rest);
    sets_close(&s);
}

/* a closed list has the same bytes from the moment it closes:
 * before its file exists, after it, after a restart, with another setting. */
TEST(serves_a_closed_list_the_same_for_ever)
{
    struct buf first[3], text;
    struct sets s;

    open_with(&s, state, 1000);
    buf_init(&text, SIZE_MAX);
    sets_post(&s, "demo", 1, 3100);
    for (int i = 0; i < 3; i++) {
        buf_init(&first[i], SIZE_MAX);
        assert_int_equal(read_list(&s, (uint64_t)i + 1, &first[i]), 0);
        assert_valid(buf_slice(&first[i]));
    }
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 3; i++) {
            read_list(&s, (uint64_t)i + 1, &text);
            assert_true(slice_equal(buf_slice(&text), buf_slice(&first[i])));
        }
        sets_close(&s);
        s.config.rotate_entries = 500;
        s.config.index_lists = 2;
        sets_open(&s);
        if (round == 1)
            sets_file_all(&s);
        if (round == 2)
            sets_post(&s, "demo", 1, 5); /* a commit, which forgets */
    }
    for (int i = 0; i < 3; i++)
        buf_fini(&first[i]);
    buf_fini(&text);
    sets_close(&s);
}

/* closed lists have `until`, are linked both ways, and
 * meet in time. */
TEST(links_closed_lists_into_a_chain)
{
    char until[40] = "";
    struct buf text;
    struct sets s;

    open_with(&s, state, 4);
    buf_init(&text, SIZE_MAX);
    sets_post(&s, "demo", 1, 14);
    for (uint64_t n = 1; n <= 4; n++) {
        struct xpath x;
        char href[100];

        read_list(&s, n, &text);
        xpath_open(&x, buf_slice(&text));
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
    buf_fini(&text);
    sets_close(&s);
}

/* only lists that are there have an address. */
TEST(serves_no_list_that_is_not_there)
{
    struct document_wish wish;
    struct problem why = {""};
    struct body *body;
    struct sets s;

    open_with(&s, state, 4);
    sets_post(&s, "demo", 1, 9);
    wish = wish_for(&s, 4, LOG_DISK);
    assert_int_equal(bodies_open(changelist_open, &wish, &body, &why),
                     STATUS_NOT_FOUND);
    assert_string_equal(why.text, "there is no such Change List");
    wish = wish_for(&s, 1000000, LOG_MEMORY);
    assert_int_equal(bodies_open(changelist_open, &wish, &body, NULL),
                     STATUS_NOT_FOUND);
    sets_close(&s);
}

/* an open list may be empty: right after a rotation it is served. */
TEST(serves_an_empty_open_list)
{
    struct xpath x;
    struct buf text;
    struct sets s;

    open_with(&s, state, 4);
    buf_init(&text, SIZE_MAX);
    sets_post(&s, "demo", 1, 4);
    read_list(&s, 2, &text);
    xpath_open(&x, buf_slice(&text));
    assert_xpath_count(&x, "/s:urlset/s:url", 0);
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:after", "4");
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:last", "4");
    xpath_close(&x);
    buf_fini(&text);
    sets_close(&s);
}

/* Design section 3: a service thread never touches the disk: it is told to ask
 * again where that may wait, for the list or for a piece of it. */
TEST(says_when_it_would_wait_for_a_disk)
{
    struct document_wish wish;
    struct buf text;
    struct body *body;
    struct sets s;

    open_with(&s, state, 4);
    buf_init(&text, SIZE_MAX);
    sets_post(&s, "demo", 1, 6);
    wish = wish_for(&s, 1, LOG_MEMORY);
    assert_int_equal(bodies_open(changelist_open, &wish, &body, NULL),
                     STATUS_AGAIN);
    sets_close(&s);
    sets_open(&s); /* with nothing in memory */
    wish = wish_for(&s, 2, LOG_MEMORY);
    assert_int_equal(bodies_open(changelist_open, &wish, &body, NULL),
                     STATUS_OK);
    assert_int_equal(bodies_read(body, &text), 1);
    assert_non_null(memmem(text.data, text.size, "td:seq=\"6\"", 10));
    assert_int_equal(read_list(&s, 1, &text), 1);
    buf_fini(&text);
    sets_close(&s);
}

/* A body that nobody wants any more is freed wherever it stands. */
TEST(can_be_given_up_in_the_middle)
{
    struct document_wish wish;
    struct sets s;

    open_with(&s, state, 50000);
    sets_post(&s, "demo", 1, 3);
    wish = wish_for(&s, 1, LOG_MEMORY);
    for (int pieces = 0; pieces < 4; pieces++) {
        struct slice piece;
        struct body *body;

        assert_int_equal(bodies_open(changelist_open, &wish, &body, NULL),
                         STATUS_OK);
        for (int i = 0; i < pieces; i++)
            assert_int_equal(body->next(body, false, &piece), BODY_DATA);
        body->free(body);
    }
    sets_close(&s);
}

/* What is known to be missing is refused; what is found to be so later cuts the
 * connection rather than the document. */
TEST(fails_when_the_file_is_gone)
{
    char path[400];
    struct document_wish wish;
    struct problem why = {""};
    struct slice piece;
    struct body *body;
    struct sets s;

    open_with(&s, state, 4);
    sets_post(&s, "demo", 1, 5);
    sets_file_all(&s);
    for (int i = 0; i < 3; i++) /* rows and memory are let go */
        sets_post(&s, "other", 1, 1);
    sets_close(&s);
    sets_open(&s);
    snprintf(path, sizeof(path), "%s/sets/demo/changes/000000000001.xml.gz",
             tempdir_path(state));
    wish = wish_for(&s, 1, LOG_DISK);
    assert_int_equal(bodies_open(changelist_open, &wish, &body, NULL),
                     STATUS_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(body->next(body, false, &piece), BODY_DATA);
    assert_int_equal(body->next(body, true, &piece), BODY_FAILED);
    body->free(body);

    assert_int_equal(bodies_open(changelist_open, &wish, &body, &why),
                     STATUS_IO);
    assert_non_null(strstr(why.text, "000000000001.xml.gz"));
    sets_close(&s);
}
