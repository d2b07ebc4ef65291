#include "tests/unit/bridge_quiet/outbound_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "tests/clock.h"
#include "tests/support/script.h"
#include "tests/test.h"

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static void
open_db(struct outs *o)
{
    struct problem why = {""};

    if (mqtt_db_open(&o->db, o->dir.path, NULL, &writing, &why))
        fail_msg("%s", why.text);
}

int
outs_setup(void **state)
{
    struct outs *o = calloc(1, sizeof(*o));

    assert_non_null(o);
    *state = o;
    tempdir_open(&o->dir);
    sets_configure(&o->sets, o->dir.path);
    sets_open(&o->sets);
    assert_int_equal(tokens_open(&o->tokens, o->dir.path, NULL), STATUS_OK);
    o->sets.registry->tokens = o->tokens;
    o->config = (struct bridge_config){.name = "site",
                                       .prefix = "tidings",
                                       .out = "*",
                                       .qos = 1,
                                       .form = BRIDGE_JSON,
                                       .publish = BRIDGE_NOTIFICATIONS,
                                       .inflight = 20};
    open_db(o);
    return 0;
}

int
outs_teardown(void **state)
{
    struct outs *o = *state;

    script_finish();
    outbound_close(o->out);
    mqtt_db_close(o->db);
    sets_close(&o->sets);
    tokens_close(o->tokens);
    tempdir_close(&o->dir);
    free(o);
    return 0;
}

int
outs_setup_demo(void **state)
{
    outs_setup(state);
    play(*state, "add demo 1; begin; ackall; skip");
    return 0;
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

/* Adds nothing for retained messages, unless `with_retained`. */
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

struct outbound_report
outs_report(struct outs *o)
{
    struct outbound_report report;

    outbound_report(o->out, NULL, &report);
    return report;
}

/* Scripts */

static void
start(struct outs *o)
{
    struct problem why = {""};

    if (outbound_open(&o->out, o->sets.registry, o->db, &o->config, &why))
        fail_msg("%s", why.text);
    o->seen = 0;
    clock_pass_us(1); /* later sets are younger */
    quiet_mqtt_turn();
}

static void
stop(struct outs *o, bool is_cut)
{
    if (is_cut)
        quiet_mqtt_lose();
    outbound_close(o->out);
    o->out = NULL;
}

static void
kill_it(struct outs *o)
{
    static const char *const names[] = {"mqtt.db", "mqtt.db-wal"};
    char from[400], to[400];

    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof(from), "%s/%s", o->dir.path, names[i]);
        snprintf(to, sizeof(to), "%s/kept-%s", o->dir.path, names[i]);
        copy_file(from, to);
    }
    stop(o, true);
    mqtt_db_close(o->db);
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof(from), "%s/kept-%s", o->dir.path, names[i]);
        snprintf(to, sizeof(to), "%s/%s", o->dir.path, names[i]);
        copy_file(from, to);
    }
    open_db(o);
}

static void
add_token(struct outs *o, const char *name, const char *subscribe)
{
    struct token_terms terms = {.ends_us = INT64_MAX};
    char text[TOKEN_TEXT_SIZE];

    snprintf(terms.name, sizeof(terms.name), "%s", name);
    snprintf(terms.rights.subscribe, PATTERNS_SIZE, "%s", subscribe);
    assert_int_equal(tokens_add(o->tokens, NULL, &terms, text, NULL),
                     STATUS_OK);
}

static void
refuse(struct outs *o, char *rest)
{
    const char *word = script_word(&rest);
    unsigned nth = *rest ? (unsigned)script_number(&rest) : 0;
    int reason = *rest ? (int)script_number(&rest) : 0x87;

    quiet_mqtt_acknowledge(outs_find(o, word, nth), reason);
}

static int64_t
time_of(const char *word)
{
    char *end;
    long n = strtol(word, &end, 10);

    return *end == 's' ? n * SECOND : n;
}

#define IS(name) (!strcmp(verb, name))

