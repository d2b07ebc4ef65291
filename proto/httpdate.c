#include "proto/httpdate.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Not strftime: the names do not depend on the locale. */
static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed",
                                "Thu", "Fri", "Sat"};
static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

void
httpdate_write(char to[HTTPDATE_SIZE], int64_t seconds)
{
    time_t t = (time_t)seconds;
    struct tm tm = {0};

    gmtime_r(&t, &tm);
    snprintf(to, HTTPDATE_SIZE, "%s, %02u %s %04u %02u:%02u:%02u GMT",
             days[tm.tm_wday % 7], (unsigned)tm.tm_mday % 100,
             months[tm.tm_mon % 12], (unsigned)(tm.tm_year + 1900) % 10000,
             (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
             (unsigned)tm.tm_sec % 100);
}

static int
month_of(const char *name)
{
    for (int i = 0; i < 12; i++)
        if (!strcmp(name, months[i]))
            return i;
    return -1;
}

/* A year of two digits that seems more than 50 years ahead is past. */
static int
whole_year(int year)
{
    time_t now = time(NULL);
    struct tm tm = {0};

    gmtime_r(&now, &tm);
    year += (tm.tm_year + 1900) / 100 * 100;
    return year > tm.tm_year + 1900 + 50 ? year - 100 : year;
}

int64_t
httpdate_read(struct slice text)
{
    char copy[64], month[4] = "", back[HTTPDATE_SIZE];
    struct tm tm = {0};
    int year = 0, end = 0, n;
    int64_t seconds;

    if (!text.size || text.size >= sizeof(copy) ||
        memchr(text.data, '\0', text.size))
        return HTTPDATE_NONE;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';

    /* Sun, 06 Nov 1994 08:49:37 GMT */
    n = sscanf(copy, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT%n",
               &tm.tm_mday, month, &year, &tm.tm_hour, &tm.tm_min, &tm.tm_sec,
               &end);
    if (n != 6 || end == 0) {
        /* Sunday, 06-Nov-94 08:49:37 GMT */
        n = sscanf(copy, "%*9[A-Za-z], %2d-%3[A-Za-z]-%2d %2d:%2d:%2d GMT%n",
                   &tm.tm_mday, month, &year, &tm.tm_hour, &tm.tm_min,
                   &tm.tm_sec, &end);
        if (n == 6 && end > 0)
            year = whole_year(year);
    }
    if (n != 6 || end == 0) /* Sun Nov  6 08:49:37 1994 */
        n = sscanf(copy, "%*3[A-Za-z] %3[A-Za-z] %2d %2d:%2d:%2d %4d%n", month,
                   &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &year,
                   &end);
    tm.tm_mon = month_of(month);
    if (n != 6 || (size_t)end != text.size || tm.tm_mon < 0 || year < 1 ||
        tm.tm_sec < 0 || tm.tm_min < 0 || tm.tm_hour < 0)
        return HTTPDATE_NONE;
    tm.tm_year = year - 1900;
    if (tm.tm_sec == 60)
        tm.tm_sec = 59; /* a leap second */

    /* timegm changes dates that do not exist ("31 Nov", "25:00"), in `tm` as
     * well: then the text differs. */
    snprintf(copy, sizeof(copy), "%02u %s %04u %02u:%02u:%02u",
             (unsigned)tm.tm_mday, month, (unsigned)year, (unsigned)tm.tm_hour,
             (unsigned)tm.tm_min, (unsigned)tm.tm_sec);
    seconds = timegm(&tm);
    httpdate_write(back, seconds);
    return strncmp(back + 5, copy, strlen(copy)) ? HTTPDATE_NONE : seconds;
}
