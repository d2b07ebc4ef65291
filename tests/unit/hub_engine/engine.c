#include "tests/unit/hub_engine/engine.h"

#include <stdlib.h>

#include "proto/input/input_formats.h"

struct engine e;

/* The hub outside of the engine */

void
hub_rows_put_range(struct hub_db *r, struct subscription *s)
{
    (void)r;
    assert_true(e.n_written < SENT_MAX);
    e.written[e.n_written++] =
        (struct kept_range){s->id, s->reader.after, s->reader.upto};
}

void
end_subscription(struct subscription *s, enum subscription_end how)
{
    struct topic *topic = s->topic;

    e.n_ended++;
    e.how = how;
    delivery_cut(s);
    attempt_log_free(s);
    list_remove(&s->key.of_topic);
    list_remove(&s->moved);
    list_remove(&s->over);
    signer_free(s->signer);
    filters_leave(s->reader.filter);
    free(s->callback);
    free(s);
    topic_release(topic);
}

struct foreign_topic *
foreign_topic_of_url(struct foreign_topics *topics, struct slice url)
{
    (void)topics;
    return e.foreign.url && slice_is(url, e.foreign.url) ? &e.foreign : NULL;
}

enum status
foreign_topic_read(struct foreign_topic *topic, uint64_t after, struct buf *to,
                   const char **content_type, struct problem *why)
{
    if (after < topic->kept.earliest)
        return problem(why, STATUS_GONE, "no longer kept");
    if (after < topic->kept.last)
        buf_add_text(to, e.documents[after]);
    *content_type = "text/plain; charset=utf-8";
    return STATUS_OK;
}

/* The caller */

/* W-093: no two of one subscription at a time. */
static void
on_sent(struct call *call)
{
    struct sent *sent = &e.sent[e.n_sent++];
    size_t size = 0;

    assert_true(e.n_sent <= SENT_MAX);
    sent->s = NULL;
    for (struct list *t = e.hub.topics.next; t != &e.hub.topics; t = t->next) {
        struct topic *topic = list_entry(t, struct topic, node);

        for (struct list *n = topic->subscriptions.next;
             n != &topic->subscriptions; n = n->next) {
            struct subscription *s =
                list_entry(n, struct subscription, key.of_topic);

            if (s->callback == call->url)
                sent->s = s;
        }
    }
    assert_non_null(sent->s);
    for (struct call *other = NULL; (other = quiet_next(other));)
        if (other != call && other->own.state == QUIET_UNDER_WAY)
            assert_ptr_not_equal(other->url, call->url);
    for (const char *const *h = call->headers; *h; h++)
        size += (size_t)snprintf(sent->headers + size,
                                 sizeof(sent->headers) - size, "%s\n", *h);
    sent->call = call;
    sent->is_suspect = call->is_suspect;
    sent->data = call->body.data;
    buf_init(&sent->body, SIZE_MAX);
    buf_add_slice(&sent->body, call->body);
}

static void
on_wake(struct caller *caller, void *user)
{
    (void)caller, (void)user;
    deliveries_wake(&e.hub);
}

/* Ends a turn as hub.c does. After a crash the hub would send other bytes if it
 * sent a range before keeping it. */
static void
on_turn(struct caller *caller, void *user)
{
    struct subscription *s;

    (void)caller, (void)user;
    list_drain (s, &e.hub.over, over)
        end_subscription(s, s->how);
    deliveries_settle(&e.hub);
    if (e.disk_is_full && e.n_written > 0)
        return; /* a later turn writes them */
    assert_true(e.n_kept + e.n_written <= SENT_MAX);
    memcpy(&e.kept[e.n_kept], e.written, e.n_written * sizeof(e.kept[0]));
    e.n_kept += e.n_written;
    e.n_written = 0;
    deliveries_turn(&e.hub);
}

void
turns(void)
{
    quiet_turn();
}

void
run_jobs(void)
{
    while (quiet_job())
        turns();
}

