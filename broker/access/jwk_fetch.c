#include "broker/access/jwk_fetch.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/thread.h"
#include "broker/base/diag.h"
#include "broker/calls/caller.h"
#include "proto/uri.h"

struct jwk_fetch {
    jwk_fetched_fn *on_fetched;
    void *user;
    struct caller *caller;

    pthread_mutex_t mutex;
    pthread_cond_t ended;

    /* Under the mutex. */
    char url[JWK_FETCH_URL_SIZE];
    uint64_t n_urls;
    bool is_idle; /* the first call to `url` has ended, no other has begun */
    bool is_asked;

    /* The thread's. */
    struct call call;
    struct alarm alarm;
    char called[JWK_FETCH_URL_SIZE];
    uint64_t n_called; /* n_urls, of `called` */
    int64_t began_us;
    bool is_calling;
    bool is_wanted;     /* asked for meanwhile: calls again soon */
    bool has_failed;    /* the last call, which was logged */
    bool has_set;       /* of `called` */
    struct digest hash; /* of its text */
};

/* Calling */

static void
call_at(struct jwk_fetch *f, int64_t at_us)
{
    if (!f->is_calling && *f->called)
        caller_set_alarm(f->caller, &f->alarm, at_us);
}

/* STATUS_MALFORMED ...: `why`. */
static enum status
read_answer(struct jwk_fetch *f, const struct call *call, struct problem *why)
{
    struct digest hash;
    struct jwk_set *set;
    enum status rc;
    bool is_current;

    if (call->failure != CALL_ANSWERED)
        return problem(why, STATUS_UNREACHABLE, "%s", call->why);
    if (call->status != 200)
        return problem(why, STATUS_REFUSED, "it answers %u", call->status);
    if (call->is_cut)
        return problem(why, STATUS_TOO_LARGE,
                       "the answer has more than %zu bytes", JWK_SET_BYTES_MAX);
    digest_sha256(&hash, call->answer);
    if (f->has_set && digest_is_equal(&hash, &f->hash))
        return STATUS_OK;
    rc = jwk_set_read(&set, call->answer, true, why);
    if (rc)
        return rc;
    /* Hands over a set, unless the URL was replaced meanwhile. */
    pthread_mutex_lock(&f->mutex);
    is_current = f->n_called == f->n_urls;
    if (is_current)
        f->on_fetched(jwk_set_ref(set), f->user);
    pthread_mutex_unlock(&f->mutex);
    if (is_current)
        DIAG(DIAG_INFO, "access", "the identity provider has new keys",
             diag_text("url", f->called),
             diag_number("keys", jwk_set_size(set)));
    jwk_set_unref(set);
    f->hash = hash;
    f->has_set = true;
    return STATUS_OK;
}

/* Lets jwk_fetch_await return or wait. */
static void
set_idle(struct jwk_fetch *f, bool is_idle)
{
    pthread_mutex_lock(&f->mutex);
    if (f->n_called == f->n_urls)
        f->is_idle = is_idle;
    pthread_cond_broadcast(&f->ended);
    pthread_mutex_unlock(&f->mutex);
}

static void
on_done(struct call *call)
{
    struct jwk_fetch *f = list_entry(call, struct jwk_fetch, call);
    struct problem why = {""};
    enum status rc = read_answer(f, call, &why);

    f->is_calling = false;
    if (rc && !f->has_failed)
        DIAG(DIAG_WARNING, "access",
             "the keys of the identity provider cannot be read, those at "
             "hand stay",
             diag_text("url", f->called), diag_text("error", why.text));
    if (!rc && f->has_failed)
        DIAG(DIAG_INFO, "access",
             "the keys of the identity provider can be read again",
             diag_text("url", f->called));
    f->has_failed = rc != STATUS_OK;
    if (f->is_wanted)
        call_at(f, f->began_us + JWK_FETCH_PAUSE_US);
    else
        call_at(f, clock_steady_us() +
                       (rc ? JWK_FETCH_PAUSE_US : JWK_FETCH_EVERY_US));
    set_idle(f, true);
}

static void
on_alarm(struct alarm *alarm)
{
    struct jwk_fetch *f = list_entry(alarm, struct jwk_fetch, alarm);
    static const char *const headers[] = {
        "Accept: application/jwk-set+json, application/json", NULL};

    set_idle(f, false);
    f->is_calling = true;
    f->is_wanted = false;
    f->began_us = clock_steady_us();
    f->call = (struct call){.method = CALL_GET,
                            .url = f->called,
                            .timeout_us = JWK_FETCH_TIMEOUT_US,
                            .max_answer = JWK_SET_BYTES_MAX,
                            .headers = headers,
                            .done = on_done};
    caller_start(f->caller, &f->call);
}

