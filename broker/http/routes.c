#include "broker/http/routes.h"

#include "base/path_pattern.h"
#include "broker/documents/documents.h"
#include "broker/http/answers.h"
#include "broker/http/authorization.h"
#include "broker/http/origins.h"
#include "broker/http/postponement.h"
#include "broker/http/route_table.h"
#include "broker/net/response.h"
#include "broker/sets/positions.h"
#include "broker/sets/set_change.h"

static void
allow_method(struct route_found *found, enum method method)
{
    if (found->allow[0])
        strcat(found->allow, ", ");
    strcat(found->allow, route_method(method));
}

void
routes_find(enum method method, struct slice path, struct route_found *found)
{
    enum method wanted = method == METHOD_HEAD ? METHOD_GET : method;
    struct document_found document;
    struct slice holes[PATH_HOLES_MAX];
    bool is_exact = false; /* before names: /tokens/self is no token */

    memset(found, 0, sizeof(*found));
    for (size_t i = 0; i < route_table_size; i++) {
        const struct route *route = &route_table[i];

        if ((is_exact && strchr(route->path, '{')) ||
            !path_pattern_match(route->path, path, holes))
            continue;
        is_exact = !strchr(route->path, '{');
        allow_method(found, route->method);
        found->pattern = route->path;
        if (route->method == METHOD_PATCH)
            found->patch = route;
        if (route->method == wanted) {
            found->route = route;
            found->rights = route->rights;
            found->name = holes[0];
            found->id = holes[1];
        }
    }
    if (found->allow[0] || documents_find(path, &document))
        return;
    allow_method(found, METHOD_GET);
    found->pattern = document.path;
    if (wanted == METHOD_GET) {
        found->route = &route_documents;
        found->rights = route_document_rights(&document);
        found->name = document.set;
    }
}

/* Refusing by the row */

/* `accept` names the codings that the route accepts. */
static void
refuse_request(struct request *rq, const struct route *route, unsigned status,
               const struct problem *why, const char *accept)
{
    answers_count(route->rejected, status);
    request_answer_problem_with(rq, status, why, accept, NULL);
}

/* The Content-Type without its parameters; empty: none. */
static struct slice
media_type_of(struct request *rq)
{
    struct slice type = {NULL, 0};

    request_header(rq, "content-type", &type);
    return slice_trimmed(slice_take(&type, ';'));
}

/* Finds the row's body with the media type of the request; NULL: the route does
 * not accept it. */
static const struct route_body *
find_body(const struct route *route, struct request *rq)
{
    const struct route_body *body = route->bodies;
    struct slice type = media_type_of(rq), name, value;

    if (!body->types || (body->is_optional && !rq->has_body))
        return body;
    for (size_t i = 0; i < ROUTE_BODIES && body[i].types; i++) {
        struct slice rest = slice_of(body[i].types), one;
        bool is_read = slice_is(rest, "any");

        while (!is_read && rest.size) {
            one = slice_trimmed(slice_take(&rest, ','));
            is_read = one.size == type.size &&
                      !strncasecmp(one.data, type.data, one.size);
        }
        if (is_read)
            return &body[i];
    }
    return body->prefix && request_next_header(rq, body->prefix, &(size_t){0},
                                               &name, &value)
               ? body
               : NULL;
}

/* Appends what to give to curl: the first of the types that has `word` in it,
 * if the body's first byte is one of `begins`, or '\0', not known. */
static void
add_advice(struct buf *to, const char *types, const char *word, char first,
           const char *begins)
{
    struct slice rest = slice_of(types);

    while (rest.size > 0 && (first == '\0' || strchr(begins, first))) {
        struct slice type = slice_trimmed(slice_take(&rest, ','));

        if (!memmem(type.data, type.size, word, strlen(word)))
            continue;
        buf_add_format(to, "%s-H 'Content-Type: %.*s'",
                       to->size ? " or " : "; send ", SLICE_ARG(type));
        return;
    }
}

