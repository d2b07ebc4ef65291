#include "client/publish/resource_collector.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/gunzip.h"
#include "client/lib/fetch.h"
#include "client/lib/temporary_file.h"
#include "client/source/document.h"
#include "proto/datetime.h"
#include "proto/resourcesync/input_formats.h"
#include "proto/resourcesync/json.h"

/* Parts of an index, at most: R-026. */
#define PARTS_MAX DOCUMENT_ENTRIES_MAX

/* The root of a document begins within so many bytes. */
#define ROOT_MAX ((size_t)1 << 20)

/* Unpacked, of one document. */
#define UNPACKED_MAX ((uint64_t)1 << 40)

/* Bytes of one write. */
#define PIECE_BYTES ((size_t)1 << 18)

/* Resources between two reports of progress. */
#define REPORT_EVERY 256

#define REDIRECTS 5

/* Longest explanation of a refusal. */
#define REFUSAL_MAX 16384

struct gather {
    struct td_client *client;
    int fd;
    const char *asks_with; /* a conditional header line; NULL: none */
    struct gathered *gathered;
    struct buf out;
    uint64_t n;           /* resources */
    struct problem limit; /* of the handle, that was met */
    char **parts;         /* URLs, in the order of their index */
    size_t n_parts, parts_capacity;

    /* The document under way */
    const char *name;
    bool is_part;
    struct gunzip *gunzip;
    struct buf head;             /* until its kind is known */
    struct document *probe;      /* finds the root; reads an index to its end */
    struct input_reader *reader; /* reads all other kinds */
    enum status rc;
    struct problem why;
    struct buf refusal; /* the server's explanation */
    bool is_over;       /* the exchange */
    struct problem failure;
};

/* Out */

static enum status
flush_piece(struct gather *g, struct problem *why)
{
    struct source_limits *room = &g->client->room;

    if (g->out.size > 0 && source_limits_look_at(room, temporary_directory(),
                                                 g->out.size, &g->limit))
        return STATUS_IO;
    if (file_write(g->fd, buf_slice(&g->out)))
        return problem(why, STATUS_IO, "cannot write a temporary file: %s",
                       strerror(errno));
    g->gathered->size += g->out.size;
    buf_clear(&g->out);
    return STATUS_OK;
}

static enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    struct gather *g = user;

    if (source_limits_check_resources(&g->client->room, ++g->n, &g->limit))
        return STATUS_TOO_LARGE;
    if (g->n % REPORT_EVERY == 0)
        client_progress(g->client, TD_PROGRESS_READ, g->n, 0);
    json_resource(&g->out, change);
    BUF_ADD(&g->out, "\n");
    if (g->out.failed)
        return problem_memory(why);
    return g->out.size < PIECE_BYTES ? STATUS_OK : flush_piece(g, why);
}

/* A document */

static enum status
on_part(const struct document_entry *entry, const struct document_head *head,
        void *user)
{
    struct gather *g = user;
    char **parts;

    if (!head->is_index)
        return STATUS_OK; /* not an index */
    if (g->is_part)
        return problem(&g->why, STATUS_INVALID, "an index within an index");
    if (g->n_parts == PARTS_MAX)
        return problem(&g->why, STATUS_TOO_LARGE, "more than %d parts",
                       PARTS_MAX);
    parts = ONE_MORE(g->parts, &g->parts_capacity, g->n_parts);
    if (!parts)
        return STATUS_MEMORY;
    g->parts = parts;
    parts[g->n_parts] = slice_dup(entry->change.loc);
    return parts[g->n_parts++] ? STATUS_OK : STATUS_MEMORY;
}

static enum status
begin_reader(struct gather *g, const char *type, struct problem *why)
{
    struct slice head = buf_slice(&g->head);

    g->reader = input_reader_new(format_of(slice_of(type)), INPUT_RESOURCES,
                                 SIZE_MAX, on_change, g);
    if (!g->reader)
        return problem_memory(why);
    return input_reader_feed(g->reader, head, why);
}

