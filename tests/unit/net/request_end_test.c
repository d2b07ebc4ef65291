#include <arpa/inet.h>

#include "broker/net/request.h"
#include "proto/http/network_address.h"
#include "tests/unit/net/streamed.h"

SERVED_GROUPS;

/* The latest end, with copies of its texts. */
static struct request_end ended;
static char id[80], path[80], query[80], agent[80], name[80];
static atomic_uint n_ended;
static struct networks trusted;

static void
copy_text(char to[80], struct slice text)
{
    snprintf(to, 80, "%.*s", SLICE_ARG(text));
}

static void
on_end(const struct request_end *end, void *user)
{
    (void)user;
    ended = *end;
    copy_text(id, end->entry.id);
    copy_text(path, end->entry.path);
    copy_text(query, end->entry.query);
    copy_text(agent, end->entry.agent);
    copy_text(name, end->entry.name);
    atomic_fetch_add(&n_ended, 1);
}

static const char route[] = "a route";

static void
on_request(struct request *rq, void *user)
{
    rq->route = route;
    rq->pattern = "/{any}";
    if (!slice_is(rq->query, "unkept"))
        request_keep_for_log(rq);
    request_set_name(rq, "someone");
    served_on_request(rq, user);
}

static int
ended_open(void **state)
{
    streamed_open(state);
    atomic_store(&n_ended, 0);
    served.options.on_request = on_request;
    served.options.on_end = on_end;
    served_reopen();
    return 0;
}

FIXTURE(ended_open, streamed_close);

/* The next end, of which there is one. */
static void
await_end(unsigned n)
{
    served_await(&n_ended, n);
}

