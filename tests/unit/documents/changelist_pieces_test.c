/*
 * changelist_pieces_test.c - a Change List that is read piece by piece, while
 * it moves from memory to the store to its file.
 */
#include <stdio.h>

#include "base/db.h"
#include "tests/unit/documents/stage.h"

#define PIECE_MAX 65536 /* held by a slow reader, design rule 6 */

/* How many rows of set "demo" the store has. */
static int64_t
count_rows(struct sets *s)
{
    char path[sizeof(s->config.data) + 50];
    sqlite3_stmt *q;
    struct db db;
    int64_t n;
    bool row;

    snprintf(path, sizeof(path), "%s/tidings.db", s->config.data);
    assert_int_equal(db_open(&db, path, DB_READER, NULL), STATUS_OK);
    assert_int_equal(db_prepare(&db, &q,
                                "SELECT count(*) FROM batches WHERE set_id ="
                                " (SELECT id FROM sets WHERE name = 'demo')",
                                NULL),
                     STATUS_OK);
    assert_int_equal(db_step(&db, q, &row, "count", NULL), STATUS_OK);
    n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    db_close(&db);
    return n;
}

/* A list of 300 KB in entries that no piece ends with, which memory has room
 * for until another set is posted to. */
static struct body *
open_heavy(struct sets *s, struct buf *whole)
{
    struct document_wish wish;

    s->config.tail_bytes = 400000;
    sets_open(s);
    sets_post_heavy(s, "demo", 1, 10, 30000);
    wish = stage_wish(s, 1, 0, LOG_MEMORY);
    buf_init(whole, SIZE_MAX);
    bodies_read(stage_body(changelist_open, &wish), whole);
    assert_true(whole->size > 300000);
    return stage_body(changelist_open, &wish);
}

static void
evict(struct sets *s)
{
    struct batch *b;

    sets_post_heavy(s, "other", 1, 20, 30000);
    assert_int_equal(log_read(s->registry->log, sets_find(s, "demo")->log, 0,
                              LOG_MEMORY, &b, NULL),
                     STATUS_AGAIN);
}

/* Closes and files the list, and has the log forget what the file holds. */
static void
file_and_forget(struct sets *s)
{
    sets_rotate(s, "demo");
    sets_file_all(s);
    for (int i = 0; count_rows(s) > 0; i++) {
        assert_true(i < 100);
        sets_post(s, "other", 1, 1); /* a commit, which forgets */
    }
}

/* Appends the next `n` pieces, or all that come; returns how many. */
static unsigned
read_pieces(struct body *body, struct buf *text, unsigned n)
{
    enum body_result result;
    unsigned i;

    for (i = 0; i < n; i++) {
        struct slice piece;

        result = body->next(body, false, &piece);
        if (result == BODY_WAITS)
            result = body->next(body, true, &piece);
        if (result == BODY_END)
            break;
        assert_int_equal(result, BODY_DATA);
        assert_true(piece.size <= PIECE_MAX);
        buf_add_slice(text, piece);
    }
    return i;
}

/* Reads the rest of the list, and compares it with `whole`; frees all three. */
static unsigned
read_rest(struct body *body, struct buf *text, struct buf *whole)
{
    unsigned n = read_pieces(body, text, 1000);

    assert_int_equal(text->size, body->size);
    assert_true(slice_equal(buf_slice(text), buf_slice(whole)));
    body->free(body);
    buf_fini(text);
    buf_fini(whole);
    return n;
}

FIXTURE(stage_setup, stage_teardown);

/* Design rule 6: in pieces, each of which is all that a slow reader holds. */
TEST(hands_out_a_large_list_in_pieces)
{
    struct buf whole, text;
    struct body *body = open_heavy(*state, &whole);

    buf_init(&text, SIZE_MAX);
    assert_in_range(read_rest(body, &text, &whole), 6, 20);
}

/* The same bytes, wherever the pieces come from: memory, rows, the file. */
TEST(goes_on_with_a_list_that_has_moved_between_pieces)
{
    struct sets *s = *state;
    struct buf whole, text;
    struct body *body = open_heavy(s, &whole);

    buf_init(&text, SIZE_MAX);
    assert_int_equal(read_pieces(body, &text, 2), 2);
    evict(s);
    assert_int_equal(read_pieces(body, &text, 1), 1);
    file_and_forget(s);
    read_rest(body, &text, &whole);
}

/* The same when all of it has gone to the file after the first pieces. */
TEST(goes_on_with_a_list_that_was_filed_after_a_piece)
{
    for (unsigned n = 1; n <= 5; n++) {
        struct sets *s = *state;
        struct buf whole, text;
        struct body *body = open_heavy(s, &whole);

        buf_init(&text, SIZE_MAX);
        assert_int_equal(read_pieces(body, &text, n), n);
        file_and_forget(s);
        evict(s);
        read_rest(body, &text, &whole);
        stage_teardown(state);
        stage_setup(state);
    }
}