void
pass(int64_t us)
{
    quiet_pass(us);
}

int64_t
next_alarm(void)
{
    const struct alarm *alarm = quiet_next_alarm();

    assert_non_null(alarm);
    return alarm->at_us - clock_steady_us();
}

/* Answers */

/* NULL: nothing is under way to it. */
static struct call *
call_of(const struct subscription *s)
{
    struct call *call = NULL;

    while ((call = quiet_next(call)))
        if (call->own.state == QUIET_UNDER_WAY && call->url == s->callback)
            break;
    return call;
}

bool
is_under_way(const struct subscription *s)
{
    return call_of(s);
}

void
finish_after(const struct subscription *s, unsigned status, int64_t retry_us)
{
    struct call *call = call_of(s);

    assert_non_null(call);
    call->retry_after_us = retry_us;
    quiet_answer(call, status, "");
    turns();
}

void
finish(const struct subscription *s, unsigned status)
{
    finish_after(s, status, 0);
}

void
break_off(const struct subscription *s, enum call_failure failure,
          const char *why)
{
    quiet_fail(call_of(s), failure, why);
    turns();
}

/* Life */

int
engine_configure(void **state)
{
    tempdir_setup(state);
    memset(&e, 0, sizeof(e));
    e.sent = calloc(SENT_MAX, sizeof(*e.sent));
    assert_non_null(e.sent);
    quiet_set_clock(QUIET_BEGIN_US);
    sets_configure(&e.sets, tempdir_path(state));
    return 0;
}

void
engine_start(void)
{
    static const struct caller_options options = {.on_wake = on_wake,
                                                  .on_turn = on_turn};
    struct problem why = {""};

    memset(&e.hub, 0, sizeof(e.hub));
    assert_int_equal(caller_open(&e.hub.caller, &options, &why), STATUS_OK);
    quiet->on_sent = on_sent;
    quiet->holds_jobs = true;
    quiet->connections = 1000;
    sets_open(&e.sets);
    atomic_store(&e.hub.woken, e.hub.caller);
    e.hub.registry = e.sets.registry;
    e.hub.config = &e.sets.config;
    list_init(&e.hub.topics);
    list_init(&e.hub.moved);
    list_init(&e.hub.over);
    deliveries_open(&e.hub);
}

int
engine_setup(void **state)
{
    engine_configure(state);
    engine_start();
    return 0;
}

void
engine_stop(void)
{
    /* A topic that a failed test did not release stays. */
    for (struct list *t = e.hub.topics.next, *next; t != &e.hub.topics;
         t = next) {
        struct list *of_topic =
            &list_entry(t, struct topic, node)->subscriptions;

        for (next = t->next; !list_is_empty(of_topic);) {
            bool is_last = of_topic->next->next == of_topic;

            end_subscription(
                list_entry(of_topic->next, struct subscription, key.of_topic),
                END_DELETED);
            if (is_last) /* it released the topic */
                break;
        }
    }
    while (quiet_job())
        ;
    deliveries_close(&e.hub);
    map_fini(&e.hub.topics_of_sets);
    sets_close(&e.sets);
    caller_close(e.hub.caller);
}

int
engine_teardown(void **state)
{
    engine_stop();
    for (size_t i = 0; i < e.n_sent; i++)
        buf_fini(&e.sent[i].body);
    free(e.sent);
    return tempdir_teardown(state);
}

void
post(unsigned n)
{
    sets_post(&e.sets, "demo", e.n_posted, n);
    e.n_posted += n;
}

void
post_heavy(unsigned n, size_t weight)
{
    sets_post_heavy(&e.sets, "demo", e.n_posted, n, weight);
    e.n_posted += n;
}

/* Subscriptions */

struct topic *
topic_for(enum topic_kind kind, const char *name)
{
    struct topic *topic;
    struct problem why = {""};

    if (topic_of_set(&e.hub, kind, sets_find(&e.sets, name), &topic, &why))
        fail_msg("%s", why.text);
    return topic;
}

