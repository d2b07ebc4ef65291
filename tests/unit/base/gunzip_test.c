#include "base/gunzip.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/gzip.h"
#include "tests/test.h"

#define TEXT "one change after the other, and another one after the other"

/* No step may let out more, for any input: gunzip.c. */
#define STEP_OUT 262144
#define PIECE    16384

struct inflated {
    enum status rc;
    struct problem why;
    struct buf bytes;
    size_t n_steps; /* after the feeding */
    size_t largest; /* the largest output of a call */
    size_t held;    /* at most */
};

static enum status
collect(struct slice bytes, void *user, struct problem *why)
{
    struct inflated *in = user;

    (void)why;
    assert_true(bytes.size > 0);
    buf_add_slice(&in->bytes, bytes);
    return STATUS_OK;
}

static void
note(struct inflated *in, const struct gunzip *g, size_t before)
{
    if (in->bytes.size - before > in->largest)
        in->largest = in->bytes.size - before;
    if (gunzip_held(g) > in->held)
        in->held = gunzip_held(g);
}

/* Feeds `step` bytes at a time, each from memory of its own. */
static struct inflated
inflate_all(struct slice bytes, size_t step, uint64_t max)
{
    struct inflated in = {.rc = STATUS_OK};
    struct gunzip *g = gunzip_new(max, GUNZIP_GZIP, collect, &in);

    assert_non_null(g);
    buf_init(&in.bytes, SIZE_MAX);
    for (size_t at = 0; at < bytes.size && !in.rc; at += step) {
        size_t size = bytes.size - at < step ? bytes.size - at : step;
        size_t before = in.bytes.size;
        char *copy = malloc(size);

        assert_non_null(copy);
        memcpy(copy, bytes.data + at, size);
        in.rc = gunzip_feed(g, (struct slice){copy, size}, &in.why);
        free(copy);
        note(&in, g, before);
    }
    while (!in.rc && gunzip_is_behind(g)) {
        size_t before = in.bytes.size;

        in.rc = gunzip_step(g, &in.why);
        in.n_steps++;
        note(&in, g, before);
    }
    if (!in.rc)
        in.rc = gunzip_end(g, &in.why);
    gunzip_free(g);
    return in;
}

static void
assert_inflates(struct slice bytes, const char *text)
{
    for (size_t step = 1; step <= bytes.size; step++) {
        struct inflated in = inflate_all(bytes, step, strlen(text));

        assert_string_equal(in.why.text, "");
        assert_int_equal(in.rc, STATUS_OK);
        assert_int_equal(in.bytes.size, strlen(text));
        assert_memory_equal(in.bytes.data, text, in.bytes.size);
        buf_fini(&in.bytes);
    }
}

static void
assert_damaged(struct slice bytes, enum status rc, const char *text)
{
    static const size_t steps[] = {1, 7, SIZE_MAX / 2};

    for (size_t i = 0; i < 3; i++) {
        struct inflated in = inflate_all(bytes, steps[i], 1 << 20);

        assert_int_equal(in.rc, rc);
        if (text)
            assert_string_equal(in.why.text, text);
        assert_true(in.why.text[0]);
        buf_fini(&in.bytes);
    }
}

static struct buf b; /* the input of a test */

static int
set_up(void **state)
{
    (void)state;
    buf_init(&b, SIZE_MAX);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    buf_fini(&b);
    return 0;
}

FIXTURE(set_up, tear_down);

/* gunzip_all of two pieces passes `text` on. */
static void
assert_passes_on(struct slice bytes, const char *text)
{
    for (size_t at = 0; at <= bytes.size; at++) {
        struct inflated in = {.rc = STATUS_OK};
        struct gunzip *g =
            gunzip_new(strlen(text), GUNZIP_EITHER, collect, &in);

        assert_non_null(g);
        buf_init(&in.bytes, SIZE_MAX);
        in.rc = gunzip_all(g, (struct slice){bytes.data, at}, &in.why);
        assert_int_equal(in.rc, STATUS_OK);
        slice_skip(&bytes, at);
        assert_int_equal(gunzip_all(g, bytes, &in.why), STATUS_OK);
        assert_int_equal(gunzip_end(g, &in.why), STATUS_OK);
        assert_true(slice_is(buf_slice(&in.bytes), text));
        bytes.data -= at;
        bytes.size += at;
        gunzip_free(g);
        buf_fini(&in.bytes);
    }
}

/* Of sources that do not say whether a document is gzip, the first byte does.
 */
TEST(passes_on_what_is_plain)
{
    assert_passes_on(SLICE(TEXT), TEXT);
    assert_passes_on(SLICE(""), "");
    gzip_add(&b, SLICE(TEXT));
    gzip_add(&b, SLICE(TEXT));
    assert_passes_on(buf_slice(&b), TEXT TEXT);
}

/* RFC 1952 section 2.2: one member, or one after the other. */
TEST(inflates_members_in_any_pieces)
{
    gzip_add(&b, SLICE(TEXT));
    assert_inflates(buf_slice(&b), TEXT);
    gzip_add(&b, SLICE(""));
    gzip_add(&b, SLICE(TEXT));
    assert_inflates(buf_slice(&b), TEXT TEXT);
    buf_clear(&b);
    gzip_add(&b, SLICE(""));
    assert_inflates(buf_slice(&b), "");
}

/* RFC 1952 section 2.3: names, comments and extra fields are passed over. */
TEST(passes_over_what_a_header_may_have)
{
    /* FEXTRA, FNAME, FCOMMENT; an empty stored block; CRC and size 0. */
    static const char bytes[] = "\x1f\x8b\x08\x1c\0\0\0\0\0\xff\x04\0abcdname\0"
                                "comment\0\x01\0\0\xff\xff\0\0\0\0\0\0\0\0";

    assert_inflates((struct slice){bytes, sizeof(bytes) - 1}, "");
}

