/*
 * Connections, and limits per client. (All clients here are one address;
 * others: e2e/clients_test.py.)
 */
#include <errno.h>
#include <sys/socket.h>

#include "broker/base/client_limits.h"
#include "proto/http/network_address.h"
#include "tests/unit/net/streamed.h"

SERVED_GROUPS;

static struct clients clients;

static int
limited_open(void **state)
{
    streamed_open(state);
    clients_init(&clients, 25);
    served.options.clients = &clients;
    served_reopen();
    return 0;
}

static int
limited_close(void **state)
{
    streamed_close(state);
    for (int i = 0; i < CLIENT_KINDS; i++)
        assert_int_equal(clients_held(&clients, (enum client_kind)i), 0);
    assert_null(clients.tree);
    clients_fini(&clients);
    return 0;
}

FIXTURE(limited_open, limited_close);

static struct wire *
connect_silently(void)
{
    struct wire *w = served_dial();

    assert_non_null(w);
    return w;
}

static void
await_held(enum client_kind kind, unsigned n)
{
    for (unsigned looks = 0; clients_held(&clients, kind) != n; looks++) {
        clock_run_on(looks == 0);
        test_yield(looks);
    }
}

/* The server closes a connection over the limit at once, without a handshake.
 */
TEST(a_client_has_so_many_connections)
{
    struct wire *w[2];

    clients_limit_each(&clients, CLIENT_CONNECTIONS, 2);
    for (int i = 0; i < 2; i++) {
        w[i] = served_connect();
        served_assert_kept(w[i]);
    }
    for (int i = 0; i < 3; i++)
        served_assert_ended(connect_silently());
    served_assert_kept(w[0]);
    wire_close(w[1]);
    await_held(CLIENT_CONNECTIONS, 1);

    w[1] = served_connect();
    served_assert_kept(w[1]);
    wire_close(w[0]);
    wire_close(w[1]);
    await_held(CLIENT_CONNECTIONS, 0);
}

/* A half head is a connection that has not sent its first request yet, also
 * one in a handshake, or that has begun to send another request. */
TEST(a_client_has_so_many_half_heads)
{
    struct wire *silent, *asking, *kept;

    clients_limit_each(&clients, CLIENT_HALF_HEADS, 2);
    kept = served_connect();
    served_assert_kept(kept);
    silent = connect_silently();
    asking = served_connect();
    await_held(CLIENT_HALF_HEADS, 2);
    served_assert_ended(connect_silently());
    served_assert_kept(asking);
    assert_int_equal(clients_held(&clients, CLIENT_HALF_HEADS), 1);

    assert_true(wire_send_text(asking, "GET /small HTT"));
    await_held(CLIENT_HALF_HEADS, 2);
    served_assert_kept(kept);
    assert_true(wire_send_text(kept, "GET /small HTT"));
    served_assert_ended(kept);

    assert_true(wire_send_text(asking, "P/1.1\r\n" HEAD_END));
    served_assert_answer(asking, 200, "hello");
    wire_close(silent);
    wire_close(asking);
    await_held(CLIENT_CONNECTIONS, 0);
}

/* The server answers a stream over the limit with 429. */
TEST(a_client_has_so_many_streams)
{
    struct wire *stream, *more, *other = served_connect();
    struct wire_answer a;

    clients_limit_each(&clients, CLIENT_STREAMS, 1);
    for (int is_long = 0; is_long < 2; is_long++) {
        stream = served_connect();
        if (is_long) {
            assert_true(wire_send_text(stream, GET("/long")));
            assert_true(wire_answer_head(stream, &a));
        } else {
            assert_true(wire_upgrade(stream, "/", NULL, &a));
        }
        await_held(CLIENT_STREAMS, 1);
        more = served_connect();
        assert_false(wire_upgrade(more, "/", NULL, &a));
        assert_int_equal(a.status, 429);
        served_assert_header(&a, "Retry-After", "10");
        assert_non_null(strstr(a.body, "streams as one client may have: 1"));
        wire_close(more);
        assert_true(wire_request(other, "GET", "/long", NULL, NULL, &a));
        assert_int_equal(a.status, 429);
        wire_close(stream);
        served_pass_seconds(1);
        await_held(CLIENT_STREAMS, 0);
        served_assert_kept(other);
    }
    wire_close(other);
    /* The handlers get the end of requests, too, that never began. */
    served_await(&n_gone, 6);
    atomic_store(&n_gone, atomic_load(&n_opened));
}

/* This machine is a proxy. */
static enum status
read_proxies(struct networks *proxies)
{
    return networks_read(SLICE("127.0.0.1/32, unix"), true, proxies, NULL);
}

#define FROM(client) "X-Forwarded-For: " client "\r\n"

/* A client that sends one request after the other, whichever connection of the
 * proxy each comes on, has one at a time. */
TEST(a_request_of_a_proxy_counts_until_its_answer)
{
    enum { KEPT = 8, ROUNDS = 300 };

    static const char *const paths[] = {"/small", "/big?size=200000",
                                        "/file?size=200000", "/later"};
    struct wire *kept[KEPT];
    struct networks proxies;

    assert_int_equal(read_proxies(&proxies), 0);
    served.options.trusted = &proxies;
    served_reopen();
    clients_limit_each(&clients, CLIENT_CONNECTIONS, 1);
    for (int i = 0; i < KEPT; i++)
        kept[i] = served_connect();
    for (int i = 0; i < ROUNDS * 4; i++) {
        struct wire *w = kept[i % KEPT];

        assert_true(wire_send_format(
            w, "GET %s HTTP/1.1\r\n" FROM("192.0.2.1") HEAD_END,
            paths[i / KEPT % 4]));
        served_assert_answer(w, 200, NULL);
    }
    for (int i = 0; i < KEPT; i++)
        wire_close(kept[i]);
}

