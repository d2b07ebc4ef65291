/*
 * handle_documents.c - GET and HEAD of every document.
 *
 * documents/ makes the documents; conditional.h decides which part is sent.
 */

#include "broker/documents/documents.h"
#include "broker/documents/html.h"
#include "broker/http/answers.h"
#include "broker/http/authorization.h"
#include "broker/http/deferral.h"
#include "broker/http/routes.h"
#include "broker/net/conditional.h"
#include "broker/net/response.h"
#include "broker/sets/links.h"
#include "proto/http/link_header.h"

/* More pages than the longest list has with one entry a page. */
#define PAGES_MAX 99999

/* A requested document, which a worker may have to open. */
struct opening {
    bool is_of_few; /* not everyone may read its set */
    struct document_found found;
    struct document_wish wish;
    struct conditions conditions; /* lent by the request */
    struct document document;
    enum status status;
};

/* The ETags: gzip has one of its own, because its bytes differ. */
#define ETAG_SIZE 48

static void
write_etag(char to[ETAG_SIZE], const struct digest *tag, const char *coding)
{
    char text[DIGEST_TEXT_SIZE];

    /* Half of the digest: 128 bits, too many to find two documents with the
     * same. */
    digest_write(text, tag);
    snprintf(to, ETAG_SIZE, "\"%.32s%s\"", text + strlen("sha-256:"), coding);
}

/* Adds the headers that 200, 206 and 304 share (RFC 9110 section 15.4.5). */
static void
add_validators(struct response *r, const struct document *document,
               const char *etag)
{
    response_header(r, "ETag", "%s", etag);
    if (document->modified_us != DATETIME_NONE) {
        char date[HTTPDATE_SIZE];

        httpdate_write(date, document->modified_us / 1000000);
        response_header(r, "Last-Modified", "%s", date);
    }
    if (document->is_final)
        response_header(r, "Cache-Control", "%s, max-age=31536000, immutable",
                        document->is_private ? "private" : "public");
    else
        response_header(r, "Cache-Control", "%s",
                        answers_cache_control(document->is_private));
}

/* Adds the link to the Capability List that covers the document. The
 * page at / is the console, which runs and loads files of the broker, as pages
 * of the documentation do; and asks the provider that people sign in with. */
static void
add_discovery(struct response *r, struct opening *o)
{
    struct buf *links = &o->document.links;
    struct provider_sign_in sign_in = {.origin = ""};
    struct log_copy copy;
    struct link_text list;

    if (links->failed)
        buf_clear(links);
    links->max = RESPONSE_HEADERS_MAX;
    if (o->found.topic)
        notifications_links(links, &o->wish);
    if (o->wish.set) {
        list = set_link(o->wish.set, LINK_CAPABILITYLIST);
        weblink_add(links, link_slice(&list), "resourcesync");
    }
    if (links->size > 0 && !links->failed)
        response_header(r, "Link", "%.*s", SLICE_ARG(buf_slice(links)));
    /* Bytes of others, which run nothing in the broker's name. */
    if (o->found.open == content_open)
        response_header(r, "Content-Security-Policy",
                        "default-src 'none'; sandbox");
    log_copy(o->wish.registry->log, &copy);
    if (o->document.as_of_s && !copy.is_cut_off) { /* else it is there */
        char as_of[DATETIME_SIZE];

        datetime_write(as_of, o->document.as_of_s * 1000000);
        response_header(r, "Tidings-As-Of", "%.*s", DATETIME_SIZE, as_of);
    }
    if (o->document.memento[0])
        response_header(r, "Memento-Datetime", "%s", o->document.memento);
    if (o->found.open == landing_open)
        identity_provider_sign_in(o->wish.provider, &sign_in);
    if (o->found.open == landing_open || o->found.open == manual_open)
        response_header(
            r, "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; "
            "connect-src 'self'%s%s; img-src 'self'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'",
            sign_in.origin[0] ? " " : "", sign_in.origin);
}

static void
refuse_document(struct request *rq, struct response *r,
                const struct document *document)
{
    struct problem why = {""};

    if (r->status == 406)
        problem_set(&why, "this document is not available compressed, and "
                          "Accept-Encoding refuses identity");
    else if (r->status == 412)
        problem_set(&why, "the document is not the one that If-Match or "
                          "If-Unmodified-Since names");
    else
        problem_set(&why, "the document has %" PRIu64 " bytes only",
                    document->body->size);
    response_answer_problem(rq, r, &why, NULL);
}

