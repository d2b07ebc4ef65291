#include "client/lib/httpdate.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/datetime.h"

int64_t
httpdate_read(const char *text)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
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