/* Recognises the document by its first bytes. */
static enum status
decide_kind(struct gather *g, struct slice bytes, struct problem *why)
{
    static const struct document_events events = {.on_entry = on_part};
    size_t i = 0;
    enum status rc;

    buf_add_slice(&g->head, bytes);
    if (g->head.failed)
        return problem(why, STATUS_MALFORMED, "it has no root");
    if (!g->probe) {
        if (g->head.size >= 3 && !memcmp(g->head.data, "\xef\xbb\xbf", 3))
            i = 3;
        while (i < g->head.size && strchr(" \t\r\n", g->head.data[i]))
            i++;
        if (i == g->head.size)
            return STATUS_OK;
        if (g->head.data[i] == '{')
            return begin_reader(g, "application/x-ndjson", why);
        g->probe = document_new(g->is_part ? g->name : "file:///", &events, g);
        if (!g->probe)
            return problem_memory(why);
        bytes = buf_slice(&g->head);
    }
    rc = document_feed(g->probe, bytes, why);
    if (rc || !document_head(g->probe)->has_root ||
        document_head(g->probe)->is_index)
        return rc;
    document_free(g->probe);
    g->probe = NULL;
    return begin_reader(g, "application/xml", why);
}

static enum status
on_bytes(struct slice bytes, void *user, struct problem *why)
{
    struct gather *g = user;

    if (g->reader)
        return input_reader_feed(g->reader, bytes, why);
    if (g->probe && document_head(g->probe)->has_root)
        return document_feed(g->probe, bytes, why);
    return decide_kind(g, bytes, why);
}

static void
begin_document(struct gather *g, const char *name, bool is_part)
{
    g->name = name;
    g->is_part = is_part;
    buf_init(&g->head, ROOT_MAX);
    g->probe = NULL;
    g->reader = NULL;
    g->gunzip = gunzip_new(UNPACKED_MAX, true, on_bytes, g);
    memset(&g->why, 0, sizeof(g->why));
    g->rc = g->gunzip ? STATUS_OK : problem_memory(&g->why);
}

static void
feed_document(struct gather *g, struct slice bytes)
{
    if (!g->rc)
        g->rc = gunzip_all(g->gunzip, bytes, &g->why);
}

/* Reports the document's fault as the client's problem. */
static enum status
tell_fault(struct gather *g)
{
    char place[64] = "";

    if (!g->rc)
        return STATUS_OK;
    if (g->limit.rc)
        return client_told(g->client, &g->limit);
    if (g->rc == STATUS_MEMORY)
        return problem_memory(&g->client->problem);
    if (g->rc == STATUS_IO)
        return client_fail(g->client, STATUS_IO, "%s", g->why.text);
    if (g->why.entry)
        snprintf(place, sizeof(place), "entry %llu, ",
                 (unsigned long long)g->why.entry);
    if (g->why.line)
        snprintf(place + strlen(place), sizeof(place) - strlen(place),
                 "line %llu: ", (unsigned long long)g->why.line);
    return client_fail(g->client, STATUS_MALFORMED, "%.600s: %s%s", g->name,
                       place,
                       g->why.text[0] ? g->why.text : "it cannot be read");
}

static void
drop_document(struct gather *g)
{
    gunzip_free(g->gunzip);
    document_free(g->probe);
    input_reader_free(g->reader);
    buf_fini(&g->head);
}

static enum status
end_document(struct gather *g, enum status rc)
{
    if (!rc && !g->rc)
        g->rc = gunzip_end(g->gunzip, &g->why);
    if (!rc && !g->rc && g->reader)
        g->rc = input_reader_end(g->reader, &g->why);
    else if (!rc && !g->rc && g->probe)
        g->rc = document_end(g->probe, &g->why);
    if (!rc && !g->rc && !g->reader &&
        !(g->probe && document_head(g->probe)->has_root))
        g->rc = problem(&g->why, STATUS_MALFORMED, "it has no root");
    drop_document(g);
    return rc ? rc : tell_fault(g);
}

/* Reading a source */

/* True if td_stop was called: a file may be long, or a pipe. */
static bool
is_stopped(const struct td_client *client)
{
    struct pollfd stop = {.fd = client->stop_fd, .events = POLLIN};

    return poll(&stop, 1, 0) > 0;
}

static enum status
read_file(struct gather *g, const char *path)
{
    FILE *f = fopen(path, "re");
    char bytes[65536];
    size_t n;
    enum status rc = STATUS_OK;

    if (!f)
        return client_fail(g->client, STATUS_IO, "cannot read %.600s: %s", path,
                           strerror(errno));
    begin_document(g, path, false);
    while (!g->rc && !is_stopped(g->client) &&
           (n = fread(bytes, 1, sizeof(bytes), f)) > 0)
        feed_document(g, (struct slice){bytes, n});
    if (!g->rc && is_stopped(g->client))
        rc = client_fail(g->client, STATUS_STOPPED, "%s", "");
    else if (!g->rc && ferror(f))
        rc = client_fail(g->client, STATUS_IO, "cannot read %.600s: %s", path,
                         strerror(errno));
    fclose(f);
    return end_document(g, rc);
}

