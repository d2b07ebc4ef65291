#include "client/websub/callback.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/tidings.h"
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

    /* What came; while the turner is held. */
    int n_arrivals;
    char told[400];
    size_t body_size;
};

static void
on_arrival(struct arrival *a, struct reply *reply, void *user)
{
    struct stage *s = user;

    snprintf(s->told, sizeof(s->told), "%s|%.*s|%s|%s|%s|%s|%s|%s|%.*s",
             a->is_post ? "POST" : "GET", SLICE_ARG(a->query), a->type,
             a->signature, a->webhook_id, a->webhook_timestamp,
             a->webhook_signature, a->delivery_id,
             a->body.size < 100 ? (int)a->body.size : 0,
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
    assert_memory_equal(route_url(s->route), url, strlen(url));
    strcpy(s->path, route_url(s->route) + strlen(url));
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
                         "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
                         "2\r\nde\r\n0\r\n",
                         NULL),
                     202);
    assert_string_equal(s->told, "POST||||||||abcde");
}

/* A proxy in front may have put the path there, or taken some away. */
TEST(what_stands_before_the_token_does_not_matter)
{
    struct stage *s = *state;
    char path[2200];

    snprintf(path, sizeof(path), "/hooks/of/mine%s", s->path);
    assert_int_equal(ask(s, "GET", path, NULL, NULL), 200);
}

/* W-029: nothing is found by who does not know it, and all is answered alike.
 */
TEST(what_is_no_route_is_404)
{
    static const char *const methods[] = {"GET", "POST", "HEAD", "DELETE"};
    struct stage *s = *state;
    char paths[5][2200] = {"/"};

    strcpy(paths[1], s->path);
    paths[1][strlen(s->path) - 1] ^= 1;
    strcpy(paths[2], s->path);
    paths[2][1] ^= 1;
    snprintf(paths[3], sizeof(paths[3]), "%s/", s->path);
    snprintf(paths[4], sizeof(paths[4]), "/?%s", s->path);
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
    assert_string_not_equal(route_url(other), route_url(s->route));
    route_free(other);
    turner_let(s->turner);
}

TEST(other_methods_are_405)
{
    static const char *const methods[] = {"HEAD", "PUT", "DELETE", "OPTIONS",
                                          "get"};
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        assert_int_equal(ask(s, methods[i], s->path, NULL, NULL), 405);
    assert_int_equal(s->n_arrivals, 0);
}

TEST(a_body_that_is_too_long_is_413)
{
    struct stage *s = *state;
    char *body = malloc(BODY_MAX + 2);
    struct wire *w = connect_to(s);
    struct wire_answer a;

    assert_non_null(body);
    memset(body, 'a', BODY_MAX + 1);
    body[BODY_MAX + 1] = '\0';

    /* By its length, before it has come. */
    assert_int_equal(
        ask(s, "POST", s->path, "Content-Length: 100001\r\n", NULL), 413);
    assert_int_equal(ask(s, "POST", s->path,
                         "Content-Length: 18446744073709551616\r\n", NULL) /
                         100,
                     4);
    /* Without one, when it has. */
    wire_send_format(w,
                     "POST %s HTTP/1.1\r\nHost: a\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n%x\r\n",
                     s->path, BODY_MAX + 1);
    wire_send(w, body, BODY_MAX + 1);
    wire_send_text(w, "\r\n0\r\n\r\n");
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 413);
    wire_close(w);
    assert_int_equal(s->n_arrivals, 0);

    body[BODY_MAX] = '\0';
    assert_int_equal(ask(s, "POST", s->path, NULL, body), 202);
    assert_int_equal(s->body_size, BODY_MAX);
    free(body);
}

TEST(a_head_that_is_too_long_is_refused)
{
    struct stage *s = *state;
    char *headers = malloc(100000);
    size_t size;

    assert_non_null(headers);
    size = (size_t)sprintf(headers, "X-Long: ");
    memset(headers + size, 'a', 60000);
    strcpy(headers + size + 60000, "\r\n");
    assert_int_equal(ask(s, "GET", s->path, headers, NULL) / 100, 4);
    assert_int_equal(s->n_arrivals, 0);
    assert_int_equal(ask(s, "GET", s->path, NULL, NULL), 200);
    free(headers);
}

/* A quarter of a request's time, with what its bytes are worth: connections are
 * looked at so often. */
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
    } all[] = {
        {"GET %s?", "a"},
        {"GET %s HTTP/1.1\r\nHost: a\r\nX: ", "a"},
        {"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n", "a"},
        {"", "a"},
        {"", ""},
    };
    struct stage *s = *state;
    char c;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct wire *w = connect_to(s);

        assert_true(wire_send_format(w, all[i].begin, s->path));
        wire_set_wait(w, 0);
        for (int quarter = 0; quarter < 4; quarter++) {
            assert_int_equal(wire_read_some(w, &c, 1), -1);
            assert_true(wire_send_text(w, all[i].more));
            wire_close(connect_to(s));
            pass_a_quarter(s);
        }
        wire_set_wait(w, 1);
        assert_true(wire_is_ended(w));
        wire_close(w);
    }
    assert_int_equal(s->n_arrivals, 0);
}

/* A connection that says nothing is closed, and others are served meanwhile. */
TEST(who_holds_connections_does_not_hold_others)
{
    struct stage *s = *state;
    struct wire *silent[200];

    for (size_t i = 0; i < 200; i++)
        silent[i] = connect_to(s);
    assert_int_equal(ask(s, "GET", s->path, NULL, NULL), 200);
    for (size_t i = 0; i < 200; i++)
        wire_close(silent[i]);
}

TEST(garbage_is_answered_or_ended)
{
    static const char *const garbage[] = {
        "\r\n\r\n",
        "GET\r\n\r\n",
        "\x16\x03\x01\x02",
        "GET / HTTP/9.9\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    };
    struct stage *s = *state;

    /* libmicrohttpd may overlook an end that comes together with bytes: then it
     * is our deadline that ends it. */
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        struct wire *w = connect_to(s);

        wire_send_text(w, garbage[i]);
        wire_shut(w);
        for (int quarter = 0; quarter < 4; quarter++)
            pass_a_quarter(s);
        assert_true(wire_is_ended(w));
        wire_close(w);
    }
    assert_int_equal(ask(s, "GET", s->path, NULL, NULL), 200);
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
    assert_memory_equal(route_url(route), "https://me.example/hooks/", 25);
    route_free(route);
    if (!td_callback_open(client, "[::1]:0", NULL, &six)) /* if there is IPv6 */
        assert_memory_equal(td_callback_url(six), "http://[::1]:", 13);
    assert_int_equal(td_run(client), TD_OK); /* nobody is waited for */
    td_callback_close(callback);
    td_close(client); /* the other one goes with it */
}
