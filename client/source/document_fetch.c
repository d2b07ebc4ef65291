#include "client/source/document_fetch.h"

#include "client/lib/fetch.h"

#define ACCEPT_XML "Accept: application/xml, text/xml;q=0.9, */*;q=0.5"

struct document_fetch {
    struct fetch *fetch;
    struct document *document; /* from the first byte of a 200 on */
    struct document_events events;
    document_fetch_end_fn *on_end;
    void *user;
    char *url;
    bool takes_text;
    bool has_etag;
    enum status rc;     /* the result of the document */
    struct problem why; /* of the document */
    struct buf text;
};

static void
feed_document(struct document_fetch *p, const char *url, struct slice bytes)
{
    if (!p->document && !p->rc) {
        p->document = document_new_moved(p->url, url, DOCUMENT_UNPACKED_MAX,
                                         &p->events, p->user);
        if (!p->document)
            p->rc = STATUS_MEMORY;
    }
    if (!p->rc)
        p->rc = document_feed(p->document, bytes, &p->why);
}

static bool
on_body(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct document_fetch *p = user;
    size_t left = p->text.max - p->text.size;

    if (answer->status != 200)
        return false;
    if (p->takes_text) {
        buf_add(&p->text, bytes.data, bytes.size < left ? bytes.size : left);
        p->text.failed |= bytes.size > left;
    }
    feed_document(p, answer->url, bytes);
    if (p->text.is_starved)
        p->rc = STATUS_MEMORY;
    if (!p->rc)
        return true;
    return p->rc == STATUS_MALFORMED && p->takes_text && !p->text.failed;
}

void
document_fetch_free(struct document_fetch *p)
{
    if (!p)
        return;
    fetch_free(p->fetch);
    document_free(p->document);
    buf_fini(&p->text);
    free(p->url);
    free(p);
}

/* Ends the document, read or refused. */
static void
finish_document(struct document_fetch *p, struct document_fetch_answer *result,
                struct problem *why)
{
    bool has_root;

    feed_document(p, result->url, (struct slice){"", 0});
    if (!p->rc)
        p->rc = document_end(p->document, &p->why);
    result->head = p->document ? document_head(p->document) : NULL;
    has_root = result->head && result->head->has_root;
    result->is_document = !p->rc || p->rc == STATUS_STOPPED;
    if (!result->is_document)
        document_unreadable(&p->why, p->rc, p->url);
    if (result->is_document ||
        (p->takes_text && !has_root && p->rc == STATUS_MALFORMED))
        result->text = &p->text;
    else
        *why = p->why;
    if (!result->is_document && !why->rc)
        result->unread = p->why.text;
}

static void
on_fetched(struct fetch_answer *answer, const struct problem *because,
           void *user)
{
    struct document_fetch *p = user;
    struct document_fetch_answer result = {.url = answer->url,
                                           .type = answer->type,
                                           .etag = answer->etag,
                                           .date = answer->date,
                                           .link = answer->link};
    struct problem why = *because;

    p->fetch = NULL;
    if (why.rc == STATUS_STOPPED) /* enough has come */
        why.rc = STATUS_OK;
    if (!why.rc && answer->status == 200) {
        finish_document(p, &result, &why);
    } else if (!why.rc && answer->status == 304 && p->has_etag) {
        result.is_unchanged = true;
    } else {
        if (!why.rc && fetch_refused(&why, answer) == STATUS_GONE)
            why.rc = STATUS_REFUSED;
        if (why.rc != STATUS_MEMORY)
            problem_prefix(&why, why.rc, "%.*s%s: ", DOCUMENT_URL_QUOTED,
                           p->url,
                           strlen(p->url) > DOCUMENT_URL_QUOTED ? "..." : "");
    }
    p->on_end(&result, &why, p->user);
    document_fetch_free(p);
}

struct document_fetch *
document_fetch_start(struct td_client *client,
                     const struct document_fetch_request *request,
                     const struct document_events *events,
                     document_fetch_end_fn *on_end, void *user)
{
    struct document_fetch *p = calloc(1, sizeof(*p));
    char condition[512];
    const char *lines[] = {request->accept ? request->accept : ACCEPT_XML, NULL,
                           NULL};
    struct fetch_request wanted = {
        .url = request->url,
        .headers = lines,
        .redirects = FETCH_REDIRECTS,
        .takes_gzip = true,
        .silence_s = request->silence_s,
    };

    if (!p)
        return NULL;
    p->events = *events;
    p->on_end = on_end;
    p->user = user;
    p->takes_text = request->takes_text;
    p->has_etag = request->etag && request->etag[0];
    buf_init(&p->text, DOCUMENT_FETCH_TEXT_MAX);
    p->url = strdup(request->url);
    if (p->has_etag) {
        snprintf(condition, sizeof(condition), "If-None-Match: %s",
                 request->etag);
        lines[1] = condition;
    }
    if (p->url)
        p->fetch = fetch_start(client, &wanted, on_body, on_fetched, p);
    if (!p->fetch) {
        document_fetch_free(p);
        return NULL;
    }
    return p;
}
