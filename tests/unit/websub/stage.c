#include "tests/unit/websub/stage.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/lib/transfers.h"

/* Longer than the pauses after some failures, shorter than anything else. */
#define PAUSE_US (INT64_C(12) * 1000000)

struct stage stage;

static void
on_delivery(const struct td_delivery *delivery, void *user)
{
    size_t used = strlen(stage.bodies);

    (void)user;
    snprintf(stage.bodies + used, sizeof(stage.bodies) - used, "%.*s|",
             (int)delivery->size, (const char *)delivery->body);
    snprintf(stage.last.topic, sizeof(stage.last.topic), "%s", delivery->topic);
    snprintf(stage.last.type, sizeof(stage.last.type), "%s", delivery->type);
    snprintf(stage.last.id, sizeof(stage.last.id), "%s", delivery->id);
    stage.n_deliveries++;
    if (stage.n_deliveries == stage.closes_after) {
        td_subscriber_close(stage.subscriber);
        stage.subscriber = NULL;
    }
}

static void
on_state(enum td_subscription_state state, const char *detail, void *user)
{
    (void)user;
    stage.n_states[state]++;
    snprintf(stage.details[state], sizeof(stage.details[state]), "%s", detail);
}

int
stage_setup(void **state)
{
    (void)state;
    memset(&stage, 0, sizeof(stage));
    fake_hub_open(&stage.hub);
    stage.source = origin_new("/topic");
    stage.client = td_open();
    assert_non_null(stage.client);
    assert_int_equal(
        td_callback_open(stage.client, "127.0.0.1:0", NULL, &stage.callback),
        TD_OK);
    stage.turner = turner_begin(stage.client);
    return 0;
}

int
stage_teardown(void **state)
{
    (void)state;
    turner_end(stage.turner);
    td_subscriber_close(stage.subscriber);
    td_callback_close(stage.callback);
    td_close(stage.client);
    origin_free(stage.source);
    for (size_t i = 0; i < stage.n_requests; i++)
        fake_hub_forget(&stage.requests[i]);
    fake_hub_close(&stage.hub);
    return 0;
}

void
stage_headers(const char *self)
{
    origin_names(stage.source, self ? self : origin_url(stage.source),
                 stage.hub.url);
}

void
stage_body(const char *type, const char *body)
{
    char text[4000];
    size_t used = 0;

    while (*body) {
        const char *with = !strncmp(body, "HUB", 3) ? stage.hub.url
                           : !strncmp(body, "SELF", 4)
                               ? origin_url(stage.source)
                               : NULL;

        assert_true(used + 300 < sizeof(text));
        if (with) {
            used += (size_t)sprintf(text + used, "%s", with);
            body += *body == 'H' ? 3 : 4;
        } else {
            text[used++] = *body++;
        }
    }
    origin_links(stage.source, NULL);
    origin_content(stage.source, type, NULL, (struct slice){text, used});
}

void
stage_subscribe(const char *url, const struct td_subscriber_options *options)
{
    struct td_subscriber_options all = {.lease_s = 0};

    if (options)
        all = *options;
    all.on_delivery = on_delivery;
    all.on_state = on_state;
    turner_hold(stage.turner);
    assert_int_equal(td_subscriber_open(stage.callback,
                                        url ? url : origin_url(stage.source),
                                        &all, &stage.subscriber),
                     TD_OK);
    turner_let(stage.turner);
}

struct fake_request *
stage_take(struct fake_hub *hub)
{
    struct fake_request *request = &stage.requests[stage.n_requests];

    assert_in_range(stage.n_requests, 0, STAGE_REQUESTS - 1);
    fake_hub_take(hub ? hub : &stage.hub, request);
    stage.n_requests++;
    return request;
}

struct fake_request *
stage_request(void)
{
    stage_headers(NULL);
    stage_subscribe(NULL, NULL);
    return stage_take(NULL);
}

struct fake_request *
stage_join(const struct td_subscriber_options *options, uint64_t lease_s)
{
    struct fake_request *request;

    stage_headers(NULL);
    stage_subscribe(NULL, options);
    request = stage_take(NULL);
    fake_hub_answer(request, 202, NULL, "");
    assert_int_equal(fake_hub_verify(&stage.hub, request, NULL, lease_s), 200);
    stage_await(TD_ACTIVE, 1);
    return request;
}

void
stage_end(void)
{
    turner_hold(stage.turner);
    td_subscriber_end(stage.subscriber);
    turner_let(stage.turner);
}

void
stage_await(enum td_subscription_state state, int n)
{
    turner_await(stage.turner, &stage.n_states[state], n);
}

void
stage_pass_pause(void)
{
    stage_pass_us(PAUSE_US);
}

void
stage_pass_us(int64_t us)
{
    AWAIT(transfers_none(NULL));
    turner_pass_us(stage.turner, us);
}

void
stage_await_trouble(int n)
{
    stage_await(TD_TROUBLE, n);
    stage_pass_pause();
}

void
stage_await_deliveries(int n)
{
    turner_await(stage.turner, &stage.n_deliveries, n);
}

int
stage_count(enum td_subscription_state state)
{
    return turner_read(stage.turner, &stage.n_states[state]);
}

void
stage_assert_bodies(int n, const char *bodies)
{
    char copy[sizeof(stage.bodies)];

    stage_await_deliveries(n);
    turner_hold(stage.turner);
    strcpy(copy, stage.bodies);
    turner_let(stage.turner);
    assert_string_equal(copy, bodies);
}

struct td_subscriber_counts
stage_counts(void)
{
    struct td_subscriber_counts counts;

    turner_hold(stage.turner);
    td_subscriber_counts(stage.subscriber, &counts);
    turner_let(stage.turner);
    return counts;
}
