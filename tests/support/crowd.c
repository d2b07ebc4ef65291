#include "tests/support/crowd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "proto/buf.h"

/* The head of a message, before its entries, and what is after them. */
#define HEAD_MAX   2048
#define FOOTER_MAX 16

#define NO_OFFSET SIZE_MAX

static const struct {
    const char *subprotocol;
    const char *entries; /* begin after this */
    const char *after, *last, *digest;
    const char *footer;
} forms[] = {
    [NOTICE_JSON] =
        {
            .subprotocol = "resourcesync.json",
            .entries = "\"changes\":[",
            .after = "\"after\":",
            .last = "\"last\":",
            .digest = "\"digest\":\"",
            .footer = "]}\n",
        },
    [NOTICE_XML] =
        {
            .subprotocol = "resourcesync.xml",
            .entries = "/>\n",
            .after = "td:after=\"",
            .last = "td:last=\"",
            .digest = "td:digest=\"",
            .footer = "</urlset>\n",
        },
};

/* The entries of a form. */
struct text {
    struct buf bytes;
    size_t *ends; /* of entry seq; NO_OFFSET: not known */
};

enum phase {
    AT_ANSWER, /* of the handshake, or the head */
    AT_FRAME,  /* its header, or a chunk's */
    AT_PAYLOAD,
    AT_END /* of a chunk */
};

struct member {
    int fd;
    SSL *ssl; /* NULL: plain */
    enum notice_form form;
    bool is_events;
    bool is_reading;
    bool is_greeted;
    char byte; /* the last of the event at hand */
    enum phase phase;

    unsigned char frame[10]; /* header of the frame at hand */
    size_t frame_size;
    uint64_t payload_left;

    bool is_in_entries; /* of the message at hand */
    char head[HEAD_MAX];
    size_t head_size;
    char held[FOOTER_MAX]; /* may be the footer */
    size_t held_size;
    uint64_t message_last;

    uint64_t last;
    size_t at; /* in the text of its form */
};

struct crowd {
    int epoll;
    SSL_CTX *tls; /* NULL: plain */
    size_t n, max;
    struct member *members;
    uint64_t entries_max;
    struct text texts[2];
    char (*digests)[NOTICE_DIGEST_SIZE];
    size_t n_reading, n_there; /* who read; and have all that is waited for */
    uint64_t awaited;
};

struct crowd *
crowd_new(size_t max, uint64_t entries_max)
{
    struct crowd *c = calloc(1, sizeof(*c));
    struct rlimit files;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_true(files.rlim_cur > max + 64);

    assert_non_null(c);
    c->max = max;
    c->entries_max = entries_max;
    c->members = calloc(max, sizeof(*c->members));
    c->digests = calloc(entries_max + 1, sizeof(*c->digests));
    assert_non_null(c->members);
    assert_non_null(c->digests);
    for (size_t i = 0; i < 2; i++) {
        struct text *t = &c->texts[i];

        buf_init(&t->bytes, (size_t)1 << 30);
        t->ends = malloc((entries_max + 1) * sizeof(*t->ends));
        assert_non_null(t->ends);
        for (uint64_t seq = 0; seq <= entries_max; seq++)
            t->ends[seq] = NO_OFFSET;
        t->ends[0] = 0;
    }
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_true(c->epoll >= 0);
    return c;
}

void
crowd_free(struct crowd *c)
{
    for (size_t i = 0; i < c->n; i++) {
        SSL_free(c->members[i].ssl);
        close(c->members[i].fd);
    }
    SSL_CTX_free(c->tls);
    for (size_t i = 0; i < 2; i++) {
        buf_fini(&c->texts[i].bytes);
        free(c->texts[i].ends);
    }
    close(c->epoll);
    free(c->members);
    free(c->digests);
    free(c);
}

void
crowd_speak_tls(struct crowd *c)
{
    signal(SIGPIPE, SIG_IGN);
    c->tls = SSL_CTX_new(TLS_client_method());
    assert_non_null(c->tls);
    SSL_CTX_set_mode(c->tls, SSL_MODE_RELEASE_BUFFERS);
}

static void
start_tls(struct crowd *c, struct member *m)
{
    m->ssl = SSL_new(c->tls);
    assert_non_null(m->ssl);
    SSL_set_fd(m->ssl, m->fd);
    assert_int_equal(SSL_connect(m->ssl), 1);
}