TEST(each_request_ends_once)
{
    static const struct {
        const char *text;
        unsigned status;
        enum method method;
        const char *path, *query, *agent;
        unsigned received;
        bool is_head;
    } rows[] = {
        {"GET /small?a=1&b HTTP/1.1\r\nUser-Agent: x/1\r\n" HEAD_END, 200,
         METHOD_GET, "/small", "a=1&b", "x/1"},
        {"HEAD /small HTTP/1.1\r\n" HEAD_END, 200, METHOD_HEAD, "/small", "",
         "", 0, true},
        {GET("/big?size=300000"), 200, METHOD_GET, "/big", "size=300000", ""},
        {GET("/file?size=300000"), 200, METHOD_GET, "/file", "size=300000", ""},
        {GET("/pool?size=300000"), 200, METHOD_GET, "/pool", "size=300000", ""},
        {GET("/later"), 200, METHOD_GET, "/later", "", ""},
        {POST("/echo", "3") "abc", 200, METHOD_POST, "/echo", "", "", 3},
        {"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD_END
         "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
         200, METHOD_POST, "/echo", "", "", 5},
        {"PATCH /small HTTP/1.1\r\n" HEAD_END, 405, METHOD_PATCH, "/small", "",
         ""},
        {POST("/refuse", "3") "abc", 413, METHOD_POST, "/refuse", "", ""},
        {POST("/refuse-data", "3") "abc", 413, METHOD_POST, "/refuse-data", "",
         "", 3},
        {"ODD /small HTTP/1.1\r\n" HEAD_END, 501, METHODS, "/small", "", ""},
        {"GET\r\n\r\n", 400, METHODS, "", "", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire *w = served_sent(rows[i].text);
        struct wire_answer a;

        assert_true(wire_answer(w, &a, rows[i].is_head));
        await_end((unsigned)i + 1);
        if (ended.entry.status != rows[i].status ||
            a.status != ended.entry.status)
            fail_msg("%u: %s", ended.entry.status, rows[i].text);
        assert_true(ended.entry.is_whole && !ended.entry.is_stream);
        if (rows[i].method == METHODS)
            assert_null(ended.entry.method);
        else
            assert_string_equal(ended.entry.method,
                                method_name(rows[i].method));
        assert_string_equal(path, rows[i].path);
        assert_string_equal(query, rows[i].query);
        assert_string_equal(agent, rows[i].agent);
        assert_int_equal(ended.entry.received_bytes, rows[i].received);
        assert_int_equal(ended.entry.sent_bytes, strlen(a.head) + a.body_size);
        served_assert_header(&a, "X-Request-Id", id);
        if (rows[i].method == METHODS) {
            assert_null(ended.route);
            assert_string_equal(name, "");
        } else {
            assert_ptr_equal(ended.route, route);
            assert_string_equal(ended.entry.pattern, "/{any}");
            assert_string_equal(name, "someone");
        }
        wire_close(w);
    }
    served_turn();
    assert_int_equal(atomic_load(&n_ended), sizeof(rows) / sizeof(rows[0]));
}

TEST(its_duration_is_from_the_head_to_the_last_byte)
{
    struct wire *w = served_sent("GET /never HTTP/1.1\r\n");

    served_pass_seconds(2); /* do not count */
    assert_true(wire_send_text(w, HEAD_END));
    served_await(&served.n_requests, 1);
    clock_pass_us(3 * SECOND);
    wire_close(w);
    served_pass_until(&n_ended, 1);
    assert_true(ended.entry.duration_us >= 3 * SECOND);
    assert_true(ended.entry.duration_us < 5 * SECOND);
    assert_int_equal(ended.entry.status, 0);
    assert_false(ended.entry.is_whole);
}

TEST(a_cut_answer_is_not_whole)
{
    struct wire *w = served_sent(GET("/broken?size=300000"));

    (void)wire_is_ended(w);
    await_end(1);
    assert_int_equal(ended.entry.status, 200);
    assert_false(ended.entry.is_whole);
    wire_close(w);
}

static void
count_two(void)
{
    stream_count_message(last);
    stream_count_message(last);
    stream_close(last, 1000, NULL);
}

TEST(a_stream_ends_once_with_its_messages)
{
    static const char *const paths[] = {"/stream?a=1", "/stream?unkept"};

    for (unsigned i = 0; i < 2; i++) {
        struct wire *w = served_connect();
        struct wire_answer a;
        char sent[80];

        assert_true(wire_upgrade(w, paths[i], NULL, &a));
        assert_true(wire_header(&a, "X-Request-Id", sent, sizeof(sent)));
        served_await(&n_opened, i + 1);
        served_turn();
        assert_int_equal(atomic_load(&n_ended), i);

        clock_pass_us(7 * SECOND);
        assert_true(wire_send(w, "\x89\x80mask", 6)); /* a ping */
        served_on_service(count_two);
        wire_close(w);
        await_end(i + 1);
        assert_true(ended.entry.is_stream && ended.entry.is_whole);
        assert_int_equal(ended.entry.status, 101);
        assert_int_equal(ended.entry.n_messages, 2);
        assert_int_equal(ended.entry.received_bytes, 6);
        assert_true(ended.entry.sent_bytes > strlen(a.head));
        assert_true(ended.entry.duration_us >= 7 * SECOND);
        assert_ptr_equal(ended.route, route);
        assert_string_equal(id, i ? "" : sent);
        assert_string_equal(path, i ? "" : "/stream");
        assert_string_equal(query, i ? "" : "a=1");
        assert_string_equal(name, i ? "" : "someone");
    }
}

TEST(a_long_answer_ends_when_its_client_goes)
{
    struct wire *w = served_sent(GET("/long"));
    struct wire_answer a;

    assert_true(wire_answer_head(w, &a));
    served_await(&n_opened, 1);
    wire_close(w);
    served_pass_until(&n_ended, 1);
    assert_true(ended.entry.is_stream && !ended.entry.is_whole);
    assert_int_equal(ended.entry.status, 200);
    assert_string_equal(path, "/long");
    served_assert_header(&a, "X-Request-Id", id);
}

TEST(ids_differ)
{
    struct wire *w = served_connect();
    struct wire_answer a;
    char before[80] = "", now[80];

    for (int i = 0; i < 20; i++) {
        assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
        assert_true(wire_header(&a, "X-Request-Id", now, sizeof(now)));
        assert_int_equal(strlen(now), 24);
        assert_int_equal(strspn(now, "0123456789abcdef"), 24);
        if (i)
            assert_memory_equal(now, before, 12);
        assert_string_not_equal(now, before);
        strcpy(before, now);
    }
    wire_close(w);

    served_reopen();
    w = served_connect();
    assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
    assert_true(wire_header(&a, "X-Request-Id", now, sizeof(now)));
    assert_memory_not_equal(now, before, 12);
    wire_close(w);
}

#define X64 "x234567890123456789012345678901234567890123456789012345678901234"

TEST(only_a_trusted_proxy_names_a_request)
{
    static const struct {
        const char *lines, *id; /* NULL: one of our own */
    } rows[] = {
        {"X-Request-Id: Ab-1._:+/=z\r\n", "Ab-1._:+/=z"},
        {"X-Request-ID: " X64 "\r\n", X64},
        {"X-Request-Id: " X64 "5\r\n", NULL},
        {"X-Request-Id: \r\n", NULL},
        {"X-Request-Id: a b\r\n", NULL},
        {"X-Request-Id: a\"b\r\n", NULL},
        {"X-Request-Id: a\xc3\xa9\r\n", NULL},
        {"X-Request-Id: a\r\nX-Request-Id: b\r\n", NULL},
        {NULL, NULL},
    };
    struct clients clients;

    clients_init(&clients, 25);
    assert_int_equal(
        networks_read(SLICE("127.0.0.1,unix"), true, &trusted, NULL), 0);
    for (int is_trusted = 0; is_trusted < 2; is_trusted++) {
        struct wire *w;

        served.options.clients = &clients;
        served.options.trusted = is_trusted ? &trusted : NULL;
        served_reopen();
        w = served_connect();
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            struct wire_answer a;
            char sent[80];

            assert_true(
                wire_request(w, "GET", "/small", rows[i].lines, NULL, &a));
            assert_true(wire_header(&a, "X-Request-Id", sent, sizeof(sent)));
            if (is_trusted && rows[i].id)
                assert_string_equal(sent, rows[i].id);
            else
                assert_int_equal(strspn(sent, "0123456789abcdef"), 24);
        }
        wire_close(w);
    }
    server_close(served.server, 0);
    served.server = NULL;
    clients_fini(&clients);
}

