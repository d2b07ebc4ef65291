/* Answers without a known end. */
#include "broker/net/service.h"
#include "tests/test.h"
#include "tests/unit/net/streamed.h"

#define REQUEST GET("/long")
#define OLD     "GET /long HTTP/1.0\r\n" HEAD_END
#define FIRST   "6\r\nfirst\n\r\n"

static void
end_at_once(struct stream *stream, void *user)
{
    streamed_keep(stream, user);
    stream_write(stream, "2\r\nhi\r\n", 7);
    stream_end(stream, STREAM_CHUNK_LAST, strlen(STREAM_CHUNK_LAST));
}

static const struct stream_handlers brief = STREAMED(end_at_once);

static void
assert_bytes(struct wire *w, const char *bytes)
{
    char some[100] = "";

    assert_true(strlen(bytes) < sizeof(some));
    assert_true(wire_read(w, some, strlen(bytes)));
    assert_string_equal(some, bytes);
}

/* Sends `text`, which ends in a request for a long answer, and reads its head
 * and first bytes. */
static void
begin(struct wire *w, const char *text)
{
    unsigned n = atomic_load(&n_opened);
    struct wire_answer a;

    assert_true(wire_send_text(w, text));
    assert_true(wire_answer_head(w, &a));
    assert_int_equal(a.status, 200);
    assert_bytes(w, FIRST);
    served_await(&n_opened, n + 1);
}

static struct wire *
begun(const char *text)
{
    struct wire *w = served_connect();

    begin(w, text);
    return w;
}

static void
write_some(void)
{
    assert_int_equal(stream_write(last, "4\r\nsome\r\n", 9), STREAM_SENT);
}

static void
end_all(void)
{
    stream_end(last, STREAM_CHUNK_LAST, strlen(STREAM_CHUNK_LAST));
    stream_end(last, "again", 5);
    assert_int_equal(stream_write(last, "too late", 8), STREAM_DEAD);
}

FIXTURE(streamed_open, streamed_close);
SERVED_GROUPS;

/* RFC 9112 section 6: chunks only for clients that know them; never a length.
 */
TEST(says_how_its_body_comes)
{
    static const struct {
        const char *request, *coding, *first;
    } rows[] = {{REQUEST, "chunked", FIRST}, {OLD, NULL, "first\n"}};
    struct wire_answer a;

    for (unsigned i = 0; i < 2; i++) {
        struct wire *w = served_sent(rows[i].request);

        assert_true(wire_answer_head(w, &a));
        assert_int_equal(a.status, 200);
        served_assert_header(&a, "Content-Length", NULL);
        served_assert_header(&a, "Connection", "close");
        served_assert_header(&a, "Transfer-Encoding", rows[i].coding);
        assert_bytes(w, rows[i].first);
        served_await(&n_opened, i + 1);
        wire_close(w);
    }
    served_pass_until(&n_gone, 2);
}

/* HEAD gets the same head, and the connection goes on. */
TEST(sends_only_the_head_for_head)
{
    struct wire *w = served_sent("HEAD /long HTTP/1.1\r\n" HEAD_END);
    struct wire_answer a;

    assert_true(wire_answer(w, &a, true));
    assert_int_equal(a.status, 200);
    served_assert_header(&a, "Content-Length", NULL);
    served_assert_kept(w);
    wire_close(w);
    assert_int_equal(atomic_load(&n_opened), 0);
}

TEST(writes_from_anywhere_on_its_thread)
{
    struct wire *w = begun(REQUEST);

    for (int i = 0; i < 10; i++)
        served_on_service(write_some);
    for (int i = 0; i < 10; i++)
        assert_bytes(w, "4\r\nsome\r\n");
    wire_close(w);
}

TEST(begins_on_a_kept_connection_and_cut_anywhere)
{
    for (size_t at = 1; at < strlen(REQUEST); at += 3) {
        struct wire *w = served_connect();

        served_assert_kept(w);
        assert_true(wire_send(w, REQUEST, at));
        served_turn(); /* reads the first piece */
        begin(w, &REQUEST[at]);
        served_on_service(write_some);
        assert_bytes(w, "4\r\nsome\r\n");
        wire_close(w);
        served_pass_until(&n_gone, atomic_load(&n_opened));
    }
}

