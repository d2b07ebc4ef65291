#include "proto/number.h"
#include "tests/test.h"
#include "tests/unit/net/served.h"

SERVED_GROUPS;

TEST(adds_header_lines)
{
    struct response r;

    response_init(&r, 200, "text/plain", NULL);
    response_header(&r, "ETag", "\"%d\"", 7);
    response_header(&r, "Link", "<%s>; rel=\"next\"", "http://a/");

    assert_int_equal(r.headers_size, strlen(r.headers));
    assert_string_equal(r.headers,
                        "ETag: \"7\"\r\nLink: <http://a/>; rel=\"next\"\r\n");
}

TEST(leaves_out_headers_that_would_break_the_answer)
{
    struct response r;
    char text[RESPONSE_HEADERS_MAX + 1];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    response_init(&r, 200, "text/plain", NULL);
    response_header(&r, "A", "x\r\nSet-Cookie: y");
    response_header(&r, "B", "%s", text);
    response_header(&r, "C", "\x7f");
    response_header(&r, "D", "tab\there");
    assert_int_equal(r.headers_size, 0);

    for (int i = 0; i < RESPONSE_HEADERS_MAX; i += 10)
        response_header(&r, "E", "0123456789");
    assert_true(r.headers_size <= RESPONSE_HEADERS_MAX);
    assert_true(r.headers_size % strlen("E: 0123456789\r\n") == 0);
}

TEST(has_a_status_for_every_failure)
{
    static const struct {
        enum status failure;
        unsigned status;
    } rows[] = {
        {STATUS_OK, 200},          {STATUS_MALFORMED, 400},
        {STATUS_INVALID, 422},     {STATUS_TOO_LARGE, 413},
        {STATUS_UNSUPPORTED, 415}, {STATUS_NOT_FOUND, 404},
        {STATUS_RUNNING, 409},     {STATUS_GONE, 410},
        {STATUS_BUSY, 503},        {STATUS_STOPPED, 503},
        {STATUS_MEMORY, 503},      {STATUS_IO, 500},
        {STATUS_CONFLICT, 409},    {STATUS_DENIED, 401},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (response_status_of(rows[i].failure) != rows[i].status)
            fail_msg("%d is not answered with %u", (int)rows[i].failure,
                     rows[i].status);
}

static void
answer_with_a_problem(struct request *rq, void *user)
{
    struct problem why = {"no \"loc\"", 3, 17};

    (void)user;
    if (slice_is(rq->path, "/busy"))
        request_answer_problem_with(rq, 503, &why, NULL,
                                    ",\"earliest\":\"e-1\"");
    else if (slice_is(rq->path, "/method"))
        request_answer_problem_with(rq, 405, NULL, "GET, PUT", NULL);
    else
        request_answer_problem(rq, 422, &why);
}

/* A server with another handler. */
static int
open_with(void **state, void (*on_request)(struct request *rq, void *user))
{
    served_open(state);
    served.options.on_request = on_request;
    served_reopen();
    return 0;
}

static int
open_problems(void **state)
{
    return open_with(state, answer_with_a_problem);
}

/* RFC 9457. */
TEST(answers_with_a_problem, open_problems, served_close)
{
#define TYPE "{\"type\":\"about:blank\",\"title\":"
#define WHY  "\"detail\":\"no \\\"loc\\\"\",\"entry\":3,\"line\":17"

    static const struct {
        const char *path;
        unsigned status;
        const char *header, *value;
        const char *body;
    } rows[] = {
        {"/", 422, "Cache-Control", "no-store",
         TYPE "\"Unprocessable Content\",\"status\":422," WHY},
        {"/busy", 503, "Retry-After", "1",
         TYPE "\"Service Unavailable\",\"status\":503," WHY
              ",\"earliest\":\"e-1\""},
        {"/method", 405, "Allow", "GET, PUT",
         TYPE "\"Method Not Allowed\",\"status\":405"},
    };
    struct wire *w = served_connect();
    struct wire_answer a;
    char id[64], body[300];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(wire_request(w, "GET", rows[i].path, NULL, NULL, &a));
        assert_int_equal(a.status, rows[i].status);
        served_assert_header(&a, "Content-Type", "application/problem+json");
        served_assert_header(&a, rows[i].header, rows[i].value);
        assert_true(wire_header(&a, "X-Request-Id", id, sizeof(id)));
        snprintf(body, sizeof(body), "%s,\"request\":\"%s\"}\n", rows[i].body,
                 id);
        assert_string_equal(a.body, body);
    }
    wire_close(w);
}

static void
assert_date(struct wire *w, const char *date)
{
    struct wire_answer a;

    assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
    served_assert_header(&a, "Date", date);
}

/* RFC 9110 sections 6.6.1, 8.8.2.1: the second in which the answer begins, also
 * when the clock is set back. */