/* Events of sets and of the bridge. */
static bool
act(struct outs *o, const char *verb, char *rest)
{
    const char *set = "";
    unsigned n;

    if (IS("add") || IS("post") || IS("heavy") || IS("rotate") ||
        IS("remove") || IS("private") || IS("token") || IS("revoke"))
        set = script_word(&rest);
    n = *set && *rest && !IS("token") ? (unsigned)script_number(&rest) : 0;
    if (IS("add") || IS("post"))
        sets_post(&o->sets, set, 0, n);
    else if (IS("heavy"))
        sets_post_heavy(&o->sets, set, 0, n, script_number(&rest));
    else if (IS("rotate"))
        sets_rotate(&o->sets, set);
    else if (IS("remove"))
        set_changes_remove(&o->sets, set);
    else if (IS("private"))
        set_changes_put(&o->sets, set, "{\"private\":true}");
    else if (IS("token"))
        add_token(o, set, rest);
    else if (IS("revoke"))
        assert_int_equal(tokens_revoke(o->tokens, NULL, slice_of(set), NULL),
                         STATUS_OK);
    else if (IS("start") || IS("begin"))
        start(o);
    else if (IS("stop") || IS("cut"))
        stop(o, IS("cut"));
    else if (IS("kill"))
        kill_it(o);
    else if (IS("skip"))
        outs_told(o, true);
    else
        return false;
    if (IS("begin"))
        quiet_mqtt_connect(false);
    if (IS("begin") || IS("post"))
        quiet_mqtt_turn();
    return true;
}

/* Actions of the MQTT broker. */
static bool
answer(struct outs *o, const char *verb, char *rest)
{
    if (IS("connect"))
        quiet_mqtt_connect(false);
    else if (IS("lose"))
        quiet_mqtt_lose();
    else if (IS("part"))
        quiet_mqtt_part();
    else if (IS("turn"))
        quiet_mqtt_turn();
    else if (IS("await"))
        quiet_mqtt_await();
    else if (IS("pass"))
        outs_pass(time_of(rest));
    else if (IS("ack"))
        quiet_mqtt_acknowledge(outs_find(o, rest, 0), 0);
    else if (IS("refuse"))
        refuse(o, rest);
    else if (IS("ackall"))
        quiet_mqtt_acknowledge_all();
    else if (IS("window"))
        quiet_mqtt->window = (unsigned)script_number(&rest);
    else if (IS("packet"))
        quiet_mqtt->packet_bytes = script_number(&rest);
    else
        return false;
    return true;
}

static unsigned long
counter(struct outs *o, const char *name)
{
    struct outbound_report r = outs_report(o);

    const struct {
        const char *name;
        uint64_t n;
    } counters[] = {
        {"sets", r.sets},           {"lag", r.lag},
        {"in_flight", r.in_flight}, {"acknowledged", r.acknowledged},
        {"refused", r.refused},     {"left_out", r.left_out},
    };

    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        if (!strcmp(name, counters[i].name))
            return counters[i].n;
    fail_msg("there is no counter \"%s\"", name);
    return 0;
}

/* The problem of a connection that stands. */
static void
expect_why(struct outs *o, const char *why)
{
    struct mqtt_state state;

    outbound_state(o->out, &state);
    script_expect(state.why.text, why);
    script_expect(outs_report(o).mqtt.why.text, why);
}

static bool
expect(struct outs *o, const char *verb, char *rest)
{
    char words[sizeof(o->text)];
    const char *name;

    snprintf(words, sizeof(words), "%s%s", rest, *rest ? " " : "");
    if (IS("told") || IS("all")) {
        script_expect(outs_told(o, IS("all")), words);
    } else if (IS("find")) {
        outs_find(o, rest, 0);
    } else if (IS("has")) {
        name = script_word(&rest);
        script_expect_number(counter(o, name), script_number(&rest));
    } else if (IS("until")) {
        unsigned long n;

        name = script_word(&rest);
        n = script_number(&rest);
        while (counter(o, name) != n)
            quiet_mqtt_await();
    } else if (IS("why")) {
        expect_why(o, rest);
    } else if (IS("waits")) {
        assert_in_range(quiet_mqtt->wait_us, 1, SECOND);
    } else if (IS("suspended") || IS("goes-on")) {
        assert_int_equal(quiet_mqtt->is_suspended, IS("suspended"));
    } else if (IS("rests")) {
        assert_true(quiet_mqtt->wait_us < 0);
    } else {
        return false;
    }
    return true;
}

static bool
step(void *user, const char *verb, char *rest)
{
    return act(user, verb, rest) || answer(user, verb, rest) ||
           expect(user, verb, rest);
}

void
play(struct outs *o, const char *script)
{
    script_run(script, step, o);
}
