#include "client/websub/callback.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/tidings.h"
#include "tests/clock.h"
#include "tests/support/turner.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define BODY_MAX 100000

struct stage {
    struct td_client *client;
    struct td_callback *callback;
    struct route *route;
    struct turner *turner;
    unsigned port;
    char path[2100];

    /* Arrivals; read them while the turner is held. */
    int n_arrivals;
    char told[400];
    size_t body_size;
};

static void
on_arrival(struct arrival *a, struct reply *reply, void *user)
{
    struct stage *s = user;

    snprintf(
        s->told, sizeof(s->told), "%s|%.*s|%.*s|%.*s|%.*s|%.*s|%.*s|%.*s|%.*s",
        a->is_post ? "POST" : "GET", SLICE_ARG(a->query), SLICE_ARG(a->type),
        SLICE_ARG(a->signature), SLICE_ARG(a->webhook_id),
        SLICE_ARG(a->webhook_timestamp), SLICE_ARG(a->webhook_signature),
        SLICE_ARG(a->delivery_id), a->body.size < 100 ? (int)a->body.size : 0,
        a->body.data ? a->body.data : "");
    s->body_size = a->body.size;
    s->n_arrivals++;
    reply->status = a->is_post ? 202 : 200;
    buf_add_slice(&reply->text, a->query);
}

static int
begin(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));
    const char *url;

    assert_non_null(s);
    s->client = td_open();
    assert_non_null(s->client);
    assert_int_equal(
        td_callback_open(s->client, "127.0.0.1:0", NULL, &s->callback), TD_OK);
    s->route = route_new(s->callback, BODY_MAX, on_arrival, s);
    assert_non_null(s->route);
    url = td_callback_url(s->callback);
    assert_int_equal(sscanf(url, "http://127.0.0.1:%u", &s->port), 1);
    assert_memory_equal(s->route->url, url, strlen(url));
    strcpy(s->path, s->route->url + strlen(url));
    s->turner = turner_begin(s->client);
    *state = s;
    return 0;
}

static int
end(void **state)
{
    struct stage *s = *state;

    turner_end(s->turner);
    route_free(s->route);
    td_callback_close(s->callback);
    td_close(s->client);
    free(s);
    return 0;
}

static struct wire *
connect_to(struct stage *s)
{
    struct wire *w = wire_connect("127.0.0.1", s->port);

    assert_non_null(w);
    return w;
}

/* One request on a connection of its own; the status. */
static unsigned
ask(struct stage *s, const char *method, const char *path, const char *headers,
    const char *body)
{
    struct wire *w = connect_to(s);
    struct wire_answer a;

    wire_send_format(w, "%s %s HTTP/1.1\r\nHost: a\r\n%s", method, path,
                     headers ? headers : "");
    if (body)
        wire_send_format(w, "Content-Length: %zu\r\n\r\n%s", strlen(body),
                         body);
    else
        wire_send_text(w, "\r\n");
    assert_true(wire_answer(w, &a, !strcmp(method, "HEAD")));
    wire_close(w);
    return a.status;
}

FIXTURE(begin, end);

