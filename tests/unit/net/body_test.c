#include "broker/net/body.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/bodies.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

TEST(a_body_in_memory_hands_out_its_bytes_once_and_ends)
{
    struct buf text;
    struct slice piece;
    struct body *body;

    buf_init(&text, 100);
    buf_add_text(&text, "hello");

    body = body_of_buf(&text);

    assert_non_null(body);
    assert_int_equal(body->size, 5);
    assert_int_equal(body->next(body, false, &piece), BODY_DATA);
    assert_true(slice_is(piece, "hello"));
    assert_int_equal(body->next(body, false, &piece), BODY_END);
    assert_int_equal(body->next(body, true, &piece), BODY_END);
    body->free(body);
}

TEST(the_buffer_is_empty_afterwards_and_of_use_again)
{
    struct buf text;
    struct body *body;

    buf_init(&text, 5);
    buf_add_text(&text, "hello");

    body = body_of_buf(&text);

    assert_int_equal(text.size, 0);
    buf_add_text(&text, "again");
    assert_false(text.failed);
    assert_true(slice_is(buf_slice(&text), "again"));
    body->free(body);
    buf_fini(&text);
}

TEST(an_empty_body_ends_at_once)
{
    struct buf text;
    struct slice piece;
    struct body *body;

    buf_init(&text, 100);

    body = body_of_buf(&text);

    assert_int_equal(body->size, 0);
    assert_int_equal(body->next(body, false, &piece), BODY_END);
    body->free(body);
}

TEST(a_text_that_was_cut_is_no_body)
{
    struct buf text;

    buf_init(&text, 3);
    buf_add_text(&text, "hello");

    assert_null(body_of_buf(&text));

    buf_fini(&text);
}

/* A body of three pieces of three bytes that says BODY_WAITS before each. */
struct halting {
    struct body body;
    unsigned at;
    bool is_freed;
};

static enum body_result
halting_next(struct body *body, bool may_block, struct slice *piece)
{
    struct halting *h = (struct halting *)body;

    if (h->at == 9)
        return BODY_END;
    if (!may_block)
        return BODY_WAITS;
    *piece = (struct slice){&"012345678"[h->at], 3};
    h->at += 3;
    return BODY_DATA;
}

static void
halting_free(struct body *body)
{
    ((struct halting *)body)->is_freed = true;
}

/* Reads `body`, which must not say more than its size. */
static void
assert_says(struct body *body, const char *wanted)
{
    struct buf text;

    buf_init(&text, 100);
    bodies_read(body, &text);
    buf_add(&text, "", 1);
    assert_string_equal(text.data, wanted);
    buf_fini(&text);
}

TEST(a_part_is_what_stands_there_of_the_whole)
{
    for (unsigned first = 0; first < 9; first++)
        for (unsigned size = 1; size <= 9 - first; size++) {
            struct halting h = {
                {9, halting_next, halting_free, NULL}, 0, false};
            char wanted[10] = "012345678";

            wanted[first + size] = '\0';
            assert_says(body_part(&h.body, first, size), wanted + first);
            assert_true(h.is_freed);
        }
}

/* A skip may be long: that is for a worker thread. */
TEST(a_part_is_not_looked_for_where_others_wait)
{
    struct buf text;
    struct slice piece;
    struct body *part;

    buf_init(&text, 100);
    buf_add_text(&text, "hello");
    part = body_part(body_of_buf(&text), 1, 3);

    assert_int_equal(part->next(part, false, &piece), BODY_WAITS);
    assert_int_equal(part->next(part, true, &piece), BODY_DATA);
    assert_true(slice_is(piece, "ell"));
    assert_int_equal(part->next(part, false, &piece), BODY_END);
    part->free(part);
}

static struct body *
open_file(void **state, uint64_t size)
{
    int fd = openat(tempdir_fd(state), "file", O_RDONLY);
    struct body *body;

    assert_true(fd >= 0);
    body = body_of_file(fd, size);
    assert_non_null(body);
    return body;
}

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(a_file_is_read_in_pieces_by_those_who_may_wait)
{
    size_t size = 200000;
    char *text = malloc(size + 1);
    struct slice piece;
    struct body *body;

    assert_non_null(text);
    for (size_t i = 0; i < size; i++)
        text[i] = (char)('a' + i % 23);
    text[size] = '\0';
    tempdir_write(tempdir_fd(state), "file", text);

    body = open_file(state, size);
    assert_int_equal(body->next(body, true, &piece), BODY_DATA);
    assert_true(piece.size < size);
    body->free(body);

    body = body_part(open_file(state, size), 100001, 99000);
    assert_int_equal(body->next(body, true, &piece), BODY_DATA);
    assert_memory_equal(piece.data, text + 100001, piece.size);
    body->free(body);
    free(text);
}

/* Asks for all pieces in their file, which stand there one behind the other
 * from `first` on; returns how the last one ends. */
static enum body_result
read_in_file(struct body *body, uint64_t first)
{
    struct file_part piece;
    uint64_t at = first;
    enum body_result result;

    for (;;) {
        result = body->next_in_file(body, false, &piece);
        if (result == BODY_WAITS)
            result = body->next_in_file(body, true, &piece);
        if (result != BODY_DATA)
            break;
        assert_true(piece.fd >= 0);
        assert_true(piece.size > 0);
        assert_int_equal(piece.at, at);
        at += piece.size;
    }
    if (result == BODY_END)
        assert_int_equal(at - first, body->size);
    body->free(body);
    return result;
}

TEST(a_file_lends_pieces_where_they_stand)
{
    static const struct {
        uint64_t first, size;
    } parts[] = {{0, 1000000}, {3, 999996}, {0, 7}, {999999, 1}};

    int fd = openat(tempdir_fd(state), "file", O_CREAT | O_RDWR, 0600);

    assert_int_equal(ftruncate(fd, 1000000), 0);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct body *body =
            body_part(open_file(state, 1000000), parts[i].first, parts[i].size);

        assert_int_equal(fdatasync(fd), 0);
        posix_fadvise(fd, 0, 0, i % 2 ? POSIX_FADV_DONTNEED : 0);
        assert_int_equal(read_in_file(body, parts[i].first), BODY_END);
    }
    close(fd);
    assert_int_equal(read_in_file(open_file(state, 1000001), 0), BODY_FAILED);
}

/* The body does not pad a file that was cut. */
TEST(a_file_that_is_cut_fails)
{
    struct slice piece;
    struct body *body;

    tempdir_write(tempdir_fd(state), "file", "abc");
    body = open_file(state, 4);
    assert_int_equal(body->next(body, true, &piece), BODY_DATA);
    assert_int_equal(body->next(body, true, &piece), BODY_FAILED);
    body->free(body);
}
