/*
 * callbacks.c - what a test asks of its callbacks.
 */
#include "tests/support/callbacks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/callbacks_inside.h"
#include "tests/support/patience.h"
#include "tests/test.h"

/* How many requests a failure prints: the last ones. */
#define SHOWN 80

static const char *const kind_names[] = {"verification", "denial", "delivery",
                                         "stray"};

int64_t
callbacks_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The life of a server */

struct callbacks *
callbacks_new(const char *host, bool keeps)
{
    struct callbacks *c = callbacks_memory(calloc(1, sizeof(*c)));
    pthread_condattr_t attributes;

    snprintf(c->host, sizeof(c->host), "%s", host);
    c->keeps = keeps;
    c->begin_us = callbacks_now_us();
    transcript_init(&c->transcript);
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    callbacks_wire_open(c);
    return c;
}

static void
free_callback(struct callback *cb)
{
    for (size_t i = 0; i < SEEN_KINDS; i++)
        free(cb->seen[i].all);
    free(cb->id_sums);
    free(cb->target);
    free(cb->url);
    free(cb);
}

static void
free_seen(struct seen *s)
{
    free(s->head);
    free(s->method);
    free(s->target);
    free(s->added);
    free(s->body);
    free(s);
}

void
callbacks_free(struct callbacks *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->is_stopping = true;
    pthread_mutex_unlock(&c->lock);
    callbacks_wire_close(c);
    for (size_t i = 0; i < c->n_callbacks; i++)
        free_callback(c->each[i]);
    for (size_t i = 0; i < c->seen.n; i++)
        free_seen(c->seen.all[i]);
    free(c->each);
    free(c->seen.all);
    transcript_fini(&c->transcript);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

struct callback *
callbacks_add(struct callbacks *c, const char *target)
{
    struct callback *cb = callbacks_memory(calloc(1, sizeof(*cb)));
    struct callback **bucket = callbacks_bucket(c, slice_of(target));

    cb->server = c;
    cb->target = callbacks_memory(strdup(target));
    callbacks_must(
        asprintf(&cb->url,
                 strchr(c->host, ':') ? "http://[%s]:%u%s" : "http://%s:%u%s",
                 c->host, c->port, target) > 0,
        "memory");
    pthread_mutex_lock(&c->lock);
    cb->next_in_bucket = *bucket;
    *bucket = cb;
    if (c->n_callbacks == c->capacity) {
        c->capacity = c->capacity ? 2 * c->capacity : 16;
        c->each =
            callbacks_memory(realloc(c->each, c->capacity * sizeof(*c->each)));
    }
    c->each[c->n_callbacks++] = cb;
    pthread_mutex_unlock(&c->lock);
    return cb;
}

const char *
callback_url(const struct callback *cb)
{
    return cb->url;
}

void
callback_does(struct callback *cb, enum seen_kind kind,
              const struct manner *manners, size_t n)
{
    struct script *s = &cb->scripts[kind];

    assert_in_range(n, 1, CALLBACK_MANNERS_MAX);
    pthread_mutex_lock(&cb->server->lock);
    memset(s, 0, sizeof(*s));
    memcpy(s->manners, manners, n * sizeof(*manners));
    s->n = n;
    pthread_mutex_unlock(&cb->server->lock);
}

void
callback_release(struct callback *cb)
{
    pthread_mutex_lock(&cb->server->lock);
    cb->n_released++;
    pthread_mutex_unlock(&cb->server->lock);
    callbacks_wire_wake(cb->server);
}

/* Waiting */

/* Everything seen, as far as a reader has patience. */
static void
print_seen(struct callbacks *c)
{
    size_t i = c->seen.n > SHOWN ? c->seen.n - SHOWN : 0;

    print_message("http://%s:%u: %zu requests, %u strays, %u connections\n",
                  c->host, c->port, c->seen.n, c->n_strays, c->n_connections);
    for (; i < c->seen.n; i++) {
        const struct seen *s = c->seen.all[i];

        print_message("  %u. %.3f s, connection %u: %s, %s %s%s%s", s->order,
                      (double)(s->at_us - c->begin_us) / 1e6, s->connection,
                      kind_names[s->kind], s->method,
                      s->target ? s->target : "", s->id[0] ? ", id " : "",
                      s->id);
        if (s->has_coverage)
            print_message(", %" PRIu64 " to %" PRIu64, s->after, s->last);
        print_message(", %zu bytes%s%s\n", s->body_size,
                      s->is_whole ? "" : ", not whole",
                      s->is_accepted ? ", accepted" : "");
    }
    for (i = 0; i < c->n_callbacks && i < SHOWN; i++)
        if (c->each[i]->journal.fault[0])
            print_message("  %s\n", c->each[i]->journal.fault);
}

/* Waits until `is_there` says so, under the lock; false: it did not in time. */
static bool
await(struct callbacks *c, bool (*is_there)(void *user), void *user)
{
    struct timespec end;
    bool is_late = false, is_done;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += PATIENCE_MS / 1000;
    pthread_mutex_lock(&c->lock);
    while (!(is_done = is_there(user)) && !is_late)
        is_late = pthread_cond_timedwait(&c->changed, &c->lock, &end) != 0;
    if (!is_done)
        print_seen(c);
    pthread_mutex_unlock(&c->lock);
    return is_done;
}

struct wish {
    struct callback *cb;
    enum seen_kind kind;
    uint64_t n;
};

static bool
has_got(void *user)
{
    const struct wish *w = user;

    return w->cb->seen[w->kind].n >= w->n;
}

static bool
has_accepted(void *user)
{
    const struct wish *w = user;

    return w->cb->journal.n >= w->n;
}

static bool
has_last(void *user)
{
    const struct wish *w = user;

    return w->cb->journal.has_coverage && w->cb->journal.last >= w->n;
}

static bool
is_where_it_should_be(void *user)
{
    const struct callbacks *c = user;

    return c->is_down == c->should_be_down;
}

const struct seen *
callback_await(struct callback *cb, enum seen_kind kind, size_t n)
{
    struct wish w = {cb, kind, n};

    if (!await(cb->server, has_got, &w))
        fail_msg("%s: no %s number %zu within %d ms", cb->url, kind_names[kind],
                 n, PATIENCE_MS);
    return callback_seen(cb, kind, n - 1);
}

void
callback_await_accepted(struct callback *cb, size_t n)
{
    struct wish w = {cb, SEEN_DELIVERY, n};

    if (!await(cb->server, has_accepted, &w))
        fail_msg("%s: no %zu deliveries accepted within %d ms", cb->url, n,
                 PATIENCE_MS);
}

void
callback_await_last(struct callback *cb, uint64_t last)
{
    struct wish w = {cb, SEEN_DELIVERY, last};

    if (!await(cb->server, has_last, &w))
        fail_msg("%s: at entry %" PRIu64 ", not %" PRIu64 ", after %d ms",
                 cb->url, callback_journal(cb).last, last, PATIENCE_MS);
}

void
callbacks_await_last(struct callbacks *c, uint64_t last)
{
    for (size_t i = 0; i < c->n_callbacks; i++)
        callback_await_last(c->each[i], last);
}

static void
move(struct callbacks *c, bool is_down)
{
    pthread_mutex_lock(&c->lock);
    c->should_be_down = is_down;
    pthread_mutex_unlock(&c->lock);
    callbacks_wire_wake(c);
    assert_true(await(c, is_where_it_should_be, c));
}

void
callbacks_go_down(struct callbacks *c)
{
    move(c, true);
}

void
callbacks_come_up(struct callbacks *c)
{
    move(c, false);
}

/* Looking */

size_t
callback_count(struct callback *cb, enum seen_kind kind)
{
    size_t n;

    pthread_mutex_lock(&cb->server->lock);
    n = cb->seen[kind].n;
    pthread_mutex_unlock(&cb->server->lock);
    return n;
}

/* The i-th of them; NULL: there are not so many. */
static const struct seen *
at(struct callbacks *c, const struct seens *seen, size_t i)
{
    const struct seen *s;

    pthread_mutex_lock(&c->lock);
    s = i < seen->n ? seen->all[i] : NULL;
    if (!s)
        print_seen(c);
    pthread_mutex_unlock(&c->lock);
    assert_non_null(s);
    return s;
}

const struct seen *
callback_seen(struct callback *cb, enum seen_kind kind, size_t i)
{
    return at(cb->server, &cb->seen[kind], i);
}

const struct seen *
callbacks_seen(struct callbacks *c, size_t i)
{
    return at(c, &c->seen, i);
}

unsigned
callbacks_requests(struct callbacks *c)
{
    unsigned n;

    pthread_mutex_lock(&c->lock);
    n = (unsigned)c->seen.n;
    pthread_mutex_unlock(&c->lock);
    return n;
}

unsigned
callbacks_connections(struct callbacks *c)
{
    unsigned n;

    pthread_mutex_lock(&c->lock);
    n = c->n_connections;
    pthread_mutex_unlock(&c->lock);
    return n;
}

bool
callback_accepted(struct callback *cb, const struct seen *s)
{
    bool is_accepted;

    pthread_mutex_lock(&cb->server->lock);
    is_accepted = s->is_accepted;
    pthread_mutex_unlock(&cb->server->lock);
    return is_accepted;
}

struct callback_journal
callback_journal(struct callback *cb)
{
    struct callback_journal j;

    pthread_mutex_lock(&cb->server->lock);
    j = cb->journal;
    pthread_mutex_unlock(&cb->server->lock);
    return j;
}

void
callbacks_assert_faultless(struct callbacks *c)
{
    char text[600] = "";

    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->n_callbacks && !text[0]; i++)
        strcpy(text, c->each[i]->journal.fault);
    if (!text[0] && c->n_strays > 0)
        snprintf(text, sizeof(text), "%u strays", c->n_strays);
    if (text[0])
        print_seen(c);
    pthread_mutex_unlock(&c->lock);
    if (text[0])
        fail_msg("%s", text);
}

struct slice
callbacks_entries(struct callbacks *c)
{
    struct slice entries;

    assert_false(c->keeps);
    pthread_mutex_lock(&c->lock);
    entries = buf_slice(&c->transcript.text);
    pthread_mutex_unlock(&c->lock);
    return entries;
}

void
callback_trace(struct callback *cb, struct trace *t)
{
    struct callback_journal j = callback_journal(cb);
    struct seens *d = &cb->seen[SEEN_DELIVERY];
    struct problem why = {""};

    assert_true(cb->server->keeps);
    assert_string_equal(j.fault, "");
    if (j.first_after > 0)
        trace_init_after(t, j.first_after);
    else
        trace_init(t);
    pthread_mutex_lock(&cb->server->lock);
    for (size_t i = 0; i < d->n && !why.text[0]; i++) {
        const struct seen *s = d->all[i];
        struct xmldoc doc;

        if (!s->is_accepted || s->is_repeat)
            continue;
        if (xmldoc_read(&doc, (struct slice){s->body, s->body_size}, &why))
            trace_document(t, &doc, &why);
        xmldoc_free(&doc);
    }
    pthread_mutex_unlock(&cb->server->lock);
    if (why.text[0])
        fail_msg("%s: %s", cb->url, why.text);
}