TEST(what_comes_is_told_and_the_reply_is_sent)
{
    struct stage *s = *state;
    struct wire *w = connect_to(s);
    struct wire_answer a;
    char target[2200], type[100];

    snprintf(target, sizeof(target), "%s?a=b%%20&c+d", s->path);
    assert_true(wire_request(w, "GET", target, NULL, NULL, &a));
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "a=b%20&c+d");
    assert_true(wire_header(&a, "Content-Type", type, sizeof(type)));
    assert_string_equal(type, "text/plain");
    assert_true(wire_header(&a, "Date", type, sizeof(type)));
    assert_int_equal(strlen(type), strlen("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_string_equal(s->told, "GET|a=b%20&c+d|||||||");

    /* On the same connection. */
    assert_true(wire_request(w, "POST", s->path,
                             "Content-Type: text/xml\r\nX-Hub-Signature: x\r\n"
                             "webhook-id: i\r\nwebhook-timestamp: t\r\n"
                             "webhook-signature: s\r\nTidings-Delivery: d\r\n",
                             "the body", &a));
    assert_int_equal(a.status, 202);
    assert_string_equal(s->told, "POST||text/xml|x|i|t|s|d|the body");
    wire_close(w);
}

TEST(a_body_may_come_in_chunks)
{
    struct stage *s = *state;

    assert_int_equal(ask(s, "POST", s->path,
                         "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n"
                         "2\r\nde\r\n0\r\nDigest: x\r\n",
                         NULL),
                     202);
    assert_string_equal(s->told, "POST||||||||abcde");
}

/* Begins a post of `size` bytes, and waits until its body is awaited. */
static struct wire *
begin_body(struct stage *s, const char *path, size_t size)
{
    struct wire *w = connect_to(s);
    struct wire_answer a;

    wire_send_format(w,
                     "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n"
                     "Expect: 100-continue\r\n\r\n",
                     path, size);
    assert_true(wire_answer(w, &a, false));
    if (a.status == 100)
        return w;
    assert_int_equal(a.status, 503);
    wire_close(w);
    return NULL;
}

TEST(a_body_is_asked_for)
{
    struct stage *s = *state;
    struct wire *w = begin_body(s, s->path, 5);
    struct wire_answer a;

    wire_send_text(w, "abcde");
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 202);
    assert_string_equal(s->told, "POST||||||||abcde");
    wire_close(w);
}

/* In one packet, or byte by byte: answered in order, none before the other. */
TEST(requests_that_come_at_once_are_answered_in_order)
{
    struct stage *s = *state;
    struct wire *w = connect_to(s);
    struct wire_answer a;
    char text[20000];
    size_t size = 0;

    for (int i = 0; i < 15; i++)
        size += (size_t)snprintf(
            text + size, sizeof(text) - size,
            i % 3 == 0   ? "POST %s?%d HTTP/1.1\r\nHost: a\r\n"
                           "Content-Length: 5\r\n\r\nGET /"
            : i % 3 == 1 ? "POST %s?%d HTTP/1.1\r\nHost: a\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n"
                           "4\r\nPOST\r\n0\r\n\r\n"
                         : "\r\nGET %s?%d HTTP/1.1\r\nHost: a\r\n\r\n",
            s->path, i);
    for (size_t step = size; step; step = step == size ? 1 : 0) {
        for (size_t at = 0; at < size; at += step)
            assert_true(wire_send(w, text + at, step));
        for (int i = 0; i < 15; i++) {
            assert_true(wire_answer(w, &a, false));
            assert_int_equal(a.status, i % 3 == 2 ? 200 : 202);
            assert_int_equal(atoi(a.body), i);
        }
    }
    assert_int_equal(s->n_arrivals, 30);
    wire_close(w);
}

/* Whether the connection stays is as the request says. */
TEST(connections_are_kept)
{
    static const struct {
        const char *head;
        bool is_kept;
    } rows[] = {
        {"GET %s HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false},
        {"GET %s HTTP/1.0\r\n\r\n", false},
        {"GET %s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
        {"GET %s/ HTTP/1.1\r\nHost: a\r\n\r\n", true}, /* 404 */
        {"HEAD %s HTTP/1.1\r\nHost: a\r\n\r\n", true}, /* 405 */
    };
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire *w = connect_to(s);
        struct wire_answer a;
        char text[100];

        wire_send_format(w, rows[i].head, s->path);
        assert_true(wire_answer(w, &a, false));
        assert_true(wire_header(&a, "Connection", text, sizeof(text)));
        assert_string_equal(text, rows[i].is_kept ? "keep-alive" : "close");
        if (rows[i].is_kept)
            assert_true(wire_request(w, "GET", s->path, NULL, NULL, &a));
        else
            assert_true(wire_is_ended(w));
        wire_close(w);
    }
}

/* A proxy in front may have put the path there, or taken some away. */
TEST(what_stands_before_the_token_does_not_matter)
{
    struct stage *s = *state;
    char path[2200];

    snprintf(path, sizeof(path), "/hooks/of/mine%s", s->path);
    assert_int_equal(ask(s, "GET", path, NULL, NULL), 200);
}

static void
alter(char *digit)
{
    *digit = *digit == '0' ? '1' : '0';
}

/* W-029: nobody finds a route without knowing it, and all wrong paths get the
 * same answer.
 */
TEST(what_is_no_route_is_404)
{
    static const char *const methods[] = {"GET", "POST", "HEAD", "DELETE"};
    struct stage *s = *state;
    char paths[6][2200] = {"/"};

    strcpy(paths[1], s->path);
    alter(&paths[1][strlen(s->path) - 1]);
    strcpy(paths[2], s->path);
    alter(&paths[2][1]);
    snprintf(paths[3], sizeof(paths[3]), "%s/", s->path);
    snprintf(paths[4], sizeof(paths[4]), "/?%s", s->path);
    snprintf(paths[5], sizeof(paths[5]), "%.40s", s->path); /* one less */
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        for (size_t k = 0; k < sizeof(paths) / sizeof(paths[0]); k++)
            if (ask(s, methods[i], paths[k], NULL, NULL) != 404)
                fail_msg("%s %s", methods[i], paths[k]);
        assert_int_equal(ask(s, methods[i], s->path + 2, NULL, NULL) / 100, 4);
    }
    assert_int_equal(ask(s, "POST", "/x", NULL, "a body"), 404);
    assert_int_equal(s->n_arrivals, 0);
}

