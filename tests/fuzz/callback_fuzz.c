/*
 * callback_fuzz.c - a connection of a hub to a callback, from its first byte to
 * its end.
 *
 * The hub sends the input, in which 0xfe stands for the path of a route, and
 * then ends its sending. The listener reads it in one piece, then in many.
 */
#include "client/websub/callback.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define BODY_MAX 100

#define GO_ON "HTTP/1.1 100 Continue\r\n\r\n"

/* The line of an answer, with its end. */
#define DATE_SIZE (sizeof("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n") - 1)

static struct td_client *client;
static struct td_callback *callback;
static struct route *route;

/* Everything that an input has led to. */
struct talk {
    struct buf arrived; /* the requests that the route got */
    struct buf replies; /* and its answers to them: "202 query;" */
    struct buf heard;   /* by the hub */
    struct buf answers; /* of these bytes, without dates and 100 Continue */
};

static struct talk *talk;

static void
on_arrival(struct arrival *a, struct reply *reply, void *user)
{
    (void)user;
    FUZZ_ASSERT(a->body.size <= BODY_MAX && (a->is_post || !a->body.size));
    FUZZ_ASSERT(!a->type.size || !memchr(a->type.data, '\n', a->type.size));
    buf_add_format(&talk->arrived, "%d?%.*s %.*s:", a->is_post,
                   SLICE_ARG(a->query), SLICE_ARG(a->type));
    buf_add_slice(&talk->arrived, buf_slice(&a->body));
    reply->status = a->is_post ? 202 : 200;
    buf_add_slice(&reply->text, a->query);
    buf_add_format(&talk->replies, "%u %.*s;", reply->status,
                   SLICE_ARG(a->query));
}

static void
set_up(void)
{
    if (client)
        return;
    client = td_open();
    FUZZ_ASSERT(client &&
                !td_callback_open(client, "127.0.0.1:0", NULL, &callback));
    route = route_new(callback, BODY_MAX, on_arrival, NULL);
    FUZZ_ASSERT(route);
}

/* The hub reads all available bytes. False at the end. */
static bool
hear(int fd)
{
    char bytes[4096];
    ssize_t n;

    do {
        do
            td_service(client);
        while (td_timeout_ms(client) == 0);
        n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n > 0)
            buf_add(&talk->heard, bytes, (size_t)n);
    } while (n > 0);
    return n < 0 && errno == EAGAIN;
}

static const char *
find(struct slice in, const char *text)
{
    return in.size > 0 ? memmem(in.data, in.size, text, strlen(text)) : NULL;
}

/* Notes the answer at the front of `rest`. */
static void
take_answer(struct slice *rest, struct buf *replies)
{
    const char *end = find(*rest, "\r\n\r\n");
    const char *date, *length;
    struct slice head, text;

    FUZZ_ASSERT(end && slice_starts(*rest, "HTTP/1.1 "));
    head = fuzz_take(rest, (size_t)(end + 4 - rest->data));
    date = find(head, "Date: ");
    length = find(head, "Content-Length: ");
    FUZZ_ASSERT(date && date + DATE_SIZE < end && length);
    text.size = strtoul(length + 16, NULL, 10);
    FUZZ_ASSERT(text.size <= rest->size);
    text = fuzz_take(rest, text.size);
    if (head.data[9] == '2')
        buf_add_format(replies, "%.3s %.*s;", head.data + 9, SLICE_ARG(text));
    buf_add(&talk->answers, head.data, (size_t)(date - head.data));
    buf_add(&talk->answers, date + DATE_SIZE,
            head.size - (size_t)(date - head.data) - DATE_SIZE);
    buf_add_slice(&talk->answers, text);
}

/* Each request that came is answered, in order and whole. */
static void
check_answers(void)
{
    struct slice rest = buf_slice(&talk->heard);
    struct buf replies;

    buf_init(&replies, SIZE_MAX);
    while (rest.size > 0)
        if (slice_starts(rest, GO_ON))
            fuzz_take(&rest, sizeof(GO_ON) - 1);
        else
            take_answer(&rest, &replies);
    FUZZ_ASSERT(slice_equal(buf_slice(&replies), buf_slice(&talk->replies)));
    buf_fini(&replies);
}

/* Sends `input` in pieces of `step` bytes. */
static void
converse(struct talk *this, struct slice input, size_t step)
{
    bool is_open = true;
    int fds[2];

    talk = this;
    buf_init(&talk->arrived, SIZE_MAX);
    buf_init(&talk->replies, SIZE_MAX);
    buf_init(&talk->heard, SIZE_MAX);
    buf_init(&talk->answers, SIZE_MAX);
    FUZZ_ASSERT(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds));
    callback_connection_new(callback, fds[0]);
    FUZZ_ASSERT(callback->n_connections == 1);
    while (is_open && input.size > 0) {
        struct slice piece = fuzz_take(&input, step);

        FUZZ_ASSERT(send(fds[1], piece.data, piece.size, MSG_NOSIGNAL) ==
                    (ssize_t)piece.size);
        is_open = hear(fds[1]);
    }
    shutdown(fds[1], SHUT_WR);
    FUZZ_ASSERT(!hear(fds[1]));
    close(fds[1]);
    FUZZ_ASSERT(!callback->n_connections &&
                list_is_empty(&callback->connections));
    FUZZ_ASSERT(!callback->n_bodies && !route->n_bodies);
    check_answers();
}

static void
forget(struct talk *this)
{
    buf_fini(&this->arrived);
    buf_fini(&this->replies);
    buf_fini(&this->heard);
    buf_fini(&this->answers);
}

FUZZ_TARGET(callback, input)
{
    const char *path;
    struct talk one, many;
    struct buf sent;

    set_up();
    path = route->url + strlen(td_callback_url(callback));
    buf_init(&sent, SIZE_MAX);
    for (size_t i = 0; i < input.size; i++)
        if (input.data[i] == '\xfe')
            buf_add_text(&sent, path);
        else
            buf_add(&sent, &input.data[i], 1);
    converse(&one, buf_slice(&sent), 16384);
    converse(&many, buf_slice(&sent), 1 + input.size % 5);
    FUZZ_ASSERT(slice_equal(buf_slice(&one.arrived), buf_slice(&many.arrived)));
    FUZZ_ASSERT(slice_equal(buf_slice(&one.answers), buf_slice(&many.answers)));
    forget(&one);
    forget(&many);
    buf_fini(&sent);
}
