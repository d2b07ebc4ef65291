/*
 * subscriber_test.c - a slow client: how its stream ends, and its lag.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "broker/base/metrics.h"
#include "broker/push/resume_text.h"
#include "broker/push/subscribers.h"
#include "proto/number.h"
#include "tests/clock.h"
#include "tests/support/posts.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define SECOND INT64_C(1000000)

/* A message is larger than what the kernel takes for a client that does not
 * read, and three of them larger than what a thread keeps for all. */
#define ENTRIES       200
#define ENTRY_BYTES   64000
#define MESSAGE_LEAST (128 * ENTRY_BYTES)

/* A server of one thread; GET /?AFTER is a stream of the set "demo" for the
 * first principal, GET /2?AFTER for the second. */
static struct world {
    struct sets sets;
    struct set *set;
    struct push *push;
    struct server *server;
    struct principal *principals[2];
} world;

/* GET /many?set=...: a WebSocket of these sets. */
static void
accept_many(struct request *rq)
{
    struct follow_request follow = {.n = 0};
    struct push_wish wish = {
        .follow = &follow,
        .principal = world.principals[0],
        .transport = transports_of_websocket(false, SLICE(""), false),
    };

    assert_int_equal(follow_request_query(&follow, rq->query, NULL), 0);
    assert_int_equal(push_accept(world.push, rq, &wish, NULL), 0);
    follow_request_fini(&follow);
}

static void
on_request(struct request *rq, void *user)
{
    struct push_wish wish = {
        .set = world.set,
        .principal = world.principals[slice_is(rq->path, "/2")],
    };

    (void)user;
    if (slice_is(rq->path, "/many")) {
        accept_many(rq);
        return;
    }
    assert_true(number_read(rq->query, &wish.after));
    wish.transport =
        rq->is_upgrade ? transports_of_websocket(false, SLICE(""), false)
                       : transports_of_events(rq->is_1_0, false, MESSAGE_JSON);
    assert_int_equal(push_accept(world.push, rq, &wish, NULL), 0);
}

static void
on_wake(struct service *service, void *user)
{
    (void)user;
    push_on_wake(world.push, service);
}

static int
set_up(void **state)
{
    struct server_options options = {.host = "127.0.0.1",
                                     .threads = 1,
                                     .request_timeout_us = 10 * SECOND,
                                     .min_rate = 1024,
                                     .on_request = on_request,
                                     .on_wake = on_wake};

    assert_int_equal(tempdir_setup(state), 0);
    memset(&world, 0, sizeof(world));
    sets_configure(&world.sets, tempdir_path(state));
    world.sets.config.message_bytes = MESSAGE_LEAST + 2 * ENTRY_BYTES;
    sets_open(&world.sets);
    world.set = sets_post_heavy(&world.sets, "demo", 0, ENTRIES, ENTRY_BYTES);
    for (int i = 0; i < 2; i++)
        world.principals[i] = principal_new(
            SLICE("press"), &(struct rights){.subscribe = "*"}, INT64_MAX);
    assert_int_equal(push_open(&world.push, world.sets.registry, 1, NULL), 0);
    assert_int_equal(server_open(&world.server, &options, NULL), 0);
    return 0;
}

static int
tear_down(void **state)
{
    server_close(world.server, 0);
    push_close(world.push);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(atomic_load(&world.principals[i]->authority.refs), 1);
        principal_unref(world.principals[i]);
    }
    sets_close(&world.sets);
    return tempdir_teardown(state);
}

FIXTURE(set_up, tear_down);

/* Endings */

static void
remove_set(void)
{
    struct posted p;

    posts_begin_act(&p, ACT_REMOVAL, world.set->log);
    assert_int_equal(log_submit(world.sets.registry->log, &p.post, NULL),
                     STATUS_OK);
    assert_int_equal(posts_wait(&p), STATUS_OK);
    posts_end(&p);
}

/* Waits until the service thread has done all earlier tasks. */
struct errand {
    struct task task;
    sem_t is_done;
};

static void
run_errand(struct task *task)
{
    sem_post(&list_entry(task, struct errand, task)->is_done);
}