/* Asks for the stream. */
static void
connect_member(struct crowd *c, struct member *m, unsigned port,
               const char *path, bool is_narrow)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    int size = 4096, n;
    char request[512];

    m->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(m->fd >= 0);
    if (is_narrow)
        assert_int_equal(
            setsockopt(m->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
    assert_int_equal(connect(m->fd, (struct sockaddr *)&to, sizeof(to)), 0);
    if (c->tls)
        start_tls(c, m);
    if (m->is_events)
        n = snprintf(request, sizeof(request),
                     "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                     "Accept: text/event-stream\r\n\r\n",
                     path, port);
    else
        n = snprintf(request, sizeof(request),
                     "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                     "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                     "Sec-WebSocket-Version: 13\r\n"
                     "Sec-WebSocket-Protocol: %s\r\n\r\n",
                     path, port, forms[m->form].subprotocol);
    assert_int_equal(m->ssl ? SSL_write(m->ssl, request, n)
                            : send(m->fd, request, (size_t)n, MSG_NOSIGNAL),
                     n);
    assert_int_equal(fcntl(m->fd, F_SETFL, O_NONBLOCK), 0);
}

static size_t
join(struct crowd *c, unsigned port, const char *path, enum notice_form form,
     bool is_events, bool is_narrow)
{
    struct member *m = &c->members[c->n];

    assert_true(c->n < c->max);
    *m = (struct member){.form = form, .is_events = is_events};
    connect_member(c, m, port, path, is_narrow);
    crowd_read_again(c, c->n);
    return c->n++;
}

size_t
crowd_join(struct crowd *c, unsigned port, const char *path,
           enum notice_form form, bool is_narrow)
{
    return join(c, port, path, form, false, is_narrow);
}

size_t
crowd_join_events(struct crowd *c, unsigned port, const char *path,
                  bool is_narrow)
{
    return join(c, port, path, NOTICE_JSON, true, is_narrow);
}

void
crowd_rejoin(struct crowd *c, size_t number, unsigned port, const char *path)
{
    struct member *m = &c->members[number];
    char from[256];

    assert_false(m->is_in_entries);
    SSL_free(m->ssl);
    close(m->fd); /* and no longer read */
    *m = (struct member){.form = m->form,
                         .is_events = m->is_events,
                         .last = m->last,
                         .at = m->at};
    snprintf(from, sizeof(from), "%s%llu", path, (unsigned long long)m->last);
    connect_member(c, m, port, from, false);
    crowd_read_again(c, number);
}

/* Who has all that is waited for? */

static bool
is_there(const struct crowd *c, const struct member *m)
{
    return m->is_greeted && m->last >= c->awaited;
}

static void
count(struct crowd *c)
{
    c->n_reading = c->n_there = 0;
    for (size_t i = 0; i < c->n; i++) {
        c->n_reading += c->members[i].is_reading;
        c->n_there += c->members[i].is_reading && is_there(c, &c->members[i]);
    }
}

/* Messages */

static uint64_t
number_after(const char *head, const char *name)
{
    const char *at = strstr(head, name);

    if (!at)
        fail_msg("a message without %s: %s", name, head);
    return strtoull(at + strlen(name), NULL, 10);
}

static void
take_digest(struct crowd *c, const struct member *m)
{
    const char *at = strstr(m->head, forms[m->form].digest);
    char *known = c->digests[m->message_last];

    assert_non_null(at);
    at += strlen(forms[m->form].digest);
    if (!known[0])
        snprintf(known, NOTICE_DIGEST_SIZE, "%s", at);
    assert_memory_equal(known, at, NOTICE_DIGEST_SIZE - 1);
}

/* Bytes of entries: the next in the text of the form. */
static void
add_entries(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    struct buf *text = &c->texts[m->form].bytes;
    size_t known = text->size - m->at;

    if (known > size)
        known = size;
    if (known > 0 && memcmp(text->data + m->at, bytes, known))
        fail_msg("other entries after %llu than others got",
                 (unsigned long long)m->last);
    buf_add(text, bytes + known, size - known);
    assert_false(text->failed);
    m->at += size;
}

/* The last bytes so far may be the footer, so they are held back. */
static void
take_entries(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    size_t footer = strlen(forms[m->form].footer);
    size_t more = m->held_size + size, from_held;

    more = more > footer ? more - footer : 0; /* certainly of entries */
    from_held = more < m->held_size ? more : m->held_size;
    add_entries(c, m, m->held, from_held);
    memmove(m->held, m->held + from_held, m->held_size - from_held);
    m->held_size -= from_held;
    more -= from_held;
    add_entries(c, m, bytes, more);
    memcpy(m->held + m->held_size, bytes + more, size - more);
    m->held_size += size - more;
}

/* Finds where the entries begin; returns how much of `bytes` is before. */
static size_t
take_head(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    size_t before = m->head_size;
    size_t room = HEAD_MAX - 1 - before;
    const char *from = m->head, *end;

    memcpy(m->head + before, bytes, size < room ? size : room);
    m->head_size += size < room ? size : room;
    m->head[m->head_size] = '\0';
    if (m->form == NOTICE_XML) /* links have the same end */
        from = strstr(m->head, "<rs:md ");
    end = from ? strstr(from, forms[m->form].entries) : NULL;
    if (!end) {
        assert_true(m->head_size < HEAD_MAX - 1);
        return size;
    }
    m->is_in_entries = true;
    m->message_last = number_after(m->head, forms[m->form].last);
    assert_int_equal(number_after(m->head, forms[m->form].after), m->last);
    assert_in_range(m->message_last, m->last, c->entries_max);
    take_digest(c, m);
    if (m->form == NOTICE_JSON && m->message_last > m->last && m->last > 0)
        add_entries(c, m, ",", 1); /* which is not there between messages */
    return (size_t)(end - m->head) + strlen(forms[m->form].entries) - before;
}

static void
end_message(struct crowd *c, struct member *m)
{
    size_t *end = &c->texts[m->form].ends[m->message_last];

    assert_true(m->is_in_entries);
    assert_int_equal(m->held_size, strlen(forms[m->form].footer));
    assert_memory_equal(m->held, forms[m->form].footer, m->held_size);
    if (*end == NO_OFFSET)
        *end = m->at;
    assert_int_equal(*end, m->at);
    if (!m->is_greeted)
        assert_int_equal(m->message_last, m->last);

    c->n_there -= is_there(c, m);
    m->last = m->message_last;
    m->is_greeted = true;
    c->n_there += is_there(c, m);
    m->is_in_entries = false;
    m->head_size = m->held_size = 0;
}

/* Frames */

static size_t
take_answer(struct member *m, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        assert_true(m->head_size < HEAD_MAX - 1);
        m->head[m->head_size++] = bytes[i];
        if (m->head_size < 4 ||
            memcmp(m->head + m->head_size - 4, "\r\n\r\n", 4))
            continue;
        m->head[m->head_size] = '\0';
        if (strncmp(m->head, m->is_events ? "HTTP/1.1 200 " : "HTTP/1.1 101 ",
                    13) != 0)
            fail_msg("no stream: %s", m->head);
        m->phase = AT_FRAME;
        m->head_size = 0;
        return i + 1;
    }
    return size;
}

