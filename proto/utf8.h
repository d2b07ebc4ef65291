/*
 * utf8.h - one character after the other out of bytes nobody vouches for.
 */
#ifndef PROTO_UTF8_H
#define PROTO_UTF8_H

#include <stddef.h>
#include <stdint.h>

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

#endif
