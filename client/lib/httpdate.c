#include "client/lib/httpdate.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/datetime.h"

/* Not strftime: the names do not depend on the locale. */
static const char days[] = "SunMonTueWedThuFriSat";
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

void
httpdate_write(char to[HTTPDATE_SIZE], int64_t seconds)
{
    time_t t = (time_t)seconds;
    struct tm tm = {0};

    gmtime_r(&t, &tm);
    snprintf(to, HTTPDATE_SIZE, "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
             days + tm.tm_wday % 7 * 3, (unsigned)tm.tm_mday % 100,
             months + tm.tm_mon % 12 * 3, (unsigned)(tm.tm_year + 1900) % 10000,
             (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
             (unsigned)tm.tm_sec % 100);
}

int64_t
httpdate_read(const char *text)
{
    struct tm tm = {.tm_isdst = 0};
    char month[4] = "";
    const char *at;

    if (!text ||
        sscanf(text, "%*3s, %2d %3s %4d %2d:%2d:%2d GMT", &tm.tm_mday, month,
               &tm.tm_year, &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6 ||
        strlen(month) != 3 || !(at = strstr(months, month)) ||
        (at - months) % 3 != 0 || tm.tm_year < 1970)
        return DATETIME_NONE;
    tm.tm_mon = (int)(at - months) / 3;
    tm.tm_year -= 1900;
    return (int64_t)timegm(&tm) * 1000000;
}