static void
refuse_type(struct request *rq, const struct route *route)
{
    const struct route_body *body = route->bodies;
    struct slice type = media_type_of(rq);
    const char *more = body[1].types ? body[1].types : "";
    const char *between = *more ? ", " : "";
    char first = request_body_first(rq);
    struct problem why = {""};
    struct response r;
    struct buf advice = {.max = 256};

    if (!strchr("{[<", first))
        first = '\0';
    add_advice(&advice, body[0].types, "json", first, "{[");
    add_advice(&advice, body[0].types, "xml", first, "<");
    if (!advice.size)
        add_advice(&advice, body[0].types, "", '\0', "");
    problem_set(&why, "the body is read as %s%s%s, %s%s%s%.*s", body[0].types,
                between, more,
                type.size ? "not as \"" : "and has no Content-Type",
                problem_quote(type).text, type.size ? "\"" : "",
                SLICE_ARG(buf_slice(&advice)));
    buf_fini(&advice);
    answers_count(route->rejected, 415);
    response_init(&r, 415, NULL, NULL);
    /* RFC 9110 section 15.5.16, RFC 5789 section 3.1 */
    response_header(&r,
                    route->method == METHOD_PATCH ? "Accept-Patch" : "Accept",
                    "%s%s%s", body[0].types, between, more);
    response_answer_problem(rq, &r, &why, NULL);
}

/* Returns false after an answer. The coding "x-gzip" is "gzip" (RFC 9110
 * section 8.4.1.3). */
static bool
check_body(struct request *rq, const struct route *route,
           const struct route_body *body, uint64_t max)
{
    uint64_t size = rq->in.length;
    struct problem why = {""};
    struct slice coding;

    if (body->needs_length && rq->has_body && !size) {
        problem_set(&why, "this body has to announce its length "
                          "(Content-Length)");
        refuse_request(rq, route, 411, &why, NULL);
    } else if (body->types && request_header(rq, "content-encoding", &coding) &&
               !slice_is_word(coding, "identity") &&
               !(body->coding && (slice_is_word(coding, body->coding) ||
                                  slice_is_word(coding, "x-gzip")))) {
        problem_set(&why, "the body is read %s, not in \"%s\"",
                    body->coding
                        ? "as it is, or in gzip (-H 'Content-Encoding: gzip')"
                        : "without a Content-Encoding",
                    problem_quote(coding).text);
        refuse_request(rq, route, 415, &why,
                       body->coding ? body->coding : "identity");
    } else if (size > max) {
        problem_set(&why,
                    "the body has at most %" PRIu64 " bytes%s%s%s, not "
                    "%" PRIu64,
                    max, body->option ? " (" : "",
                    body->option ? body->option : "", body->option ? ")" : "",
                    size);
        refuse_request(rq, route, 413, &why, NULL);
    } else {
        return true;
    }
    return false;
}

/* Refuses what this broker cannot do. Returns false after an answer. */
static bool
check_broker(struct http *http, struct request *rq, const struct route *route)
{
    const struct config *config = http->registry->config;
    struct problem why = {""};

    if (config->cluster_read_only && route->method != METHOD_GET &&
        route->of != OF_NOTHING) {
        /* The route changes a set or a relay. The answer is 403 and not 503: it
         * stays the same however long a client waits, and a publisher that
         * repeats its post must not repeat it here. (/readyz keeps a balancer
         * from sending posts.) The hub refuses what goes there. */
        problem_set(&why, CLUSTER_READ_ONLY);
    } else if (!route->is_publisher || !answers_may_publish(http, &why)) {
        return true;
    }
    refuse_request(rq, route, 403, &why, NULL);
    return false;
}

/* Checks what the path names as the row requires. Returns false after an
 * answer. */
