#include "proto/datetime.h"

#include <stdbool.h>
#include <string.h>

#define SECOND_US INT64_C(1000000)
#define DAY_S     INT64_C(86400)

/* 0000-01-01T00:00:00Z and the last microsecond of 9999. */
#define YEAR_0000_US     (INT64_C(-62167219200) * SECOND_US)
#define YEAR_9999_END_US (INT64_C(253402300800) * SECOND_US - 1)

/* XML Schema's limit: no time zone is further from UTC. */
#define OFFSET_MAX_MINUTES 840

/* Days from 1970-01-01 to a date of the Gregorian calendar. Years are counted
 * from March, so that the leap day is the last one, and in eras of 400 years,
 * which all have the same number of days. */
static int64_t
days_of(int year, int month, int day)
{
    int y = month <= 2 ? year - 1 : year;
    int era = (y >= 0 ? y : y - 399) / 400;
    int year_of_era = y - era * 400;
    int day_of_year =
        (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    int day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;

    return (int64_t)era * 146097 + day_of_era - 719468;
}

/* The way back. `days` is not before 0000-01-01. */
static void
date_of(int64_t days, unsigned *year, unsigned *month, unsigned *day)
{
    /* 0000-01-01 lies in the era before: one era is added and taken away. */
    unsigned since = (unsigned)(days + 719468 + 146097);
    unsigned era = since / 146097;
    unsigned day_of_era = since % 146097;
    unsigned year_of_era = (day_of_era - day_of_era / 1460 +
                            day_of_era / 36524 - day_of_era / 146096) /
                           365;
    unsigned day_of_year =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned m = (5 * day_of_year + 2) / 153;

    *day = day_of_year - (153 * m + 2) / 5 + 1;
    *month = m < 10 ? m + 3 : m - 9;
    *year = year_of_era + era * 400 - 400 + (*month <= 2);
}

static void
put(char *to, unsigned number, int digits)
{
    while (digits-- > 0) {
        to[digits] = (char)('0' + number % 10);
        number /= 10;
    }
}

void
datetime_write(char *to, int64_t us)
{
    int64_t since = us - YEAR_0000_US;
    unsigned seconds = (unsigned)(since / SECOND_US % DAY_S);
    unsigned year;
    unsigned month;
    unsigned day;

    date_of(since / SECOND_US / DAY_S + YEAR_0000_US / SECOND_US / DAY_S, &year,
            &month, &day);
    memcpy(to, "0000-00-00T00:00:00.000000Z", DATETIME_SIZE);
    put(to, year, 4);
    put(to + 5, month, 2);
    put(to + 8, day, 2);
    put(to + 11, seconds / 3600, 2);
    put(to + 14, seconds / 60 % 60, 2);
    put(to + 17, seconds % 60, 2);
    put(to + 20, (unsigned)(since % SECOND_US), 6);
}

size_t
datetime_write_short(char *to, int64_t us)
{
    char text[DATETIME_SIZE];
    size_t size = DATETIME_SIZE - 1;

    datetime_write(text, us);
    while (text[size - 1] == '0')
        size--;
    if (text[size - 1] == '.')
        size--;
    else if (size < 20) /* the zeros of the seconds are no decimals */
        size = 19;
    text[size++] = 'Z';
    memcpy(to, text, size);
    return size;
}

/* Reads exactly `digits` digits. */
static bool
take(struct slice *text, int digits, int *number)
{
    int n = 0;

    if (text->size < (size_t)digits)
        return false;
    for (int i = 0; i < digits; i++) {
        unsigned digit = (unsigned char)text->data[i] - '0';

        if (digit > 9)
            return false;
        n = n * 10 + (int)digit;
    }
    text->data += digits;
    text->size -= (size_t)digits;
    *number = n;
    return true;
}

static bool
take_char(struct slice *text, char c)
{
    if (text->size == 0 || text->data[0] != c)
        return false;
    text->data++;
    text->size--;
    return true;
}

/* "Z" or an offset, and nothing after it. */
static bool
take_zone(struct slice *text, int *minutes)
{
    bool is_east;
    int h;
    int m;

    *minutes = 0;
    if (take_char(text, 'Z'))
        return text->size == 0;
    is_east = text->size > 0 && text->data[0] == '+';
    if (!take_char(text, is_east ? '+' : '-') || !take(text, 2, &h) ||
        !take_char(text, ':') || !take(text, 2, &m) || m > 59 ||
        h * 60 + m > OFFSET_MAX_MINUTES)
        return false;
    *minutes = is_east ? h * 60 + m : -(h * 60 + m);
    return text->size == 0;
}

static bool
take_decimals(struct slice *text, int *us)
{
    int scale = 100000;
    bool has_one = false;

    *us = 0;
    while (text->size > 0) {
        unsigned digit = (unsigned char)text->data[0] - '0';

        if (digit > 9)
            break;
        *us += (int)digit * scale;
        scale /= 10;
        has_one = true;
        text->data++;
        text->size--;
    }
    return has_one;
}

static int
days_in_month(int year, int month)
{
    static const char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[month - 1] + (month == 2 && is_leap);
}

static enum status
read_text(struct slice text, bool is_complete, int64_t *us)
{
    int year;
    int month = 1;
    int day = 1;
    int hour = 0;
    int minute = 0;
    int second = 0;
    int decimals = 0;
    int offset = 0;
    int64_t result;

    if (!take(&text, 4, &year))
        return STATUS_INVALID;
    if (text.size == 0 && !is_complete)
        goto out;
    if (!take_char(&text, '-') || !take(&text, 2, &month) || month < 1 ||
        month > 12)
        return STATUS_INVALID;
    if (text.size == 0 && !is_complete)
        goto out;
    if (!take_char(&text, '-') || !take(&text, 2, &day) || day < 1 ||
        day > days_in_month(year, month))
        return STATUS_INVALID;
    if (text.size == 0 && !is_complete)
        goto out;

    if (!take_char(&text, 'T') || !take(&text, 2, &hour) || hour > 23 ||
        !take_char(&text, ':') || !take(&text, 2, &minute) || minute > 59)
        return STATUS_INVALID;
    if (take_char(&text, ':')) {
        if (!take(&text, 2, &second) || second > 59)
            return STATUS_INVALID;
        if (take_char(&text, '.') && !take_decimals(&text, &decimals))
            return STATUS_INVALID;
    } else if (is_complete) {
        return STATUS_INVALID;
    }
    if (!take_zone(&text, &offset))
        return STATUS_INVALID;

out:
    result = ((days_of(year, month, day) * 24 + hour) * 60 + minute - offset) *
                 60 * SECOND_US +
             second * SECOND_US + decimals;
    if (result < YEAR_0000_US || result > YEAR_9999_END_US)
        return STATUS_INVALID;
    *us = result;
    return STATUS_OK;
}

enum status
datetime_read(struct slice text, int64_t *us)
{
    return read_text(text, true, us);
}

enum status
datetime_read_any(struct slice text, int64_t *us)
{
    return read_text(text, false, us);
}
