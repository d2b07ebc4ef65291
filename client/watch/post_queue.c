/*
 * post_queue.c - turns changes into posts.
 */
#include "client/watch/post_queue.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/random.h"

#define PAUSE_FIRST_US 500000
#define PAUSE_MAX_US   60000000

/* Longest pause that a broker may ask for. */
#define PAUSE_ASKED_MAX_S 3600

#define EPOCH_MAX 64

/* Gathering */

/* Writes the time as W3C Datetime; omits years without four digits. */
static void
put_lastmod(FILE *to, int64_t ns)
{
    int64_t us = ns / 1000 - (ns % 1000 < 0);
    int64_t fraction = us % 1000000;
    time_t s;
    struct tm tm;

    if (fraction < 0)
        fraction += 1000000;
    s = (time_t)((us - fraction) / 1000000);
    if (!gmtime_r(&s, &tm) || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900)
        return;
    fprintf(to, ",\"lastmod\":\"%04d-%02d-%02dT%02d:%02d:%02d.%06dZ\"",
            tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
            tm.tm_sec, (int)fraction);
}

/* {"loc":"...","change":"created","lastmod":"...","hash":{"sha-256":"..."},
 * "length":3,"type":"text/csv"}
 *
 * Nothing here needs escapes: a loc is percent-encoded, a type is checked. */
static void
put_entry(FILE *to, const char *change, const char *loc,
          const struct filemark *mark, const char *type)
{
    fprintf(to, "{\"loc\":\"%s\",\"change\":\"%s\"", loc, change);
    if (mark) {
        put_lastmod(to, mark->mtime_ns);
        fputs(",\"hash\":{\"sha-256\":\"", to);
        for (size_t i = 0; i < sizeof(mark->sha256); i++)
            fprintf(to, "%02x", mark->sha256[i]);
        fprintf(to, "\"},\"length\":%lld", (long long)mark->size);
        if (type)
            fprintf(to, ",\"type\":\"%s\"", type);
    }
    fputc('}', to);
}

bool
post_queue_add(struct post_queue *outbox, const char *change, const char *path,
               const char *loc, const struct filemark *mark, const char *type)
{
    if (!outbox->to) {
        outbox->to = open_memstream(&outbox->body, &outbox->size);
        outbox->begun_ms = clock_steady_ms();
    }
    if (!outbox->to) {
        problem_memory(outbox->why);
        return false;
    }
    fputs(outbox->n_entries ? ",\n" : "[", outbox->to);
    put_entry(outbox->to, change, loc, mark, type);
    outbox->n_entries++;
    outbox->n_deleted += !mark;
    if (watch_db_add(outbox->database, path, mark))
        return true;
    problem(outbox->why, STATUS_IO, "%s", watch_db_trouble(outbox->database));
    return false;
}

bool
post_queue_is_empty(const struct post_queue *outbox)
{
    return !outbox->n_entries;
}

bool
post_queue_is_due(const struct post_queue *outbox)
{
    return outbox->n_entries &&
           (outbox->n_entries >= outbox->n_entries_max ||
            ftell(outbox->to) >= POST_QUEUE_BYTES_MAX ||
            clock_steady_ms() - outbox->begun_ms >= POST_QUEUE_AGE_MS);
}

static void
forget_post(struct post_queue *outbox)
{
    if (outbox->to)
        fclose(outbox->to);
    outbox->to = NULL;
    free(outbox->body);
    outbox->body = NULL;
    outbox->n_entries = 0;
    outbox->n_deleted = 0;
}

void
post_queue_undo(struct post_queue *outbox)
{
    forget_post(outbox);
    if (outbox->database)
        watch_db_undo(outbox->database);
}

bool
post_queue_seal(struct post_queue *outbox)
{
    bool is_good;

    fputs("]\n", outbox->to);
    is_good = !ferror(outbox->to);
    is_good = !fclose(outbox->to) && is_good;
    outbox->to = NULL;
    if (!is_good)
        problem_memory(outbox->why);
    else if (!watch_db_seal(outbox->database, outbox->body, outbox->size,
                            outbox->n_entries)) {
        is_good = false;
        problem(outbox->why, STATUS_IO, "%s",
                watch_db_trouble(outbox->database));
    }
    forget_post(outbox);
    return is_good;
}

/* Posting */

static enum post_queue_result
fail_post(struct post_queue *outbox)
{
    problem(outbox->why, STATUS_IO, "%s", watch_db_trouble(outbox->database));
    return POST_QUEUE_FAILED;
}