/* W-029: 160 bits of chance. */
TEST(routes_cannot_be_guessed)
{
    struct stage *s = *state;
    struct route *other;

    assert_int_equal(strlen(s->path), 41);
    assert_int_equal(strspn(s->path + 1, "0123456789abcdef"), 40);
    turner_hold(s->turner);
    other = route_new(s->callback, 1, on_arrival, s);
    assert_string_not_equal(other->url, s->route->url);
    route_free(other);
    turner_let(s->turner);
}

TEST(other_methods_are_405)
{
    static const char *const methods[] = {"HEAD", "PUT", "DELETE", "OPTIONS"};
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        assert_int_equal(ask(s, methods[i], s->path, NULL, NULL), 405);
    assert_int_equal(s->n_arrivals, 0);
}

/* The route refuses the same heads as the broker, by the same reader
 * (unit/proto has them); the connection ends, so that nothing behind them is
 * read as a request. */
TEST(what_is_refused_says_why)
{
#define HEAD "POST %s HTTP/1.1\r\nHost: a\r\n"

    static const struct {
        const char *begin; /* %s: the route's path */
        size_t n;          /* bytes "a" behind it */
        const char *end;
        unsigned status;
        const char *says;
    } rows[] = {
        {HEAD "Content-Length : 5\r\n\r\n", 5, "", 400, "white space"},
        {HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 0, "",
         400, "Transfer-Encoding"},
        {HEAD "Content-Length: -1\r\n\r\n", 0, "", 400, "Content-Length"},
        {HEAD "A: b\n\r\n", 0, "", 400, "line feed"},
        {"GET\r\n\r\n", 0, "", 400, "request line"},
        {"\r\n\r\n\r\n\r\n\r\n", 0, "", 400, ""},
        {"\x16\x03\x01\x02", 0, "", 400, "control"},
        {"GET https://a%s HTTP/1.1\r\nHost: a\r\n\r\n", 0, "", 400, "TLS"},
        {"GET %s HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 5, "", 400,
         "no body"},
        {"POST %s/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 0, "",
         404, ""},
        {"PUT %s HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 0, "", 405,
         ""},
        {HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", 0, "",
         400, "chunk"},
        {HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA : b\r\n", 0,
         "", 400, ""},
        {HEAD "\r\n", 0, "", 411, "Content-Length"},
        {HEAD "Content-Length: 100001\r\n\r\n", 100001, "", 413, "longer"},
        {HEAD "Content-Length: 100001\r\nExpect: 100-continue\r\n\r\n", 0, "",
         413, "longer"},
        {HEAD "Transfer-Encoding: chunked\r\n\r\n186a1\r\n", 100001, "", 413,
         "longer"},
        {"GET %s?", 9000, "", 414, "target"},
        {HEAD "Expect: more\r\n\r\n", 0, "", 417, "expectation"},
        {HEAD "X-Long: ", 60000, "\r\n\r\n", 431, "field"},
        {HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n", 0, "", 501, ""},
        {"get %s HTTP/1.1\r\nHost: a\r\n\r\n", 0, "", 501, "method"},
        {"GET %s HTTP/9.9\r\n\r\n", 0, "", 505, "neither"},
    };

#undef HEAD
    struct stage *s = *state;
    char *many = malloc(100001);

    memset(many, 'a', 100001);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire *w = connect_to(s);
        struct wire_answer a;

        wire_send_format(w, rows[i].begin, s->path);
        wire_send(w, many, rows[i].n);
        wire_send_text(w, rows[i].end);
        wire_send_format(w, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", s->path);
        if (!wire_answer(w, &a, false))
            fail_msg("no answer to %s", rows[i].begin);
        if (a.status != rows[i].status || !strstr(a.body, rows[i].says))
            fail_msg("%u \"%s\", not %u \"%s\", for %s", a.status, a.body,
                     rows[i].status, rows[i].says, rows[i].begin);
        assert_true(wire_is_ended(w));
        wire_close(w);
    }
    free(many);
    assert_int_equal(s->n_arrivals, 0);
    assert_int_equal(ask(s, "GET", s->path, NULL, NULL), 200);
}

/* In the middle of a head, of a body, of a chunk. */
TEST(a_hub_that_vanishes_is_forgotten)
{
    static const char *const begins[] = {
        "",
        "POST %s HT",
        "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc",
        ("POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
         "5\r\nabc"),
    };
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        struct wire *w = connect_to(s);

        wire_send_format(w, begins[i], s->path);
        wire_shut(w);
        assert_true(wire_is_ended(w));
        wire_close(w);
        w = connect_to(s);
        wire_send_format(w, begins[i], s->path);
        wire_abort(w);
    }
    assert_int_equal(ask(s, "GET", s->path, NULL, NULL), 200);
    assert_int_equal(s->n_arrivals, 1);
}