struct subscription *
subscription_at(struct topic *topic, const char *callback, uint64_t after)
{
    struct subscription *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->hub = &e.hub;
    s->id = ++e.last_id;
    s->topic = topic;
    s->callback = strdup(callback);
    s->created_us = clock_now_us();
    s->lease_end_us = INT64_MAX;
    reader_init(&s->reader, &topic->news, after, NULL);
    list_init(&s->busy);
    list_init(&s->attempts.rows);
    list_init(&s->moved);
    list_init(&s->over);
    list_append(&topic->subscriptions, &s->key.of_topic);
    return s;
}

struct subscription *
new_subscription(const char *path, uint64_t after)
{
    char callback[100];

    snprintf(callback, sizeof(callback), "http://receiver.example%s", path);
    return subscription_at(topic_for(TOPIC_CHANGES, "demo"), callback, after);
}

struct subscription *
subscribe_nth(const char *path, unsigned nth, uint64_t after)
{
    struct subscription *s;
    char text[60];

    snprintf(text, sizeof(text), path, nth);
    s = new_subscription(text, after);
    delivery_begin(s);
    return s;
}

struct subscription *
subscribe(const char *path, uint64_t after)
{
    return subscribe_nth(path, 0, after);
}

struct subscription *
first_delivery(unsigned n)
{
    struct subscription *s;

    post(n);
    s = subscribe("/", 0);
    turns();
    return s;
}

void
set_filter(struct subscription *s, const char *text)
{
    struct filter filter;

    assert_int_equal(filter_read(&filter, slice_of(text), NULL), STATUS_OK);
    filters_leave(s->reader.filter);
    assert_int_equal(filters_enter(&e.sets.registry->filters, &filter, NULL,
                                   false, &s->reader.filter, NULL),
                     STATUS_OK);
}

/* Sent deliveries */

const struct sent *
last_sent(void)
{
    assert_true(e.n_sent > 0);
    return &e.sent[e.n_sent - 1];
}

const char *
header(const struct sent *sent, const char *name)
{
    static char values[4][2048];
    static unsigned n;
    char *value = values[n++ % 4];
    char line[64];
    const char *at;

    snprintf(line, sizeof(line), "%s: ", name);
    at = strstr(sent->headers, line);
    value[0] = '\0';
    if (at)
        snprintf(value, sizeof(values[0]), "%.*s",
                 (int)strcspn(at + strlen(line), "\n"), at + strlen(line));
    return value;
}

const char *
delivery_id(const struct sent *sent)
{
    return header(sent, "Tidings-Delivery");
}

void
assert_same_body(const struct sent *a, const struct sent *b)
{
    assert_true(slice_equal(buf_slice(&a->body), buf_slice(&b->body)));
}

/* Each change follows the one before. */
static enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    uint64_t *seq = user;

    (void)why;
    if (*seq > 0)
        assert_int_equal(change->seq, *seq + 1);
    *seq = change->seq;
    return STATUS_OK;
}

void
assert_sent(const struct sent *sent, uint64_t after, uint64_t last)
{
    uint64_t seq = 0;
    struct problem why = {""};
    struct input_reader *reader =
        input_reader_new(format_of(SLICE("application/xml")), INPUT_MESSAGE,
                         SIZE_MAX, on_change, &seq);

    if (input_reader_feed(reader, buf_slice(&sent->body), &why) ||
        input_reader_end(reader, &why))
        fail_msg("%s", why.text);
    assert_int_equal(reader->coverage.after, after);
    assert_int_equal(reader->coverage.last, last);
    input_reader_free(reader);
}

void
assert_kept(const struct subscription *s, uint64_t after, uint64_t last)
{
    for (size_t i = 0; i < e.n_kept; i++)
        if (e.kept[i].id == s->id && e.kept[i].after == after &&
            e.kept[i].last == last)
            return;
    fail_msg("the range is not in hub.db");
}
