#include "broker/base/diag.h"

#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/relaxed.h"
#include "broker/base/metrics.h"
#include "proto/shown_address.h"

/* Room for a sentence before it is escaped: a longer one is cut in its line. */
#define MSG_MAX (DIAG_LINE_MAX + 8)

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
    store_relaxed(&loudest, (int)level);
}

static bool
is_written(enum diag_level level)
{
    return (int)level <= load_relaxed(&loudest);
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

/* True if the place may write a line. *suppressed: lines that it could not
 * write. */
static bool
may_speak(enum diag_level level, const char *part, const char *msg,
          uint64_t *suppressed)
{
    int64_t now_us = clock_steady_us();
    struct place *p = places;
    bool may;

    *suppressed = 0;
    if (is_written(DIAG_DEBUG))
        return true;
    pthread_mutex_lock(&mutex);
    /* Compares literals by address: a place always has the same ones. */
    while (p < places + PLACES_MAX - 1 && p->msg &&
           !(p->msg == msg && p->part == part && p->level == level))
        p++;
    if (!p->msg)
        *p = (struct place){.msg = msg, .part = part, .level = level};
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

/* The request that this thread works for; size 0: none. */
static _Thread_local struct slice request;

void
diag_begin_request(struct slice id)
{
    request = id;
}

void
diag_end_request(void)
{
    request.size = 0;
}

static void
write_line(enum diag_level level, const char *part, const char *msg,
           const struct diag_key *keys, uint64_t suppressed)
{
    int saved = errno;
    char shown[LOG_LINE_MAX];
    struct log_line line;
    struct slice bytes;

    log_line_begin(&line, clock_now_us());
    log_line_text(&line, "level", slice_of(names[level]));
    log_line_text(&line, "part", slice_of(part));
    log_line_sentence(&line, "msg", slice_of(msg));
    for (; keys && keys->name; keys++)
        if (keys->text) {
            snprintf(shown, sizeof(shown), "%s", keys->text);
            log_line_text(&line, keys->name, slice_of(shown_address(shown)));
        } else {
            log_line_number(&line, keys->name, keys->number);
        }
    if (request.size)
        log_line_text(&line, "request", request);
    if (suppressed)
        log_line_last(&line, "suppressed", suppressed);
    bytes = log_line_end(&line);

    /* One write, so that lines of several threads do not mix. A failure cannot
     * be reported anywhere. */
    (void)!write(STDERR_FILENO, bytes.data, bytes.size);
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