/* Cut off anywhere, it is not taken for whole. */
TEST(refuses_a_stream_that_is_cut_off)
{
    gzip_add(&b, SLICE(TEXT));
    for (size_t size = 0; size < b.size; size++)
        assert_damaged((struct slice){b.data, size}, STATUS_MALFORMED,
                       "not gzip: it ends before its end");
}

/* Any changed bit: gunzip refuses the stream, or the bit has no meaning (the
 * time, the bits that fill the last byte), and the output is as before. */
TEST(refuses_a_stream_that_is_damaged)
{
    size_t n_harmless = 0;

    gzip_add(&b, SLICE(TEXT));
    for (size_t i = 0; i < 8 * b.size; i++) {
        struct inflated in;

        b.data[i / 8] ^= (char)(1 << i % 8);
        in = inflate_all(buf_slice(&b), 7, 1 << 20);
        if (in.rc) {
            assert_int_equal(in.rc, STATUS_MALFORMED);
            assert_true(in.why.text[0]);
        } else {
            assert_true(slice_is(buf_slice(&in.bytes), TEXT));
            n_harmless++;
        }
        buf_fini(&in.bytes);
        b.data[i / 8] ^= (char)(1 << i % 8);
    }
    /* Time, system, level of compression, text flag: 49 bits. */
    assert_true(n_harmless >= 49 && n_harmless <= 49 + 7);
}

TEST(refuses_what_is_not_gzip)
{
    assert_damaged(SLICE("{\"loc\":\"http://example.com/a\"}"),
                   STATUS_MALFORMED, "not gzip: incorrect header check");
    /* zlib's own form, which "deflate" means. */
    assert_damaged(SLICE("\x78\x9c\x03\x00\x00\x00\x00\x01"), STATUS_MALFORMED,
                   "not gzip: incorrect header check");

    gzip_add(&b, SLICE(TEXT));
    BUF_ADD(&b, "\0");
    assert_damaged(buf_slice(&b), STATUS_MALFORMED,
                   "not gzip: something else follows its end");
    b.size--;
    BUF_ADD(&b, "\x1f");
    assert_damaged(buf_slice(&b), STATUS_MALFORMED,
                   "not gzip: it ends before its end");
    BUF_ADD(&b, "garbage");
    assert_damaged(buf_slice(&b), STATUS_MALFORMED, NULL);
}

/* Design section 5, rule 5: the output has a limit, and no more than that is
 * inflated. */
TEST(stops_at_the_limit)
{
    struct inflated in;

    gzip_add_bomb(&b, 'a', (size_t)8 << 20);
    assert_true(b.size < 100000);

    in = inflate_all(buf_slice(&b), SIZE_MAX / 2, 1000000);
    assert_int_equal(in.rc, STATUS_TOO_LARGE);
    assert_string_equal(in.why.text, "more than 1000000 bytes when inflated");
    assert_true(in.bytes.size <= 1000000);
    buf_fini(&in.bytes);

    in = inflate_all(buf_slice(&b), SIZE_MAX / 2, (8 << 20) - 1);
    assert_int_equal(in.rc, STATUS_TOO_LARGE);
    buf_fini(&in.bytes);
    in = inflate_all(buf_slice(&b), SIZE_MAX / 2, 8 << 20);
    assert_int_equal(in.rc, STATUS_OK);
    buf_fini(&in.bytes);
}

/* Design section 3: a service thread does not wait for all that comes out. */
TEST(makes_small_steps)
{
    static const size_t steps[] = {10, 1000, SIZE_MAX / 2};

    for (int i = 0; i < 3; i++)
        gzip_add_bomb(&b, 'a', (size_t)8 << 20);
    for (size_t i = 0; i < 3; i++) {
        struct inflated in = inflate_all(buf_slice(&b), steps[i], 32 << 20);

        assert_int_equal(in.rc, STATUS_OK);
        assert_int_equal(in.bytes.size, 24 << 20);
        assert_true(in.largest < STEP_OUT + PIECE);
        if (steps[i] > b.size)
            assert_true(in.n_steps >= (24 << 20) / (STEP_OUT + PIECE));
        /* It holds the fed bytes, once, and itself. */
        assert_true(in.held < 2 * b.size + 100000);
        buf_fini(&in.bytes);
    }
}

/* Members without content let nothing out; they take their steps all the same.
 */
TEST(makes_small_steps_through_empty_members)
{
    struct inflated in;

    for (int i = 0; i < 50000; i++)
        BUF_ADD(&b, "\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0");
    in = inflate_all(buf_slice(&b), SIZE_MAX / 2, 10);
    assert_int_equal(in.rc, STATUS_OK);
    assert_true(in.n_steps >= b.size / 65536);
    buf_fini(&in.bytes);
}

static enum status
refuse(struct slice bytes, void *user, struct problem *why)
{
    (void)bytes;
    ++*(int *)user;
    return problem(why, STATUS_INVALID, "no");
}

TEST(ends_with_what_the_receiver_says)
{
    struct problem why = {""};
    struct gunzip *g;
    int n = 0;

    gzip_add_bomb(&b, 'a', 1 << 20);
    g = gunzip_new(SIZE_MAX, GUNZIP_GZIP, refuse, &n);
    assert_int_equal(gunzip_feed(g, buf_slice(&b), &why), STATUS_INVALID);
    assert_string_equal(why.text, "no");
    assert_int_equal(n, 1);
    gunzip_free(g);
    gunzip_free(NULL);
}
