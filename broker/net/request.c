#include "broker/net/request.h"

#include <ctype.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/net/connection.h"
#include "broker/net/exchange.h"
#include "broker/net/service.h"
#include "proto/http/accept_header.h"
#include "proto/uri.h"

/* Slots are added so many at a time. */
#define SLOTS_AT_ONCE 64

/* Memory of a request */

/* The same bytes in the copy that the request keeps. */
static struct slice
keep_slice(const struct request *rq, struct slice sent)
{
    return (struct slice){rq->head + (sent.data - rq->sent), sent.size};
}

/* The room behind the head: for the values of parameters, decoded, and for the
 * lines of fields that have several, joined. It comes with the request: if
 * request_header said "not sent" for want of memory, handlers would act
 * wrongly. */

static bool
is_same_name(const struct head_field *a, const struct head_field *b)
{
    return a->name.size == b->name.size &&
           !strncasecmp(a->name.data, b->name.data, a->name.size);
}

/* The size of all lines of a field, joined; `f` is the first. */
static size_t
joined_size(const struct request_head *h, const struct head_field *f)
{
    size_t size = f->value.size;

    for (const struct head_field *g = f + 1; g < h->fields + h->n_fields; g++)
        if (is_same_name(g, f))
            size += 2 + g->value.size;
    return size;
}

static bool
is_first_line(const struct request_head *h, const struct head_field *f)
{
    for (const struct head_field *g = h->fields; g < f; g++)
        if (is_same_name(g, f))
            return false;
    return true;
}

/* The room for the fields of several lines whose first line is before `end`. */
static size_t
size_to_join(const struct request_head *h, const struct head_field *end)
{
    size_t sum = 0;

    for (const struct head_field *f = h->fields; f < end; f++) {
        size_t size = joined_size(h, f);

        if (size > f->value.size && is_first_line(h, f))
            sum += size;
    }
    return sum;
}

/* Has a free slot for each request of the thread, so that request_ticket never
 * fails. False: no memory. */
static bool
have_slot(struct service *s)
{
    uint32_t n = s->n_slots + SLOTS_AT_ONCE;
    struct slot *slots;

    if (s->n_requests + 1 < s->n_slots)
        return true;
    slots = memory_grow(s->slots, n, sizeof(*slots));
    if (!slots)
        return false;
    memset(slots + s->n_slots, 0, SLOTS_AT_ONCE * sizeof(*slots));
    /* No ticket names the first slot of all. */
    for (uint32_t i = n - 1; i >= s->n_slots && i > 0; i--) {
        slots[i].next_free = s->free_slot;
        s->free_slot = i;
    }
    s->slots = slots;
    s->n_slots = n;
    return true;
}

/* Identities */

/* Makes the next id of the thread. */
static struct slice
make_id(struct request *rq)
{
    static const char digits[] = "0123456789abcdef";
    struct service *s = rq->service;
    uint64_t n = s->next_id++;

    memcpy(rq->own_id, s->id, REQUEST_ID_THREAD_SIZE);
    for (size_t i = REQUEST_ID_SIZE; i > REQUEST_ID_THREAD_SIZE; n >>= 4)
        rq->own_id[--i] = digits[n & 15];
    return (struct slice){rq->own_id, REQUEST_ID_SIZE};
}

/* An id of a proxy must be plain, for logs and commands that search them. */
#define SENT_ID_MAX 64

static bool
is_plain_id(struct slice id)
{
    for (size_t i = 0; i < id.size; i++)
        if (!isalnum((unsigned char)id.data[i]) &&
            !(id.data[i] && strchr("-._:+/=", id.data[i])))
            return false;
    return id.size > 0 && id.size <= SENT_ID_MAX;
}

/* True if a browser shows the answer to a person. It says so by Fetch Metadata,
 * or, of an address without TLS, by Upgrade-Insecure-Requests. */
static bool
is_navigation(struct request *rq, struct slice accept)
{
    struct slice mode, dest, upgrade;

    return (request_header(rq, "sec-fetch-mode", &mode) &&
            slice_is(mode, "navigate") &&
            request_header(rq, "sec-fetch-dest", &dest) &&
            slice_is(dest, "document")) ||
           (request_header(rq, "upgrade-insecure-requests", &upgrade) &&
            slice_is(upgrade, "1") &&
            accept_names(accept, "application/xhtml+xml"));
}

struct request *
request_new(struct connection *c, const struct request_head *h,
            struct slice bytes)
{
    size_t size = h ? h->size : 0, more = 0;
    struct request *rq;
    struct slice accept;

