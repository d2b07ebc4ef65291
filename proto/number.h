/*
 * number.h - decimal numbers without sign, as they stand in headers, URLs and
 * attributes, hexadecimal digits, and LEB128 as it stands in binary forms.
 */
#pragma once

#include "proto/slice.h"

/* Digits of UINT64_MAX. */
#define NUMBER_SIZE_MAX 20

/* Reads 1 to NUMBER_SIZE_MAX digits and nothing else; false if there is
 * anything else, or the number does not fit. */
static inline bool
number_read(struct slice text, uint64_t *number)
{
    uint64_t n = 0;

    if (text.size == 0 || text.size > NUMBER_SIZE_MAX)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        unsigned digit = (unsigned char)text.data[i] - '0';

        if (digit > 9 || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, digit, &n))
            return false;
    }
    *number = n;
    return true;
}

/* The same without zeros in front, so that a number has one text. */
static inline bool
number_read_plain(struct slice text, uint64_t *number)
{
    return number_read(text, number) && (text.size == 1 || text.data[0] != '0');
}

/* As number_read, of any number of digits; a number that does not fit becomes
 * UINT64_MAX. */
static inline bool
number_read_large(struct slice text, uint64_t *number)
{
    bool has_digits = text.size > 0 && slice_is_of(text, "0123456789");

    while (text.size > 1 && text.data[0] == '0')
        slice_skip(&text, 1);
    if (has_digits && !number_read(text, number))
        *number = UINT64_MAX;
    return has_digits;
}

/* Writes at most NUMBER_SIZE_MAX digits, not terminated, and returns how
 * many. */
static inline size_t
number_write(char *to, uint64_t number)
{
    char digits[NUMBER_SIZE_MAX];
    size_t at = sizeof(digits);

    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);

    memcpy(to, digits + at, sizeof(digits) - at);
    return sizeof(digits) - at;
}

/* Returns the value of a hexadecimal digit; 16: it is none. */
static inline unsigned
hex_value(char c)
{
    char lower = (char)(c | 0x20);

    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    return lower >= 'a' && lower <= 'f' ? (unsigned)(lower - 'a') + 10 : 16;
}

/* Reads two digits a byte. False: there are not so many, or it has something
 * else. */
static inline bool
hex_read(struct slice text, uint8_t *bytes, size_t size)
{
    bool is_hex = text.size == 2 * size;

    for (size_t i = 0; is_hex && i < size; i++) {
        unsigned high = hex_value(text.data[2 * i]);
        unsigned low = hex_value(text.data[2 * i + 1]);

        is_hex = high < 16 && low < 16;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return is_hex;
}

/* Writes two lower-case digits a byte, and returns where they end. */
static inline char *
hex_write(char *to, const uint8_t *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < size; i++) {
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
    }
    return to;
}

/* The longest number in LEB128. */
#define LEB128_SIZE_MAX 10

/* Writes a number in LEB128: seven bits a byte, the lowest first, the eighth
 * bit set but in the last byte. Returns how many bytes. */
static inline size_t
leb128_write(char to[LEB128_SIZE_MAX], uint64_t number)
{
    size_t size = 0;

    for (; number > 0x7f; number >>= 7)
        to[size++] = (char)(0x80 | (number & 0x7f));
    to[size++] = (char)number;
    return size;
}

/* Takes a number off the front of `bytes`. False: they end within it, or it is
 * not the shortest form of 64 bits. */
static inline bool
leb128_take(struct slice *bytes, uint64_t *number)
{
    *number = 0;
    for (unsigned shift = 0; bytes->size > 0 && shift < 64; shift += 7) {
        unsigned char c = (unsigned char)bytes->data[0];
        uint64_t part = c & 0x7f;

        slice_skip(bytes, 1);
        if (part << shift >> shift != part || (c == 0 && shift > 0))
            return false;
        *number |= part << shift;
        if (c <= 0x7f)
            return true;
    }
    return false;
}

/* Longest number of seconds: "9223372036854.775807". */
#define SECONDS_SIZE_MAX 20

/* Writes `us` microseconds (not negative) as seconds with as many decimals as
 * they need, and returns the size. */
static inline size_t
seconds_write(char *to, int64_t us)
{
    uint64_t decimals = (uint64_t)us % 1000000;
    size_t size = number_write(to, (uint64_t)us / 1000000);

    if (decimals > 0) {
        to[size++] = '.';
        for (uint64_t unit = 100000; decimals > 0; unit /= 10) {
            to[size++] = (char)('0' + decimals / unit);
            decimals %= unit;
        }
    }
    return size;
}

/* Reads seconds with at most six decimals. */
static inline bool
seconds_read(struct slice text, int64_t *us)
{
    const char *dot = text.size > 0 ? memchr(text.data, '.', text.size) : NULL;
    struct slice whole = text;
    struct slice decimals = {NULL, 0};
    uint64_t seconds;
    uint64_t fraction = 0;

    if (dot) {
        whole.size = (size_t)(dot - text.data);
        decimals = (struct slice){dot + 1, text.size - whole.size - 1};
        if (decimals.size > 6 || !number_read(decimals, &fraction))
            return false;
        for (size_t i = decimals.size; i < 6; i++)
            fraction *= 10;
    }
    if (!number_read(whole, &seconds) || seconds > INT64_MAX / 1000000 - 1)
        return false;
    *us = (int64_t)(seconds * 1000000 + fraction);
    return true;
}
