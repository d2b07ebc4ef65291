#include "broker/base/diag.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/base/metrics.h"
#include "proto/datetime.h"
#include "proto/utf8.h"

/* Room for a sentence before it is escaped: a longer one is cut in its line. */
#define MSG_MAX (DIAG_LINE_MAX + 8)

/* Kept free at a line's end for " suppressed=18446744073709551615". */
#define TAIL_SIZE 32

/* "2026-11-20T07:43:00.123": datetime_write's six decimals, cut to three. */
#define TIME_SIZE 23

#define MINUTE_US 60000000

/* The most places that are distinguished; there are some dozens. When the table
 * is full all others share the last one. */
#define PLACES_MAX 128

/* Relaxed: a line written at the moment of a change may go out or not. */
static atomic_int loudest = DIAG_INFO;

static const char *const names[] = {"error", "warning", "info", "debug"};

void
diag_set_level(enum diag_level level)
{
    atomic_store_explicit(&loudest, (int)level, memory_order_relaxed);
}

static bool
is_written(enum diag_level level)
{
    return (int)level <= atomic_load_explicit(&loudest, memory_order_relaxed);
}

enum status
diag_level_of(struct slice name, enum diag_level *level)
{
    for (int i = DIAG_ERROR; i <= DIAG_DEBUG; i++)
        if (slice_is(name, names[i])) {
            *level = (enum diag_level)i;
            return STATUS_OK;
        }
    return STATUS_INVALID;
}

/* Limiting lines */

struct place {
    const char *msg; /* NULL: unused */
    const char *part;
    enum diag_level level;
    int64_t minute_us; /* the beginning of its minute */
    unsigned n;        /* lines in that minute */
    uint64_t suppressed;
};

/* Held for a look at the table; the line is written outside. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct place places[PLACES_MAX];

/* Call with the mutex held. Compares literals by address: a place always has
 * the same ones. */
static struct place *
place_of(enum diag_level level, const char *part, const char *msg)
{
    size_t i = 0;

    while (i < PLACES_MAX - 1 && places[i].msg &&
           !(places[i].msg == msg && places[i].part == part &&
             places[i].level == level))
        i++;
    if (!places[i].msg) {
        places[i].msg = msg;
        places[i].part = part;
        places[i].level = level;
    }
    return &places[i];
}

/* True if the place may write a line. *suppressed: lines that it could not
 * write. */
static bool
may_speak(enum diag_level level, const char *part, const char *msg,
          uint64_t *suppressed)
{
    int64_t now_us = clock_steady_us();
    struct place *p;
    bool may;

    *suppressed = 0;
    if (is_written(DIAG_DEBUG))
        return true;
    pthread_mutex_lock(&mutex);
    p = place_of(level, part, msg);
    if (p->n == 0 || now_us - p->minute_us >= MINUTE_US) {
        p->minute_us = now_us;
        p->n = 0;
    }
    may = p->n < DIAG_BURST;
    if (may) {
        p->n++;
        *suppressed = p->suppressed;
        p->suppressed = 0;
    } else {
        p->suppressed++;
    }
    pthread_mutex_unlock(&mutex);
    if (!may)
        metrics_add_label(METRIC_DIAGNOSTICS_SUPPRESSED, level, 1);
    return may;
}

/* Lines */

struct line {
    size_t size;
    char text[DIAG_LINE_MAX + 1];
};

static void
add_bytes(struct line *line, const char *bytes, size_t size)
{
    memcpy(line->text + line->size, bytes, size);
    line->size += size;
}

static bool
is_plain(const char *text)
{
    if (!*text)
        return false;
    for (; *text; text++)
        if (*text <= ' ' || *text >= 0x7f || strchr("\"=\\", *text))
            return false;
    return true;
}

/* True if the character must be escaped: controls (C0, DEL, C1), line and
 * paragraph separators, and characters that change the direction of text. */
static bool
is_unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

/* Room for one character: "\\u2028", or four bytes. */
#define ESCAPE_SIZE 16

/* Writes the next character of `text`, escaped for quotes, and returns how many
 * bytes of `text` it takes. */
