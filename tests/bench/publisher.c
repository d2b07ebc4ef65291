#include "tests/bench/publisher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/socket.h"

#define HASH "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

/* The digits; one slash is within ENTRY_DIGITS. */
#define DIGITS "0000000000000000/0000000000000000000"

/* The text around the loc of an entry, and around all entries. */
static const struct layout {
    const char *type;
    const char *header;
    const char *before;
    const char *after;
    const char *between;
    const char *footer;
} layouts[] = {
    [FORM_XML] =
        {
            .type = "application/xml",
            .header = "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/"
                      "0.9\" xmlns:rs=\"http://www.openarchives.org/rs/terms/"
                      "\"><rs:md capability=\"changelist\"/>\n",
            .before = "<url><loc>http:" ENTRY_MARK DIGITS "/",
            .after = "</loc><lastmod>2026-01-01T00:00:00Z</lastmod><rs:md "
                     "change=\"updated\" hash=\"sha-256:" HASH
                     "\" length=\"8876\" type=\"text/xml\"/></url>",
            .between = "\n",
            .footer = "\n</urlset>\n",
        },
    [FORM_JSON] =
        {
            .type = "application/json",
            .header = "[",
            .before = "{\"loc\":\"http:" ENTRY_MARK DIGITS "/",
            .after = "\",\"lastmod\":\"2026-01-01T00:00:00Z\",\"change\":"
                     "\"updated\",\"hash\":{\"sha-256\":\"" HASH
                     "\"},\"length\":8876,\"type\":\"text/xml\"}",
            .between = ",\n",
            .footer = "]",
        },
};

/* Appends `text` to memory that is large enough; returns the end. */
static char *
put(char *to, const char *text)
{
    return stpcpy(to, text);
}

/* Makes the body of a post; its first entry is post->entry. */
static char *
make_body(struct post *post, const struct layout *l, size_t bytes)
{
    size_t around = strlen(l->before) + strlen(l->after);
    size_t padding = bytes > around ? bytes - around : 0;
    size_t room = 1024 + post->entries * (around + padding + 2);
    char *body = bench_memory(malloc(room)), *end = put(body, l->header);

    post->body = body;
    post->entry = end;
    post->entry_size = around + padding;
    for (size_t i = 0; i < post->entries; i++) {
        end = put(end, i > 0 ? l->between : "");
        end = put(end, l->before);
        memset(end, 'x', padding);
        end = put(end + padding, l->after);
    }
    end = put(end, l->footer);
    post->body_size = (size_t)(end - body);
    return body;
}

static void
find_marks(struct publisher *p)
{
    const char *at = p->request;

    p->marks = bench_memory(calloc(p->entries, sizeof(*p->marks)));
    for (size_t i = 0; i < p->entries; i++) {
        at = memmem(at, p->size - (size_t)(at - p->request), ENTRY_MARK,
                    strlen(ENTRY_MARK));
        at += strlen(ENTRY_MARK);
        p->marks[i] = (size_t)(at - p->request);
    }
}

/* Counts the whole answers that have come; leaves the rest. */
static void
take_answers(struct publisher *p)
{
    size_t at = 0, n;

    p->answer[p->received] = '\0';
    for (; at < p->received; at += n) {
        bool is_counted;

        n = p->protocol->answer(p->answer + at, p->received - at, &is_counted);
        if (!n)
            break;
        if (is_counted && p->outstanding == 0)
            bench_fail("more than an answer came:\n%s", p->answer + at);
        p->outstanding -= is_counted;
    }
    p->received -= at;
    memmove(p->answer, p->answer + at, p->received);
    if (p->received == sizeof(p->answer) - 1)
        bench_fail("a long answer came:\n%s", p->answer);
}

/* Begins the connection; it still blocks. */
static void
greet(struct publisher *p, const struct post *post)
{
    size_t size = 0;
    char *greeting = NULL;
    FILE *to;

    if (!p->protocol->greet)
        return;
    to = bench_memory(open_memstream(&greeting, &size));
    p->outstanding = p->protocol->greet(to, post);
    fclose(to);
    if (wire_send(p->fd, greeting, size) != (ssize_t)size)
        bench_fail("cannot greet the server: %s", strerror(errno));
    free(greeting);
    while (p->outstanding > 0) {
        ssize_t n = wire_receive(p->fd, p->answer + p->received,
                                 sizeof(p->answer) - 1 - p->received);

        if (n <= 0)
            bench_fail("no answer to a publisher: %s", strerror(errno));
        p->received += (size_t)n;
        take_answers(p);
    }
}

