#include "tests/unit/hub/stage.h"

#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

static void
open_stage(struct stage *s, void **state)
{
    asked_configure(&s->asked, state);
    asked_open(&s->asked);
    s->origin = origin_new("/feed");
    s->topic = origin_url(s->origin);
    origin_names(s->origin, s->topic, ASKED_HUB);
}

void
stage_close(struct stage *s)
{
    asked_close(&s->asked);
    origin_free(s->origin);
}

void
stage_open_relay(struct stage *s, void **state)
{
    open_stage(s, state);
    asked_put_relay(&s->asked, "news", s->topic, 201);
}

void
stage_put_set(struct stage *s)
{
    struct problem why = {""};
    char text[600];

    snprintf(text, sizeof(text), "{\"upstreamTopic\":\"%s\"}", s->topic);
    assert_int_equal(asked_put_set(&s->asked, "demo", text, &why), STATUS_OK);
}

void
stage_open_set(struct stage *s, void **state)
{
    open_stage(s, state);
    stage_put_set(s);
}

void
assert_http(const struct told *t, unsigned http, const char *part)
{
    if (t->http != http || !strstr(t->why.text, part))
        fail_msg("%u \"%s\" is not %u with \"%s\"", t->http, t->why.text, http,
                 part);
}

struct told
stage_post(struct stage *s, const char *body)
{
    return asked_post(&s->asked, s->topic, "text/plain", NULL, body);
}

unsigned
stage_documents(struct stage *s)
{
    struct told t = asked_of_relay(&s->asked, ORDER_RELAY_SHOW, "news", "");
    const char *at = strstr(t.text, "\"last\":");

    assert_non_null(at);
    return (unsigned)strtoul(at + 7, NULL, 10);
}

void
stage_await_documents(struct stage *s, unsigned n)
{
    AWAIT(stage_documents(s) >= n);
}

void
stage_await_entries(struct stage *s, uint64_t n)
{
    AWAIT(sets_head(&s->asked.sets, "demo").last >= n);
}

struct told
stage_ping(struct stage *s)
{
    char form[600];

    snprintf(form, sizeof(form), "hub.url=%s", s->topic);
    return asked_ping(&s->asked, form);
}
