#include "client/source/document.h"

#include "base/gunzip.h"

/* Packed twice: a file of gzip that the server packs once more. */
#define PACKED_MAX 2

struct document {
    struct gunzip *gunzip[PACKED_MAX];
    struct document_reader *reader;
    enum status rc; /* the failure that ended the reading */
};

/* True if the URL is that of a host's robots.txt. */
static bool
is_robots(const char *url)
{
    const char *host = strstr(url, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;

    return path && !strcmp(path, "/robots.txt");
}

static enum status
on_bytes(struct slice bytes, void *user, struct problem *why)
{
    struct document *d = user;

    return document_reader_feed(d->reader, bytes, why);
}

struct document *
document_new(const char *base, const struct document_events *events, void *user)
{
    return document_new_moved(base, base, DOCUMENT_UNPACKED_MAX, events, user);
}

struct document *
document_new_moved(const char *url, const char *base, uint64_t max_bytes,
                   const struct document_events *events, void *user)
{
    struct document *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->reader = document_reader_new(base, is_robots(url) || is_robots(base),
                                    events, user);
    d->gunzip[1] = gunzip_new(max_bytes, GUNZIP_EITHER, on_bytes, d);
    d->gunzip[0] =
        gunzip_new(max_bytes, GUNZIP_EITHER, gunzip_into, d->gunzip[1]);
    if (d->reader && d->gunzip[0] && d->gunzip[1])
        return d;
    document_free(d);
    return NULL;
}

void
document_free(struct document *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < PACKED_MAX; i++)
        gunzip_free(d->gunzip[i]);
    document_reader_free(d->reader);
    free(d);
}

enum status
document_feed(struct document *d, struct slice bytes, struct problem *why)
{
    if (!d->rc)
        d->rc = gunzip_all(d->gunzip[0], bytes, why);
    return d->rc;
}

enum status
document_end(struct document *d, struct problem *why)
{
    for (size_t i = 0; i < PACKED_MAX && !d->rc; i++)
        d->rc = gunzip_end(d->gunzip[i], why);
    if (!d->rc)
        d->rc = document_reader_end(d->reader, why);
    return d->rc;
}

const struct document_head *
document_head(const struct document *d)
{
    return document_reader_head(d->reader);
}

void
document_unreadable(struct problem *why, enum status rc, const char *url)
{
    unsigned long long line = why->line;
    const char *more = strlen(url) > DOCUMENT_URL_QUOTED ? "..." : "";

    if (rc == STATUS_MEMORY)
        problem_memory(why);
    else if (!why->text[0])
        problem(why, STATUS_MALFORMED, "%.*s%s has more than is kept",
                DOCUMENT_URL_QUOTED, url, more);
    else if (line)
        problem_prefix(why, STATUS_MALFORMED,
                       "%.*s%s cannot be read: line %llu: ",
                       DOCUMENT_URL_QUOTED, url, more, line);
    else
        problem_prefix(why, STATUS_MALFORMED,
                       "%.*s%s cannot be read: ", DOCUMENT_URL_QUOTED, url,
                       more);
}
