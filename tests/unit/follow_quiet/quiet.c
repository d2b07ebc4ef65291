/*
 * quiet.c - what a follower stands on, without sockets: discovery, connections,
 * pages.
 */
#include "tests/unit/follow_quiet/quiet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/follow/shared_stream.h"
#include "client/lib/fetch.h"
#include "tests/clock.h"
#include "tests/test.h"

#define LIVES_MAX 64

struct discovery {
    discovery_set_fn *on_set;
    discovery_end_fn *on_end;
    void *user;
    unsigned silence_s;
};

struct live {
    enum td_transport transport;
    unsigned wait_s;
    char url[4096];
    live_message_fn *on_message;
    live_end_fn *on_end;
    void *user;
    bool is_held;
    unsigned i;
};

struct fetch {
    char url[4096];
    unsigned silence_s;
    fetch_end_fn *on_end;
    void *user;
    bool is_held;
};

static struct {
    struct td_client *client;
    struct discovery *discovery;
    struct live *lives[LIVES_MAX]; /* NULL: freed */
    unsigned n_lives;
    int chosen; /* -1: the newest */
    bool is_sharing;
    struct fetch *fetch;
} quiet;

void
quiet_begin(struct td_client *client)
{
    memset(&quiet, 0, sizeof(quiet));
    quiet_lists_begin();
    quiet.client = client;
    quiet.chosen = -1;
}

void
quiet_finish(void)
{
    assert_null(quiet.discovery);
    assert_null(quiet.fetch);
    quiet_lists_finish();
    for (unsigned i = 0; i < quiet.n_lives; i++)
        assert_null(quiet.lives[i]);
}

void
quiet_turn(void)
{
    for (int i = 0; i < 8; i++)
        assert_int_not_equal(td_service(quiet.client), TD_INVALID);
}

void
quiet_pass(const char *until)
{
    int ms = td_timeout_ms(quiet.client);

    if (ms < 0)
        fail_msg("nothing is under way that would bring %s", until);
    clock_pass_us(ms * INT64_C(1000));
}

/* Current exchanges */

static struct live *
the_live(void)
{
    if (quiet.chosen >= 0)
        return quiet.lives[quiet.chosen];
    return quiet.n_lives ? quiet.lives[quiet.n_lives - 1] : NULL;
}

bool
quiet_is_seeking(void)
{
    return quiet.discovery != NULL;
}

bool
quiet_is_live(void)
{
    return the_live() != NULL;
}

bool
quiet_is_asking_page(void)
{
    return quiet.fetch != NULL;
}

bool
quiet_is_held(void)
{
    if (quiet.fetch)
        return quiet.fetch->is_held;
    if (quiet_is_asking_lists() || quiet_is_rebasing())
        return quiet_lists_are_held();
    return the_live() && the_live()->is_held;
}

void
quiet_await(bool (*is_so)(void), const char *what)
{
    for (quiet_turn(); !is_so(); quiet_turn())
        quiet_pass(what);
}

static struct live *
await_live(void)
{
    quiet_await(quiet_is_live, "a connection");
    return the_live();
}

enum td_transport
quiet_transport(void)
{
    return await_live()->transport;
}

unsigned
quiet_wait_s(void)
{
    return await_live()->wait_s;
}

const char *
quiet_url(void)
{
    return await_live()->url;
}

unsigned
quiet_n_lives(void)
{
    return quiet.n_lives;
}

void
quiet_choose(unsigned i)
{
    quiet.chosen = (int)i;
}

/* Discovery */

struct discovery *
discovery_start(struct td_client *client, const char *url, unsigned silence_s,
                const struct discovery_watch *watch, discovery_set_fn *on_set,
                discovery_end_fn *on_end, void *user)
{
    (void)client;
    (void)url;
    (void)watch;
    assert_null(quiet.discovery);
    quiet.discovery = calloc(1, sizeof(*quiet.discovery));
    assert_non_null(quiet.discovery);
    *quiet.discovery = (struct discovery){on_set, on_end, user, silence_s};
    return quiet.discovery;
}

void
discovery_free(void *discovery)
{
    if (discovery)
        quiet.discovery = NULL;
    free(discovery);
}

/* All of its members are strings. */
enum { N_OFFERED = sizeof(struct offered) / sizeof(char *) };

void
offered_fini(struct offered *offered)
{
    char **strings = (char **)(void *)offered;

    for (size_t i = 0; i < N_OFFERED; i++)
        free(strings[i]);
    *offered = (struct offered){.url = NULL};
}

static void
end_discovery(const struct problem *why, const struct offered *offer, int n)
{
    struct offered copy = {.url = NULL};
    char **strings = (char **)(void *)&copy;
    struct discovery d;

    quiet_await(quiet_is_seeking, "a discovery");
    d = *quiet.discovery;
    for (; n > 0; n--) {
        copy = *offer;
        for (size_t i = 0; i < N_OFFERED; i++)
            strings[i] = strings[i] ? strdup(strings[i]) : NULL;
        d.on_set(&copy, NULL, d.user);
        offered_fini(&copy);
    }
    discovery_free(quiet.discovery);
    d.on_end(why, d.user);
}

void
quiet_found(const struct offered *offer)
{
    struct problem none = {.rc = STATUS_OK};

    end_discovery(&none, offer, 1);
}

void
quiet_found_two(const struct offered *offer)
{
    struct problem none = {.rc = STATUS_OK};

    end_discovery(&none, offer, 2);
}

void
quiet_not_found(enum status rc, const char *why)
{
    struct problem failure = {.rc = rc};

    problem(&failure, rc, "%s", why);
    end_discovery(&failure, NULL, 0);
}