TEST(tells_the_date_of_the_answer, served_open, served_close)
{
    struct wire *w = served_connect();
    int64_t now_us = clock_now_us();

    clock_set_us(784111777999999 - now_us);
    assert_date(w, "Sun, 06 Nov 1994 08:49:37 GMT");
    clock_set_us(1);
    assert_date(w, "Sun, 06 Nov 1994 08:49:38 GMT");
    clock_set_us(-784111778000000);
    assert_date(w, "Thu, 01 Jan 1970 00:00:00 GMT");
    clock_set_us(now_us);
    wire_close(w);
}

#define TEXT_MAX (40 * 1024)

/* As many bytes of text as the path says, and as many headers as there may be.
 */
static void
answer_with_a_text(struct request *rq, void *user)
{
    static char text[TEXT_MAX];
    struct slice path = rq->path;
    struct response r;
    uint64_t size;

    (void)user;
    assert_true(
        number_read((struct slice){path.data + 1, path.size - 1}, &size));
    memset(text, 't', sizeof(text));
    response_init(&r, 200, "text/plain", NULL);
    for (int i = 0; i < RESPONSE_HEADERS_MAX; i += 10)
        response_header(&r, "E", "0123456789");
    r.text = (struct slice){text, size};
    request_answer(rq, &r);
}

static int
open_texts(void **state)
{
    return open_with(state, answer_with_a_text);
}

/* Whether the text goes along with the longest head or not. */
TEST(sends_texts_of_all_sizes_behind_the_longest_head, open_texts, served_close)
{
    struct wire *w = served_connect();
    struct wire_answer a;

    for (size_t size = 30000; size <= TEXT_MAX; size += 256) {
        char path[20];

        snprintf(path, sizeof(path), "/%zu", size);
        assert_true(wire_request(w, "GET", path, NULL, NULL, &a));
        assert_int_equal(a.status, 200);
        assert_int_equal(a.body_size, size);
        assert_int_equal(strspn(a.body, "t"), size);
    }
    wire_close(w);
}

/* More than sockets take for a client that does not read. */
#define MUCH "10000000"

FIXTURE(served_open, served_close);

/* Sizes around the limits: of bytes that go with the head, of one write, of a
 * socket's buffer. */
TEST(sends_bodies_of_all_sizes)
{
    static const size_t sizes[] = {0,      1,       1000,    32767,
                                   32768,  32769,   33000,   65535,
                                   131072, 1000000, 10000000};
    static const char *const paths[] = {"/big", "/pool", "/file", "/cold"};
    struct wire *w = served_connect();
    struct wire_answer a;
    char path[64];

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t j = 0; j < 4; j++) {
            snprintf(path, sizeof(path), "%s?size=%zu", paths[j], sizes[i]);
            assert_true(wire_request(w, "GET", path, NULL, NULL, &a));
            served_assert_pattern(&a, sizes[i]);
        }
    }
    wire_close(w);
}

TEST(sends_only_the_head_for_head)
{
    struct wire *w = served_connect();
    struct wire_answer a;

    assert_true(wire_request(w, "HEAD", "/big?size=5000000", NULL, NULL, &a));
    assert_int_equal(a.status, 200);
    served_assert_header(&a, "Content-Length", "5000000");
    assert_int_equal(atomic_load(&served.n_bodies), 0);
    served_assert_kept(w);
    wire_close(w);
}

TEST(cuts_the_connection_where_a_body_is_not_what_was_announced)
{
    static const char *const paths[] = {
        "/short?size=100",      "/short?size=1000000", "/broken?size=100",
        "/broken?size=1000000", "/cut?size=100",       "/cut?size=1000000"};
    struct wire_answer a;

    for (size_t i = 0; i < 6; i++) {
        struct wire *w = served_connect();

        assert_false(wire_request(w, "GET", paths[i], NULL, NULL, &a));
        served_assert_ended(w);
    }
    served_await(&served.n_bodies, 0);
    served_assert_alive();
}

/* A file becomes shorter while it is sent. */
TEST(cuts_the_connection_where_a_file_ends_too_early)
{
    struct wire *w = served_connect_narrow();
    struct wire_answer a;
    uint64_t size = 0;
    char byte;

    assert_true(wire_send_text(w, GET("/file?size=" MUCH)));
    assert_true(wire_answer_head(w, &a));
    assert_int_equal(ftruncate(served.file, SERVED_FILE - 1), 0);
    while (wire_read(w, &byte, 1))
        size++;
    assert_true(size < SERVED_FILE);
    wire_close(w);
    served_await(&served.n_bodies, 0);
    served_assert_alive();
}

/* Many clients that do not read, and quick ones between them. */
TEST(serves_others_while_some_do_not_read)
{
    static const char *const requests[] = {
        GET("/big?size=" MUCH), GET("/pool?size=" MUCH),
        GET("/file?size=" MUCH), GET("/cold?size=" MUCH)};
    struct wire *w[12];
    struct wire_answer a;

    for (int i = 0; i < 12; i++) {
        w[i] = served_connect_narrow();
        assert_true(wire_send_text(w[i], requests[i % 4]));
    }
    served_await(&served.n_bodies, 12);
    served_assert_alive();
    for (int i = 0; i < 4; i++) {
        assert_true(wire_answer(w[i], &a, false));
        served_assert_pattern(&a, 10000000);
    }
    for (int i = 0; i < 12; i++)
        wire_close(w[i]);
    served_await(&served.n_bodies, 0);
}

