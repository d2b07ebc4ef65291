#include "proto/datetime.h"

#include <time.h>

#define SECOND_US INT64_C(1000000)
#define DAY_S     INT64_C(86400)

/* Without decimals. */
#define WHOLE_SECOND_SIZE (sizeof("0000-00-00T00:00:00Z") - 1)

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

static inline void
put_number(char *to, unsigned number)
{
    to[0] = (char)('0' + number / 10);
    to[1] = (char)('0' + number % 10);
}

/* Writes "2026-04-01T18:10:00Z", the size of WHOLE_SECOND_SIZE, and returns the
 * microseconds of the second. */
static unsigned
write_second(char *to, int64_t us)
{
    uint64_t since = (uint64_t)(us - DATETIME_FIRST);
    unsigned seconds = (unsigned)(since / SECOND_US % DAY_S);
    /* The way back from days_of: 0000-01-01 lies in the era before. One era,
     * less the 60 days up to March, is added, and the era is taken away again.
     */
    unsigned days = (unsigned)(since / SECOND_US / DAY_S) + 146097 - 60;
    unsigned era = days / 146097;
    unsigned day_of_era = days % 146097;
    unsigned year_of_era = (day_of_era - day_of_era / 1460 +
                            day_of_era / 36524 - day_of_era / 146096) /
                           365;
    unsigned day_of_year =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned m = (5 * day_of_year + 2) / 153;
    unsigned month = m < 10 ? m + 3 : m - 9;
    unsigned year = year_of_era + era * 400 - 400 + (month <= 2);

    memcpy(to, "0000-00-00T00:00:00Z", WHOLE_SECOND_SIZE);
    put_number(to, year / 100);
    put_number(to + 2, year % 100);
    put_number(to + 5, month);
    put_number(to + 8, day_of_year - (153 * m + 2) / 5 + 1);
    put_number(to + 11, seconds / 3600);
    put_number(to + 14, seconds / 60 % 60);
    put_number(to + 17, seconds % 60);
    return (unsigned)(since % SECOND_US);
}

void
datetime_write(char *to, int64_t us)
{
    unsigned decimals = write_second(to, us);

    memcpy(to + WHOLE_SECOND_SIZE - 1, ".000000Z", 8);
    put_number(to + 20, decimals / 10000);
    put_number(to + 22, decimals / 100 % 100);
    put_number(to + 24, decimals % 100);
}

size_t
datetime_write_short(char *to, int64_t us)
{
    char text[DATETIME_SIZE];
    size_t size = DATETIME_SIZE - 1;

    if (us % SECOND_US == 0) {
        write_second(to, us);
        return WHOLE_SECOND_SIZE;
    }
    datetime_write(text, us);
    while (text[size - 1] == '0')
        size--;
    text[size++] = 'Z';
    memcpy(to, text, size);
    return size;
}

struct datetime_text
datetime_text(int64_t us)
{
    struct datetime_text time = {""};

    if (us != DATETIME_NONE)
        datetime_write(time.text, us);
    return time;
}

struct datetime_text
datetime_text_short(int64_t us)
{
    struct datetime_text time = {""};

    if (us != DATETIME_NONE)
        (void)datetime_write_short(time.text, us);
    return time;
}

/* The number that two digits make; -1 if they are none. */
static inline int
two_digits(const char *p)
{
    unsigned tens = (unsigned char)p[0] - '0';
    unsigned ones = (unsigned char)p[1] - '0';

    return tens > 9 || ones > 9 ? -1 : (int)(tens * 10 + ones);
}

/* Sets the offset that a sign, two digits behind it, and two digits at `rest`
 * (NULL: none) make. */
static bool
set_offset(const char *sign, const char *rest, int *minutes)
{
    int h = two_digits(sign + 1), m = rest ? two_digits(rest) : 0;

    *minutes = *sign == '-' ? -(h * 60 + m) : h * 60 + m;
    return h >= 0 && m >= 0 && m <= 59 && h * 60 + m <= OFFSET_MAX_MINUTES;
}

/* "Z" or an offset, and nothing after it. */
static bool
read_zone(const char *p, size_t size, int *minutes)
{
    *minutes = 0;
    if (size == 1)
        return *p == 'Z';
    if (size != 6 || (*p != '+' && *p != '-') || p[3] != ':')
        return false;
    return set_offset(p, p + 4, minutes);
}

/* The microseconds of a fraction; `*size` is where it ends, 0 if there is no
 * digit. */