static size_t
escape_text(const char *text, size_t size, char to[ESCAPE_SIZE])
{
    uint32_t c = 0;
    size_t n = utf8_read(text, size, &c);

    if (n == 0) {
        memcpy(to, "\xef\xbf\xbd", 4);
        return 1;
    }
    if (c == '"' || c == '\\')
        snprintf(to, ESCAPE_SIZE, "\\%c", (int)c);
    else if (c == '\n')
        memcpy(to, "\\n", 3);
    else if (is_unsafe(c))
        snprintf(to, ESCAPE_SIZE, "\\u%04x", (unsigned)c);
    else
        snprintf(to, ESCAPE_SIZE, "%.*s", (int)n, text);
    return n;
}

static void
add_quoted(struct line *line, const char *text)
{
    static const char cut[] = "...\"";
    size_t end = DIAG_LINE_MAX - TAIL_SIZE - (sizeof(cut) - 1);
    size_t left = strlen(text);

    add_bytes(line, "\"", 1);
    while (left > 0) {
        char c[ESCAPE_SIZE];
        size_t n = escape_text(text, left, c);

        if (line->size + strlen(c) > end) {
            add_bytes(line, cut, sizeof(cut) - 1);
            return;
        }
        add_bytes(line, c, strlen(c));
        text += n;
        left -= n;
    }
    add_bytes(line, "\"", 1);
}

/* Adds " name=value", unless there is no room for its beginning. */
static void
add_key(struct line *line, const struct diag_key *key)
{
    size_t room = DIAG_LINE_MAX - TAIL_SIZE - line->size;
    char number[24];
    const char *text = key->text;
    size_t name_size = strlen(key->name);

    if (!text) {
        snprintf(number, sizeof(number), "%" PRIu64, key->number);
        text = number;
    }
    if (room < name_size + 40)
        return;
    add_bytes(line, " ", 1);
    add_bytes(line, key->name, name_size);
    add_bytes(line, "=", 1);
    if (is_plain(text) && strlen(text) <= room - name_size - 2)
        add_bytes(line, text, strlen(text));
    else
        add_quoted(line, text);
}

static void
write_line(enum diag_level level, const char *part, const char *msg,
           const struct diag_key *keys, uint64_t suppressed)
{
    int saved = errno;
    struct line line;
    char now[DATETIME_SIZE];
    ssize_t written;

    datetime_write(now, clock_now_us());
    line.size =
        (size_t)snprintf(line.text, sizeof(line.text),
                         "time=%.*sZ level=%s part=%.32s msg=", TIME_SIZE, now,
                         names[level], part);
    add_quoted(&line, msg);
    for (; keys && keys->name; keys++)
        add_key(&line, keys);
    if (suppressed)
        line.size += (size_t)snprintf(line.text + line.size, TAIL_SIZE + 1,
                                      " suppressed=%" PRIu64, suppressed);
    line.text[line.size++] = '\n';

    /* One write, so that lines of several threads do not mix. A failure cannot
     * be reported anywhere. */
    written = write(STDERR_FILENO, line.text, line.size);
    (void)written;
    metrics_add_label(METRIC_DIAGNOSTICS, level, 1);
    errno = saved;
}

void
diag(enum diag_level level, const char *part, const char *format, ...)
{
    int saved = errno;
    uint64_t suppressed;
    char msg[MSG_MAX];
    va_list args;

    if (!is_written(level) || !may_speak(level, part, format, &suppressed))
        return;
    va_start(args, format);
    vsnprintf(msg, sizeof(msg), format, args);
    va_end(args);
    write_line(level, part, msg, NULL, suppressed);
    errno = saved;
}

void
diag_keys(enum diag_level level, const char *part, const char *msg,
          const struct diag_key *keys)
{
    uint64_t suppressed;

    if (is_written(level) && may_speak(level, part, msg, &suppressed))
        write_line(level, part, msg, keys, suppressed);
}

void
diag_report(enum diag_level level, const char *part, const char *msg,
            const struct diag_key *keys)
{
    if (is_written(level))
        write_line(level, part, msg, keys, 0);
}

void
diag_end(void)
{
    for (size_t i = 0; i < PLACES_MAX; i++) {
        struct place p;

        pthread_mutex_lock(&mutex);
        p = places[i];
        places[i].n = 0;
        places[i].suppressed = 0;
        pthread_mutex_unlock(&mutex);
        if (p.suppressed)
            write_line(
                p.level, p.part, "lines were left out",
                (const struct diag_key[]){diag_text("of", p.msg), {NULL}},
                p.suppressed);
    }
}