/* It may have sent all before. */
TEST(a_hub_that_sends_no_more_is_answered)
{
    struct stage *s = *state;
    struct wire *w = connect_to(s);
    struct wire_answer a;

    wire_send_format(w, "GET %s?x HTTP/1.1\r\nHost: a\r\n\r\n", s->path);
    wire_shut(w);
    assert_true(wire_answer(w, &a, false));
    assert_string_equal(a.body, "x");
    assert_true(wire_is_ended(w));
    wire_close(w);
}

TEST(a_body_may_be_as_long_as_is_said)
{
    struct stage *s = *state;
    char *body = malloc(BODY_MAX + 1);

    assert_non_null(body);
    memset(body, 'a', BODY_MAX);
    body[BODY_MAX] = '\0';
    assert_int_equal(ask(s, "POST", s->path, NULL, body), 202);
    assert_int_equal(s->body_size, BODY_MAX);
    free(body);
}

#define PIECE (1024 * 1024)

/* Waits until a post of so many bytes is refused with 503, or is not. */
static void
await_room(struct stage *s, const char *path, size_t size, bool has_room)
{
    struct wire *w;

    AWAIT((w = begin_body(s, path, size), wire_close(w), !w != has_room));
}

/* Less than a piece of them has room. */
static void
check_chunks_are_refused(struct stage *s, const char *path)
{
    struct wire *w = connect_to(s);
    struct wire_answer a;
    char *piece = calloc(1, PIECE);

    wire_send_format(w,
                     "POST %s HTTP/1.1\r\nHost: a\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n%x\r\n",
                     path, 2 * PIECE);
    wire_send(w, piece, PIECE);
    wire_send(w, piece, PIECE);
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 503);
    wire_close(w);
    free(piece);
}

/* Bodies have 256 MiB, those of one route a quarter of that: a hub that posts
 * for ever does not block the others. */
