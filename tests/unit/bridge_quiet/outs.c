#include "tests/unit/bridge_quiet/outs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "tests/clock.h"
#include "tests/support/script.h"
#include "tests/test.h"

static void
open_ledger(struct outs *o)
{
    struct problem why = {""};

    if (bridge_ledger_open(&o->ledger, o->dir.path, &why))
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
    o->config = (struct bridge_config){.name = "site",
                                       .prefix = "tidings",
                                       .out = "*",
                                       .qos = 1,
                                       .form = BRIDGE_JSON,
                                       .publish = BRIDGE_NOTIFICATIONS,
                                       .inflight = 20};
    open_ledger(o);
    return 0;
}

int
outs_teardown(void **state)
{
    struct outs *o = *state;

    script_finish();
    out_close(o->out);
    bridge_ledger_close(o->ledger);
    sets_close(&o->sets);
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

struct out_report
outs_report(struct outs *o)
{
    struct out_report report;

    out_report(o->out, &report);
    return report;
}

/* Scripts */

SCRIPT_VERB(add)
{
    struct outs *o = user;
    const char *set = script_word(&rest);

    sets_post(&o->sets, set, 0, (unsigned)script_number(&rest));
}

SCRIPT_VERB(post)
{
    add(user, rest);
    quiet_mqtt_turn();
}

SCRIPT_VERB(heavy)
{
    struct outs *o = user;
    const char *set = script_word(&rest);
    unsigned n = (unsigned)script_number(&rest);

    sets_post_heavy(&o->sets, set, 0, n, script_number(&rest));
}

SCRIPT_VERB(remove_set)
{
    struct outs *o = user;

    alterations_remove(&o->sets, script_word(&rest));
}

SCRIPT_VERB(rotate)
{
    struct outs *o = user;

    sets_rotate(&o->sets, script_word(&rest));
}

SCRIPT_VERB(start)
{
    struct outs *o = user;
    struct problem why = {""};

    if (out_open(&o->out, o->sets.registry, o->ledger, &o->config, &why))
        fail_msg("%s", why.text);
    o->seen = 0;
    clock_pass_us(1); /* later sets are younger */
    quiet_mqtt_turn();
}

SCRIPT_VERB(begin)
{
    start(user, rest);
    quiet_mqtt_connect(false);
    quiet_mqtt_turn();
}

SCRIPT_VERB(stop)
{
    struct outs *o = user;

    out_close(o->out);
    o->out = NULL;
}

SCRIPT_VERB(cut)
{
    quiet_mqtt_lose();
    stop(user, rest);
}

SCRIPT_VERB(kill_it)
{
    static const char *const names[] = {"mqtt.db", "mqtt.db-wal"};
    struct outs *o = user;
    char from[400], to[400];

    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof(from), "%s/%s", o->dir.path, names[i]);
        snprintf(to, sizeof(to), "%s/kept-%s", o->dir.path, names[i]);
        copy_file(from, to);
    }
    cut(user, rest);
    bridge_ledger_close(o->ledger);
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof(from), "%s/kept-%s", o->dir.path, names[i]);
        snprintf(to, sizeof(to), "%s/%s", o->dir.path, names[i]);
        copy_file(from, to);
    }
    open_ledger(o);
}

SCRIPT_VERB(connect_it)
{
    quiet_mqtt_connect(false);
}

SCRIPT_VERB(lose)
{
    quiet_mqtt_lose();
}

SCRIPT_VERB(turn)
{
    quiet_mqtt_turn();
}

SCRIPT_VERB(await)
{
    quiet_mqtt_await();
}

SCRIPT_VERB(pass)
{
    char *end;
    long n = strtol(rest, &end, 10);

    clock_pass_us(*end == 's' ? n * SECOND : n);
    quiet_mqtt_turn();
}

SCRIPT_VERB(ack)
{
    quiet_mqtt_acknowledge(outs_find(user, script_word(&rest), 0), 0);
}

SCRIPT_VERB(refuse)
{
    const char *word = script_word(&rest);
    unsigned nth = *rest ? (unsigned)script_number(&rest) : 0;
    int reason = *rest ? (int)script_number(&rest) : 0x87;

    quiet_mqtt_acknowledge(outs_find(user, word, nth), reason);
}

SCRIPT_VERB(ack_all)
{
    quiet_mqtt_acknowledge_all();
}

SCRIPT_VERB(set_window)
{
    quiet_mqtt->window = (unsigned)script_number(&rest);
}

SCRIPT_VERB(set_packet)
{
    quiet_mqtt->packet_bytes = script_number(&rest);
}

SCRIPT_VERB(skip_told)
{
    outs_told(user, true);
}

/* What was told ends with a space, if there is any. */
static void
expect_told(struct outs *o, const char *words, bool with_retained)
{
    char wanted[sizeof(o->text)];

    snprintf(wanted, sizeof(wanted), "%s%s", words, *words ? " " : "");
    script_expect(outs_told(o, with_retained), wanted);
}

SCRIPT_VERB(told)
{
    expect_told(user, rest, false);
}

SCRIPT_VERB(all)
{
    expect_told(user, rest, true);
}

SCRIPT_VERB(find)
{
    outs_find(user, script_word(&rest), 0);
}

static unsigned long long
counter(struct outs *o, const char *name)
{
    struct out_report r = outs_report(o);

    const struct {
        const char *name;
        unsigned long long n;
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

SCRIPT_VERB(has)
{
    const char *name = script_word(&rest);
    char seen[32];

    snprintf(seen, sizeof(seen), "%llu", counter(user, name));
    script_expect(seen, rest);
}

SCRIPT_VERB(until)
{
    const char *name = script_word(&rest);
    unsigned long n = script_number(&rest);

    while (counter(user, name) != n)
        quiet_mqtt_await();
}

/* A connection that stands has something wrong with it all the same. */
SCRIPT_VERB(why)
{
    struct outs *o = user;
    struct mqtt_state state;

    out_state(o->out, &state);
    script_expect(state.why.text, rest);
    script_expect(outs_report(o).mqtt.why.text, rest);
}

SCRIPT_VERB(waits)
{
    assert_in_range(quiet_mqtt->wait_us, 1, SECOND);
}

SCRIPT_VERB(rests)
{
    assert_true(quiet_mqtt->wait_us < 0);
}

void
play(struct outs *o, const char *script)
{
    static const struct script_verb verbs[] = {
        {"add", add},
        {"post", post},
        {"heavy", heavy},
        {"rotate", rotate},
        {"remove", remove_set},
        {"start", start},
        {"begin", begin},
        {"stop", stop},
        {"cut", cut},
        {"kill", kill_it},
        {"connect", connect_it},
        {"lose", lose},
        {"turn", turn},
        {"await", await},
        {"pass", pass},
        {"ack", ack},
        {"refuse", refuse},
        {"ackall", ack_all},
        {"window", set_window},
        {"packet", set_packet},
        {"skip", skip_told},
        {"told", told},
        {"all", all},
        {"find", find},
        {"has", has},
        {"until", until},
        {"why", why},
        {"waits", waits},
        {"rests", rests},
        {NULL, NULL},
    };

    script_run(script, verbs, o);
}
