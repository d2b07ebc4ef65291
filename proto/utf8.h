/*
 * utf8.h - one character after the other out of bytes nobody vouches for.
 */
#pragma once

#include "proto/slice.h"

/* Reads the character at `text`, of which `size` bytes (at least one) are
 * there, and returns how many bytes it takes: 1 to 4; 0 if no valid character
 * begins there (stray or missing bytes, overlong forms, surrogates, beyond
 * U+10FFFF). */
static inline size_t
utf8_read(const char *text, size_t size, uint32_t *character)
{
    const unsigned char *p = (const unsigned char *)text;
    /* The smallest character that needs as many bytes. */
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n;
    uint32_t c;

    if (p[0] < 0x80) {
        *character = p[0];
        return 1;
    }

    n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n > size)
        return 0;

    c = p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;

    *character = c;
    return n;
}

/* True if a text is valid UTF-8 of good characters; NULL: all are. */
static inline bool
utf8_is_text(struct slice text, bool is_good(uint32_t c))
{
    while (text.size > 0) {
        uint32_t c;
        size_t n = utf8_read(text.data, text.size, &c);

        if (n == 0 || (is_good && !is_good(c)))
            return false;
        slice_skip(&text, n);
    }
    return true;
}

/* C0, DEL and C1: orders to a terminal. */
static inline bool
utf8_is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* True if XML can carry a character that utf8_read has read (XML 1.0, 2.2). */
static inline bool
utf8_is_xml(uint32_t c)
{
    return c >= 0x20 ? c != 0xfffe && c != 0xffff
                     : c == '\t' || c == '\n' || c == '\r';
}

/* True if a text is valid UTF-8 of characters that XML can carry. */
static inline bool
utf8_is_xml_text(struct slice text)
{
    return utf8_is_text(text, utf8_is_xml);
}

#define UTF8_SIZE_MAX 4

/* Writes a character, which is none of a surrogate pair, as up to UTF8_SIZE_MAX
 * bytes; returns how many. */
static inline size_t
utf8_write(char *to, uint32_t c)
{
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    for (size_t i = n; i-- > 1; c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(n == 1 ? c : (0xf00u >> n & 0xf0) | c);
    return n;
}

/* A place in a text that arrives in pieces; all 0: at the beginning. */
struct utf8_place {
    uint8_t n_missing; /* bytes to come of the character */
    uint8_t low, high; /* what the next of them may be */
};

/* Moves the place behind `byte`. False: no valid text has that byte there. A
 * text may end where n_missing is 0. */
static inline bool
utf8_advance(struct utf8_place *place, unsigned char byte)
{
    if (place->n_missing > 0) {
        bool is_good = byte >= place->low && byte <= place->high;

        *place = (struct utf8_place){place->n_missing - 1, 0x80, 0xbf};
        return is_good;
    }
    if (byte < 0x80)
        return true;
    /* The second byte shows overlong forms, surrogates and numbers beyond
     * U+10FFFF. */
    *place = (struct utf8_place){
        .n_missing = byte >= 0xf0   ? 3
                     : byte >= 0xe0 ? 2
                                    : 1,
        .low = byte == 0xe0   ? 0xa0
               : byte == 0xf0 ? 0x90
                              : 0x80,
        .high = byte == 0xed   ? 0x9f
                : byte == 0xf4 ? 0x8f
                               : 0xbf,
    };
    return byte >= 0xc2 && byte <= 0xf4;
}

/* The byte order mark before a document in UTF-8. It says nothing, but some
 * systems do not write UTF-8 without it. XML allows it (appendix F); before
 * JSON it may be passed over (RFC 8259 section 8.1). */
#define BYTE_ORDER_MARK "\xef\xbb\xbf"
#define BOM_SIZE        3

/* Takes what there is of a mark off the beginning of a document, of which
 * `bytes` comes next. `*seen` is 0 at first, and BOM_SIZE once the document
 * goes on; false: it begins with a part of a mark and something else. */
static inline bool
bom_skip(unsigned *seen, struct slice *bytes)
{
    static const char mark[] = BYTE_ORDER_MARK;

    while (*seen < BOM_SIZE && bytes->size > 0) {
        if (bytes->data[0] != mark[*seen]) {
            bool is_whole = *seen == 0;

            *seen = BOM_SIZE;
            return is_whole;
        }
        ++*seen;
        slice_skip(bytes, 1);
    }
    return true;
}