static bool
check_name(struct route_call *call, const struct route *route)
{
    const struct principal *principal = call->principal;
    struct http *http = call->http;
    struct request *rq = call->rq;
    struct problem why = {""};
    const struct set *set;
    bool may_make;

    if (route->of == OF_NOTHING)
        return true;
    if (route->of == OF_SET) {
        call->set = answers_find_set(http, rq, call->name, principal,
                                     route->rights, &call->head);
        return call->set != NULL;
    }
    if (name_check(route->of == OF_RELAY ? "relay" : "set", call->name, &why)) {
        refuse_request(rq, route, 404, &why, NULL);
        return false;
    }
    /* What everyone may do to the set of a name, they may not do to a private
     * one, which needs a token. A post makes its set if that is missing, which
     * needs a further right. (If somebody removes the set after this look, the
     * post makes it again.) */
    may_make = !(route->rights & RIGHT_PUBLISH) ||
               rights_include(&principal->rights, RIGHT_MANAGE, call->name);
    if (route->of == OF_RELAY || (may_make && !principal->is_everyone))
        return true;
    set = registry_find(http->registry, call->name, NULL);
    if (set ? !set_is_private(set) || !principal->is_everyone : may_make)
        return true;
    authorization_refuse(http, rq, principal,
                         set ? route->rights : RIGHT_MANAGE, call->name);
    return false;
}

/* Checks and charges the rates of a post. False: it was answered. */
static bool
check_rates(struct http *http, struct request *rq, const struct route *route)
{
    struct clients *clients = &http->registry->clients;
    struct problem why = {""};
    struct client_charge charge;

    if (clients_check_rates(clients, request_client(rq), &charge, &why)) {
        static const char *const names[CLIENT_RATES] = {
            [CLIENT_POST_RATE] = "posts", [CLIENT_BYTE_RATE] = "bytes"};
        int64_t wait_s = (charge.wait_us + 999999) / 1000000;
        struct response r;

        answers_count(route->rejected, 429);
        /* Answers a client that posts faster than it may (RFC 6585 section 4;
         * draft-ietf-httpapi-ratelimit-headers). */
        response_init(&r, 429, NULL, NULL);
        response_header(&r, "Retry-After", "%" PRId64, wait_s);
        response_header(&r, "RateLimit-Policy", "\"%s\";q=%" PRIu64 ";w=%d",
                        names[charge.rate], charge.a_second * CLIENT_BURST_S,
                        CLIENT_BURST_S);
        response_header(&r, "RateLimit", "\"%s\";r=0;t=%" PRId64,
                        names[charge.rate], wait_s);
        response_answer_problem(rq, &r, &why, NULL);
        return false;
    }
    clients_charge(clients, request_client(rq), CLIENT_POST_RATE, 1);
    rq->is_charged = true;
    return true;
}

/* True if this copy may lack the position of `text`. */
static bool
is_ahead(struct http *http, struct slice name, struct slice text)
{
    struct position position;
    struct head head;

    if (position_read(text, &position))
        return false; /* the handler refuses it */
    return registry_find(http->registry, name, &head)
               ? positions_is_ahead(&head, &position)
               : position.epoch[0] != '\0';
}

/* A request that waits for the copy. */
struct waiting_request {
    struct postponement postponement;
    struct route_found found; /* lends from the request */
};

static void run_route(struct http *http, struct request *rq,
                      const struct route_found *found,
                      struct principal *principal);

static void
go_on(struct postponement *p, struct request *rq)
{
    struct waiting_request *w =
        list_entry(p, struct waiting_request, postponement);

    if (rq)
        run_route(p->http, rq, &w->found, p->principal);
    principal_unref(p->principal);
    free(w);
}