TEST(frees_a_body_whose_client_has_gone)
{
    static const char *const requests[] = {GET("/pool?size=" MUCH),
                                           GET("/file?size=" MUCH),
                                           GET("/cold?size=" MUCH)};

    for (int i = 0; i < 60; i++) {
        struct wire *w = served_connect_narrow();
        char some[1000];

        assert_true(wire_send_text(w, requests[i % 3]));
        assert_true(wire_read(w, some, sizeof(some)));
        if (i % 2)
            wire_close(w);
        else
            wire_abort(w);
    }

    served_await(&served.n_bodies, 0);
}

/* A client that sends a request during a long answer gets both, in order. */
TEST(answers_what_came_during_a_long_answer)
{
    struct wire *w = served_connect_narrow();
    struct wire_answer a;

    assert_true(wire_send_text(w, GET("/big?size=9000000")));
    assert_true(wire_answer_head(w, &a));
    assert_true(wire_send_text(w, GET("/small")));
    served_assert_alive();
    for (size_t left = 9000000; left;) {
        char some[65536];
        size_t n = left < sizeof(some) ? left : sizeof(some);

        assert_true(wire_read(w, some, n));
        left -= n;
    }
    served_assert_answer(w, 200, "hello");
    wire_close(w);
}

static int
open_patient(void **state)
{
    served_open(state);
    served.options.request_timeout_us = 3600 * SECOND;
    served_reopen();
    return 0;
}

/* A client that sends and sends and does not read causes no work, and gets all
 * its answers when it reads at last. */
TEST(waits_without_work_for_a_client_that_does_not_read, open_patient,
     served_close)
{
    /* So many that their answers are more than sockets take. */
    static const struct {
        const char *request;
        int n, n_read;
    } rows[] = {
        {GET("/small"), 20000, 2000},
        {GET("/big?size=30000"), 3000, 300},
        {GET("/big?size=40000"), 3000, 300},
        {GET("/pool?size=20000"), 3000, 300},
        {GET("/file?size=40000"), 3000, 300},
        {GET("/later"), 20000, 2000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire *w = served_connect_narrow();
        int n = 0;

        wire_set_wait(w, 100);
        while (n < rows[i].n && wire_send_text(w, rows[i].request))
            n++;
        wire_set_wait(w, 3600000);
        served_assert_alive();
        served_assert_rest();
        for (int k = 0; k < n && k < rows[i].n_read; k++)
            served_assert_answer(w, 200, NULL);
        wire_close(w);
    }
    served_await(&served.n_bodies, 0);
}

static int
open_strict(void **state)
{
    served_open(state);
    served.options.request_timeout_us = 3 * SECOND;
    served_reopen();
    return 0;
}

TEST(gives_up_an_answer_that_stalls, open_strict, served_close)
{
    static const char *const requests[] = {GET("/big?size=" MUCH),
                                           GET("/pool?size=" MUCH),
                                           GET("/file?size=" MUCH)};
    for (int i = 0; i < 3; i++) {
        struct wire *w = served_connect_narrow();
        struct wire_answer a;

        assert_true(wire_send_text(w, requests[i]));
        assert_true(wire_answer_head(w, &a)); /* so it has begun */
        /* And later, as long as the kernel finds room. */
        assert_true(served_pass_until(&served.n_bodies, 0) >= 3);
        wire_close(w);
    }
}

/* Slow, but never silent. */
TEST(lets_a_slow_reader_have_its_time, open_strict, served_close)
{
    struct wire *w = served_connect_narrow();
    char some[2000];

    assert_true(wire_send_text(w, GET("/big?size=" MUCH)));
    for (int second = 0; second < 10; second++) {
        for (int i = 0; i < 50; i++)
            assert_true(wire_read(w, some, sizeof(some)));
        served_pass_seconds(1);
    }
    assert_int_equal(atomic_load(&served.n_bodies), 1);
    wire_close(w);
    served_await(&served.n_bodies, 0);
}

TEST(answers_what_is_pipelined_behind_a_long_answer)
{
    struct wire *w = served_sent(GET("/big?size=90000") GET("/pool?size=900000")
                                     GET("/file?size=900001") GET("/small"));
    struct wire_answer a;

    assert_true(wire_answer(w, &a, false));
    served_assert_pattern(&a, 90000);
    assert_true(wire_answer(w, &a, false));
    served_assert_pattern(&a, 900000);
    assert_true(wire_answer(w, &a, false));
    served_assert_pattern(&a, 900001);
    served_assert_answer(w, 200, "hello");
    wire_close(w);
}