/* The broker has the post on its disk; the database records that. */
static enum post_queue_result
note_posted(struct post_queue *outbox, const struct watch_db_post *post,
            const struct td_receipt *receipt)
{
    char epoch[EPOCH_MAX + 1];
    bool is_new_log;

    snprintf(epoch, sizeof(epoch), "%.*s", (int)strcspn(receipt->position, "-"),
             receipt->position);
    if (!watch_db_posted(outbox->database, epoch, &is_new_log))
        return fail_post(outbox);
    outbox->on_posted(receipt, post->n_entries, outbox->user);
    if (!is_new_log)
        return POST_QUEUE_DONE;
    outbox->on_warning("the set was made anew; all files are posted again",
                       outbox->user);
    return POST_QUEUE_AGAIN;
}

/* True for statuses that judge the post's content: the broker kept nothing, of
 * an earlier attempt neither, as it would have repeated its first answer. After
 * any other refusal the post stays: the answer to its first attempt may have
 * been lost. */
static bool
is_about_content(unsigned status)
{
    return status == 400 || status == 413 || status == 415 || status == 422;
}

static enum post_queue_result
note_refused(struct post_queue *outbox, const struct watch_db_post *post,
             enum td_status rc, unsigned status)
{
    problem(outbox->why, STATUS_IO, "%s", td_problem(outbox->client));
    if (rc != TD_INVALID && !(rc == TD_REFUSED && is_about_content(status)))
        return POST_QUEUE_FAILED;
    if (!watch_db_drop(outbox->database))
        return POST_QUEUE_FAILED;
    if (rc == TD_INVALID)
        return POST_QUEUE_USAGE;
    if (status != 413 || post->n_entries < 2)
        return POST_QUEUE_FAILED;

    problem_clear(outbox->why);
    outbox->n_entries_max = post->n_entries / 2;
    return POST_QUEUE_AGAIN;
}

/* 409: the broker still works on the first attempt of this post. */
static bool
is_passing(enum td_status rc, unsigned status)
{
    return rc == TD_UNREACHABLE || (rc == TD_REFUSED && status == 409);
}

static unsigned
pause_ms_after(unsigned failures, unsigned retry_after_s)
{
    static const struct backoff backoff = {PAUSE_FIRST_US, PAUSE_MAX_US};
    unsigned ms =
        (unsigned)(backoff_pause(&backoff, failures, random_u32()) / 1000);

    if (retry_after_s > PAUSE_ASKED_MAX_S)
        retry_after_s = PAUSE_ASKED_MAX_S;
    return retry_after_s * 1000 > ms ? retry_after_s * 1000 : ms;
}

static enum post_queue_result
send_post(struct post_queue *outbox, const struct watch_db_post *post)
{
    /* One attempt: this loop waits itself, and reads events meanwhile. */
    const struct td_publish_options how = {.key = post->key, .retry_ms = -1};
    unsigned failures = 0;

    for (;;) {
        struct td_receipt receipt;
        unsigned retry_after_s;
        enum td_status rc =
            td_publish(outbox->client, outbox->set_url, "application/json",
                       post->body, post->size, &how, &receipt);
        unsigned status = td_answered(outbox->client, &retry_after_s);
        char text[1200];
        unsigned ms;

        if (rc == TD_OK)
            return note_posted(outbox, post, &receipt);
        if (rc == TD_STOPPED)
            return POST_QUEUE_STOPPED;
        if (!is_passing(rc, status))
            return note_refused(outbox, post, rc, status);
        if (!outbox->will_retry) {
            problem(outbox->why, STATUS_IO, "%s", td_problem(outbox->client));
            return POST_QUEUE_FAILED;
        }
        ms = pause_ms_after(++failures, retry_after_s);
        snprintf(text, sizeof(text), "%s; again in %.1f s",
                 td_problem(outbox->client), ms / 1000.0);
        outbox->on_warning(text, outbox->user);
        if (outbox->wait(ms, outbox->waiter))
            return POST_QUEUE_STOPPED;
    }
}

enum post_queue_result
post_queue_deliver(struct post_queue *outbox)
{
    struct watch_db_post post = {.body = NULL};
    enum post_queue_result result;
    bool is_there;

    if (!watch_db_unfinished(outbox->database, &post, &is_there))
        return fail_post(outbox);
    if (!is_there)
        return POST_QUEUE_DONE;
    result = send_post(outbox, &post);
    free(post.body);
    return result;
}