TEST(bodies_are_bounded)
{
    enum { MIB = 1024 * 1024, SHARE = 64 * MIB, ALL = 256 * MIB };

    enum { SENT = 33 * MIB };
    struct stage *s = *state;
    size_t skip = strlen(td_callback_url(s->callback));
    struct route *usual, *large;
    struct wire *w;
    char *piece = calloc(1, PIECE), a[2100], b[2100];

    turner_hold(s->turner);
    usual = route_new(s->callback, SHARE, on_arrival, s);
    large = route_new(s->callback, ALL, on_arrival, s);
    turner_let(s->turner);
    strcpy(a, usual->url + skip);
    strcpy(b, large->url + skip);

    w = begin_body(s, a, SHARE);
    assert_non_null(w);
    for (int i = 0; i < SENT / PIECE; i++)
        assert_true(wire_send(w, piece, PIECE));
    await_room(s, a, SHARE - SENT + 1, false);
    check_chunks_are_refused(s, a);
    await_room(s, b, ALL - SENT + 1, false);
    await_room(s, b, SHARE, true);
    wire_abort(w);
    assert_int_equal(ask(s, "POST", a, NULL, "x"), 202); /* holds nothing */
    await_room(s, a, SHARE, true);
    await_room(s, b, ALL, true);

    turner_hold(s->turner);
    route_free(usual);
    route_free(large);
    turner_let(s->turner);
    free(piece);
}

/* Passes a quarter of a request's time, and the time that its bytes buy: the
 * interval at which connections are checked. */
static void
pass_a_quarter(struct stage *s)
{
    turner_pass_us(s->turner, 15 * INT64_C(1000000) + 10000);
}

/* Each byte comes in time, the request as a whole does not, however many others
 * come meanwhile. */
TEST(a_request_that_trickles_in_is_cut_off)
{
    static const struct {
        const char *begin, *more;
        unsigned status; /* 0: it ends without an answer */
    } all[] = {
        {"GET %s?", "a", 408},
        {"GET %s HTTP/1.1\r\nHost: a\r\nX: ", "a", 408},
        {"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n", "a",
         408},
        {"POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
         "1\r\na\r\n", 408},
        {"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n", "",
         408},
        {"", "a", 408},
        {"", "", 0},
    };
    struct stage *s = *state;
    struct wire_answer a;
    char c;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct wire *w = connect_to(s);

        assert_true(wire_send_format(w, all[i].begin, s->path));
        for (int quarter = 0; quarter < 4; quarter++) {
            assert_true(wire_is_silent(w));
            assert_true(wire_send_text(w, all[i].more));
            wire_close(connect_to(s));
            pass_a_quarter(s);
        }
        if (all[i].status) {
            assert_true(wire_answer(w, &a, false));
            assert_int_equal(a.status, all[i].status);
        }
        assert_int_equal(wire_read_some(w, &c, 1), 0);
        wire_close(w);
    }
    assert_int_equal(s->n_arrivals, 0);
}

/* 60 KB in each 60 seconds are enough, and needed. */
TEST(a_body_may_take_its_time_as_long_as_it_moves)
{
    enum { LEAST = 60 * 1024 };
    struct stage *s = *state;
    char *piece = calloc(1, LEAST);

    for (int is_enough = 0; is_enough < 2; is_enough++) {
        struct wire *w = begin_body(s, s->path, LEAST + 1000);
        struct wire_answer a;

        for (int quarter = 0; quarter < 3; quarter++)
            pass_a_quarter(s);
        assert_true(wire_send(w, piece, (size_t)(LEAST - 1 + is_enough)));
        for (int quarter = 0; quarter < 3; quarter++)
            pass_a_quarter(s);
        wire_send(w, piece, 1001 - (size_t)is_enough);
        assert_true(wire_answer(w, &a, false));
        assert_int_equal(a.status, is_enough ? 202 : 408);
        wire_close(w);
    }
    free(piece);
}