/* The header of a frame, byte by byte. */
static size_t
take_frame(struct member *m, const char *bytes)
{
    size_t whole;

    m->frame[m->frame_size++] = (unsigned char)*bytes;
    if (m->frame_size < 2)
        return 1;
    whole = m->frame[1] == 126 ? 4 : m->frame[1] == 127 ? 10 : 2;
    if (m->frame_size < whole)
        return 1;
    if ((m->frame[0] & 15) > 1)
        fail_msg("a frame of kind %d after entry %llu", m->frame[0] & 15,
                 (unsigned long long)m->last);
    m->payload_left = whole == 2 ? m->frame[1] : 0;
    for (size_t i = 2; i < whole; i++)
        m->payload_left = m->payload_left << 8 | m->frame[i];
    assert_true(m->payload_left > 0 && whole + m->payload_left <= 65536);
    m->frame_size = 0;
    m->phase = AT_PAYLOAD;
    return 1;
}

/* The same of a chunk: "fff8\r\n". */
static size_t
take_chunk(struct member *m, const char *bytes)
{
    assert_true(m->frame_size < sizeof(m->frame) - 1);
    m->frame[m->frame_size++] = (unsigned char)*bytes;
    if (*bytes != '\n')
        return 1;
    m->frame[m->frame_size] = '\0';
    m->payload_left = strtoull((char *)m->frame, NULL, 16);
    assert_true(m->payload_left > 0 &&
                m->frame_size + m->payload_left + 2 <= 65536);
    m->frame_size = 0;
    m->phase = AT_PAYLOAD;
    return 1;
}

/* The line's end behind a chunk. */
static size_t
take_end(struct member *m, const char *bytes)
{
    assert_int_equal(*bytes, "\r\n"[m->frame_size++]);
    if (m->frame_size == 2) {
        m->frame_size = 0;
        m->phase = AT_FRAME;
    }
    return 1;
}

/* Bytes of events, up to the end of one at most. The data have no lines, so an
 * empty line ends an event; its first one is as good as the line's end behind a
 * message of a WebSocket. */