TEST(ends_with_its_last_bytes)
{
    struct wire *w = begun(REQUEST);

    served_on_service(write_some);
    served_on_service(end_all);
    assert_bytes(w, "4\r\nsome\r\n0\r\n\r\n");
    served_assert_ended(w);
    served_pass_until(&n_gone, 1);
}

TEST(may_end_when_it_opens)
{
    struct wire *w = NULL;

    served.long_handlers = &brief;
    w = begun(REQUEST);
    assert_bytes(w, "2\r\nhi\r\n0\r\n\r\n");
    served_assert_ended(w);
    served_pass_until(&n_gone, 1);
}

/* The server neither reads nor answers what stands behind the request, in the
 * same packet or as much as the client can send, and does no work for it. The
 * answer goes on, and the client can read its end. */
TEST(never_reads_what_is_behind_the_request)
{
    static const char *const behind[] = {REQUEST REQUEST, REQUEST GET("/small"),
                                         REQUEST POST("/echo", "3") "abc",
                                         REQUEST "nonsense\r\n\r\n",
                                         REQUEST "\r\n"};
    char more[10000];

    memset(more, 'x', sizeof(more));
    for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++) {
        struct wire *w = begun(behind[i]);

        wire_set_wait(w, 100);
        while (wire_send(w, more, sizeof(more)))
            ;
        wire_set_wait(w, -1);
        served_assert_alive();
        served_assert_rest();
        served_on_service(write_some);
        assert_bytes(w, "4\r\nsome\r\n");
        served_on_service(end_all);
        assert_bytes(w, "0\r\n\r\n");
        wire_close(w);
        served_pass_until(&n_gone, (unsigned)i + 1);
    }
    assert_int_equal(atomic_load(&n_opened), 5);
}

TEST(hears_of_clients_that_vanish)
{
    for (int i = 0; i < 20; i++) {
        struct wire *w = begun(REQUEST);

        if (i % 3 == 0)
            wire_send_text(w, "something behind it");
        if (i % 2)
            wire_abort(w);
        else
            wire_close(w);
    }
    served_pass_until(&n_gone, 20);
}

/* A long answer to a client with a small receive buffer. */
static struct wire *
begun_narrow(void)
{
    struct wire *w = served_connect_narrow();

    begin(w, REQUEST);
    return w;
}

static void
read_large(struct wire *w, unsigned n)
{
    static char some[sizeof(large)];

    for (; n; n--) {
        assert_true(wire_read(w, some, sizeof(some)));
        assert_memory_equal(some, large, sizeof(some));
    }
}

TEST(says_when_there_is_room_again)
{
    struct wire *w = begun_narrow();

    for (unsigned round = 1; round <= 3; round++) {
        unsigned n = streamed_choke();

        assert_int_equal(atomic_load(&n_rooms), round - 1);
        served_assert_alive();
        served_assert_rest();
        read_large(w, n);
        served_await(&n_rooms, round);
    }
    wire_close(w);
}

/* The end comes behind the bytes that are stuck, which arrive whole. */
TEST(ends_behind_what_was_begun)
{
    struct wire *w = begun_narrow();
    unsigned n = streamed_choke();

    served_on_service(end_all);
    read_large(w, n);
    assert_bytes(w, "0\r\n\r\n");
    served_assert_ended(w);
    served_pass_until(&n_gone, 1);
}

TEST(cuts_an_answer_that_does_not_move)
{
    struct wire *w = begun_narrow();

    streamed_choke();
    assert_in_range(served_pass_until(&n_gone, 1), 10, 12);
    wire_close(w);
}

TEST(leaves_an_answer_that_waits_for_nothing)
{
    struct wire *w = begun_narrow();

    read_large(w, streamed_choke());
    served_await(&n_rooms, 1);
    served_pass_seconds(30);
    assert_int_equal(atomic_load(&n_gone), 0);
    wire_close(w);
}