static void
run_on_service(void (*run)(struct task *), int times)
{
    struct errand errand = {.task = {.run = run}};

    sem_init(&errand.is_done, 0, 0);
    for (int i = 0; i < times; i++) {
        service_post(server_service(world.server, 0), &errand.task);
        sem_wait(&errand.is_done);
    }
    sem_destroy(&errand.is_done);
}

static void
await_service(void)
{
    run_on_service(run_errand, 2);
}

/* Clients */

static struct wire *
connected(void)
{
    struct wire *w =
        wire_connect_narrow("127.0.0.1", server_port(world.server));

    assert_non_null(w);
    return w;
}

/* A WebSocket that has got the first frame of a message, of many. */
static struct wire *
in_a_message(unsigned after)
{
    struct wire *w = connected();
    struct wire_answer a;
    struct wire_frame f;
    char path[20];

    snprintf(path, sizeof(path), "/?%u", after);
    assert_true(wire_upgrade(w, path, NULL, &a));
    assert_true(wire_message(w, &f)); /* a heartbeat */
    assert_true(wire_frame(w, &f));
    assert_int_equal(f.opcode, WIRE_TEXT);
    assert_false(f.is_last);
    await_service();
    return w;
}

/* From now on it reads fast. */
static void
widen(struct wire *w)
{
    static const int room = 1 << 20;

    setsockopt(wire_fd(w), SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
}

/* Reads to the close frame, and answers it; returns its code. *is_whole: the
 * message ended before. */
static unsigned
read_close(struct wire *w, bool *is_whole)
{
    struct wire_frame f;
    unsigned code = 0;

    widen(w);
    for (*is_whole = false;;) {
        assert_true(wire_frame(w, &f));
        if (f.opcode == WIRE_CLOSE)
            break;
        assert_int_equal(f.opcode, WIRE_CONTINUATION);
        assert_false(*is_whole); /* nothing follows it */
        *is_whole = f.is_last;
    }
    code = wire_close_code(&f);
    wire_send_frame(w, WIRE_CLOSE, true, "", 0);
    assert_true(wire_is_ended(w));
    wire_close(w);
    return code;
}

static void
assert_closed(struct wire *w, unsigned code)
{
    bool is_whole;

    await_service();
    assert_int_equal(read_close(w, &is_whole), code);
    assert_true(is_whole);
}

/* RFC 6455 section 5.4 lets a close frame stand between the frames of a
 * message, and yet some clients take it for an error. */
TEST(closes_behind_the_message_that_is_being_sent)
{
    struct wire *w = in_a_message(0);

    push_farewell(world.push, world.server);
    assert_closed(w, CLOSE_GOING_AWAY);
}

TEST(closes_for_the_first_reason)
{
    struct wire *w = in_a_message(0);

    remove_set();
    await_service();
    push_farewell(world.push, world.server);
    assert_closed(w, CLOSE_SET_REMOVED);
}

/* A client would take a farewell within an event for a part of that event. */
TEST(says_farewell_behind_the_event_that_is_being_sent)
{
    static const char end[] = "\n\n\r\n37\r\nevent: removed\ndata: {\"detail\":"
                              "\"the set was removed\"}\n\n\r\n0\r\n\r\n";
    struct wire *w = connected();
    struct wire_answer a;
    size_t size = 0;
    struct buf all;
    char some[4096];
    long n;

    assert_true(wire_send_text(w, "GET /?0 HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_true(wire_answer_head(w, &a));
    assert_int_equal(a.status, 200);
    buf_init(&all, SIZE_MAX);
    while (all.size < 1000) { /* in the first event that has entries */
        n = wire_read_some(w, some, sizeof(some));
        assert_true(n > 0);
        buf_add(&all, some, (size_t)n);
    }
    await_service();
    remove_set();
    await_service();
    widen(w);
    while ((n = wire_read_some(w, some, sizeof(some))) > 0)
        buf_add(&all, some, (size_t)n);
    wire_close(w);
    size = strlen(end);
    assert_true(all.size > MESSAGE_LEAST);
    assert_memory_equal(all.data + all.size - size, end, size);
    buf_fini(&all);
}

/* Nobody waits for a client that does not read. */
TEST(ends_a_client_that_does_not_take_the_message)
{
    struct wire *w = in_a_message(0);
    struct wire_frame f;

    remove_set();
    await_service();
    assert_int_equal(atomic_load(&world.set->subscribers[0]), 1);
    while (atomic_load(&world.set->subscribers[0]) > 0) {
        clock_pass_us(SECOND);
        await_service();
    }
    while (wire_frame(w, &f))
        assert_int_equal(f.opcode, WIRE_CONTINUATION);
    wire_close(w);
}

/* A thread with too many frames releases those that wait for room. It cannot
 * make them again when the set is removed. */
TEST(closes_at_once_where_the_message_was_let_go)
{
    struct wire *w[4];
    unsigned n_whole = 0;

    for (unsigned i = 0; i < 4; i++)
        w[i] = in_a_message(i);
    remove_set();
    await_service();
    for (unsigned i = 0; i < 4; i++) {
        bool is_whole;

        assert_int_equal(read_close(w[i], &is_whole), CLOSE_SET_REMOVED);
        n_whole += is_whole;
    }
    assert_in_range(n_whole, 1, 3);
}

/* The server ends, and waits for nobody. */
TEST(is_gone_with_the_server)
{
    struct wire *w = in_a_message(0);

    push_farewell(world.push, world.server);
    await_service();
    server_close(world.server, 0);
    world.server = NULL;
    assert_int_equal(atomic_load(&world.set->subscribers[0]), 0);
    wire_close(w);
}

static void
tick(struct task *task)
{
    push_on_tick(world.push, server_service(world.server, 0));
    run_errand(task);
}

/* The next tick of the thread, a second later. */
static void
tick_again(void)
{
    clock_pass_us(SECOND);
    run_on_service(tick, 1);
}

/* A WebSocket at the head. */
static struct wire *
at_the_head(const char *path)
{
    struct wire *w = connected();
    struct wire_answer a;
    struct wire_frame f;

    assert_true(wire_upgrade(w, path, NULL, &a));
    assert_true(wire_message(w, &f)); /* a heartbeat */
    await_service();
    return w;
}

/* Other streams go on: a later farewell is the first that they hear. */
TEST(ends_with_its_principal)
{
    struct wire *first = at_the_head("/?200"), *second = at_the_head("/2?200");
    struct wire_frame f;

    tick_again();
    principal_end(world.principals[0], clock_day_us() + 3 * SECOND / 2);
    tick_again();
    assert_true(wire_is_silent(first));
    tick_again();
    assert_true(wire_frame(first, &f));
    assert_int_equal(wire_close_code(&f), CLOSE_DENIED);
    assert_memory_equal(f.payload + 2, "the token has ended", 19);
    wire_close(first);
    push_farewell(world.push, world.server);
    assert_true(wire_frame(second, &f));
    assert_int_equal(wire_close_code(&f), CLOSE_GOING_AWAY);
    wire_close(second);
}

/* The last event is a whole one. */
TEST(says_that_its_principal_has_ended)
{
    static const char end[] =
        "event: denied\ndata: {\"detail\":\"the token has "
        "ended\"}\n\n\r\n0\r\n\r\n";
    struct wire *w = connected();
    struct wire_answer a;
    char some[8192];
    size_t size = 0;
    long n;

    assert_true(wire_send_text(w, "GET /?200 HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_true(wire_answer_head(w, &a));
    principal_end(world.principals[0], 0);
    tick_again();
    while ((n = wire_read_some(w, some + size, sizeof(some) - 1 - size)) > 0)
        size += (size_t)n;
    some[size] = '\0';
    assert_non_null(strstr(some, end));
    wire_close(w);
}

/* A client that does not read is not waited for: the first look leaves it its
 * message, the second ends it within. */
TEST(ends_with_its_principal_within_a_message)
{
    struct wire *w = in_a_message(0);
    bool is_whole;

    principal_end(world.principals[0], 0);
    tick_again();
    tick_again();
    assert_int_equal(read_close(w, &is_whole), CLOSE_DENIED);
    assert_false(is_whole);
}

/* A client that reads gets its message whole. */
TEST(ends_with_its_principal_behind_its_message)
{
    struct wire *w = in_a_message(0);

    principal_end(world.principals[0], 0);
    tick_again();
    assert_closed(w, CLOSE_DENIED);
}

static void
assert_measured(const char *metric, unsigned entries)
{
    struct buf text;
    char line[100];

    snprintf(line, sizeof(line), "\ntidings_subscriber_%s{%s} %u\n", metric,
             "transport=\"websocket-json\"", entries);
    push_measure(world.push);
    buf_init(&text, SIZE_MAX);
    metrics_write(&text);
    buf_add(&text, "", 1);
    if (!strstr(text.data, line))
        fail_msg("no %s in %s", line, strstr(text.data, "subscriber_lag"));
    buf_fini(&text);
}

/* The sum and the largest of the lags, as of the last look. */
TEST(measures_how_far_its_clients_are_behind)
{
    struct wire *w[2] = {in_a_message(150), in_a_message(20)};

    run_on_service(tick, 1);
    assert_measured("lag_entries", 50 + 180);
    assert_measured("lag_max_entries", 180);
    for (int i = 0; i < 2; i++)
        wire_abort(w[i]);
    await_service();
    clock_pass_us(SECOND);
    run_on_service(tick, 1);
    assert_measured("lag_entries", 0);
    assert_measured("lag_max_entries", 0);
}

/* Many sets */

/* The next message of a WebSocket, its frames joined and terminated; the caller
 * frees it. */
static char *
next_message(struct wire *w)
{
    struct wire_frame f;
    struct buf text;

    buf_init(&text, SIZE_MAX);
    do {
        assert_true(wire_frame(w, &f));
        assert_in_range(f.opcode, WIRE_CONTINUATION, WIRE_TEXT);
        buf_add(&text, f.payload, f.size);
    } while (!f.is_last);
    buf_add(&text, "", 1);
    assert_false(text.failed);
    return text.data;
}

/* The number behind `name` in a message. */
static unsigned long
member_of(const char *message, const char *name)
{
    const char *at = strstr(message, name);

    assert_non_null(at);
    return strtoul(at + strlen(name), NULL, 10);
}

/* The seq that the resume text in `message` has for the set. */
static uint64_t
resumed_seq(const char *message)
{
    static const char name[] = "\"resume\":\"";
    const char *at = strstr(message, name);
    const struct resume_entry *e;
    struct resume_text text;
    struct head framework;
    struct slice bytes;
    uint64_t seq;

    assert_non_null(at);
    bytes = slice_of(at + strlen(name));
    bytes.size = strcspn(bytes.data, "\"");
    log_head(world.sets.registry->framework->log, &framework);
    assert_int_equal(resume_text_read(&text, framework.epoch, bytes, NULL), 0);
    e = resume_text_find(&text, log_set_number(world.set->log));
    assert_non_null(e);
    seq = e->seq;
    free(text.entries);
    return seq;
}

/* A WebSocket of the set "demo" from its beginning, and of all sets that begin
 * with "new". */
static struct wire *
connected_to_many(void)
{
    struct wire *w = connected();
    struct wire_answer a;
    char *heartbeat;

    assert_true(wire_upgrade(w, "/many?set=demo@0&set=new*", NULL, &a));
    heartbeat = next_message(w);
    assert_non_null(strstr(heartbeat, "\"heartbeat\":20"));
    assert_int_equal(resumed_seq(heartbeat), 0); /* nothing was sent */
    free(heartbeat);
    return w;
}

/* Nobody waits for the entries of a set that cannot be served: its end is still
 * to be sent, behind the message of another set. */
TEST(a_set_that_cannot_be_served_has_no_lag)
{
    struct wire *w[2] = {in_a_message(0), connected()};
    struct resume_entry unused;
    struct resume_text none = {.entries = &unused};
    char path[200] = "/many?set=demo@0&set=other&resume=";
    size_t size = strlen(path);
    struct wire_answer a;
    struct head framework;
    struct buf text;

    sets_post(&world.sets, "other", 0, 3);
    log_head(world.sets.registry->framework->log, &framework);
    buf_init_fixed(&text, path + size, sizeof(path) - size);
    assert_true(resume_text_write(&text, framework.epoch, &none));
    buf_add(&text, "", 1);
    assert_false(text.failed);
    assert_true(wire_upgrade(w[1], path, NULL, &a));
    free(next_message(w[1])); /* a heartbeat */
    await_service();
    run_on_service(tick, 1);
    assert_measured("lag_entries", ENTRIES); /* of the first client */
    for (int i = 0; i < 2; i++)
        wire_abort(w[i]);
}

/* A text that counted a message which is on its way, or only announced, would
 * lose it: at each text the client has exactly what the text says. */
TEST(a_resume_text_says_no_more_than_was_sent)
{
    struct wire *w = connected_to_many();
    unsigned long last = 0;
    unsigned n_texts = 0;

    run_on_service(tick, 1); /* a text is due, behind the first message */
    widen(w);
    while (last < ENTRIES || n_texts < 2) {
        char *message;

        clock_pass_us(SECOND);
        run_on_service(tick, 1);
        message = next_message(w);
        if (strstr(message, "\"changes\"")) {
            assert_int_equal(member_of(message, "\"after\":"), last);
            last = member_of(message, "\"last\":");
        } else {
            assert_int_equal(resumed_seq(message), last);
            n_texts++;
        }
        free(message);
    }
    wire_close(w);
}

/* A tick finds sets that have begun, and no others. */
TEST(new_sets_join_at_a_tick)
{
    struct wire *w = connected_to_many();
    char *message;

    sets_post(&world.sets, "new", 0, 3);
    sets_post(&world.sets, "other", 0, 3);
    widen(w);
    for (;;) {
        clock_pass_us(SECOND);
        run_on_service(tick, 1);
        message = next_message(w);
        assert_null(strstr(message, "\"set\":\"other\""));
        if (strstr(message, "\"set\":\"new\""))
            break;
        free(message);
    }
    assert_int_equal(member_of(message, "\"after\":"), 0);
    assert_int_equal(member_of(message, "\"last\":"), 3);
    free(message);
    wire_close(w);
}

/* The other sets of a client go on while one waits for a disk, or has ended. */
TEST(says_the_end_of_a_set_behind_its_message)
{
    struct wire *w = connected_to_many();
    unsigned n = 0;
    char *message;

    await_service();
    remove_set();
    await_service();
    widen(w);
    while (message = next_message(w), !strstr(message, "\"end\"")) {
        n += strstr(message, "\"changes\"") != NULL;
        free(message);
    }
    assert_string_equal(message, "{\"set\":\"demo\",\"end\":\"removed\"}");
    assert_int_equal(n, 1); /* the one that was being sent */
    assert_int_equal(atomic_load(&world.set->subscribers[0]), 0);
    free(message);
    wire_close(w);
}

/* Sends the same bytes again and again, as many as the kernel takes now, from
 * where it stopped the last time (`sent`); returns how many these were. */
static size_t
send_without_waiting(struct wire *w, const struct buf *bytes, size_t sent)
{
    size_t all = 0;
    ssize_t n;

    do {
        size_t at = (sent + all) % bytes->size;

        n = send(wire_fd(w), bytes->data + at, bytes->size - at,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
        assert_true(n > 0 || errno == EAGAIN); /* the stream is open */
        all += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    return all;
}

/* Each message has a thousand answers. The next message stays in the kernel
 * until they are sent. */
TEST(reads_no_further_message_before_it_has_answered)
{
    struct wire *w = connected();
    struct wire_answer a;
    static const char header[] = "\x81\xfe\x00\x00\0\0\0\0";
    struct buf bytes;
    size_t sent = 0, more;
    unsigned n_still = 0;

    assert_true(wire_upgrade(w, "/many", NULL, &a));
    buf_init(&bytes, SIZE_MAX);
    buf_add(&bytes, header, sizeof(header) - 1);
    BUF_ADD(&bytes, "{\"follow\":[{\"set\":\"none\"}");
    for (unsigned i = 0; i < 1000; i++)
        buf_add_format(&bytes, ",{\"set\":\"none-%u\"}", i);
    BUF_ADD(&bytes, "]}");
    bytes.data[2] = (char)((bytes.size - 8) >> 8);
    bytes.data[3] = (char)(bytes.size - 8);
    while (n_still < 5) {
        more = send_without_waiting(w, &bytes, sent);
        n_still = more > 0 ? 0 : n_still + 1;
        sent += more;
        assert_in_range(sent, 1, 32 << 20);
        await_service();
    }
    buf_fini(&bytes);
    wire_abort(w);
}