void
quiet_busy(unsigned retry_after_s)
{
    struct problem failure = {.http_status = 503,
                              .retry_after_s = retry_after_s};

    problem(&failure, STATUS_UNREACHABLE, "503: busy");
    end_discovery(&failure, NULL, 0);
}

/* Connections */

bool
shared_stream_takes(struct shared_stream *s, const char *url, const char *set)
{
    (void)s;
    (void)url;
    assert_string_equal(set, "news");
    return quiet.is_sharing;
}

void
quiet_share(bool is_sharing)
{
    quiet.is_sharing = is_sharing;
}

/* The URL of a part: that of its connection, and the place of the follower. */
static void
add_place(struct live *live, const struct shared_part *part, void *user)
{
    size_t used = strlen(live->url);
    struct buf place;

    buf_init(&place, 1000);
    part->write_place(&place, user);
    snprintf(live->url + used, sizeof(live->url) - used, "%.*s",
             SLICE_ARG(buf_slice(&place)));
    buf_fini(&place);
}

struct live *
live_start(struct td_client *client, const struct live_request *request,
           live_message_fn *on_message, live_end_fn *on_end, void *user)
{
    struct live *live = calloc(1, sizeof(*live));

    (void)client;
    assert_non_null(live);
    assert_true(quiet.n_lives < LIVES_MAX);
    live->transport = request->transport;
    live->wait_s = request->wait_s;
    snprintf(live->url, sizeof(live->url), "%s%s", request->url,
             request->transport == TD_LONG_POLL && request->is_at_once
                 ? "&wait=0"
                 : "");
    if (request->transport == LIVE_SHARED)
        add_place(live, request->shared, user);
    live->on_message = on_message;
    live->on_end = on_end;
    live->user = user;
    live->i = quiet.n_lives;
    quiet.lives[quiet.n_lives++] = live;
    return live;
}

void
live_hold(struct live *live, bool is_held)
{
    live->is_held = is_held;
}

void
live_free(struct live *live)
{
    if (live)
        quiet.lives[live->i] = NULL;
    free(live);
}

void
quiet_say(struct slice message)
{
    struct live *live = await_live();
    unsigned i = live->i;
    char *copy = slice_dup(message);

    assert_false(live->is_held);
    assert_non_null(copy); /* also of no bytes, a heartbeat of a part */
    if (!live->on_message(copy, message.size, live->user))
        assert_null(quiet.lives[i]);
    free(copy);
}

static void
end_live(const struct live_end *end)
{
    struct live live = *await_live();

    live_free(quiet.lives[live.i]);
    live.on_end(end, live.user);
}

void
quiet_end(enum live_how how, unsigned code, const char *why)
{
    struct live_end end = {.how = how, .code = code};

    problem(&end.why,
            how == LIVE_BROKEN ? STATUS_MALFORMED : STATUS_UNREACHABLE, "%s",
            why);
    end_live(&end);
}

void
quiet_refuse(enum live_how how, unsigned status)
{
    struct live_end end = {.how = how};

    problem(&end.why, fetch_meaning(status), "%u: no", status);
    end.why.http_status = status;
    end_live(&end);
}

/* Pages */

struct fetch *
fetch_start(struct td_client *client, const struct fetch_request *request,
            fetch_body_fn *on_body, fetch_end_fn *on_end, void *user)
{
    struct fetch *fetch = calloc(1, sizeof(*fetch));

    (void)client;
    assert_non_null(fetch);
    assert_null(on_body);
    assert_null(quiet.fetch);
    snprintf(fetch->url, sizeof(fetch->url), "%s", request->url);
    fetch->silence_s = request->silence_s;
    fetch->on_end = on_end;
    fetch->user = user;
    quiet.fetch = fetch;
    return fetch;
}

void
fetch_free(struct fetch *fetch)
{
    if (fetch)
        quiet.fetch = NULL;
    free(fetch);
}

void
fetch_hold(struct fetch *fetch, bool is_held)
{
    assert_true(fetch->is_held != is_held);
    fetch->is_held = is_held;
}

enum status
fetch_meaning(unsigned status)
{
    return status == 410  ? STATUS_GONE
           : status < 500 ? STATUS_REFUSED
                          : STATUS_UNREACHABLE;
}

enum status
fetch_refused(struct problem *why, const struct fetch_answer *answer)
{
    why->http_status = answer->status;
    return problem(why, fetch_meaning(answer->status), "%u: no",
                   answer->status);
}

unsigned
quiet_silence(void)
{
    if (quiet.discovery)
        return quiet.discovery->silence_s;
    if (quiet.fetch)
        return quiet.fetch->silence_s;
    return quiet_lists_silence();
}

const char *
quiet_page_url(void)
{
    quiet_await(quiet_is_asking_page, "a page that is asked for");
    return quiet.fetch->url;
}

/* Also for a page that is held back: the last bytes may have been on their
 * way. */
void
quiet_page(unsigned status, struct slice body)
{
    struct fetch_answer answer = {.status = status};
    struct problem why = {.rc = STATUS_OK};
    struct fetch fetch;

    quiet_page_url();
    fetch = *quiet.fetch;
    buf_init(&answer.body, SIZE_MAX / 2);
    buf_add_slice(&answer.body, body);
    if (!status)
        problem(&why, STATUS_UNREACHABLE, "the connection broke");
    fetch_free(quiet.fetch);
    fetch.on_end(&answer, &why, fetch.user);
    buf_fini(&answer.body);
}