/* The thread was woken: for another URL, or an unknown key. */
static void
on_wake(struct caller *caller, void *user)
{
    struct jwk_fetch *f = user;
    bool is_new, is_asked;

    pthread_mutex_lock(&f->mutex);
    is_new = f->n_called != f->n_urls;
    if (is_new) {
        caller_cancel(caller, &f->call);
        memcpy(f->called, f->url, sizeof(f->called));
        f->n_called = f->n_urls;
    }
    is_asked = f->is_asked;
    f->is_asked = false;
    pthread_mutex_unlock(&f->mutex);
    if (is_new) {
        f->is_calling = f->is_wanted = f->has_failed = f->has_set = false;
        caller_clear_alarm(caller, &f->alarm);
        call_at(f, clock_steady_us());
    } else if (is_asked && f->is_calling) {
        f->is_wanted = true;
    } else if (is_asked && f->alarm.is_set &&
               f->alarm.at_us > f->began_us + JWK_FETCH_PAUSE_US) {
        call_at(f, f->began_us + JWK_FETCH_PAUSE_US);
    }
}

/* Life */

enum status
jwk_fetch_open(struct jwk_fetch **fetch, jwk_fetched_fn *on_fetched, void *user,
               struct problem *why)
{
    struct jwk_fetch *f = memory_new(1, sizeof(*f));
    struct caller_options options = {.name = "keys",
                                     .calls_anywhere = true,
                                     .connections = 1,
                                     .host_connections = 1,
                                     .on_wake = on_wake,
                                     .user = f};
    enum status rc;

    *fetch = NULL;
    f->on_fetched = on_fetched;
    f->user = user;
    f->alarm.ring = on_alarm;
    f->is_idle = true;
    thread_init_changed(&f->ended);
    pthread_mutex_init(&f->mutex, NULL);
    rc = caller_open(&f->caller, &options, why);
    if (rc)
        jwk_fetch_close(f);
    else
        *fetch = f;
    return rc;
}

void
jwk_fetch_close(struct jwk_fetch *f)
{
    if (!f)
        return;
    caller_close(f->caller);
    pthread_cond_destroy(&f->ended);
    pthread_mutex_destroy(&f->mutex);
    free(f);
}

enum status
jwk_fetch_check_url(const char *url, struct problem *why)
{
    struct slice rest = slice_of(url), authority, host;
    bool is_plain = slice_starts(rest, "http://");

    if (rest.size >= JWK_FETCH_URL_SIZE)
        return problem(why, STATUS_INVALID, "the URL has more than %d bytes",
                       JWK_FETCH_URL_SIZE - 1);
    if (uri_check(rest, "the URL", why))
        return STATUS_INVALID;
    slice_take(&rest, ':');
    slice_skip(&rest, strlen("//"));
    authority = rest = slice_take_until(&rest, "/?#");
    host = slice_take(&rest, slice_starts(authority, "[") ? ']' : ':');
    if (slice_starts(authority, "[")) /* IPv6, with both brackets */
        host.size = host.size < authority.size ? host.size + 1 : 0;
    if (!host.size || memchr(authority.data, '@', authority.size))
        return problem(why, STATUS_INVALID, "the URL has no host, or a user");
    if (slice_starts(slice_of(url), "https://") ||
        (is_plain && address_is_loopback_host(host)))
        return STATUS_OK;
    return problem(why, STATUS_INVALID,
                   "the URL begins with https://, for anybody on the way could "
                   "put other keys in the place of its own: %s",
                   url);
}

void
jwk_fetch_from(struct jwk_fetch *f, const char *url)
{
    pthread_mutex_lock(&f->mutex);
    snprintf(f->url, sizeof(f->url), "%s", url);
    f->n_urls++;
    f->is_idle = !*url;
    pthread_cond_broadcast(&f->ended);
    pthread_mutex_unlock(&f->mutex);
    caller_wake(f->caller);
}

void
jwk_fetch_ask(struct jwk_fetch *f)
{
    bool was_asked;

    pthread_mutex_lock(&f->mutex);
    was_asked = f->is_asked;
    f->is_asked = true;
    pthread_mutex_unlock(&f->mutex);
    if (!was_asked)
        caller_wake(f->caller);
}

void
jwk_fetch_await(struct jwk_fetch *f)
{
    pthread_mutex_lock(&f->mutex);
    while (!f->is_idle)
        pthread_cond_wait(&f->ended, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
}