static int
read_decimals(const char *p, size_t *size)
{
    size_t n = 0;
    int scale = 100000;
    int us = 0;

    for (; n < *size; n++) {
        unsigned digit = (unsigned char)p[n] - '0';

        if (digit > 9)
            break;
        us += (int)digit * scale;
        scale /= 10;
    }
    *size = n;
    return us;
}

static int
days_in_month(int year, int month)
{
    static const char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[month - 1] + (month == 2 && is_leap);
}

/* Reads "Thh:mm" and the rest: the microseconds since the day began in UTC. */
static bool
read_time(const char *p, size_t size, bool is_complete, int64_t *us)
{
    int hour = two_digits(p + 1);
    int minute = two_digits(p + 4);
    int second = 0;
    int decimals = 0;
    int offset;

    if (p[0] != 'T' || p[3] != ':' || hour < 0 || hour > 23 || minute < 0 ||
        minute > 59)
        return false;
    p += 6;
    size -= 6;
    if (p[0] == ':' && size > 3) {
        second = two_digits(p + 1);
        if (second < 0 || second > 59)
            return false;
        p += 3;
        size -= 3;
        if (p[0] == '.') {
            size_t digits = size - 1;

            decimals = read_decimals(p + 1, &digits);
            if (digits == 0)
                return false;
            p += 1 + digits;
            size -= 1 + digits;
        }
    } else if (is_complete) {
        return false;
    }
    if (size == 0 || !read_zone(p, size, &offset))
        return false;
    *us = ((hour * 60 + minute - offset) * INT64_C(60) + second) * SECOND_US +
          decimals;
    return true;
}

/* The forms differ in their size: YYYY, YYYY-MM, YYYY-MM-DD, and those
 * with a time, of which "YYYY-MM-DDThh:mmZ" is the shortest. */