/* The silence before it does not count. */
TEST(a_head_has_its_time_from_its_first_byte)
{
    struct stage *s = *state;
    struct wire *w = connect_to(s);
    struct wire_answer a;

    assert_true(wire_request(w, "GET", s->path, NULL, NULL, &a));
    for (int quarter = 0; quarter < 3; quarter++)
        pass_a_quarter(s);
    wire_send_format(w, "GET %s", s->path);
    for (int quarter = 0; quarter < 3; quarter++)
        pass_a_quarter(s);
    wire_send_text(w, " HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    wire_close(w);
}

/* The program's own callbacks may hold up the loop: bytes that came meanwhile
 * are in time. */
TEST(a_request_that_came_in_time_is_answered)
{
    struct stage *s = *state;
    struct wire *idle = connect_to(s), *half = connect_to(s);
    struct wire_answer a;

    assert_true(wire_request(idle, "GET", s->path, NULL, NULL, &a));
    wire_send_format(half, "GET %s", s->path);
    assert_true(wire_request(idle, "GET", s->path, NULL, NULL, &a));
    turner_hold(s->turner);
    wire_send_format(idle, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", s->path);
    wire_send_text(half, " HTTP/1.1\r\nHost: a\r\n\r\n");
    clock_pass_us(INT64_C(1000000) * 100);
    turner_let(s->turner);
    assert_true(wire_answer(idle, &a, false));
    assert_int_equal(a.status, 200);
    assert_true(wire_answer(half, &a, false));
    assert_int_equal(a.status, 200);
    wire_close(idle);
    wire_close(half);
}

/* A client that does not read its answers is not listened to, and cut off. */
TEST(who_does_not_read_is_not_listened_to)
{
    struct stage *s = *state;
    struct wire *w = wire_connect_narrow("127.0.0.1", s->port);
    struct pollfd end = {.fd = wire_fd(w)};
    char text[500];
    int n = snprintf(text, sizeof(text), "GET %s?", s->path), n_arrivals;

    memset(text + n, 'a', sizeof(text) - (size_t)n);
    strcpy(text + sizeof(text) - 23, " HTTP/1.1\r\nHost: a\r\n\r\n");
    wire_set_wait(w, 0);
    do {
        n_arrivals = turner_read(s->turner, &s->n_arrivals);
        while (wire_send(w, text, sizeof(text) - 1))
            ;
        turner_pass_us(s->turner, 0);
    } while (n_arrivals < turner_read(s->turner, &s->n_arrivals));
    wire_set_wait(w, -1);
    assert_int_equal(poll(&end, 1, 0), 0);
    for (int quarter = 0; quarter < 4; quarter++)
        pass_a_quarter(s);
    assert_true(wire_is_ended(w));
    assert_int_equal(s->n_arrivals, n_arrivals);
    wire_close(w);
}

/* Connections */

#define CONNECTIONS 512 /* at most */

static void
allow_files(rlim_t n)
{
    struct rlimit files;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = n;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/* Waits until the listener has done all that it can, and looks for no more. */
static void
await_rest(struct stage *s)
{
    struct pollfd loop = {.fd = td_fd(s->client), .events = POLLIN};

    turner_pass_us(s->turner, 0);
    turner_hold(s->turner);
    assert_int_equal(poll(&loop, 1, 0), 0);
    turner_let(s->turner);
}

/* The oldest silent one makes room; a body under way is not disturbed. */
TEST(who_holds_connections_does_not_hold_others)
{
    struct stage *s = *state;
    struct wire *body, *silent[CONNECTIONS];
    struct wire_answer a;

    allow_files(3 * CONNECTIONS);
    body = begin_body(s, s->path, 1);
    for (size_t i = 0; i < CONNECTIONS; i++)
        silent[i] = connect_to(s);
    assert_int_equal(ask(s, "GET", s->path, NULL, NULL), 200);
    assert_true(wire_is_ended(silent[0]));
    assert_true(wire_is_ended(silent[1]));
    assert_true(wire_is_silent(silent[2]));
    wire_send_text(body, "x");
    assert_true(wire_answer(body, &a, false));
    assert_int_equal(a.status, 202);
    wire_close(body);
    for (size_t i = 0; i < CONNECTIONS; i++)
        wire_close(silent[i]);
}

TEST(who_finds_each_connection_at_work_waits)
{
    struct stage *s = *state;
    struct wire *bodies[CONNECTIONS], *w;
    struct wire_answer a;

    allow_files(3 * CONNECTIONS);
    for (size_t i = 0; i < CONNECTIONS; i++)
        bodies[i] = begin_body(s, s->path, 1);
    w = connect_to(s);
    wire_send_format(w, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", s->path);
    await_rest(s);
    assert_true(wire_is_silent(w));
    wire_send_text(bodies[0], "x");
    assert_true(wire_answer(bodies[0], &a, false));
    assert_int_equal(a.status, 202);
    turner_pass_us(s->turner, 1000000);
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    wire_close(w);
    for (size_t i = 0; i < CONNECTIONS; i++)
        wire_close(bodies[i]);
}

/* Connects, and leaves the listener no descriptor for it. */
static struct wire *
connect_without_descriptors(struct stage *s)
{
    struct wire *w;
    int least;

    turner_pass_us(s->turner, 0); /* the listener sees all ends */
    turner_hold(s->turner);
    w = connect_to(s);
    least = dup(0);
    close(least);
    allow_files((rlim_t)least);
    turner_let(s->turner);
    return w;
}

/* The oldest silent connection makes room. Without one the loop rests, and
 * looks again after a second. */
TEST(goes_on_after_being_out_of_descriptors)
{
    struct stage *s = *state;
    struct wire *silent = connect_to(s), *w;
    struct wire_answer a;

    assert_int_equal(ask(s, "GET", s->path, NULL, NULL), 200);
    w = connect_without_descriptors(s);
    assert_true(wire_request(w, "GET", s->path, NULL, NULL, &a));
    assert_true(wire_is_ended(silent));
    wire_close(silent);
    wire_close(w);

    w = connect_without_descriptors(s);
    await_rest(s);
    allow_files(3 * CONNECTIONS);
    turner_pass_us(s->turner, 1000000);
    assert_true(wire_request(w, "GET", s->path, NULL, NULL, &a));
    wire_close(w);
}

TEST(a_route_that_is_gone_is_404)
{
    struct stage *s = *state;
    struct wire *w = connect_to(s);
    struct wire_answer a;

    wire_send_format(w,
                     "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: "
                     "5\r\n\r\nab",
                     s->path);
    assert_int_equal(ask(s, "GET", s->path, NULL, NULL), 200);
    turner_hold(s->turner);
    route_free(s->route);
    s->route = NULL;
    turner_let(s->turner);
    wire_send_text(w, "cde"); /* the rest of a request that was under way */
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 404);
    wire_close(w);
    assert_int_equal(s->n_arrivals, 1);
}

TEST(bad_addresses_are_refused)
{
    static const char *const listens[] = {
        "",       "127.0.0.1", ":80",        "127.0.0.1:", "127.0.0.1:65536",
        "::1:80", "[]:80",     "127.0.0.1:x"};
    static const char *const urls[] = {"",
                                       "me.example/hooks",
                                       "ftp://a/",
                                       "https://me.example/?a=b",
                                       "https://u@me.example/",
                                       "https://me.example/#a"};
    struct td_client *client = td_open();
    struct td_callback *callback;

    for (size_t i = 0; i < sizeof(listens) / sizeof(listens[0]); i++) {
        assert_int_equal(td_callback_open(client, listens[i], NULL, &callback),
                         TD_INVALID);
        assert_null(callback);
        assert_true(td_problem(client)[0]);
    }
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++)
        assert_int_equal(
            td_callback_open(client, "127.0.0.1:0", urls[i], &callback),
            TD_INVALID);
    assert_int_equal(td_callback_open(client, "192.0.2.1:0", NULL, &callback),
                     TD_IO);
    td_close(client);
}

TEST(it_is_reached_by_the_url_that_is_given)
{
    struct td_client *client = td_open();
    struct td_callback *callback, *six;
    struct route *route;

    assert_int_equal(td_callback_open(client, "127.0.0.1:0",
                                      "https://me.example/hooks/", &callback),
                     TD_OK);
    assert_string_equal(td_callback_url(callback), "https://me.example/hooks");
    route = route_new(callback, 1, on_arrival, NULL);
    assert_memory_equal(route->url, "https://me.example/hooks/", 25);
    route_free(route);
    if (!td_callback_open(client, "[::1]:0", NULL, &six)) /* if there is IPv6 */
        assert_memory_equal(td_callback_url(six), "http://[::1]:", 13);
    assert_int_equal(td_run(client), TD_OK); /* the end waits for nobody */
    td_callback_close(callback);
    td_close(client); /* the other one goes with it */
}