static void
answer_document(struct request *rq, struct opening *o)
{
    struct document *document = &o->document;
    char etag[ETAG_SIZE], gzip_etag[ETAG_SIZE];
    const struct validators validators = {
        .etag = etag,
        .gzip_etag = document->gzip ? gzip_etag : NULL,
        .modified = document->modified_us == DATETIME_NONE
                        ? DATETIME_NONE
                        : document->modified_us / 1000000,
        .size = document->body ? document->body->size : 0,
    };
    bool is_packed = document->may_be_packed || o->wish.form != DOCUMENT_XML;
    struct verdict verdict;
    struct body **chosen;
    struct response r;

    document->is_private |= o->is_of_few;
    if (!document->body) { /* a TimeGate: RFC 7089, section 4.1 */
        response_init(&r, 302, NULL,
                      answers_cache_control(document->is_private));
        response_header(&r, "Vary", "Accept-Datetime");
        response_header(&r, "Location", "%s", document->lasting);
        add_discovery(&r, o);
        request_answer(rq, &r);
        return;
    }
    write_etag(etag, &document->tag, "");
    write_etag(gzip_etag, &document->tag, "-gzip");
    verdict = conditional_judge(&o->conditions, &validators);

    response_init(&r, verdict.status, NULL, NULL);
    /* Names the fields that choose between the forms of this address. Other
     * forms than XML do not know whether that has a gzip. */
    if (o->found.has_page)
        response_header(&r, "Vary", REQUEST_PAGE_VARY "%s",
                        is_packed ? ", Accept-Encoding" : "");
    else if (is_packed)
        response_header(&r, "Vary", "Accept-Encoding");
    if (verdict.status == 416)
        response_header(&r, "Content-Range", "bytes */%" PRIu64,
                        validators.size);
    if (verdict.status >= 400) {
        refuse_document(rq, &r, document);
        return;
    }
    add_validators(&r, document, verdict.is_gzip ? gzip_etag : etag);
    if (verdict.status == 304) {
        request_answer(rq, &r);
        return;
    }
    r.content_type =
        document->type.size > 0 ? document->type.data : o->found.content_type;
    if (o->wish.form == DOCUMENT_HTML)
        response_page(&r);
    if (verdict.is_gzip)
        response_header(&r, "Content-Encoding", "gzip");
    response_header(&r, "Accept-Ranges", "bytes");
    add_discovery(&r, o);
    if (verdict.status == 206)
        response_header(&r, "Content-Range",
                        "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, verdict.first,
                        verdict.first + verdict.size - 1, validators.size);
    chosen = verdict.is_gzip ? &document->gzip : &document->body;
    r.body = verdict.status == 206
                 ? body_part(*chosen, verdict.first, verdict.size)
                 : *chosen;
    *chosen = NULL;
    request_answer(rq, &r);
}

/* On a worker. The request may end before the work: the deferral's body has the
 * rest of the path. */
struct later_opening {
    struct deferral deferral;
    struct opening opening;
};

static struct opening *
opening_of(struct deferral *d)
{
    return &list_entry(d, struct later_opening, deferral)->opening;
}

static enum status
open_document(struct deferral *d, struct problem *why)
{
    struct opening *o = opening_of(d);

    o->status = documents_open(&o->found, &o->wish, &o->document, why);
    return o->status;
}

static void
answer_later(struct deferral *d, struct request *rq)
{
    answer_document(rq, opening_of(d));
}

static void
close_document(struct deferral *d)
{
    struct opening *o = opening_of(d);

    if (!o->status)
        document_close(&o->document);
}

/* Opens the document on a worker. */
static enum status
open_later(const struct route_call *call, const struct opening *o)
{
    static const struct deferral_kind kind = {
        .work = open_document, .answer = answer_later, .fini = close_document};
    struct later_opening *l = deferral_new(call, &kind, sizeof(*l));
    struct slice query = call->rq->query;
    struct buf *rest = &l->deferral.body;

    l->opening = *o;
    rest->max = SIZE_MAX;
    buf_add_format(rest, query.size > 0 ? "%.*s?%.*s" : "%.*s%.*s",
                   SLICE_ARG(o->found.rest), SLICE_ARG(query));
    l->opening.wish.rest = buf_slice(rest);
    l->opening.wish.patience = LOG_DISK;
    if (o->found.effort)
        l->deferral.effort.most = o->found.effort;
    l->opening.wish.effort = &l->deferral.effort;
    deferral_begin(&l->deferral, call->rq);
    return STATUS_OK;
}