    if (!have_slot(c->service))
        return NULL;
    if (h)
        more = h->query.size + size_to_join(h, h->fields + h->n_fields);
    rq = memory_room(sizeof(*rq) + size + more);
    c->service->n_requests++;
    memset(rq, 0, offsetof(struct request, own_id));
    rq->name[0] = '\0';
    rq->connection = c;
    rq->service = c->service;
    rq->listener = c->listener;
    rq->began_us = clock_steady_us();
    rq->received_before = c->received;
    rq->sent_before = c->sent;
    c->at = c->peer;
    rq->method = METHOD_GET;
    if (!h) {
        rq->is_closing = true;
        rq->id = make_id(rq);
        return rq;
    }
    memcpy(rq->head, bytes.data, size);
    rq->head_size = size;
    rq->sent = bytes.data;
    rq->behind = slice_from(bytes, size);
    rq->fields = h;
    /* The parser may have set a path that was not sent. */
    rq->path = h->path.data >= bytes.data && h->path.data < bytes.data + size
                   ? keep_slice(rq, h->path)
                   : h->path;
    if (h->query.size)
        rq->query = keep_slice(rq, h->query);
    rq->is_1_0 = h->minor == 0;
    rq->is_upgrade = h->upgrade == REQUEST_UPGRADE_WEBSOCKET;
    rq->is_continue = h->is_continue;
    rq->is_closing = !h->is_kept;
    rq->has_body = h->body.is_chunked || h->body.length;
    rq->in.is_chunked = h->body.is_chunked;
    rq->in.length = rq->in.left = h->body.length;
    rq->in.chunked = (struct chunked){0};
    rq->prefers_page = request_header(rq, "accept", &accept) &&
                       accept_names(accept, "text/html") &&
                       accept_prefers_page(accept, is_navigation(rq, accept));
    if (c->is_proxied && request_header(rq, "x-request-id", &rq->id) &&
        is_plain_id(rq->id))
        return rq;
    rq->id = make_id(rq);
    return rq;
}

void
request_free(struct request *rq)
{
    diag_end_request(); /* lends the id */
    ticket_drop(rq);
    body_free(&rq->out.body);
    buf_fini(&rq->lines);
    rq->service->n_requests--;
    free(rq);
}

/* Tickets */

struct ticket
request_ticket(struct request *rq)
{
    struct service *s = rq->service;

    if (!rq->slot && rq->connection && !rq->is_answered) {
        rq->slot = s->free_slot;
        s->free_slot = s->slots[rq->slot].next_free;
        s->slots[rq->slot].request = rq;
    }
    return (struct ticket){s, rq->slot,
                           rq->slot ? s->slots[rq->slot].generation : 0};
}

void
ticket_drop(struct request *rq)
{
    struct service *s = rq->service;
    struct slot *slot = &s->slots[rq->slot];

    if (!rq->slot)
        return;
    slot->request = NULL;
    slot->generation++; /* invalidates tickets of this use */
    slot->next_free = s->free_slot;
    s->free_slot = rq->slot;
    rq->slot = 0;
}

struct request *
ticket_request(struct ticket ticket)
{
    const struct slot *slot = NULL;

    if (!ticket.slot)
        return NULL;
    slot = &ticket.service->slots[ticket.slot];
    return slot->generation == ticket.generation ? slot->request : NULL;
}

/* Fields */

bool
request_header(struct request *rq, const char *name, struct slice *value)
{
    const struct head_field *f;
    size_t at = 0, size = 0;
    char *joined = NULL;

    if (!rq->fields)
        return false;
    f = request_head_field(rq->fields, name, &at);
    if (!f)
        return false;
    *value = keep_slice(rq, f->value);
    size = joined_size(rq->fields, f);
    if (size == value->size)
        return true;
    joined =
        rq->head + rq->head_size + rq->query.size + size_to_join(rq->fields, f);
    memcpy(joined, value->data, value->size);
    *value = (struct slice){joined, value->size};
    while ((f = request_head_field(rq->fields, name, &at))) {
        memcpy(joined + value->size, ", ", 2);
        memcpy(joined + value->size + 2, f->value.data, f->value.size);
        value->size += 2 + f->value.size;
    }
    return true;
}

bool
request_next_header(const struct request *rq, const char *prefix, size_t *at,
                    struct slice *name, struct slice *value)
{
    size_t size = strlen(prefix);

    while (rq->fields && *at < rq->fields->n_fields) {
        const struct head_field *f = &rq->fields->fields[(*at)++];

        if (f->name.size <= size || strncasecmp(f->name.data, prefix, size))
            continue;
        *name = slice_from(f->name, size);
        *value = f->value;
        return true;
    }
    return false;
}

/* Parameters */

bool
request_parameter(struct request *rq, const char *name, struct slice *value)
{
    struct slice rest = rq->query;

    while (rest.size > 0) {
        struct slice text = slice_take(&rest, '&');
        char *decoded;
        long size;

        if (!slice_is(slice_take(&text, '='), name))
            continue;
        /* Into the place that the value has in the copy of the query. */
        decoded = rq->head + rq->head_size + (text.data - rq->query.data);
        for (size_t i = 0; i < text.size; i++)
            decoded[i] = text.data[i] == '+' ? ' ' : text.data[i];
        size = uri_decode((struct slice){decoded, text.size}, decoded);
        *value = (struct slice){decoded, size < 0 ? 0 : (size_t)size};
        return true;
    }
    return false;
}