TEST(the_client_is_the_peer_or_whom_a_proxy_names)
{
    struct clients clients;
    struct wire *w;
    struct wire_answer a;
    char peer[CLIENT_ADDRESS_TEXT_SIZE], self[CLIENT_ADDRESS_TEXT_SIZE];

    snprintf(self, sizeof(self), "uid:%u", (unsigned)getuid());
    if (served_way != SERVED_UNIX)
        strcpy(self, "127.0.0.1");
    clients_init(&clients, 25);
    assert_int_equal(
        networks_read(SLICE("127.0.0.1,unix"), true, &trusted, NULL), 0);
    served.options.clients = &clients;
    served.options.trusted = &trusted;
    served_reopen();
    w = served_connect();
    assert_true(wire_request(w, "GET", "/small",
                             "X-Forwarded-For: 2001:db8::7\r\n", NULL, &a));
    await_end(1);
    client_address_write(&ended.entry.client, peer);
    assert_string_equal(peer, "2001:db8::7");

    /* The proxy's next request is not that client's. */
    assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
    await_end(2);
    client_address_write(&ended.entry.client, peer);
    assert_string_equal(peer, self);
    assert_true(wire_send_text(w, "bad\r\n\r\n"));
    await_end(3);
    client_address_write(&ended.entry.client, peer);
    assert_string_equal(peer, self);
    wire_close(w);
    server_close(served.server, 0);
    served.server = NULL;
    clients_fini(&clients);
}

TEST(writes_addresses)
{
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6};
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    struct client_address peer;
    char text[CLIENT_ADDRESS_TEXT_SIZE];

    assert_int_equal(inet_pton(AF_INET6, "::ffff:192.0.2.1", &mapped.sin6_addr),
                     1);
    client_address_set(&peer, (struct sockaddr *)&mapped, 0);
    client_address_write(&peer, text);
    assert_string_equal(text, "192.0.2.1");
    client_address_set(&peer, &none, 0);
    client_address_write(&peer, text);
    assert_string_equal(text, "");
}
