/*
 * ascii.h - letters and digits of ASCII, whatever the locale is.
 */
#pragma once

#include "proto/c.h"

static inline bool
ascii_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool
ascii_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool
ascii_is_alnum(char c)
{
    return ascii_is_letter(c) || ascii_is_digit(c);
}

/* True if the text has no control character, so that it is one line. */
static inline bool
ascii_is_line(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

/* A capital letter as a small one, and any other character as it is. */
static inline char
ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}
