#include "tests/unit/websub/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/lib/transfers.h"

/* Longer than the pauses after some failures, shorter than anything else. */
#define PAUSE_US (INT64_C(12) * 1000000)

static void
on_delivery(const struct td_delivery *delivery, void *user)
{
    struct stage *s = user;
    size_t used = strlen(s->bodies);

    snprintf(s->bodies + used, sizeof(s->bodies) - used, "%.*s|",
             (int)delivery->size, (const char *)delivery->body);
    snprintf(s->last.topic, sizeof(s->last.topic), "%s", delivery->topic);
    snprintf(s->last.type, sizeof(s->last.type), "%s", delivery->type);
    snprintf(s->last.id, sizeof(s->last.id), "%s", delivery->id);
    s->n_deliveries++;
    if (s->n_deliveries == s->closes_after) {
        td_subscriber_close(s->subscriber);
        s->subscriber = NULL;
    }
}

static void
on_state(enum td_subscription_state state, const char *detail, void *user)
{
    struct stage *s = user;

    s->n_states[state]++;
    snprintf(s->details[state], sizeof(s->details[state]), "%s", detail);
}

int
stage_setup(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    fake_hub_open(&s->hub);
    s->source = origin_new("/topic");
    s->client = td_open();
    assert_non_null(s->client);
    assert_int_equal(
        td_callback_open(s->client, "127.0.0.1:0", NULL, &s->callback), TD_OK);
    s->turner = turner_begin(s->client);
    *state = s;
    return 0;
}

int
stage_teardown(void **state)
{
    struct stage *s = *state;

    turner_end(s->turner);
    td_subscriber_close(s->subscriber);
    td_callback_close(s->callback);
    td_close(s->client);
    origin_free(s->source);
    for (size_t i = 0; i < s->n_requests; i++)
        fake_hub_forget(&s->requests[i]);
    fake_hub_close(&s->hub);
    free(s);
    return 0;
}

struct stage *
stage_of(void **state)
{
    return *state;
}

void
stage_headers(struct stage *s, const char *self)
{
    origin_names(s->source, self ? self : origin_url(s->source), s->hub.url);
}

void
stage_body(struct stage *s, const char *type, const char *body)
{
    char text[4000];
    size_t used = 0;

    while (*body) {
        const char *with = !strncmp(body, "HUB", 3)    ? s->hub.url
                           : !strncmp(body, "SELF", 4) ? origin_url(s->source)
                                                       : NULL;

        assert_true(used + 300 < sizeof(text));
        if (with) {
            used += (size_t)sprintf(text + used, "%s", with);
            body += *body == 'H' ? 3 : 4;
        } else {
            text[used++] = *body++;
        }
    }
    origin_links(s->source, NULL);
    origin_content(s->source, type, NULL, (struct slice){text, used});
}

void
stage_subscribe(struct stage *s, const char *url,
                const struct td_subscriber_options *options)
{
    struct td_subscriber_options all = {.lease_s = 0};

    if (options)
        all = *options;
    all.on_delivery = on_delivery;
    all.on_state = on_state;
    all.user = s;
    turner_hold(s->turner);
    assert_int_equal(td_subscriber_open(s->callback,
                                        url ? url : origin_url(s->source), &all,
                                        &s->subscriber),
                     TD_OK);
    turner_let(s->turner);
}

struct fake_request *
stage_take(struct stage *s, struct fake_hub *hub)
{
    struct fake_request *request = &s->requests[s->n_requests];

    assert_in_range(s->n_requests, 0, STAGE_REQUESTS - 1);
    fake_hub_take(hub, request);
    s->n_requests++;
    return request;
}

struct fake_request *
stage_join(struct stage *s, const struct td_subscriber_options *options,
           uint64_t lease_s)
{
    struct fake_request *request;

    stage_headers(s, NULL);
    stage_subscribe(s, NULL, options);
    request = stage_take(s, &s->hub);
    fake_hub_answer(request, 202, NULL, "");
    assert_int_equal(fake_hub_verify(&s->hub, request, NULL, lease_s), 200);
    stage_await(s, TD_ACTIVE, 1);
    return request;
}

void
stage_end(struct stage *s)
{
    turner_hold(s->turner);
    td_subscriber_end(s->subscriber);
    turner_let(s->turner);
}

void
stage_await(struct stage *s, enum td_subscription_state state, int n)
{
    turner_await(s->turner, &s->n_states[state], n);
}

void
stage_pass_pause(struct stage *s)
{
    stage_pass_us(s, PAUSE_US);
}

void
stage_pass_us(struct stage *s, int64_t us)
{
    AWAIT(transfers_none(NULL));
    turner_pass_us(s->turner, us);
}

void
stage_await_trouble(struct stage *s, int n)
{
    stage_await(s, TD_TROUBLE, n);
    stage_pass_pause(s);
}

void
stage_await_deliveries(struct stage *s, int n)
{
    turner_await(s->turner, &s->n_deliveries, n);
}

int
stage_count(struct stage *s, enum td_subscription_state state)
{
    return turner_read(s->turner, &s->n_states[state]);
}

void
stage_assert_bodies(struct stage *s, const char *bodies)
{
    char copy[sizeof(s->bodies)];

    turner_hold(s->turner);
    strcpy(copy, s->bodies);
    turner_let(s->turner);
    assert_string_equal(copy, bodies);
}

struct td_subscriber_counts
stage_counts(struct stage *s)
{
    struct td_subscriber_counts counts;

    turner_hold(s->turner);
    td_subscriber_counts(s->subscriber, &counts);
    turner_let(s->turner);
    return counts;
}