void
routes_run(struct http *http, struct request *rq,
           const struct route_found *found, struct principal *principal)
{
    struct waiting_request *w;
    struct slice id, after;
    bool waits = false; /* it names a position that this copy may lack */

    rq->may_answer = route_may_answer;
    if (!authorization_check(http, rq, found, principal))
        return;
    if (found->route->has_positions && log_is_shared(http->registry->log)) {
        id = query_last_event_id(rq);
        waits = found->route->of != OF_SET
                    ? postponement_is_ahead(http, rq, id, SLICE(""))
                    : is_ahead(http, found->name, id) ||
                          (request_parameter(rq, "after", &after) &&
                           is_ahead(http, found->name, after));
    }
    if (!waits) {
        run_route(http, rq, found, principal);
        return;
    }
    w = memory_new(1, sizeof(*w));
    *w = (struct waiting_request){
        .postponement = {.http = http,
                         .principal = principal_ref(principal),
                         .go_on = go_on},
        .found = *found,
    };
    if (postponement_begin(&w->postponement, rq))
        return;
    postponement_refuse(rq);
    go_on(&w->postponement, NULL);
}

static void
run_route(struct http *http, struct request *rq,
          const struct route_found *found, struct principal *principal)
{
    const struct route *route = found->route;
    const struct route_body *body = NULL;
    struct problem why = {""};
    struct route_call call = {.http = http,
                              .rq = rq,
                              .name = found->name,
                              .id = found->id,
                              .act = route->act,
                              .principal = principal,
                              .why = &why};
    handler_fn *handler;
    enum status rc = STATUS_OK;
    bool is_post;

    if (!check_broker(http, rq, route) || !check_name(&call, route))
        return;
    if (route_takes_body(route)) {
        body = find_body(route, rq);
        if (!body) {
            refuse_type(rq, route);
            return;
        }
        call.body_max = body->bytes;
        if (body->option)
            memcpy(&call.body_max,
                   (const char *)http->registry->config + body->member,
                   sizeof(call.body_max));
        if (!check_body(rq, route, body, call.body_max))
            return;
    }
    is_post = body && (route->rights == RIGHT_PUBLISH ||
                       body->handler == handle_hub_notification);
    if (is_post && !check_rates(http, rq, route))
        return;
    /* Refuses a request that makes its set, or adds to it, before its body is
     * read: the rest of the head says enough. */
    if (route->of == OF_NEW_SET)
        rc = registry_check_room(
            http->registry, call.name, request_client(rq),
            route->rights == RIGHT_PUBLISH ? rq->in.length : 0, &why);
    handler = body && body->handler ? body->handler : route->handler;
    if (!rc)
        rc = handler(&call);
    if (rc)
        refuse_request(rq, route, response_status_of(rc), &why, NULL);
}

/* True for the handshake of a sender of CloudEvents (Web Hooks for Event
 * Delivery, section 4) that may post here. Its token decides, not its origin.
 * *is_refused: the request is answered. */
static bool
is_handshake(struct http *http, struct request *rq, bool *is_refused)
{
    struct route_found post;
    struct principal *principal;
    struct slice origin;
    bool may_post;

    *is_refused = false;
    routes_find(METHOD_POST, rq->path, &post);
    if (post.rights != RIGHT_PUBLISH ||
        !request_header(rq, "webhook-request-origin", &origin))
        return false;
    principal = authorization_find(http, rq);
    may_post = principal &&
               rights_include(&principal->rights, RIGHT_PUBLISH, post.name);
    if (principal && !may_post)
        authorization_refuse(http, rq, principal, RIGHT_PUBLISH, post.name);
    principal_unref(principal);
    *is_refused = !may_post;
    return may_post;
}

void
routes_answer_options(struct http *http, struct request *rq,
                      const struct route_found *found)
{
    struct response r;
    bool is_refused, is_known = is_handshake(http, rq, &is_refused);

    if (is_refused)
        return;
    response_init(&r, is_known ? 200 : 204, NULL, NULL);
    if (is_known) {
        response_header(&r, "WebHook-Allowed-Origin", "*");
        response_header(&r, "WebHook-Allowed-Rate", "*");
    }
    if (found->allow[0])
        response_header(&r, "Allow", "%s", found->allow);
    if (found->patch) /* RFC 5789 section 3.1 */
        response_header(&r, "Accept-Patch", "%s", found->patch->bodies->types);
    if (http->origins && found->allow[0])
        origins_preflight(rq, &r, http->origins, found->allow);
    request_answer(rq, &r);
}
