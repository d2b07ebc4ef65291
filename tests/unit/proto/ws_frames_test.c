#include "proto/http/ws_frames.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/buf.h"
#include "tests/test.h"

#define MESSAGE_MAX 65536

enum { FIN = 0x80, RSV1 = 0x40, CONT = 0, TEXT, BINARY, CLOSE = 8, PING, PONG };

/* How a length is written. */
enum width { SHORTEST, IN_16 = 126, IN_64 = 127 };

static void
add_header(struct buf *to, int first, uint64_t size, enum width width,
           const char mask[4])
{
    unsigned char h[14] = {(unsigned char)first};
    size_t n = 2;

    if (width == SHORTEST)
        width = size < 126 ? SHORTEST : size < 65536 ? IN_16 : IN_64;
    h[1] = (unsigned char)(0x80 | (width == SHORTEST ? (int)size : (int)width));
    for (int bits = width == IN_16 ? 16 : width == IN_64 ? 64 : 0; bits > 0;)
        h[n++] = (unsigned char)(size >> (bits -= 8));
    memcpy(h + n, mask, 4);
    buf_add(to, h, n + 4);
}

/* Adds a frame of a client. */
static void
add_frame(struct buf *to, int first, struct slice payload)
{
    static const char masks[][4] = {"\x12\x34\x56\x78", "\0\0\0\0",
                                    "\xff\x80\x7f\x01"};
    const char *mask = masks[to->size % 3];

    add_header(to, first, payload.size, SHORTEST, mask);
    for (size_t i = 0; i < payload.size; i++) {
        char c = (char)(payload.data[i] ^ mask[i % 4]);

        buf_add(to, &c, 1);
    }
}

/* Reads `bytes` `step` at a time as a caller that keeps the rest, and records
 * the frames. */
static void
read_cut(struct slice bytes, size_t step, bool has_deflate, struct buf *seen)
{
    static const char *const names[] = {"", "ping", "pong", "close", "broken"};
    struct ws_frames f;
    struct slice rest = {bytes.data, 0};

    ws_frames_init(&f, MESSAGE_MAX, has_deflate);
    while (rest.data + rest.size < bytes.data + bytes.size) {
        size_t left =
            (size_t)(bytes.data + bytes.size - (rest.data + rest.size));
        size_t size = rest.size + (left < step ? left : step);
        char *copy = malloc(size);
        struct slice now = {copy, size};
        struct ws_frame frame;
        enum ws_frames_next next;

        memcpy(copy, rest.data, size);
        while ((next = ws_frames_read(&f, &now, NULL, &frame)) !=
               WS_FRAMES_MORE) {
            buf_add_format(seen, "%s %u ", names[next], frame.code);
            if (next == WS_FRAMES_BROKEN)
                buf_add_format(seen, "%s", frame.reason);
            else
                buf_add(seen, frame.payload, frame.size);
            buf_add(seen, "\n", 1);
        }
        assert_true(now.size <= WS_FRAMES_REST_MAX);
        rest = (struct slice){rest.data + size - now.size, now.size};
        free(copy);
    }
}

static void
check(const struct buf *bytes, bool has_deflate, const char *expected)
{
    static const size_t steps[] = {SIZE_MAX, 1, 2, 3, 7, 64};

    assert_false(bytes->failed);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct buf seen;

        buf_init(&seen, SIZE_MAX);
        read_cut(buf_slice(bytes), steps[i], has_deflate, &seen);
        if (!slice_is(buf_slice(&seen), expected))
            fail_msg("step %zu: \"%.*s\", not \"%s\"", steps[i],
                     SLICE_ARG(buf_slice(&seen)), expected);
        buf_fini(&seen);
    }
}

/* A frame of a table; a row has up to five. */
struct row_frame {
    int first;
    struct slice payload;
};

#define FRAME(first, text)           \
    {                                \
        (first),                     \
        {                            \
            (text), sizeof(text) - 1 \
        }                            \
    }

struct row {
    const char *expected;
    struct row_frame frames[5];
    bool has_deflate;
};

