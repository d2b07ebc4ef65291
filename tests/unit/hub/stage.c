#include "tests/unit/hub/stage.h"

#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

struct stage stage;

static void
open_stage(void **state)
{
    asked_setup(state);
    stage.origin = origin_new("/feed");
    stage.topic = origin_url(stage.origin);
    origin_names(stage.origin, stage.topic, ASKED_HUB);
}

int
stage_close(void **state)
{
    asked_teardown(state);
    origin_free(stage.origin);
    return 0;
}

int
stage_open_relay(void **state)
{
    open_stage(state);
    asked_put_relay("news", stage.topic, 201);
    return 0;
}

void
stage_put_set(void)
{
    struct problem why = {""};
    char text[600];

    snprintf(text, sizeof(text), "{\"upstreamTopic\":\"%s\"}", stage.topic);
    assert_int_equal(asked_put_set("demo", text, &why), STATUS_OK);
}

int
stage_open_set(void **state)
{
    open_stage(state);
    stage_put_set();
    return 0;
}

void
assert_http(struct told t, unsigned http, const char *part)
{
    if (t.http != http || !strstr(t.why.text, part))
        fail_msg("%u \"%s\" is not %u with \"%s\"", t.http, t.why.text, http,
                 part);
}

struct told
stage_post(const char *body)
{
    return asked_post(stage.topic, "text/plain", NULL, body);
}

struct told
stage_post_xml(const char *key, const char *body)
{
    return asked_post(stage.topic, "application/xml", key, body);
}

unsigned
stage_documents(void)
{
    struct told t = asked_of_relay(COMMAND_RELAY_SHOW, "news", "");
    const char *at = strstr(t.text, "\"last\":");

    assert_non_null(at);
    return (unsigned)strtoul(at + 7, NULL, 10);
}

void
stage_await_documents(unsigned n)
{
    AWAIT(stage_documents() >= n);
}

void
stage_await_entries(uint64_t n)
{
    AWAIT(sets_head(&broker.sets, "demo").last >= n);
}

struct told
stage_ping(void)
{
    char form[600];

    snprintf(form, sizeof(form), "hub.url=%s", stage.topic);
    return asked_ping(form);
}
