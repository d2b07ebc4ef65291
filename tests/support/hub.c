#include "tests/support/hub.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/test.h"

#define FORM_MAX (1 << 20)

/* How often somebody looks whether something has happened. */
#define LOOK_MS 20

struct hub_url
hub_topic(const struct http *h, const char *set)
{
    struct hub_url url;

    snprintf(url.text, sizeof(url.text), "%s/sets/%s/notifications", h->url,
             set);
    return url;
}

struct hub_url
hub_address(const struct http *h)
{
    struct hub_url url;

    snprintf(url.text, sizeof(url.text), "%s/hub", h->url);
    return url;
}

/* Forms */

void
hub_encode(struct buf *to, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz0123456789-._~";

    for (; *text; text++)
        if (strchr(plain, *text))
            buf_add(to, text, 1);
        else
            buf_add_format(to, "%%%02X", (unsigned char)*text);
}

static void
add(struct buf *to, const char *name, const char *value)
{
    if (!value)
        return;
    buf_add_format(to, "%s%s=", to->size > 0 ? "&" : "", name);
    hub_encode(to, value);
}

void
hub_write(struct buf *to, const struct http *h, const struct hub_form *form)
{
    struct hub_url topic = {""};

    if (form->set)
        topic = hub_topic(h, form->set);
    add(to, "hub.mode", form->mode);
    add(to, "hub.topic", form->set ? topic.text : form->topic);
    add(to, "hub.callback", form->callback);
    add(to, "hub.secret", form->secret);
    add(to, "hub.lease_seconds", form->lease);
    if (form->more)
        buf_add_text(to, form->more);
    assert_false(to->failed);
}

long
hub_ask(struct http *h, const struct hub_form *form)
{
    struct buf body;

    buf_init(&body, FORM_MAX);
    hub_write(&body, h, form);
    http_post(h, "/hub", HUB_FORM, buf_slice(&body));
    buf_fini(&body);
    return h->status;
}

long
hub_send(struct http *h, const char *body)
{
    return http_post(h, "/hub", HUB_FORM, slice_of(body));
}

void
hub_assert_taken(struct http *h, long status)
{
    if (status != 202 || h->body.size > 0)
        fail_msg("%ld %s%.*s", status, h->error,
                 SLICE_ARG(buf_slice(&h->body)));
}

void
hub_assert_refused(struct http *h, long status, const char *part)
{
    const char *type = http_header(h, "Content-Type");

    if (h->status != status || !type || h->body.size == 0 ||
        strncmp(type, "text/plain", strlen("text/plain")) != 0 ||
        !memmem(h->body.data, h->body.size, part, strlen(part)))
        fail_msg("not %ld with \"%s\", but %ld %s%s: %.*s", status, part,
                 h->status, h->error, type ? type : "",
                 SLICE_ARG(buf_slice(&h->body)));
}

/* States */

static void
take_text(char *to, size_t size, const struct jsonpath *j, size_t i,
          const char *name)
{
    const char *text;
    char path[100];

    snprintf(path, sizeof(path), "subscriptions.%zu.%s", i, name);
    text = jsonpath_text(j, path);
    snprintf(to, size, "%s", text ? text : "");
}

static uint64_t
number(const struct jsonpath *j, size_t i, const char *name)
{
    char path[100];

    snprintf(path, sizeof(path), "subscriptions.%zu.%s", i, name);
    return jsonpath_number(j, path);
}

/* Asks for all of them. */
static void
get(struct http *h, const char *set, struct jsonpath *j)
{
    char path[200];

    snprintf(path, sizeof(path), "/sets/%s/subscriptions", set);
    if (http_get(h, path) != 200)
        fail_msg("%s: %ld %s%.*s", path, h->status, h->error,
                 SLICE_ARG(buf_slice(&h->body)));
    jsonpath_open(j, buf_slice(&h->body));
    assert_true(jsonpath_has(j, "subscriptions"));
}

bool
hub_look(struct http *h, const char *set, const char *callback,
         struct hub_state *state)
{
    struct jsonpath j;
    bool is_there = false;
    size_t n;

    memset(state, 0, sizeof(*state));
    get(h, set, &j);
    n = jsonpath_count(&j, "subscriptions");
    for (size_t i = 0; i < n && !is_there; i++) {
        char url[4096];

        take_text(url, sizeof(url), &j, i, "callback");
        if (strcmp(url, callback))
            continue;
        is_there = true;
        snprintf(state->id, sizeof(state->id), "%lld",
                 (long long)number(&j, i, "id"));
        take_text(state->topic, sizeof(state->topic), &j, i, "topic");
        take_text(state->state, sizeof(state->state), &j, i, "state");
        take_text(state->lease_end, sizeof(state->lease_end), &j, i,
                  "leaseEnd");
        take_text(state->position, sizeof(state->position), &j, i, "position");
        take_text(state->last_error, sizeof(state->last_error), &j, i,
                  "lastError");
        state->lag = number(&j, i, "lag");
        state->failures = number(&j, i, "failures");
        state->skipped = number(&j, i, "skipped");
    }
    jsonpath_close(&j);
    return is_there;
}

size_t
hub_count(struct http *h, const char *set)
{
    struct jsonpath j;
    size_t n;

    get(h, set, &j);
    n = jsonpath_count(&j, "subscriptions");
    jsonpath_close(&j);
    return n;
}

void
hub_await_count(struct http *h, const char *set, size_t n)
{
    struct patience p = {.with = "as many subscriptions as there should be"};

    while (hub_count(h, set) != n)
        patience_step(&p);
}

/* A state that is not there is all zero. */
struct hub_state
hub_await(struct http *h, const char *set, const char *callback,
          hub_state_fn *is_so, const char *what)
{
    int64_t end_us = callbacks_now_us() + PATIENCE_MS * INT64_C(1000);
    struct hub_state state;

    for (;;) {
        hub_look(h, set, callback, &state);
        if (is_so(&state))
            return state;
        if (callbacks_now_us() > end_us)
            fail_msg("%s is not %s within %d ms: %.*s", callback, what,
                     PATIENCE_MS, SLICE_ARG(buf_slice(&h->body)));
        poll(NULL, 0, LOOK_MS);
    }
}

static bool
is_active(const struct hub_state *state)
{
    return !strcmp(state->state, "active");
}

static bool
is_pending(const struct hub_state *state)
{
    return !strcmp(state->state, "pending");
}

static bool
is_gone(const struct hub_state *state)
{
    return !is_active(state) && !is_pending(state);
}

static bool
is_at_head(const struct hub_state *state)
{
    return is_active(state) && state->lag == 0;
}

void
hub_await_active(struct http *h, const char *set, const char *callback)
{
    hub_await(h, set, callback, is_active, "active");
}

void
hub_await_pending(struct http *h, const char *set, const char *callback)
{
    hub_await(h, set, callback, is_pending, "pending");
}

void
hub_await_gone(struct http *h, const char *set, const char *callback)
{
    hub_await(h, set, callback, is_gone, "gone");
}

void
hub_await_head(struct http *h, const char *set, const char *callback)
{
    hub_await(h, set, callback, is_at_head, "at the head");
}

void
hub_join(struct http *h, const char *set, struct callback *cb)
{
    hub_assert_taken(
        h, HUB_SUBSCRIBE(h, .set = set, .callback = callback_url(cb)));
    hub_await_active(h, set, callback_url(cb));
}