static bool
on_body(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct gather *g = user;

    if (answer->status != 200) {
        if (bytes.size > g->refusal.max - g->refusal.size)
            bytes.size = g->refusal.max - g->refusal.size;
        buf_add_slice(&g->refusal, bytes);
        return !g->refusal.failed && g->refusal.size < g->refusal.max;
    }
    feed_document(g, bytes);
    return !g->rc;
}

/* Keeps the header line for a conditional request: by the ETag, else by the
 * date of the last change, if the answer is at least a second younger. */
static void
remember_validators(struct gather *g, const struct fetch_answer *answer)
{
    struct gathered *to = g->gathered;
    int64_t modified = httpdate_read(slice_of(answer->last_modified));
    int64_t date = httpdate_read(slice_of(answer->date));
    int size = 0;

    if (answer->etag[0])
        size = snprintf(to->known, sizeof(to->known), "If-None-Match: %s",
                        answer->etag);
    else if (modified != DATETIME_NONE && date > modified)
        size = snprintf(to->known, sizeof(to->known), "If-Modified-Since: %s",
                        answer->last_modified);
    if (size < 0 || (size_t)size >= sizeof(to->known))
        to->known[0] = '\0';
}

static void
on_end(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct gather *g = user;
    const struct fetch_answer refusal = {.status = why->http_status,
                                         .retry_after_s = why->retry_after_s,
                                         .body = g->refusal};
    bool is_answered = !why->rc || why->rc == STATUS_STOPPED; /* by on_body */

    g->failure = *why;
    g->gathered->is_same =
        !why->rc && why->http_status == 304 && g->asks_with && !g->is_part;
    if (!why->rc && why->http_status == 200 && !g->is_part)
        remember_validators(g, answer);
    if (is_answered && why->http_status != 200 && !g->gathered->is_same)
        fetch_refused(&g->failure, &refusal);
    if (g->failure.rc == STATUS_GONE) /* it is not the set that is */
        g->failure.rc = STATUS_REFUSED;
    g->is_over = true;
}

static enum status
read_url(struct gather *g, const char *url, bool is_part)
{
    const char *const headers[] = {is_part ? NULL : g->asks_with, NULL};
    const struct fetch_request request = {
        .url = url, .headers = headers, .redirects = REDIRECTS};
    struct fetch *fetch;
    enum status rc;

    begin_document(g, url, is_part);
    buf_init(&g->refusal, REFUSAL_MAX);
    g->is_over = false;
    fetch = fetch_start(g->client, &request, on_body, on_end, g);
    if (!fetch)
        return end_document(g, problem_memory(&g->client->problem));
    rc = client_until(g->client, &g->is_over);
    if (rc)
        fetch_free(fetch);
    else if (!g->rc && g->failure.rc)
        rc = client_fail(g->client, g->failure.rc, "%.600s: %s", url,
                         g->failure.text);
    buf_fini(&g->refusal);
    if (!rc && g->gathered->is_same)
        drop_document(g);
    else
        rc = end_document(g, rc);
    return rc;
}

static bool
is_url(const char *from)
{
    return !strncasecmp(from, "http://", 7) ||
           !strncasecmp(from, "https://", 8);
}

enum status
gather(struct td_client *client, const char *from, const char *known, int fd,
       struct gathered *gathered)
{
    struct gather g = {.client = client,
                       .fd = fd,
                       .asks_with = known && known[0] ? known : NULL,
                       .gathered = gathered};
    enum status rc;

    memset(gathered, 0, sizeof(*gathered));
    problem_clear(&g.limit);
    buf_init(&g.out, SIZE_MAX);
    rc = is_url(from) ? read_url(&g, from, false) : read_file(&g, from);
    for (size_t i = 0; !rc && i < g.n_parts; i++)
        rc = read_url(&g, g.parts[i], true);
    if (!rc) {
        g.rc = flush_piece(&g, &g.why);
        rc = tell_fault(&g);
    }
    if (g.n_parts > 0)
        gathered->known[0] = '\0';
    for (size_t i = 0; i < g.n_parts; i++)
        free(g.parts[i]);
    free(g.parts);
    buf_fini(&g.out);
    return rc;
}
