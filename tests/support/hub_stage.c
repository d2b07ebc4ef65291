#include "tests/support/hub_stage.h"

#include <stdlib.h>

#include "tests/support/source.h"
#include "tests/test.h"

static void
open_broker(struct hub_stage *s, const char *const *options)
{
    const char *o[13] = {NULL};
    size_t n = 0;

    while (options[n]) {
        assert_true(n < 12);
        o[n] = options[n];
        n++;
    }
    broker_open(&s->broker, o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7],
                o[8], o[9], o[10], o[11], NULL);
}

struct hub_stage *
hub_stage_begin(void **state, const char *const *options)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};
    struct hub_stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    open_broker(s, options);
    http_open(&s->http, s->broker.url);
    s->callbacks = callbacks_new(HUB_CALLBACKS, true);
    s->topic = hub_topic(&s->http, HUB_SET);
    s->hub = hub_address(&s->http);
    assert_int_equal(
        http_request(&s->http, "PUT", "/sets/" HUB_SET, json, SLICE("{}")),
        201);
    return s;
}

void
hub_stage_end(struct hub_stage *s)
{
    broker_stop(&s->broker);
    callbacks_assert_faultless(s->callbacks);
}

int
hub_stage_teardown(void **state)
{
    struct hub_stage *s = *state;

    if (!s)
        return 0;
    if (s->http.handle)
        http_close(&s->http);
    broker_close(&s->broker);
    callbacks_free(s->callbacks);
    free(s);
    *state = NULL;
    return 0;
}

struct callback *
hub_stage_join(struct hub_stage *s, const char *target)
{
    struct callback *cb = callbacks_add(s->callbacks, target);

    hub_join(&s->http, HUB_SET, cb);
    return cb;
}

uint64_t
hub_stage_post(struct hub_stage *s, unsigned n)
{
    uint64_t last = source_post(&s->http, HUB_SET, s->n_posted, n, 0).last;

    s->n_posted += n;
    return last;
}

void
hub_stage_fence(struct hub_stage *s, struct callback *fence)
{
    callback_await_last(fence, hub_stage_post(s, 1));
    hub_await_head(&s->http, HUB_SET, callback_url(fence));
}
