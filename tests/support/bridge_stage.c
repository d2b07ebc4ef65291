#include "tests/support/bridge_stage.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/test.h"

/* How often somebody looks whether it has happened. */
#define LOOK_MS 10

#define OPTIONS_MAX 12

struct bridge_stage *
bridge_stage_begin(void **state, const struct mosquittod_wish *wish)
{
    struct bridge_stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    tempdir_open(&s->dir);
    snprintf(s->config, sizeof(s->config), "%s/tidingsd.ini", s->dir.path);
    mosquittod_open(&s->mqtt, wish);
    return s;
}

void
bridge_stage_config(struct bridge_stage *s, const char *format, ...)
{
    FILE *to = fopen(s->config, "we");
    va_list arguments;

    assert_non_null(to);
    va_start(arguments, format);
    vfprintf(to, format, arguments);
    va_end(arguments);
    assert_int_equal(fclose(to), 0);
}

void
bridge_stage_start(struct bridge_stage *s, const char *const *options)
{
    const char *o[OPTIONS_MAX + 1] = {NULL};

    for (size_t i = 0; options[i]; i++) {
        assert_true(i < OPTIONS_MAX);
        o[i] = options[i];
    }
    broker_open(&s->broker, "--config", s->config, o[0], o[1], o[2], o[3], o[4],
                o[5], o[6], o[7], o[8], o[9], o[10], o[11], NULL);
    http_open(&s->http, s->broker.url);
}

void
bridge_stage_end(struct bridge_stage *s)
{
    broker_stop(&s->broker);
}

int
bridge_stage_teardown(void **state)
{
    struct bridge_stage *s = *state;

    if (!s)
        return 0;
    mqtt_peer_close(s->hearer);
    mqtt_peer_close(s->teller);
    mqtt_peer_close(s->second);
    if (s->http.handle)
        http_close(&s->http);
    if (s->broker.dir.path[0])
        broker_close(&s->broker);
    mosquittod_close(&s->other);
    mosquittod_close(&s->mqtt);
    tempdir_close(&s->dir);
    free(s);
    *state = NULL;
    return 0;
}

/* GET /bridges */

static void
look(struct bridge_stage *s, struct jsonpath *j)
{
    assert_int_equal(http_get(&s->http, "/bridges"), 200);
    jsonpath_open(j, buf_slice(&s->http.body));
}

uint64_t
bridge_stage_number(struct bridge_stage *s, const char *path)
{
    struct jsonpath j;
    uint64_t n;

    look(s, &j);
    n = jsonpath_number(&j, path);
    jsonpath_close(&j);
    return n;
}

/* Between two looks; fails the test if it is `end_ms`. */
static void
pause_until(int64_t end_ms, const struct http *h, const char *what)
{
    if (process_now_ms() > end_ms)
        fail_msg("%s: not within %d ms: %.*s", what, PATIENCE_MS,
                 SLICE_ARG(buf_slice(&h->body)));
    poll(NULL, 0, LOOK_MS);
}

void
bridge_stage_await(struct bridge_stage *s, const char *path, uint64_t n)
{
    int64_t end_ms = process_now_ms() + PATIENCE_MS;

    while (bridge_stage_number(s, path) < n)
        pause_until(end_ms, &s->http, path);
}

void
bridge_stage_await_text(struct bridge_stage *s, const char *path,
                        const char *text)
{
    int64_t end_ms = process_now_ms() + PATIENCE_MS;

    for (;;) {
        struct jsonpath j;
        const char *now;
        bool is_it;

        look(s, &j);
        now = jsonpath_text(&j, path);
        is_it = now && strcmp(now, text) == 0;
        jsonpath_close(&j);
        if (is_it)
            return;
        pause_until(end_ms, &s->http, path);
    }
}

void
bridge_stage_await_said(struct bridge_stage *s, const char *part)
{
    int64_t end_ms = process_now_ms() + PATIENCE_MS;

    while (!broker_said(&s->broker, part))
        pause_until(end_ms, &s->http, part);
}

/* Sets */

uint64_t
bridge_stage_last(struct http *h, const char *set)
{
    struct jsonpath j;
    char path[100];
    uint64_t last;

    snprintf(path, sizeof(path), "/sets/%s", set);
    if (http_ask(h, "GET", path, "Accept: application/json", NULL) != 200)
        return 0;
    jsonpath_open(&j, buf_slice(&h->body));
    last = jsonpath_number(&j, "last");
    jsonpath_close(&j);
    return last;
}

void
bridge_stage_await_beyond(struct http *h, const char *set, uint64_t last)
{
    uint64_t now, before = 0;
    int64_t end_ms = 0;

    while ((now = bridge_stage_last(h, set)) < last) {
        if (now > before || end_ms == 0)
            end_ms = process_now_ms() + PATIENCE_MS;
        before = now;
        pause_until(end_ms, h, set);
    }
}

void
bridge_stage_await_last(struct http *h, const char *set, uint64_t last)
{
    bridge_stage_await_beyond(h, set, last);
    assert_int_equal(bridge_stage_last(h, set), last);
}
