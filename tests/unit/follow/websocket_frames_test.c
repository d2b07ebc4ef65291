/*
 * frames_test.c - how much is read from a WebSocket.
 */
#include "client/follow/websocket_frames.h"

#include <stdlib.h>
#include <string.h>

#include "proto/slice.h"
#include "tests/test.h"

/* The most bytes that wslay reads at once. */
#define AT_ONCE 4096

/* A server that sends the same over and over again, and a way back that takes
 * so much and no more. */
struct wire {
    struct slice pattern;
    size_t n_read;
    size_t n_left; /* to read; SIZE_MAX: without end */
    size_t n_written;
    size_t room; /* to write */
    unsigned char written[4096];
};

static ssize_t
on_read(void *to, size_t size, void *user)
{
    struct wire *w = user;

    if (size > w->n_left)
        size = w->n_left;
    for (size_t i = 0; i < size; i++)
        ((char *)to)[i] = w->pattern.data[w->n_read++ % w->pattern.size];
    if (w->n_left != SIZE_MAX)
        w->n_left -= size;
    return (ssize_t)size;
}

static ssize_t
on_write(const void *from, size_t size, void *user)
{
    struct wire *w = user;

    if (size > w->room)
        size = w->room;
    w->room -= size;
    if (w->n_written + size <= sizeof(w->written))
        memcpy(w->written + w->n_written, from, size);
    w->n_written += size;
    return (ssize_t)size;
}

static struct frames *
open_frames(struct wire *w)
{
    struct frames *f = frames_new(on_read, on_write, w);

    assert_non_null(f);
    return f;
}

TEST(no_more_is_read_than_one_message_needs)
{
    struct wire w = {
        .pattern = SLICE("\x81\x03one"), .n_left = SIZE_MAX, .room = SIZE_MAX};
    struct frames *f = open_frames(&w);
    char *bytes;
    size_t size;

    for (size_t i = 1; i < 5000; i++) {
        assert_int_equal(frames_next(f, &bytes, &size), FRAMES_MESSAGE);
        assert_true(slice_is((struct slice){bytes, size}, "one"));
        assert_true(w.n_read <= i * w.pattern.size + AT_ONCE);
        memset(bytes, 0, size); /* nobody else needs it */
    }
    frames_free(f);
}

TEST(whoever_takes_no_pongs_is_not_listened_to)
{
    struct wire w = {.pattern = SLICE("\x89\x05hello"), .n_left = SIZE_MAX};
    struct frames *f = open_frames(&w);
    char *bytes;
    size_t size;
    size_t n_read;

    assert_int_equal(frames_next(f, &bytes, &size), FRAMES_DRY);
    assert_int_equal(frames_wants(f), READY_WRITE);
    assert_true(w.n_read <= AT_ONCE);
    n_read = w.n_read;
    assert_int_equal(frames_next(f, &bytes, &size), FRAMES_DRY);
    assert_int_equal(w.n_read, n_read);

    w.n_left = 0;
    w.room = SIZE_MAX;
    assert_int_equal(frames_next(f, &bytes, &size), FRAMES_DRY);
    assert_int_equal(frames_wants(f), READY_READ);
    assert_int_equal(w.n_written, w.n_read / 7 * (2 + 4 + 5));
    assert_memory_equal(w.written, "\x8a\x85", 2); /* masked */
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(w.written[6 + i] ^ w.written[2 + i % 4], "hello"[i]);
    frames_free(f);
}

TEST(masks_differ)
{
    struct wire w = {
        .pattern = SLICE("\x89\x01!"), .n_left = 10 * 3, .room = SIZE_MAX};
    struct frames *f = open_frames(&w);
    char *bytes;
    size_t size;
    size_t n_same = 0;

    assert_int_equal(frames_next(f, &bytes, &size), FRAMES_DRY);
    assert_int_equal(w.n_written, 10 * 7);
    for (size_t i = 1; i < 10; i++)
        n_same += !memcmp(w.written + 2, w.written + 7 * i + 2, 4);
    assert_true(n_same < 2); /* one of 4 billion */
    frames_free(f);
}

TEST(what_is_read_may_come_byte_by_byte)
{
    static const char text[] = "\x01\x02on\x89\x00\x80\x01"
                               "e\x81\x00\x88\x0c\x11\x3a"
                               "earliest 5";
    struct wire w = {.pattern = SLICE(text), .room = SIZE_MAX};
    struct frames *f = open_frames(&w);
    char seen[100] = "";
    char *bytes = NULL;
    size_t size = 0;
    enum frames_next next = FRAMES_DRY;

    assert_false(frames_is_used(f));
    while (next != FRAMES_OVER) {
        assert_true(w.n_read < sizeof(text) - 1);
        w.n_left = 1;
        while ((next = frames_next(f, &bytes, &size)) == FRAMES_MESSAGE) {
            strncat(seen, bytes, size);
            strcat(seen, "|");
        }
    }
    assert_true(frames_is_used(f));
    assert_string_equal(seen, "one||");
    assert_int_equal(frames_end(f)->how, LIVE_CLOSED);
    assert_int_equal(frames_end(f)->code, 4410);
    assert_string_equal(frames_end(f)->why.text, "earliest 5");
    assert_int_equal(frames_next(f, &bytes, &size), FRAMES_OVER);
    assert_int_equal(frames_wants(f) & READY_WRITE, 0); /* it was answered */
    assert_int_equal(w.written[6], 0x88);
    frames_free(f);
}

/* Nothing but a NUL says no more than nothing. */
TEST(a_farewell_without_words_has_some)
{
    static const struct slice farewells[] = {
        SLICE("\x88\x02\x11\x34"),
        SLICE("\x88\x03\x11\x34\0"),
    };

    for (size_t i = 0; i < sizeof(farewells) / sizeof(farewells[0]); i++) {
        struct wire w = {.pattern = farewells[i],
                         .n_left = farewells[i].size,
                         .room = SIZE_MAX};
        struct frames *f = open_frames(&w);
        char *bytes;
        size_t size;

        assert_int_equal(frames_next(f, &bytes, &size), FRAMES_OVER);
        assert_int_equal(frames_end(f)->how, LIVE_CLOSED);
        assert_int_equal(frames_end(f)->code, 4404);
        assert_string_equal(frames_end(f)->why.text,
                            "the broker ended the connection");
        frames_free(f);
    }
}
