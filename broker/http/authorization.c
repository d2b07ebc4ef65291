#include "broker/http/authorization.h"

#include "broker/access/jwt.h"
#include "broker/access/request_tickets.h"
#include "broker/http/answers.h"
#include "broker/http/route_table.h"
#include "broker/http/session.h"
#include "broker/net/response.h"
#include "proto/resourcesync/json.h"

/* A request without a token: of the operator, of the session, of the client
 * that its certificate names, or of everyone; on an open broker the open
 * principal. */
static struct principal *
find_without_token(struct http *http, struct request *rq, int64_t now_us)
{
    char certificate[CERTIFICATE_PROOF_SIZE];
    struct principal *found = NULL;
    int64_t ends_us;

    if (rq->listener == LISTENER_CONTROL)
        return tokens_operator(http->tokens);
    if (!tokens_are_open(http->tokens)) {
        found = session_find(http, rq);
        if (found)
            return found;
        if (request_certificate(rq, certificate, &ends_us))
            found = tokens_by(http->tokens, TOKEN_BY_CERTIFICATE,
                              slice_of(certificate), now_us);
        if (found)
            request_set_authority(rq,
                                  authority_new(&found->authority, ends_us));
    }
    return found ? found : tokens_anonymous(http->tokens, now_us);
}

/* The token among the subprotocols that a WebSocket offers; empty: none. */
static struct slice
bearer_of_upgrade(struct request *rq)
{
    struct slice offer, one;

    if (!rq->is_upgrade ||
        !request_header(rq, "sec-websocket-protocol", &offer))
        return (struct slice){NULL, 0};
    while (offer.size) {
        one = slice_trimmed(slice_take(&offer, ','));
        if (slice_skip_start(&one, "bearer."))
            return one;
    }
    return (struct slice){NULL, 0};
}

enum authorization_sent
authorization_sent(struct request *rq, struct slice *text)
{
    if (request_header(rq, "authorization", text)) {
        /* "Bearer TOKEN"; another scheme has no token */
        struct slice scheme = slice_take(text, ' ');

        *text =
            slice_is_word(scheme, "bearer") ? slice_trimmed(*text) : SLICE("");
        return SENT_TOKEN;
    }
    *text = bearer_of_upgrade(rq);
    return text->size ? SENT_TOKEN
           : rq->method == METHOD_GET && request_parameter(rq, "ticket", text)
               ? SENT_TICKET
               : SENT_NOTHING;
}

static void
refuse_unknown(struct http *http, struct request *rq, bool has_token)
{
    struct log_copy copy;

    log_copy(http->registry->log, &copy);
    if (tokens_are_unknown(http->tokens) ||
        (has_token && copy.is_cut_off && !copy.is_answering))
        request_refuse(rq, 503,
                       "this broker is cut off from its cluster, and does not "
                       "know who may do this: try again later, or another "
                       "broker");
    else
        /* RFC 6750 section 3. No error code: whether a token was sent, is
         * unknown or has expired is nobody's business. */
        request_refuse(rq, 401, AUTHORITY_MISSING);
}

struct principal *
authorization_find(struct http *http, struct request *rq)
{
    int64_t now_us = clock_now_us();
    struct slice text;
    enum authorization_sent sent = authorization_sent(rq, &text);
    struct principal *found;

    if (tokens_are_open(http->tokens) || sent == SENT_NOTHING)
        return find_without_token(http, rq, now_us);
    if (sent == SENT_TICKET) {
        found = request_tickets_take(http->tickets, text);
        if (found && principal_is_over(found, now_us)) {
            principal_unref(found);
            found = NULL;
        }
    } else if (jwt_is_like(text)) {
        found = identity_provider_find(http->provider, text, now_us);
    } else {
        found = tokens_find(http->tokens, text, now_us);
    }
    if (!found)
        refuse_unknown(http, rq, true);
    return found;
}

bool
authorization_everyone_reads(struct http *http, const struct set *set)
{
    struct principal *everyone = tokens_anonymous(http->tokens, clock_now_us());
    bool reads =
        set_is_visible(set, everyone) &&
        rights_include(&everyone->rights, RIGHT_SUBSCRIBE, slice_of(set->name));

    principal_unref(everyone);
    return reads;
}

void
authorization_refuse(struct http *http, struct request *rq,
                     const struct principal *principal, unsigned rights,
                     struct slice name)
{
    struct problem why = {""};
    struct buf words = {.max = 256}, members = {.max = 512};

    if (principal->is_everyone ||
        principal_is_over(principal, clock_now_us())) {
        refuse_unknown(http, rq, false);
        return;
    }
    if (!principal->name[0]) { /* the open one is no administrator alone */
        request_refuse(
            rq, 401,
            "this is for administrators, and an open broker has none: ask by "
            "the socket in its data directory, as its user (curl --unix-socket "
            "DIR/control.sock http://localhost/...), or make a token, which "
            "closes it (tidingsd token add root --admin --data DIR)");
        return;
    }
    rights_write(&words, rights, "", " or ");
    problem_set(&why, "this token has no right to %.*s%s%s%s", (int)words.size,
                words.data, name.size ? " \"" : "", problem_quote(name).text,
                name.size ? "\"" : "");
    BUF_ADD(&members, ",\"right\":");
    json_text(&members, buf_slice(&words));
    BUF_ADD(&members, "\0");
    request_answer_problem_with(rq, 403, &why, NULL, members.data);
    buf_fini(&members);
    buf_fini(&words);
}

/* A token without a right to a set learns that the set does not exist, if it
 * does not, or is private and out of its sight; who has no token learns
 * nothing. */
bool
authorization_check(struct http *http, struct request *rq,
                    const struct route_found *found,
                    const struct principal *principal)
{
    const struct route *route = found->route;
    bool is_of_set =
        route->of == OF_SET || (route == &route_documents && found->name.size);

    if (!found->rights ||
        rights_include(&principal->rights, found->rights, found->name))
        return true;
    if (!principal->is_everyone && is_of_set &&
        !answers_find_set(http, rq, found->name, principal, found->rights,
                          NULL))
        return false;
    authorization_refuse(http, rq, principal, found->rights, found->name);
    return false;
}
