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

static void
make_request(struct publisher *p, unsigned port, const struct layout *l,
             size_t bytes)
{
    size_t around = strlen(l->before) + strlen(l->after);
    size_t padding = bytes > around ? bytes - around : 0;
    size_t room = 1024 + p->entries * (around + padding + 2);
    char *body = bench_memory(malloc(room)), *end = put(body, l->header);

    for (size_t i = 0; i < p->entries; i++) {
        end = put(end, i > 0 ? l->between : "");
        end = put(end, l->before);
        memset(end, 'x', padding);
        end = put(end + padding, l->after);
    }
    end = put(end, l->footer);

    p->request = bench_memory(malloc(room + 512));
    p->size = (size_t)sprintf(p->request,
                              "POST /sets/bench%s/changes HTTP/1.1\r\n"
                              "Host: 127.0.0.1:%u\r\nContent-Type: %s\r\n"
                              "Content-Length: %zu\r\n\r\n",
                              p->sets > 1 ? "00000" : "", port, l->type,
                              (size_t)(end - body));
    memcpy(p->request + p->size, body, (size_t)(end - body));
    p->size += (size_t)(end - body);
    p->request[p->size] = '\0';
    free(body);
}

static void
find_marks(struct publisher *p)
{
    const char *at = p->request;

    p->marks = bench_memory(calloc(p->entries, sizeof(*p->marks)));
    for (size_t i = 0; i < p->entries; i++) {
        at = strstr(at, ENTRY_MARK) + strlen(ENTRY_MARK);
        p->marks[i] = (size_t)(at - p->request);
    }
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
    *p = (struct publisher){.number = number,
                            .entries = entries,
                            .sets = sets,
                            .next_set = number * (sets / PUBLISHERS_MAX)};
    make_request(p, port, &layouts[form], bytes);
    if (sets > 1)
        p->set_digits = p->request + strlen("POST /sets/bench");
    find_marks(p);
    p->fd = wire_connect(port, 0);
    wire_set_nonblocking(p->fd);
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
    p->sent = 0;
    send_rest(p);
}

/* Is there a whole answer? It must be a good one. */
static bool
is_answered(struct publisher *p)
{
    char *end, *length;
    size_t size;

    p->answer[p->received] = '\0';
    end = strstr(p->answer, "\r\n\r\n");
    if (!end)
        return false;
    size = (size_t)(end + 4 - p->answer);
    length = strcasestr(p->answer, "content-length:");
    if (length && length < end)
        size += strtoul(length + strlen("content-length:"), NULL, 10);
    if (p->received < size && size < sizeof(p->answer))
        return false;
    if (strncmp(p->answer, "HTTP/1.1 2", 10) != 0)
        bench_fail("a post was answered with\n%s", p->answer);
    if (p->received != size)
        bench_fail("more than an answer came:\n%s", p->answer);
    return true;
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
        if (is_answered(p)) {
            p->received = 0;
            p->is_busy = false;
            return true;
        }
    }
}
