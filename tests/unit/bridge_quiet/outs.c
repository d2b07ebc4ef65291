#include "tests/unit/bridge_quiet/outs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "tests/clock.h"
#include "tests/test.h"

static void
open_ledger(struct outs *o)
{
    struct problem why = {""};

    if (bridge_ledger_open(&o->ledger, o->dir, &why))
        fail_msg("%s", why.text);
}

void
outs_open(struct outs *o, void **state)
{
    memset(o, 0, sizeof(*o));
    snprintf(o->dir, sizeof(o->dir), "%s", tempdir_path(state));
    sets_configure(&o->sets, o->dir);
    sets_open(&o->sets);
    snprintf(o->config.name, sizeof(o->config.name), "site");
    snprintf(o->config.prefix, sizeof(o->config.prefix), "tidings");
    snprintf(o->config.out, sizeof(o->config.out), "*");
    o->config.qos = 1;
    o->config.form = BRIDGE_JSON;
    o->config.publish = BRIDGE_NOTIFICATIONS;
    o->config.inflight = 20;
    open_ledger(o);
}

void
outs_close(struct outs *o)
{
    out_close(o->out);
    bridge_ledger_close(o->ledger);
    sets_close(&o->sets);
}

void
outs_start(struct outs *o)
{
    struct problem why = {""};

    if (out_open(&o->out, o->sets.registry, o->ledger, &o->config, &why))
        fail_msg("%s", why.text);
    o->seen = 0;
    clock_pass_us(1); /* later sets are younger */
    quiet_mqtt_turn();
}

void
outs_connect(struct outs *o)
{
    outs_start(o);
    quiet_mqtt_connect(false);
    quiet_mqtt_turn();
}

void
outs_open_demo(struct outs *o, void **state)
{
    outs_open(o, state);
    sets_post(&o->sets, "demo", 0, 1);
    outs_connect(o);
    quiet_mqtt_acknowledge_all();
    outs_told(o, true);
}

void
outs_stop(struct outs *o, bool is_cut)
{
    if (is_cut)
        quiet_mqtt_lose();
    out_close(o->out);
    o->out = NULL;
}

static void
copy_file(const char *from, const char *to)
{
    char bytes[65536];
    FILE *in = fopen(from, "re"), *out = fopen(to, "we");
    size_t n;

    assert_non_null(in);
    assert_non_null(out);
    while ((n = fread(bytes, 1, sizeof(bytes), in)) > 0)
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

void
outs_kill(struct outs *o)
{
    static const char *const names[] = {"mqtt.db", "mqtt.db-wal"};
    char from[400], to[400];

    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof(from), "%s/%s", o->dir, names[i]);
        snprintf(to, sizeof(to), "%s/kept-%s", o->dir, names[i]);
        copy_file(from, to);
    }
    outs_stop(o, true);
    bridge_ledger_close(o->ledger);
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof(from), "%s/kept-%s", o->dir, names[i]);
        snprintf(to, sizeof(to), "%s/%s", o->dir, names[i]);
        copy_file(from, to);
    }
    open_ledger(o);
}

void
outs_post(struct outs *o, const char *set, unsigned n)
{
    sets_post(&o->sets, set, 0, n);
    quiet_mqtt_turn();
}

void
outs_pass(int64_t us)
{
    clock_pass_us(us);
    quiet_mqtt_turn();
}

/* The level of the topic that is the set's name. */
static struct slice
set_of(const struct quiet_message *message)
{
    struct slice rest = slice_of(message->topic);

    slice_take(&rest, '/');
    return slice_take(&rest, '/');
}

static void
add_property(struct buf *to, const struct quiet_message *message,
             const char *name)
{
    char *value = quiet_mqtt_property(message, name);

    assert_non_null(value);
    buf_add_text(to, value);
    free(value);
}

static void
add_position(struct buf *to, const struct quiet_message *message)
{
    const char *seq = strstr(message->payload, "\"seq\":");

    BUF_ADD(to, "@");
    if (seq)
        buf_add_number(to, strtoull(seq + 6, NULL, 10));
    else
        BUF_ADD(to, "-");
}

static bool
ends(const char *text, const char *end)
{
    size_t size = strlen(text), n = strlen(end);

    return size >= n && !strcmp(text + size - n, end);
}

/* Nothing is added for what is retained, unless it is wanted. */
static void
describe(struct buf *to, const struct quiet_message *message,
         bool with_retained)
{
    if (message->is_retained && !with_retained)
        return;
    if (ends(message->topic, "/status")) {
        buf_add_text(to, message->payload);
    } else {
        buf_add_slice(to, set_of(message));
        if (ends(message->topic, "/position")) {
            add_position(to, message);
        } else if (ends(message->topic, "/notifications")) {
            BUF_ADD(to, "(");
            add_property(to, message, "after");
            BUF_ADD(to, "-");
            add_property(to, message, "last");
            BUF_ADD(to, ")");
        } else {
            BUF_ADD(to, "+");
            add_property(to, message, "last");
        }
    }
    BUF_ADD(to, " ");
}

const char *
outs_told(struct outs *o, bool with_retained)
{
    struct buf text;

    buf_init(&text, sizeof(o->text) - 1);
    while (o->seen < quiet_mqtt->n_published)
        describe(&text, quiet_mqtt_message(o->seen++), with_retained);
    assert_false(text.failed);
    snprintf(o->text, sizeof(o->text), "%.*s", SLICE_ARG(buf_slice(&text)));
    buf_fini(&text);
    return o->text;
}

size_t
outs_find(struct outs *o, const char *wanted, unsigned nth)
{
    (void)o;
    for (size_t i = 0; i < quiet_mqtt->n_published; i++) {
        struct buf text;
        bool is_it;

        buf_init(&text, SIZE_MAX);
        describe(&text, quiet_mqtt_message(i), true);
        is_it = text.size == strlen(wanted) + 1 &&
                !memcmp(text.data, wanted, text.size - 1);
        buf_fini(&text);
        if (is_it && nth-- == 0)
            return i;
    }
    fail_msg("%s was not told", wanted);
    return 0;
}

void
outs_acknowledge(struct outs *o, const char *text)
{
    quiet_mqtt_acknowledge(outs_find(o, text, 0), 0);
}

struct out_report
outs_report(struct outs *o)
{
    struct out_report report;

    out_report(o->out, &report);
    return report;
}