/* A trusted proxy's request for a client without a free share is
 * answered 429, and the connection goes on with requests of others. RFC 9110
 * section 9.3.2: the answer to HEAD has no body, which the proxy would take for
 * the next answer. */
TEST(a_proxy_hears_of_its_clients_limit)
{
    struct networks proxies;
    struct wire *stream, *kept;
    struct wire_answer a;

    assert_int_equal(read_proxies(&proxies), 0);
    served.options.trusted = &proxies;
    served_reopen();
    clients_limit_each(&clients, CLIENT_CONNECTIONS, 1);
    stream = served_sent("GET /long HTTP/1.1\r\n" FROM("192.0.2.1") HEAD_END);
    assert_true(wire_answer_head(stream, &a));
    kept = served_sent("HEAD /small HTTP/1.1\r\n" FROM("192.0.2.1") HEAD_END
                       "GET /small HTTP/1.1\r\n" FROM("192.0.2.1") HEAD_END
                       "GET /small HTTP/1.1\r\n" FROM("192.0.2.2") HEAD_END);
    assert_true(wire_answer(kept, &a, true));
    assert_int_equal(a.status, 429);
    assert_true(wire_answer(kept, &a, false));
    assert_int_equal(a.status, 429);
    assert_non_null(strstr(a.body, "connections as one client may have: 1"));
    served_assert_answer(kept, 200, "hello");
    wire_close(kept);
    wire_close(stream);
    served_pass_seconds(1);
    await_held(CLIENT_CONNECTIONS, 0);
}

/* Passes seconds until all clients hold between `least` and `most`. */
static void
pass_until_held(enum client_kind kind, uint64_t least, uint64_t most)
{
    while (clients_held(&clients, kind) < least ||
           clients_held(&clients, kind) > most)
        served_pass_seconds(1);
}

/* A client that has asked, and does not read. */
static struct wire *
stuck(const char *request)
{
    struct wire *w = served_connect_narrow();

    assert_true(wire_send_text(w, request));
    return w;
}

/* Reads to the end; true if that is a reset. */
static bool
is_reset(struct wire *w)
{
    char some[4096];
    ssize_t n;

    do
        n = recv(wire_fd(w), some, sizeof(some), 0);
    while (n > 0);
    return n < 0 && errno == ECONNRESET;
}

#define LARGE "/big?size=300000"

/* The bytes that the kernel holds for a client that takes nothing count for it,
 * and go with the connection: no socket stays behind with them, whichever way
 * the answer ends. */
TEST(what_nobody_reads_counts_until_the_kernel_drops_it)
{
    static const struct {
        const char *request;
        bool is_half; /* the client ends its side */
    } rows[] = {
        {GET("/big?size=9000000"), false},
        {"GET " LARGE " HTTP/1.1\r\nConnection: close\r\n" HEAD_END, false},
        {GET(LARGE), true},
        {GET(LARGE), false}, /* kept, until it has rested too long */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire *w = stuck(rows[i].request);

        if (rows[i].is_half)
            shutdown(wire_fd(w), SHUT_WR);
        pass_until_held(CLIENT_KERNEL, 100000, UINT64_MAX);
        assert_int_equal(clients_held(&clients, CLIENT_CONNECTIONS), 1);
        pass_until_held(CLIENT_CONNECTIONS, 0, 0);
        assert_int_equal(clients_held(&clients, CLIENT_KERNEL), 0);
        if (served_way != SERVED_UNIX && !is_reset(w))
            fail_msg("row %zu: the kernel keeps the bytes", i);
        wire_close(w);
    }
}

/* A whole answer is not cut: a slow client gets all of it. */
TEST(a_slow_client_gets_its_last_answer)
{
    struct wire *w =
        stuck("GET " LARGE " HTTP/1.1\r\nConnection: close\r\n" HEAD_END);
    size_t size = 0, looked = 0;
    char some[4000];
    long n;

    while ((n = wire_read_some(w, some, sizeof(some))) > 0) {
        size += (size_t)n;
        if (size - looked > 50000) {
            looked = size;
            served_pass_seconds(1);
        }
    }
    assert_int_equal(n, 0);
    assert_true(size > 300000);
    wire_close(w);
    pass_until_held(CLIENT_CONNECTIONS, 0, 0);
}

static int
patient_open(void **state)
{
    limited_open(state);
    served.options.min_rate = 0;
    served_reopen();
    return 0;
}

/* Over its share a client loses connections, of which it takes too little. */
TEST(a_client_leaves_so_much_unread, patient_open, limited_close)
{
    struct wire *first, *second;

    clients_limit_all(&clients, CLIENT_KERNEL, 800000); /* 200,000 of one */
    first = stuck(GET("/big?size=9000000"));
    second = stuck(GET("/big?size=9000000"));
    await_held(CLIENT_CONNECTIONS, 2);
    pass_until_held(CLIENT_CONNECTIONS, 1, 1);
    wire_close(first);
    wire_close(second);
    pass_until_held(CLIENT_CONNECTIONS, 0, 0);
}