TEST(cuts_who_does_not_even_read)
{
    struct wire *w = begun_narrow();

    streamed_choke();
    served_on_service(end_all);
    assert_in_range(served_pass_until(&n_gone, 1), 5, 6);
    wire_close(w);
}

/* A write to a client that has gone is no failure. */
TEST(outlives_a_write_to_who_has_gone)
{
    struct wire *w = begun_narrow();

    streamed_choke();
    wire_abort(w);
    served_pass_until(&n_gone, 1);
    served_assert_alive();
}

/* The end of the server */

static void
run_farewell(struct task *task)
{
    (void)task;
    end_all();
}

/* Ends the server as the broker does: a farewell to all connections, then
 * service_end. */
static void
say_farewell_and_end(void)
{
    static struct task farewell;
    struct service *service = server_service(served.server, 0);

    farewell = (struct task){.run = run_farewell};
    service_post(service, &farewell);
    service_end(service, clock_steady_us() + 5000000);
}

static void
do_nothing(struct job *job)
{
    (void)job;
}

static void
end_by_job(struct job *job)
{
    (void)job;
    say_farewell_and_end();
}

static void
begin_job(void)
{
    static struct job job;

    job = (struct job){do_nothing, end_by_job};
    service_work(server_service(served.server, 0), &job);
}

/* Both calls may find the thread anywhere, such as within a task or a job,
 * where it first looks whether it may end: earlier tasks make it wait. */
TEST(the_end_comes_behind_what_was_posted_before)
{
    static void (*const ways[])(void) = {say_farewell_and_end, begin_job};

    for (size_t i = 0; i < 2; i++) {
        struct wire *w = begun(REQUEST);

        served_on_service(ways[i]);
        assert_bytes(w, "0\r\n\r\n");
        served_assert_ended(w);
        if (i == 0) {
            streamed_close(state);
            streamed_open(state);
        }
    }
}

static struct ticket held; /* of a request that still needs its answer */

static void
end_the_server(void)
{
    service_end(server_service(served.server, 0), clock_steady_us() + 10000000);
}

/* A request for a long answer also answers the held request; when the thread
 * goes on, it looks whether it may end. */
static void
release_with_long(struct request *rq, void *user)
{
    struct request *other = ticket_request(held);
    bool is_long = slice_is(rq->path, "/long");

    served_on_request(rq, user);
    if (!is_long)
        held = request_ticket(rq);
    if (!is_long || !other)
        return;
    served_free(other);
    served_answer_text(other, 200, SLICE("at last"));
    clock_pass_us(30000);
}

static void
hold_requests(void)
{
    served.server->options.on_request = release_with_long;
}

/* The head is sent, but the server can only end the answer when it has
 * opened. */
TEST(the_end_waits_for_a_long_answer_to_open)
{
    struct wire *busy = NULL, *w = served_connect();
    struct wire_answer a;

    held = (struct ticket){.service = server_service(served.server, 0)};
    served.long_handlers = &brief;
    served_on_service(hold_requests);
    busy = served_sent(GET("/never"));
    served_await(&served.n_open, 1);
    served_on_service(end_the_server);

    assert_true(wire_send_text(w, REQUEST));
    assert_true(wire_answer_head(w, &a));
    assert_bytes(w, FIRST "2\r\nhi\r\n0\r\n\r\n");
    served_assert_ended(w);
    served_assert_answer(busy, 200, "at last");
    wire_close(busy);
}

TEST(composes_chunk_headers)
{
    static const struct {
        size_t size;
        const char *header;
    } rows[] = {{1, "1\r\n"},         {15, "f\r\n"},
                {16, "10\r\n"},       {65392, "ff70\r\n"},
                {65536, "10000\r\n"}, {SIZE_MAX, "ffffffffffffffff\r\n"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char header[STREAM_CHUNK_HEADER_MAX];
        size_t n = stream_chunk_header(header, rows[i].size);

        assert_int_equal(n, strlen(rows[i].header));
        assert_memory_equal(header, rows[i].header, n);
    }
}
