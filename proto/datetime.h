/*
 * datetime.h - times as text: W3C Datetimes and the dates of HTTP.
 *
 * A W3C Datetime stands for microseconds since 1970-01-01T00:00:00Z. What we
 * write is complete UTC. What we read may have an offset
 * and any number of decimals, of which those after the sixth are cut. Years
 * 0000 to 9999; no leap seconds (":60" is refused); 24:00 is refused.
 */
#pragma once

#include "proto/slice.h"
#include "proto/status.h"

/* "2026-04-01T18:10:00.125000Z" */
#define DATETIME_SIZE 27

/* "2026-04-01", which every time begins with. */
#define DATETIME_DATE_SIZE 10

/* No time at all. */
#define DATETIME_NONE INT64_MIN

/* 0000-01-01T00:00:00Z and the last microsecond of 9999. */
#define DATETIME_FIRST (INT64_C(-62167219200) * 1000000)
#define DATETIME_LAST  (INT64_C(253402300800) * 1000000 - 1)

/* Returns the earlier of two times, as far as they are known. */
static inline int64_t
datetime_earlier(int64_t a, int64_t b)
{
    if (a == DATETIME_NONE || b == DATETIME_NONE)
        return a == DATETIME_NONE ? b : a;
    return a < b ? a : b;
}

/* Writes exactly DATETIME_SIZE bytes, six decimals, not terminated. `us` is
 * between the years 0000 and 9999. */
void datetime_write(char *to, int64_t us);

/* Writes the shortest complete form ("2026-04-01T18:10:00Z", decimals without
 * trailing zeros), at most DATETIME_SIZE bytes, and returns how many. */
size_t datetime_write_short(char *to, int64_t us);

/* The same texts, terminated; "" for DATETIME_NONE. */
struct datetime_text {
    char text[DATETIME_SIZE + 1];
};
struct datetime_text datetime_text(int64_t us);
struct datetime_text datetime_text_short(int64_t us);

/* Reads a complete datetime: date, time with seconds, "Z" or an offset.
 * STATUS_INVALID if it is anything else or names no real moment. */
MUST_CHECK enum status datetime_read(struct slice text, int64_t *us);

/* Reads the shorter forms as well (YYYY, YYYY-MM, YYYY-MM-DD, without seconds),
 * as a Sitemap's lastmod may have them: the first moment they name, in UTC. */
MUST_CHECK enum status datetime_read_any(struct slice text, int64_t *us);

/* The time that datetime_read_any reads; DATETIME_NONE: it is none. */
int64_t datetime_of(struct slice text);

/* Reads a time that is no W3C Datetime, but clear: without a zone (UTC), with a
 * blank for the "T" or before the zone, "+0200", "UTC", 2026/04/01, 20260401,
 * and dates of mail (RFC 5322). `is_date`: it has no time of day. */
MUST_CHECK enum status datetime_read_loose(struct slice text, int64_t *us,
                                           bool *is_date);

/* True if a text that datetime_read_any has read has no time of day. */
static inline bool
datetime_is_date(struct slice text)
{
    return text.size <= DATETIME_DATE_SIZE;
}

/* The dates of HTTP's headers (RFC 9110 section 5.6.7) */

/* "Fri, 20 Nov 2026 10:52:08 GMT" and a NUL. */
#define HTTPDATE_SIZE 30

/* Writes seconds since 1970, of the years 0000 to 9999. */
void httpdate_write(char to[HTTPDATE_SIZE], int64_t seconds);

/* Reads any of the three forms, as seconds since 1970; DATETIME_NONE: it is
 * none of them. A year of two digits depends on the present year: only for that
 * it reads the clock. */
int64_t httpdate_read(struct slice text);
