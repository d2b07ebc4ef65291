/*
 * post_queue.c - turns changes into posts.
 */
#include "client/watch/post_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/random.h"
#include "proto/datetime.h"

#define PAUSE_FIRST_US 500000
#define PAUSE_MAX_US   60000000

/* Longest pause that a broker may ask for. */
#define PAUSE_ASKED_MAX_S 3600

#define EPOCH_MAX 64

/* Gathering */

/* Writes the time as W3C Datetime; `ns` reaches from the year 1677 to 2262. */
static void
put_lastmod(FILE *to, int64_t ns)
{
    char text[DATETIME_SIZE + 1] = "";

    datetime_write(text, ns / 1000 - (ns % 1000 < 0));
    fprintf(to, ",\"lastmod\":\"%s\"", text);
}

/* {"loc":"...","change":"created","lastmod":"...","hash":{"sha-256":"..."},
 * "length":3,"type":"text/csv"}
 *
 * Nothing here needs escapes: a loc is percent-encoded, a type is checked. */
static void
put_entry(FILE *to, const char *change, const char *loc,
          const struct file_stamp *mark, const char *type)
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
post_queue_add(struct post_queue *queue, const char *change, const char *path,
               const char *loc, const struct file_stamp *mark, const char *type)
{
    if (!queue->to) {
        queue->to = open_memstream(&queue->body, &queue->size);
        queue->begun_ms = clock_steady_ms();
    }
    if (!queue->to) {
        problem_memory(queue->why);
        return false;
    }
    fputs(queue->n_entries ? ",\n" : "[", queue->to);
    put_entry(queue->to, change, loc, mark, type);
    queue->n_entries++;
    queue->n_deleted += !mark;
    return watch_db_add(queue->database, path, mark);
}

bool
post_queue_is_empty(const struct post_queue *queue)
{
    return !queue->n_entries;
}

bool
post_queue_is_due(const struct post_queue *queue)
{
    return queue->n_entries &&
           (queue->n_entries >= queue->n_entries_max ||
            ftell(queue->to) >= POST_QUEUE_BYTES_MAX ||
            clock_steady_ms() - queue->begun_ms >= POST_QUEUE_AGE_MS);
}

static void
forget_post(struct post_queue *queue)
{
    if (queue->to)
        fclose(queue->to);
    queue->to = NULL;
    free(queue->body);
    queue->body = NULL;
    queue->n_entries = 0;
    queue->n_deleted = 0;
}

void
post_queue_undo(struct post_queue *queue)
{
    forget_post(queue);
    if (queue->database)
        watch_db_undo(queue->database);
}

bool
post_queue_seal(struct post_queue *queue)
{
    bool is_good;

    fputs("]\n", queue->to);
    is_good = fflush(queue->to) || ferror(queue->to)
                  ? !problem_memory(queue->why)
                  : watch_db_seal(queue->database, queue->body, queue->size,
                                  queue->n_entries);
    forget_post(queue);
    return is_good;
}

/* Posting */

/* The broker has the post on its disk; the database records that. */
static enum status
note_posted(struct post_queue *queue, const struct watch_db_post *post,
            const struct td_receipt *receipt)
{
    char epoch[EPOCH_MAX + 1];
    bool is_new_log;

    snprintf(epoch, sizeof(epoch), "%.*s", (int)strcspn(receipt->position, "-"),
             receipt->position);
    if (!watch_db_posted(queue->database, epoch, &is_new_log))
        return queue->why->rc;
    queue->on_posted(receipt, post->n_entries, queue->user);
    if (!is_new_log)
        return STATUS_OK;
    queue->on_warning("the set was made anew; all files are posted again",
                      queue->user);
    return STATUS_AGAIN;
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

static enum status
note_refused(struct post_queue *queue, const struct watch_db_post *post,
             enum td_status rc, unsigned status)
{
    problem(queue->why, rc == TD_INVALID ? STATUS_INVALID : STATUS_IO, "%s",
            td_problem(queue->client));
    if ((rc != TD_INVALID && !(rc == TD_REFUSED && is_about_content(status))) ||
        !watch_db_drop(queue->database) || status != 413 || post->n_entries < 2)
        return queue->why->rc;

    problem_clear(queue->why);
    queue->n_entries_max = post->n_entries / 2;
    return STATUS_AGAIN;
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

static enum status
send_post(struct post_queue *queue, const struct watch_db_post *post)
{
    /* One attempt: this loop waits itself, and reads events meanwhile. */
    const struct td_publish_options how = {.key = post->key, .retry_ms = -1};
    unsigned failures = 0;

    for (;;) {
        struct td_receipt receipt;
        unsigned retry_after_s;
        enum td_status rc =
            td_publish(queue->client, queue->set_url, "application/json",
                       post->body, post->size, &how, &receipt);
        unsigned status = td_answered(queue->client, &retry_after_s);
        char text[1200];
        unsigned ms;

        if (rc == TD_OK)
            return note_posted(queue, post, &receipt);
        if (rc == TD_STOPPED)
            return STATUS_STOPPED;
        if (!is_passing(rc, status))
            return note_refused(queue, post, rc, status);
        if (!queue->will_retry)
            return problem(queue->why, STATUS_IO, "%s",
                           td_problem(queue->client));
        ms = pause_ms_after(++failures, retry_after_s);
        snprintf(text, sizeof(text), "%s; again in %.1f s",
                 td_problem(queue->client), ms / 1000.0);
        queue->on_warning(text, queue->user);
        if (queue->wait(ms, queue->waiter))
            return STATUS_STOPPED;
    }
}

enum status
post_queue_deliver(struct post_queue *queue)
{
    struct watch_db_post post = {.body = NULL};
    enum status rc;
    bool is_there;

    if (!watch_db_unfinished(queue->database, &post, &is_there))
        return queue->why->rc;
    if (!is_there)
        return STATUS_OK;
    rc = send_post(queue, &post);
    free(post.body);
    return rc;
}