static size_t
take_event(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    size_t n = 0, head;
    bool is_end = false;

    while (n < size && !is_end) {
        const char *line = memchr(bytes + n, '\n', size - n);
        char before;

        if (!line) {
            n = size;
            m->byte = bytes[n - 1];
            break;
        }
        n = (size_t)(line - bytes) + 1;
        before = n > 1 ? bytes[n - 2] : m->byte;
        is_end = before == '\n';
        m->byte = '\n';
    }
    size = n - is_end;
    head = m->is_in_entries ? 0 : take_head(c, m, bytes, size);
    if (m->is_in_entries)
        take_entries(c, m, bytes + head, size - head);
    if (is_end) {
        if (m->is_in_entries)
            end_message(c, m);
        else
            assert_memory_equal(m->head, "retry: ", 7);
        m->head_size = 0;
        m->byte = 0;
    }
    return n;
}

static size_t
take_events(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    size_t n = size < m->payload_left ? size : (size_t)m->payload_left;

    for (size_t at = 0; at < n;)
        at += take_event(c, m, bytes + at, n - at);
    m->payload_left -= n;
    if (m->payload_left == 0)
        m->phase = AT_END;
    return n;
}

static size_t
take_payload(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    size_t n = size < m->payload_left ? size : (size_t)m->payload_left;
    size_t head = m->is_in_entries ? 0 : take_head(c, m, bytes, n);

    if (m->is_in_entries)
        take_entries(c, m, bytes + head, n - head);
    m->payload_left -= n;
    if (m->payload_left == 0) {
        m->phase = AT_FRAME;
        if (m->frame[0] & 0x80)
            end_message(c, m);
    }
    return n;
}

static void
take(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    while (size > 0) {
        size_t n;

        if (m->phase == AT_ANSWER)
            n = take_answer(m, bytes, size);
        else if (m->phase == AT_FRAME)
            n = m->is_events ? take_chunk(m, bytes) : take_frame(m, bytes);
        else if (m->phase == AT_PAYLOAD)
            n = m->is_events ? take_events(c, m, bytes, size)
                             : take_payload(c, m, bytes, size);
        else
            n = take_end(m, bytes);

        bytes += n;
        size -= n;
    }
}

/* Reading */

void
crowd_stop_reading(struct crowd *c, size_t number)
{
    struct member *m = &c->members[number];

    assert_true(m->is_reading);
    assert_int_equal(epoll_ctl(c->epoll, EPOLL_CTL_DEL, m->fd, NULL), 0);
    m->is_reading = false;
}

void
crowd_read_again(struct crowd *c, size_t number)
{
    struct member *m = &c->members[number];
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = m}};

    assert_false(m->is_reading);
    assert_int_equal(epoll_ctl(c->epoll, EPOLL_CTL_ADD, m->fd, &event), 0);
    m->is_reading = true;
}

/* As recv. A buffer that is larger than a record leaves nothing in the SSL. */
static ssize_t
receive(struct member *m, char *to, size_t size)
{
    int n = 0, error = 0;

    if (!m->ssl)
        return recv(m->fd, to, size, MSG_DONTWAIT);
    ERR_clear_error();
    n = SSL_read(m->ssl, to, (int)size);
    error = SSL_get_error(m->ssl, n);
    errno = error == SSL_ERROR_WANT_READ ? EAGAIN : EPIPE;
    return n;
}

void
crowd_read_until(struct crowd *c, uint64_t last, int wait_ms)
{
    static char bytes[1 << 18];
    struct epoll_event events[256];

    c->awaited = last;
    count(c);
    while (c->n_there < c->n_reading) {
        int n = epoll_wait(c->epoll, events, 256, wait_ms);

        if (n == 0)
            fail_msg("%zu of %zu have got entry %llu, the others nothing more",
                     c->n_there, c->n_reading, (unsigned long long)last);
        assert_true(n > 0 || errno == EINTR);
        for (int i = 0; i < n; i++) {
            struct member *m = events[i].data.ptr;
            ssize_t size = receive(m, bytes, sizeof(bytes));

            if (size <= 0 && errno != EAGAIN)
                fail_msg("subscriber %td was closed after entry %llu",
                         m - c->members, (unsigned long long)m->last);
            if (size > 0)
                take(c, m, bytes, (size_t)size);
        }
    }
}

uint64_t
crowd_last(const struct crowd *c, size_t number)
{
    return c->members[number].last;
}

size_t
crowd_unread(const struct crowd *c, size_t number)
{
    int size = 0;

    assert_int_equal(ioctl(c->members[number].fd, FIONREAD, &size), 0);
    return (size_t)size;
}

struct slice
crowd_text(const struct crowd *c, enum notice_form form)
{
    return buf_slice(&c->texts[form].bytes);
}

const char *
crowd_digest(const struct crowd *c, uint64_t seq)
{
    return c->digests[seq];
}