/* For handlers */

void
request_receive(struct request *rq, const struct request_handlers *handlers,
                uint64_t max)
{
    rq->handlers = handlers;
    rq->in.max = max;
    if (rq->in.is_chunked)
        rq->in.left = max;
    rq->in.is_wanted = true;
}

bool
request_may_answer(const struct request *rq, unsigned status)
{
    return !rq->may_answer || rq->may_answer(rq->route, status);
}

void
request_pause(struct request *rq)
{
    if (rq)
        rq->in.is_paused = rq->in.is_wanted;
}

void
request_resume(struct request *rq)
{
    if (!rq || !rq->in.is_paused)
        return;
    rq->in.is_paused = false;
    if (!rq->connection)
        return;
    rq->connection->measured_us = 0;
    connection_read_on(rq->connection);
}

const char *
method_name(enum method method)
{
    static const char *const names[METHODS] = {
        [METHOD_GET] = "GET",       [METHOD_HEAD] = "HEAD",
        [METHOD_POST] = "POST",     [METHOD_PUT] = "PUT",
        [METHOD_DELETE] = "DELETE", [METHOD_OPTIONS] = "OPTIONS",
        [METHOD_PATCH] = "PATCH",
    };

    return names[method];
}

bool
request_certificate(const struct request *rq,
                    char fingerprint[CERTIFICATE_PROOF_SIZE], int64_t *ends_us)
{
    const struct ssl_st *ssl =
        rq->connection ? rq->connection->socket.ssl : NULL;

    return ssl && tls_client_proof(ssl, fingerprint, ends_us);
}

struct client *
request_client(const struct request *rq)
{
    const struct connection *c = rq->connection;

    return !c ? NULL : c->owner ? c->owner : c->client;
}

void
request_add_lines(struct request *rq, struct slice lines)
{
    if (rq->lines.size + lines.size > REQUEST_LINES_MAX)
        return;
    rq->lines.max = REQUEST_LINES_MAX;
    buf_add_slice(&rq->lines, lines);
}

bool
request_is_proxied(const struct request *rq)
{
    return rq->connection && rq->connection->is_proxied;
}

void
request_set_owner(struct request *rq, struct client *owner)
{
    connection_set_owner(rq->connection, owner);
}

void
request_set_authority(struct request *rq, struct authority *authority)
{
    connection_set_authority(rq->connection, authority);
}

struct authority *
request_authority(const struct request *rq)
{
    return rq->connection ? rq->connection->authority : NULL;
}

struct authority *
request_take_authority(struct request *rq)
{
    struct authority *authority = request_authority(rq);

    if (authority)
        rq->connection->authority = NULL;
    return authority;
}

void
request_check_client(struct request *rq)
{
    if (rq->connection && !connection_is_gone(rq->connection))
        (void)connection_check_peer(rq->connection);
}

/* Of several lines of the field the first one: without memory. */
void
request_keep_for_log(struct request *rq)
{
    const struct head_field *agent;
    size_t at = 0;

    agent =
        rq->fields ? request_head_field(rq->fields, "user-agent", &at) : NULL;
    if (agent)
        rq->agent = keep_slice(rq, agent->value);
    rq->is_kept = true;
}

void
request_set_name(struct request *rq, const char *name)
{
    size_t size = strnlen(name, REQUEST_NAME_MAX);

    if (!rq->is_kept)
        return;
    memcpy(rq->name, name, size);
    rq->name[size] = '\0';
}

char
request_body_first(const struct request *rq)
{
    struct slice body = {NULL, 0};

    if (rq->fields)
        body = rq->behind;
    if (body.size > rq->in.length)
        body.size = (size_t)rq->in.length;
    body = slice_without_spaces(body);
    return body.size > 0 ? body.data[0] : '\0';
}

/* The end */

void
request_describe(const struct request *rq, struct request_end *end)
{
    const struct connection *c = rq->connection;

    *end = (struct request_end){
        .service = rq->service,
        .route = rq->route,
        .is_kept = rq->is_kept,
        .entry = {.duration_us = clock_steady_us() - rq->began_us,
                  .received_bytes = c->received - rq->received_before,
                  .sent_bytes = c->sent - c->out.size - rq->sent_before,
                  .method = rq->has_method ? method_name(rq->method) : NULL,
                  .pattern = rq->pattern,
                  .status = rq->status,
                  .client = c->at,
                  .id = rq->id,
                  .name = slice_of(rq->name),
                  .path = rq->path,
                  .query = rq->query,
                  .agent = rq->agent},
    };
}

void
request_report_end(struct request *rq, bool is_whole)
{
    const struct server_options *options = &rq->service->server->options;
    struct request_end end;

    if (rq->is_ended || !options->on_end)
        return;
    rq->is_ended = true;
    request_describe(rq, &end);
    end.entry.is_whole = is_whole;
    options->on_end(&end, options->user);
}
