/*
 * headers.c - header lines that only one server gets.
 */
#include "client/lib/headers.h"

#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "proto/http/websub.h"
#include "proto/uri.h"

/* One line, and the server's "scheme://host:port". */
struct row {
    struct row *next;
    char *server;
    char *line;
};

struct headers {
    struct row *rows; /* in the order of adding */
};

struct headers *
headers_new(void)
{
    return calloc(1, sizeof(struct headers));
}

static void
free_row(struct row *row)
{
    if (row) {
        free(row->server);
        free(row->line);
    }
    free(row);
}

void
headers_free(struct headers *headers)
{
    if (!headers)
        return;
    while (headers->rows) {
        struct row *row = headers->rows;

        headers->rows = row->next;
        free_row(row);
    }
    free(headers);
}

void
headers_server(struct buf *to, const char *url)
{
    struct slice text = slice_of(url);
    const char *fragment = strchr(url, '#');

    if (fragment)
        text.size = (size_t)(fragment - url);
    buf_init(to, 4 * WEBSUB_URL_MAX);
    if (websub_check_url(text, "url", NULL))
        return;
    if (!strncasecmp(url, "https:", 6))
        BUF_ADD(to, "https://");
    else
        BUF_ADD(to, "http://");
    websub_authority(to, text);
}

/* "Name: value": a token, a colon, nothing that ends a line. */
static bool
is_header(const char *line)
{
    size_t name = strcspn(line, ":");

    if (!name || !line[name] || strcspn(line, " \t\"(),/;<=>?@[\\]{}") < name)
        return false;
    for (const char *c = line; *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
            return false;
    return true;
}

/* True if the field frames a message, names its server, or belongs to the
 * handshake of a WebSocket (RFC 9110, RFC 9112, RFC 6455). The library writes
 * these fields itself and expects the answer to match. */
static bool
is_own(struct slice name)
{
    static const char *const own[] = {
        "Connection", "Content-Length",    "Host",    "Keep-Alive",
        "TE",         "Transfer-Encoding", "Trailer", "Upgrade",
    };
    static const char handshake[] = "Sec-WebSocket-";

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (slice_is_word(name, own[i]))
            return true;
    return name.size >= sizeof(handshake) - 1 &&
           !strncasecmp(name.data, handshake, sizeof(handshake) - 1);
}

static enum status
check_line(const struct buf *server, const char *line, struct problem *why)
{
    struct slice rest = slice_of(line), name = slice_take(&rest, ':');

    if (!server->size || !is_header(line))
        return problem(why, STATUS_INVALID,
                       "not a header, Name: value, for a server: \"%s\"",
                       problem_quote(slice_of(line)).text);
    if (is_own(name))
        return problem(why, STATUS_INVALID,
                       "the library itself writes the field \"%s\"",
                       problem_quote(name).text);
    return STATUS_OK;
}

enum status
headers_add(struct headers *headers, const char *url, const char *line,
            struct problem *why)
{
    struct row **end = &headers->rows;
    struct row *row = NULL;
    struct buf server;
    enum status rc;

    headers_server(&server, url);
    rc = check_line(&server, line, why);
    if (rc)
        goto out;
    rc = problem_memory(why);
    row = calloc(1, sizeof(*row));
    if (!row || server.failed)
        goto out;
    row->server = slice_dup(buf_slice(&server));
    row->line = strdup(line);
    if (!row->server || !row->line)
        goto out;
    while (*end)
        end = &(*end)->next;
    *end = row;
    row = NULL;
    rc = STATUS_OK;

out:
    free_row(row);
    buf_fini(&server);
    return rc;
}

bool
headers_each(const struct headers *headers, const char *url,
             bool (*each)(const char *line, void *user), void *user)
{
    struct buf server;
    bool is_good = true;

    if (!headers->rows)
        return true;
    headers_server(&server, url);
    for (const struct row *row = headers->rows; row && is_good; row = row->next)
        if (slice_is(buf_slice(&server), row->server))
            is_good = each(row->line, user);
    buf_fini(&server);
    return is_good;
}