static void
check_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct buf bytes;

        buf_init(&bytes, SIZE_MAX);
        for (size_t k = 0; k < 5 && rows[i].frames[k].payload.data; k++)
            add_frame(&bytes, rows[i].frames[k].first,
                      rows[i].frames[k].payload);
        check(&bytes, rows[i].has_deflate, rows[i].expected);
        buf_fini(&bytes);
    }
}

TEST(control_frames_are_handed_over)
{
    static const char full[] =
        "12345678901234567890123456789012345678901234567890"
        "12345678901234567890123456789012345678901234567890"
        "1234567890123456789012345";
    static const struct row rows[] = {
        {"", {FRAME(FIN | TEXT, "")}},
        {"",
         {FRAME(FIN | TEXT, "hello, w\xc3\xb6rld"),
          FRAME(FIN | BINARY, "\xff")}},
        {"ping 0 \nping 0 abc\npong 0 \xff\n",
         {FRAME(FIN | PING, ""), FRAME(FIN | PING, "abc"),
          FRAME(FIN | PONG, "\xff")}},
        {"ping 0 a\n",
         {FRAME(TEXT, "x"), FRAME(FIN | PING, "a"), FRAME(FIN | CONT, "y")}},
        {"ping 0 12345678901234567890123456789012345678901234567890"
         "12345678901234567890123456789012345678901234567890"
         "1234567890123456789012345\n",
         {{FIN | PING, {full, 125}}}},
        {"close 1005 \n", {FRAME(FIN | CLOSE, ""), FRAME(FIN | PING, "a")}},
        {"close 1000 \n", {FRAME(FIN | CLOSE, "\x03\xe8")}},
        {"close 1014 b\xc3\xa4\n",
         {FRAME(FIN | CLOSE, "\x03\xf6"
                             "b\xc3\xa4")}},
        {"close 4999 \n", {FRAME(FIN | CLOSE, "\x13\x87"), FRAME(0xff, "")}},
        {"close 1000 \n", {FRAME(TEXT, "x"), FRAME(FIN | CLOSE, "\x03\xe8")}},
    };

    check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

TEST(broken_rules_end_with_their_code)
{
    static const char reserved[] = "broken 1002 a reserved bit is set\n";
    static const char opcode[] = "broken 1002 a reserved opcode\n";
    static const char fragments[] =
        "broken 1002 a control frame in fragments\n";
    static const char none[] = "broken 1002 a continuation of no message\n";
    static const char within[] = "broken 1002 a message within a message\n";
    static const char code[] =
        "broken 1002 a close frame with a code that may not be sent\n";
    static const char utf8[] = "broken 1007 a text that is not UTF-8\n";
    static const char reason[] =
        "broken 1007 the reason of a close frame is not UTF-8\n";
    static const struct row rows[] = {
        {reserved, {FRAME(FIN | 0x40 | TEXT, "")}},
        {reserved, {FRAME(FIN | 0x20 | TEXT, "")}},
        {reserved, {FRAME(FIN | 0x10 | BINARY, "")}},
        {reserved, {FRAME(FIN | 0x40 | PING, "")}},
        {reserved, {FRAME(FIN | 0x20 | TEXT, "")}, true},
        {reserved, {FRAME(FIN | RSV1 | PING, "")}, true},
        {reserved, {FRAME(RSV1 | TEXT, ""), FRAME(FIN | RSV1, "")}, true},
        {opcode, {FRAME(FIN | 3, "")}},
        {opcode, {FRAME(FIN | 7, "")}},
        {opcode, {FRAME(FIN | 11, "")}},
        {opcode, {FRAME(FIN | 15, "")}},
        {fragments, {FRAME(PING, "")}},
        {fragments, {FRAME(CLOSE, "")}},
        {"ping 0 \nbroken 1002 a control frame of more than 125 bytes\n",
         {FRAME(FIN | PING, ""),
          {FIN | PONG,
           {"12345678901234567890123456789012345678901234567890"
            "12345678901234567890123456789012345678901234567890"
            "12345678901234567890123456",
            126}},
          FRAME(FIN | PING, "")}},
        {none, {FRAME(FIN | CONT, "")}},
        {none, {FRAME(FIN | TEXT, "a"), FRAME(CONT, "a")}},
        {within, {FRAME(TEXT, ""), FRAME(FIN | TEXT, "")}},
        {within, {FRAME(BINARY, "a"), FRAME(CONT, "b"), FRAME(TEXT, "")}},

        {"broken 1002 a close frame with half a code\n",
         {FRAME(FIN | CLOSE, "\x03")}},
        {code, {FRAME(FIN | CLOSE, "\0\0")}},
        {code, {FRAME(FIN | CLOSE, "\x03\xe7")}}, /* 999 */
        {code, {FRAME(FIN | CLOSE, "\x03\xec")}}, /* 1004 */
        {code, {FRAME(FIN | CLOSE, "\x03\xed")}}, /* 1005 */
        {code, {FRAME(FIN | CLOSE, "\x03\xee")}}, /* 1006 */
        {code, {FRAME(FIN | CLOSE, "\x03\xf7")}}, /* 1015 */
        {code, {FRAME(FIN | CLOSE, "\x04\x4c")}}, /* 1100 */
        {code, {FRAME(FIN | CLOSE, "\x0b\xb7")}}, /* 2999 */
        {code, {FRAME(FIN | CLOSE, "\x13\x88")}}, /* 5000 */
        {reason, {FRAME(FIN | CLOSE, "\x03\xe8\xff")}},
        {reason,
         {FRAME(FIN | CLOSE, "\x03\xe8"
                             "abc\xc3")}},

        {utf8, {FRAME(FIN | TEXT, "12345678\xff")}},
        {utf8,
         {FRAME(FIN | TEXT, "1234\xc3\xa4"
                            "567890123\xed\xa0\x80")}},
        {utf8, {FRAME(FIN | TEXT, "a\xc3")}},
        {utf8, {FRAME(TEXT, "a\xe2\x82"), FRAME(FIN | CONT, "")}},
        {utf8, {FRAME(TEXT, "\xf4"), FRAME(CONT, "\x90")}},
        {"",
         {FRAME(TEXT, "a\xe2"), FRAME(CONT, "\x82"), FRAME(CONT, ""),
          FRAME(FIN | CONT, "\xac"), FRAME(FIN | TEXT, "\xc3\xa4")}},
        /* Half a character of one message is none of the next. */
        {"", {FRAME(FIN | BINARY, "a\xc3"), FRAME(FIN | TEXT, "a")}},
        {"",
         {FRAME(FIN | RSV1 | TEXT, "\xff\xc3"), FRAME(FIN | TEXT, "a")},
         true},
        {"",
         {FRAME(RSV1 | TEXT, "\xff"), FRAME(FIN | CONT, "\xff"),
          FRAME(FIN | RSV1 | BINARY, "")},
         true},
        {utf8,
         {FRAME(FIN | RSV1 | TEXT, "\xff"), FRAME(FIN | TEXT, "\xff")},
         true},
    };

    check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

/* The frame has 1,000 bytes; the fifth shows that it is not UTF-8. */
TEST(bad_text_is_seen_before_its_frame_ends)
{
    struct ws_frames f;
    struct ws_frame frame;
    struct buf bytes;
    struct slice now;

    buf_init(&bytes, SIZE_MAX);
    add_header(&bytes, TEXT, 1000, SHORTEST, "\0\0\0\0");
    BUF_ADD(&bytes, "abc\xf0\x8f");
    now = buf_slice(&bytes);
    ws_frames_init(&f, MESSAGE_MAX, false);
    assert_int_equal(ws_frames_read(&f, &now, NULL, &frame), WS_FRAMES_BROKEN);
    assert_int_equal(frame.code, WS_CLOSE_UTF8);
    buf_fini(&bytes);
}

/* Eight bytes at a time are checked in one step: a character has to be found at
 * every place, under every mask. */
TEST(text_is_checked_at_every_place)
{
    static const struct {
        const char *text;
        const char *expected;
    } rows[] = {
        {"\xc3\xa4", ""},
        {"\xf0\x9f\x98\x80", ""},
        {"\x7f", ""},
        {"\xc3", "broken 1007 a text that is not UTF-8\n"},
        {"\x80", "broken 1007 a text that is not UTF-8\n"},
        {"\xc3"
         "aaaaaaaa\xa4",
         "broken 1007 a text that is not UTF-8\n"},
        {"\xc3\xa4\x80\x80\x80\x80\x80\x80\x80\x80",
         "broken 1007 a text that is not UTF-8\n"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t k = 0; k < 3 * 20; k++) {
            char text[60];
            size_t size = strlen(rows[i].text);
            struct buf bytes;

            memset(text, 'a', sizeof(text));
            memcpy(text + k / 3, rows[i].text, size);
            buf_init(&bytes, SIZE_MAX);
            for (size_t mask = 0; mask < k % 3; mask++) /* 7 bytes each */
                add_frame(&bytes, FIN | BINARY, SLICE("a"));
            add_frame(&bytes, FIN | TEXT, (struct slice){text, sizeof(text)});
            check(&bytes, false, rows[i].expected);
            buf_fini(&bytes);
        }
}

TEST(the_first_bytes_are_enough)
{
    static const struct slice texts[] = {{"\x83", 1},     {"\x80", 1},
                                         {"\x09", 1},     {"\x91", 1},
                                         {"\x81\x05", 2}, {"\x89\xfe", 2}};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct slice now = texts[i];
        struct ws_frame frame;
        struct ws_frames f;

        ws_frames_init(&f, MESSAGE_MAX, false);
        assert_int_equal(ws_frames_read(&f, &now, NULL, &frame),
                         WS_FRAMES_BROKEN);
        assert_int_equal(frame.code, WS_CLOSE_PROTOCOL);
        assert_int_equal(frame.size, 0);
        assert_int_equal(ws_frames_read(&f, &now, NULL, &frame),
                         WS_FRAMES_MORE);
        assert_int_equal(now.size, 0);
    }
}

TEST(frames_without_a_mask_are_refused)
{
    struct buf bytes;

    buf_init(&bytes, SIZE_MAX);
    BUF_ADD(&bytes, "\x81\x01x");
    check(&bytes, false, "broken 1002 a frame without a mask\n");
    buf_fini(&bytes);
}

TEST(lengths)
{
    static const char minimal[] =
        "broken 1002 a length that is not minimal or has 64 bits\n";
    static const char large[] = "broken 1009 the message is too large\n";

    static const struct {
        uint64_t size;
        enum width width;
        const char *expected;
    } rows[] = {
        {126, IN_16, ""},
        {65535, IN_16, ""},
        {65536, IN_64, ""},
        {0, IN_16, minimal},
        {125, IN_16, minimal},
        {0, IN_64, minimal},
        {65535, IN_64, minimal},
        {UINT64_C(1) << 63, IN_64, minimal},
        {UINT64_MAX, IN_64, minimal},
        {65537, IN_64, large},
        {(UINT64_C(1) << 32) + 1, IN_64, large},
        {INT64_MAX, IN_64, large},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf bytes;

        buf_init(&bytes, SIZE_MAX);
        add_header(&bytes, FIN | TEXT, rows[i].size, rows[i].width, "\0\0\0\0");
        for (uint64_t k = 0; k < 65537 && k < rows[i].size; k++)
            BUF_ADD(&bytes, "a");
        if (*rows[i].expected == '\0')
            add_frame(&bytes, FIN | PING, SLICE("x"));
        check(&bytes, false,
              *rows[i].expected ? rows[i].expected : "ping 0 x\n");
        buf_fini(&bytes);
    }
}

TEST(a_message_has_a_limit_over_its_frames)
{
    static char half[MESSAGE_MAX / 2];
    struct slice text = {half, sizeof(half)};
    struct buf bytes;

    memset(half, 'a', sizeof(half));
    buf_init(&bytes, SIZE_MAX);
    add_frame(&bytes, BINARY, text);
    add_frame(&bytes, CONT, text);
    add_frame(&bytes, FIN | CONT, SLICE(""));
    add_frame(&bytes, FIN | BINARY, text);
    add_frame(&bytes, TEXT, text);
    add_frame(&bytes, CONT, text);
    check(&bytes, false, "");
    add_frame(&bytes, CONT, SLICE("a"));
    check(&bytes, false, "broken 1009 the message is too large\n");
    buf_fini(&bytes);
}

/* Endless empty fragments end. */
TEST(a_message_has_1000_frames_at_most)
{
    struct buf bytes;

    buf_init(&bytes, SIZE_MAX);
    for (int messages = 0; messages < 2; messages++) {
        add_frame(&bytes, TEXT, SLICE(""));
        for (int i = 2; i < WS_FRAMES_MAX; i++)
            add_frame(&bytes, CONT, SLICE(""));
        add_frame(&bytes, FIN | PING, SLICE(""));
        add_frame(&bytes, FIN | CONT, SLICE(""));
    }
    check(&bytes, false, "ping 0 \nping 0 \n");

    bytes.size = 0;
    add_frame(&bytes, TEXT, SLICE(""));
    for (int i = 1; i < WS_FRAMES_MAX; i++)
        add_frame(&bytes, CONT, SLICE(""));
    check(&bytes, false, "");
    add_frame(&bytes, FIN | CONT, SLICE(""));
    check(&bytes, false, "broken 1008 a message of more than 1,000 frames\n");
    buf_fini(&bytes);
}

/* Reads `bytes` `step` at a time, and records the messages. */
static void
read_messages(struct slice bytes, size_t step, struct buf *seen)
{
    struct slice left = bytes;
    struct ws_frames f;
    struct buf rest, text;

    buf_init(&rest, SIZE_MAX);
    buf_init(&text, SIZE_MAX);
    ws_frames_init(&f, MESSAGE_MAX, true);
    while (left.size > 0) {
        size_t size = left.size < step ? left.size : step;
        struct slice now;
        struct ws_frame frame;
        enum ws_frames_next next;

        buf_add(&rest, left.data, size);
        slice_skip(&left, size);
        now = buf_slice(&rest);
        while ((next = ws_frames_read(&f, &now, &text, &frame)) !=
               WS_FRAMES_MORE) {
            buf_add_format(
                seen, "%s%s%s %.*s\n",
                next == WS_FRAMES_MESSAGE ? "message" : "frame",
                next == WS_FRAMES_MESSAGE && !frame.is_text ? " binary" : "",
                next == WS_FRAMES_MESSAGE && frame.is_deflated ? " deflated"
                                                               : "",
                SLICE_ARG(buf_slice(&text)));
            if (next == WS_FRAMES_MESSAGE)
                text.size = 0;
        }
        memmove(rest.data, now.data, now.size);
        rest.size = now.size;
    }
    buf_fini(&rest);
    buf_fini(&text);
}

TEST(keeps_messages_for_those_who_take_them)
{
    static const char expected[] = "message abcde\nmessage binary x\n"
                                   "message \nframe de\nmessage def\n"
                                   "message deflated \xf0\n";
    struct buf bytes;

    buf_init(&bytes, SIZE_MAX);
    add_frame(&bytes, FIN | TEXT, SLICE("abcde"));
    add_frame(&bytes, FIN | BINARY, SLICE("x"));
    add_frame(&bytes, FIN | TEXT, SLICE(""));
    add_frame(&bytes, TEXT, SLICE("de"));
    add_frame(&bytes, FIN | PING, SLICE("p"));
    add_frame(&bytes, CONT, SLICE("f"));
    add_frame(&bytes, FIN | CONT, SLICE(""));
    add_frame(&bytes, FIN | RSV1 | TEXT, SLICE("\xf0"));
    for (size_t step = 1; step < 10; step++) {
        struct buf seen;

        buf_init(&seen, SIZE_MAX);
        read_messages(buf_slice(&bytes), step, &seen);
        if (!slice_is(buf_slice(&seen), expected))
            fail_msg("step %zu: %.*s", step, SLICE_ARG(buf_slice(&seen)));
        buf_fini(&seen);
    }
    buf_fini(&bytes);
}

/* There are 100,000 of them. */
TEST(a_connection_costs_24_bytes)
{
    assert_int_equal(sizeof(struct ws_frames), 24);
}