static void
open_at(struct publisher *p, struct post *post, const struct protocol *protocol,
        enum form form, size_t bytes)
{
    char *body = make_body(post, &layouts[form], bytes);
    FILE *to = bench_memory(open_memstream(&p->request, &p->size));

    if (!protocol->put_post)
        bench_fail("the benchmark cannot post to %s", protocol->scheme);
    post->type = layouts[form].type;
    p->protocol = protocol;
    p->answers = protocol->put_post(to, post);
    fclose(to);
    find_marks(p);
    p->fd = wire_connect(post->port, 0);
    greet(p, post);
    wire_set_nonblocking(p->fd);
    free(body);
}

void
publisher_open(struct publisher *p, unsigned number, unsigned port,
               enum form form, size_t entries, size_t bytes)
{
    publisher_open_sets(p, number, port, form, entries, bytes, 1);
}

void
publisher_open_sets(struct publisher *p, unsigned number, unsigned port,
                    enum form form, size_t entries, size_t bytes, unsigned sets)
{
    struct post post = {.number = number,
                        .port = port,
                        .path = sets > 1 ? "/sets/bench00000/changes"
                                         : "/sets/bench/changes",
                        .entries = entries};

    *p = (struct publisher){.number = number,
                            .entries = entries,
                            .sets = sets,
                            .next_set = number * (sets / PUBLISHERS_MAX)};
    open_at(p, &post, protocol_of("http"), form, bytes);
    if (sets > 1)
        p->set_digits = p->request + strlen("POST /sets/bench");
}

void
publisher_open_peer(struct publisher *p, unsigned number, unsigned port,
                    const struct protocol *protocol, enum purpose purpose,
                    enum form form, size_t entries, size_t bytes)
{
    struct post post = {.purpose = purpose,
                        .number = number,
                        .port = port,
                        .path = "/sets/bench/changes",
                        .entries = entries};

    *p = (struct publisher){.number = number, .entries = entries, .sets = 1};
    open_at(p, &post, protocol, form, bytes);
}

void
publisher_close(struct publisher *p)
{
    wire_close(p->fd);
    free(p->request);
    free(p->marks);
}

/* Writes `n` decimal digits. */
static void
put_digits(char *to, unsigned n, uint64_t value)
{
    while (n-- > 0) {
        to[n] = (char)('0' + value % 10);
        value /= 10;
    }
}

static void
send_rest(struct publisher *p)
{
    while (p->sent < p->size) {
        ssize_t n = wire_send(p->fd, p->request + p->sent, p->size - p->sent);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            bench_fail("cannot post: %s", strerror(errno));
        p->sent += (size_t)n;
    }
}

void
publisher_post(struct publisher *p, uint64_t time_ns)
{
    char time[20];

    if (p->set_digits)
        put_digits(p->set_digits, 5, p->next_set++ % p->sets);
    put_digits(time, 19, time_ns);
    for (size_t i = 0; i < p->entries; i++) {
        char *at = p->request + p->marks[i];

        put_digits(at, 2, p->number);
        put_digits(at + ENTRY_NUMBER, 14, p->count++);
        memcpy(at + ENTRY_TIME, time, 19);
    }
    p->posted_ns = time_ns;
    p->is_busy = true;
    p->outstanding = p->answers;
    p->sent = 0;
    send_rest(p);
}

bool
publisher_on_event(struct publisher *p)
{
    if (p->is_busy)
        send_rest(p);
    for (;;) {
        size_t room = sizeof(p->answer) - 1 - p->received;
        ssize_t n = wire_receive(p->fd, p->answer + p->received, room);

        if (n < 0 && errno == EAGAIN)
            return false;
        if (n <= 0)
            bench_fail("the server closed a publisher's connection");
        p->received += (size_t)n;
        take_answers(p);
        if (p->is_busy && p->outstanding == 0) {
            p->is_busy = false;
            return true;
        }
    }
}
