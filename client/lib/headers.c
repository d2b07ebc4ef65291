/*
 * headers.c - header lines that only one server gets.
 */
#include "client/lib/headers.h"

#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "proto/uri.h"
#include "proto/websub.h"

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

/* "https://host:port" of a URL, comparable; empty: it names no server. */
static void
write_server(struct buf *to, const char *url)
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

enum td_status
headers_add(struct headers *headers, const char *url, const char *line)
{
    struct row **end = &headers->rows;
    struct row *row = NULL;
    struct buf server;
    enum td_status rc = TD_INVALID;

    write_server(&server, url);
    if (!server.size || !is_header(line))
        goto out;
    rc = TD_MEMORY;
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
    rc = TD_OK;

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
    write_server(&server, url);
    for (const struct row *row = headers->rows; row && is_good; row = row->next)
        if (slice_is(buf_slice(&server), row->server))
            is_good = each(row->line, user);
    buf_fini(&server);
    return is_good;
}