/* Reads the query for a page of the resources at a time. */
static enum status
read_past(const struct route_call *call, struct opening *o)
{
    bool is_there;
    enum status rc;

    o->found = (struct document_found){.open = past_resources_open,
                                       .content_type = "application/xml",
                                       .has_page = true,
                                       .has_set = true};
    rc = query_time(call->rq, "as-of", &is_there, &o->wish.at_us, call->why);
    if (!rc && o->wish.at_us > clock_now_us())
        rc = problem(call->why, STATUS_MALFORMED, "as-of: later than now");
    if (!rc)
        rc = query_number(call->rq, "list", 0, UINT64_MAX, &o->found.number,
                          NULL, call->why);
    return rc ? rc
              : query_number(call->rq, "page", 1, PAGES_MAX, &o->wish.page,
                             NULL, call->why);
}

/* The time for which a TimeGate is asked. */
static enum status
read_wished_time(const struct route_call *call, struct opening *o)
{
    struct slice date;
    int64_t s;

    if (o->found.memento != MEMENTO_GATE ||
        !request_header(call->rq, "accept-datetime", &date))
        return STATUS_OK;
    s = httpdate_read(date);
    if (s == DATETIME_NONE)
        return problem(call->why, STATUS_MALFORMED,
                       "Accept-Datetime is a date of HTTP, such as \"Fri, 20 "
                       "Nov 2026 10:52:08 GMT\"");
    o->wish.at_us = s * 1000000;
    return STATUS_OK;
}

/* An address that names an epoch is of that alone. */
static enum status
check_epoch(struct opening *o, struct problem *why)
{
    o->wish.names_epoch = o->found.epoch.size > 0;
    return o->wish.names_epoch && !slice_is(o->found.epoch, o->wish.head.epoch)
               ? problem(why, STATUS_NOT_FOUND,
                         "the set is of another epoch: %s", o->wish.head.epoch)
               : STATUS_OK;
}

/* The route with a set is that of its resources. */
enum status
handle_documents_get(const struct route_call *call)
{
    struct request *rq = call->rq;
    static const char *const types[] = {"application/json", "application/xml",
                                        "text/xml"};
    size_t from = call->set ? 0 : 1;
    struct opening o = {.wish = {.registry = call->http->registry,
                                 .principal = call->principal,
                                 .provider = call->http->provider,
                                 .page = 1,
                                 .at_us = DATETIME_NONE,
                                 .patience = LOG_MEMORY}};
    struct slice text;
    int face = 0;

    o.status =
        call->set ? read_past(call, &o) : documents_find(rq->path, &o.found);
    if (!o.status && o.found.has_set) {
        o.wish.set =
            answers_find_set(call->http, rq, call->name, call->principal,
                             RIGHT_SUBSCRIBE, &o.wish.head);
        if (!o.wish.set)
            return STATUS_OK; /* answered */
        o.is_of_few = set_is_private(o.wish.set) ||
                      !authorization_everyone_reads(call->http, o.wish.set);
        o.status = check_epoch(&o, call->why);
    }
    o.wish.kind = o.found.kind;
    o.wish.number = o.found.number;
    o.wish.last = o.found.last;
    o.wish.file = o.found.file;
    o.wish.topic = o.found.topic;
    o.wish.memento = o.found.memento;
    /* `?plain` chooses a form. */
    if (o.found.has_plain && request_parameter(rq, "plain", &text)) {
        o.wish.form = DOCUMENT_PLAIN;
    } else if (!o.status && o.found.has_page) {
        face = answers_choose_face(rq, types + from, N_ELEMENTS(types) - from);
        if (face == FACE_NONE)
            return STATUS_OK;
    }
    if (call->set && face <= 0) {
        o.wish.form = DOCUMENT_JSON;
        o.found.content_type = types[0];
    } else if (face == FACE_PAGE) {
        o.wish.form = DOCUMENT_HTML;
        o.wish.depth = html_depth(rq->path);
        o.status = query_number(rq, "page", 1, PAGES_MAX, &o.wish.page, NULL,
                                call->why);
    }
    if (!o.status)
        o.status = read_wished_time(call, &o);
    o.conditions = conditional_read(rq);
    if (!o.status)
        o.status = documents_open(&o.found, &o.wish, &o.document, call->why);
    if (o.status == STATUS_AGAIN)
        return open_later(call, &o);
    if (!o.status) {
        answer_document(rq, &o);
        document_close(&o.document);
    }
    return o.status;
}