static enum status
read_text(struct slice text, bool is_complete, int64_t *us)
{
    const char *p = text.data;
    size_t size = text.size;
    int64_t time = 0;
    int64_t result;
    int century;
    int year;
    int month = 1;
    int day = 1;

    if (size < 17 && (is_complete || (size != 4 && size != 7 && size != 10)))
        return STATUS_INVALID;
    century = two_digits(p);
    year = two_digits(p + 2);
    if (size > 4)
        month = p[4] == '-' ? two_digits(p + 5) : -1;
    if (size > 7)
        day = p[7] == '-' ? two_digits(p + 8) : -1;
    if (century < 0 || year < 0 || month < 1 || month > 12 || day < 1)
        return STATUS_INVALID;
    year += century * 100;
    if (day > days_in_month(year, month))
        return STATUS_INVALID;
    if (size > 10 && !read_time(p + 10, size - 10, is_complete, &time))
        return STATUS_INVALID;

    result = days_of(year, month, day) * DAY_S * SECOND_US + time;
    if (result < DATETIME_FIRST || result > DATETIME_LAST)
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

int64_t
datetime_of(struct slice text)
{
    int64_t us;

    return datetime_read_any(text, &us) ? DATETIME_NONE : us;
}

/* Dates of HTTP */

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

/* Returns the month, from 1, whose name begins with the same three letters; 0:
 * there is none. */
static int
month_of(const char *name)
{
    for (int i = 0; i < 12; i++)
        if (!strncasecmp(name, months[i], 3))
            return i + 1;
    return 0;
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
    /* Sun, 06 Nov 1994 08:49:37 GMT
     * Sunday, 06-Nov-94 08:49:37 GMT
     * Sun Nov  6 08:49:37 1994 */
    static const char *const forms[] = {
        "%*3[A-Za-z], %1$2d %2$3[A-Za-z] %3$4d %4$2d:%5$2d:%6$2d GMT%7$n",
        "%*9[A-Za-z], %1$2d-%2$3[A-Za-z]-%3$2d %4$2d:%5$2d:%6$2d GMT%7$n",
        "%*3[A-Za-z] %2$3[A-Za-z] %1$2d %4$2d:%5$2d:%6$2d %3$4d%7$n"};

    char copy[64], month[4] = "", back[HTTPDATE_SIZE];
    struct tm tm = {0};
    int year = 0, end = 0, n = 0;
    int64_t seconds;

    /* Callers ask of fields that are absent, too, with each answer and
     * request: three calls of sscanf cost more than the rest of its head. */
    if (text.size == 0 || !slice_copy(copy, sizeof(copy), text))
        return DATETIME_NONE;
    for (size_t i = 0; (n != 6 || end == 0) && i < N_ELEMENTS(forms); i++) {
        n = sscanf(copy, forms[i], &tm.tm_mday, month, &year, &tm.tm_hour,
                   &tm.tm_min, &tm.tm_sec, &end);
        if (i == 1 && n == 6 && end > 0)
            year = whole_year(year);
    }
    tm.tm_mon = month_of(month) - 1;
    if (n != 6 || (size_t)end != text.size || tm.tm_mon < 0 || year < 1 ||
        tm.tm_sec < 0 || tm.tm_min < 0 || tm.tm_hour < 0)
        return DATETIME_NONE;
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
    return strncmp(back + 5, copy, strlen(copy)) ? DATETIME_NONE : seconds;
}

/* Times as people write them */

/* "2026-04-01", also with other marks between, or without; or a date of mail,
 * "02 Nov 2026", perhaps after "Mon, ". Sets `end` to the size, 0: it is none.
 */
static void
read_date(const char *text, int *year, int *month, int *day, int *end)
{
    static const char *const forms[] = {"%4d-%2d-%2d%n", "%4d/%2d/%2d%n",
                                        "%4d.%2d.%2d%n", "%4d%2d%2d%n"};

    const char *p = text + strspn(text, "MTWFSabdehinortuy");
    char name[16] = "";

    *end = 0;
    if (strspn(text, "0123456789") < 4) {
        p = *p == ',' ? p + 1 : text;
        p += strspn(p, " ");
        if (sscanf(p, "%2d%*1[ -]%15[A-Za-z]%*1[ -]%4d%n", day, name, year,
                   end) != 3 ||
            *end == 0)
            return;
        if (*year < 100)
            *year = whole_year(*year);
        *month = month_of(name);
        *end = *month > 0 ? *end + (int)(p - text) : 0;
        return;
    }
    for (size_t i = 0; *end == 0 && i < 4; i++)
        if (sscanf(text, forms[i], year, month, day, end) != 3)
            *end = 0;
}

/* Minutes east of UTC of "Z", "UTC", "+02:00", "+0200", "+02", "EST", or of
 * nothing; false: it is none. */
static bool
read_loose_zone(const char *text, int *minutes)
{
    static const struct zone {
        const char *name;
        int hours;
    } zones[] = {{"", 0},     {"Z", 0},    {"UTC", 0},  {"GMT", 0},
                 {"UT", 0},   {"EST", -5}, {"EDT", -4}, {"CST", -6},
                 {"CDT", -5}, {"MST", -7}, {"MDT", -6}, {"PST", -8},
                 {"PDT", -7}};

    size_t size = strcspn(text, " ("); /* "+0000 (UTC)" */

    for (size_t i = 0; i < N_ELEMENTS(zones); i++) {
        *minutes = zones[i].hours * 60;
        if (slice_is_word((struct slice){text, size}, zones[i].name))
            return true;
    }
    if ((*text != '+' && *text != '-') || size < 3)
        return false;
    if (size > 6 || size == 4 || (size == 6 && text[3] != ':'))
        return false;
    return set_offset(text, size == 3 ? NULL : text + size - 2, minutes);
}

enum status
datetime_read_loose(struct slice text, int64_t *us, bool *is_date)
{
    char copy[64], whole[64];
    const char *p = copy;
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
    int end = 0, offset = 0, n;
    int decimals = 0;
    enum status rc;

    if (!slice_copy(copy, sizeof(copy), text))
        return STATUS_INVALID;
    read_date(p, &year, &month, &day, &end);
    if (end == 0)
        return STATUS_INVALID;
    p += end;
    *is_date = *p == '\0';
    p += strspn(p, "Tt ");
    end = 0;
    if (!*is_date &&
        (sscanf(p, "%2d:%2d%n", &hour, &minute, &end) != 2 || end == 0))
        return STATUS_INVALID;
    p += end;
    end = 0;
    if (sscanf(p, ":%2d%n", &second, &end) == 1)
        p += end;
    if (*p == '.' || *p == ',') {
        size_t digits = strspn(++p, "0123456789");

        decimals = read_decimals(p, &digits);
        p += digits;
    }
    if (!read_loose_zone(p + strspn(p, " "), &offset))
        return STATUS_INVALID;
    n = snprintf(whole, sizeof(whole), "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ",
                 year, month, day, hour, minute, second, decimals);
    rc = datetime_read((struct slice){whole, (size_t)n}, us);
    if (!rc)
        *us -= offset * 60 * SECOND_US;
    return !rc && (*us < DATETIME_FIRST || *us > DATETIME_LAST) ? STATUS_INVALID
                                                                : rc;
}
