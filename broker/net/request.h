/*
 * request.h - one HTTP request, from its headers to its answer.
 *
 *     on_request -+-> request_answer                   refused or answered
 *                 +-> request_receive -> on_data ... on_end -> request_answer
 *                 +-> request_defer -> ... -> request_answer      later
 *                 +-> request_accept_stream                a WebSocket
 *                 +-> request_accept_long                  an endless answer
 *
 * A handler owes exactly one answer; it may come later, on the service thread.
 * When the connection has ended, on_gone is called instead of anything else,
 * once, and the request must not be touched afterwards. After request_answer
 * the request belongs to net: no further callback comes, except on_gone if
 * on_gone is set and the answer was not yet given.
 *
 * net itself answers requests that need no handler: with a head that violates
 * RFC 9112 (400, 414, 417, 431, 505; proto/http/request_head.h), with a method
 * that has no name here (501), and while the server is stopping (503). It
 * leaves a chunked body that is broken (400) or too long (413), and a body that
 * does not come in time (408), to on_broken, if there is one: a handler gives
 * its holdings for the request back before the answer, so that the client's
 * next request finds room.
 *
 * Other threads never hold a request: they hold a ticket (request_ticket),
 * which the service thread turns back into the request, or into NULL if the
 * request has ended.
 */
#pragma once

#include "broker/base/client_address.h"
#include "broker/net/server.h"

struct client;
struct problem;
struct response;
struct stream;

enum method {
    METHOD_GET,
    METHOD_HEAD,
    METHOD_POST,
    METHOD_PUT,
    METHOD_DELETE,
    METHOD_OPTIONS,
    METHOD_PATCH,
    METHODS /* how many there are */
};

/* "GET" */
const char *method_name(enum method method);

enum method request_method(const struct request *rq);

/* "/sets/demo/changes": as sent, nothing decoded or left out, so that a proxy
 * and the router see the same path (proto/http/request_head.h). Lent until the
 * answer. */
struct slice request_path(const struct request *rq);

/* The text behind "?", as sent; empty if there is none. Lent until the
 * answer. */
struct slice request_query(const struct request *rq);

/* Finds the first query parameter `name`, percent-decoded ('+' is a space) into
 * memory of the request. false: there is none. (net has refused targets with
 * bad escapes.) */
bool request_parameter(struct request *rq, const char *name,
                       struct slice *value);

/* Finds a header's value, without the white space around it; values of several
 * lines are joined with commas. false: not sent. During on_request only; the
 * value is lent until the answer. */
bool request_header(struct request *rq, const char *name, struct slice *value);

/* Finds the next field from number *at on whose name begins with `prefix`, in
 * any case; `name` is the rest of it. Moves *at behind it. Begin with 0. During
 * on_request only; both are lent until it ends. */
bool request_next_header(const struct request *rq, const char *prefix,
                         size_t *at, struct slice *name, struct slice *value);

/* The first byte of the body that is no white space, if it has come with the
 * head; '\0': nobody knows. During on_request only. */
char request_body_first(const struct request *rq);

/* True if the client prefers a page for people to what programs read
 * (accept_prefers_page), and the fields that say so, for Vary. */
bool request_prefers_page(const struct request *rq);
#define REQUEST_PAGE_VARY \
    "Accept, Sec-Fetch-Dest, Sec-Fetch-Mode, Upgrade-Insecure-Requests"

/* The kind of listener that it came by: a request by LISTENER_CONTROL is the
 * operator's own. */
enum listener_kind request_listener(const struct request *rq);

/* Room for request_certificate. */
#define CERTIFICATE_PROOF_SIZE (2 * 32 + 1)

/* Writes the SHA-256 of the client's certificate, in small hexadecimal digits.
 * The client has proved that it has the key, and the certificate is valid now
 * (server_trust); *ends_us: when it expires. False: there is none. */
bool request_certificate(const struct request *rq,
                         char fingerprint[CERTIFICATE_PROOF_SIZE],
                         int64_t *ends_us);

/* The client that the request counts for. Lent until the answer. NULL: none, or
 * the connection has ended. */
struct client *request_client(const struct request *rq);

/* Lets the request count for the owner of its token, and its stream likewise.
 * Takes over the reference. During on_request. */
void request_set_owner(struct request *rq, struct client *owner);

/* Lets the request, and its stream, go on until `authority` ends
 * (broker/base/authority.h), whose reference it takes over. Then within two
 * seconds, wherever the request is:
 *
 *     its body comes, or is complete      the handler gets on_broken
 *                                         (STATUS_DENIED), and does not act
 *     it waits for its handler            on_gone, and 401
 *     the answer to a GET would begin     401
 *     the answer is being sent            the connection is reset
 *     it is a stream                      its owner asks: stream_is_denied
 *
 * A handler that hands its act to another thread lends or gives it the
 * authority, to be asked at the effect. request_take_authority gives the
 * caller the reference: then net no longer asks, and the act decides alone.
 * NULL: there is none. During on_request, or later. */
struct authority;
void request_set_authority(struct request *rq, struct authority *authority);
struct authority *request_authority(const struct request *rq); /* lent */
struct authority *request_take_authority(struct request *rq);

/* True if the authority has ended: the request was answered 401. */
bool request_deny(struct request *rq);

/* For the end of the request (struct request_end). During on_request.
 *
 * Sets the route, and the pattern of its path, which stays for ever; NULL: it
 * has none.
 * request_keep_for_log keeps what the access log names: the User-Agent, and of
 * a stream path and query, too. request_set_name then keeps the name that the
 * request has by its token, up to REQUEST_NAME_MAX bytes. */
#define REQUEST_NAME_MAX 200
void request_set_route(struct request *rq, const void *route,
                       const char *pattern);
void request_keep_for_log(struct request *rq);
void request_set_name(struct request *rq, const char *name);

/* Charges the client for the bytes of the body (CLIENT_BYTE_RATE), as they
 * come. During on_request. */
void request_charge(struct request *rq);

/* True if it has a body, of at least 1 byte or of unknown length (chunked). */
bool request_has_body(const struct request *rq);

/* The announced length of the body; 0: none, or chunked. */
uint64_t request_content_length(const struct request *rq);

/* True if it asks to become a WebSocket. Then only request_answer (a refusal)
 * or request_accept_stream are allowed, within on_request. */
bool request_is_upgrade(const struct request *rq);

/* True if it came by HTTP/1.0. Then an answer without a known length is not
 * chunked. */
bool request_is_1_0(const struct request *rq);

struct service *request_service(const struct request *rq);

/* The handler's own data. */
void request_set_user(struct request *rq, void *user);
void *request_user(const struct request *rq);

/* Adds lines ("Name: value\r\n") to the head of the answer, whoever gives it;
 * copied, at most REQUEST_LINES_MAX bytes in all. During on_request. */
#define REQUEST_LINES_MAX 1024
void request_add_lines(struct request *rq, struct slice lines);

/* True if a trusted proxy sent it (server_options.trusted). */
bool request_is_proxied(const struct request *rq);

struct request_handlers {
    void (*on_data)(struct request *rq, struct slice bytes);
    void (*on_end)(struct request *rq);  /* after the last byte of the body */
    void (*on_gone)(struct request *rq); /* see above; frees what `user`
                                            holds */

    /* The body ends early: its chunks are malformed (STATUS_MALFORMED), it is
     * too large (STATUS_TOO_LARGE), it did not come in time (STATUS_LATE), or
     * the authority has ended (STATUS_DENIED), perhaps behind its last byte.
     * The handler answers with that status, at once or later, as if it refused
     * the request itself. No more data comes. NULL: net answers, after
     * on_gone. */
    void (*on_broken)(struct request *rq, enum status rc,
                      const struct problem *why);
};

/* Accepts the body, of at most `max` bytes: the caller itself refuses one that
 * was announced as longer; one that turns out to be longer is broken
 * (on_broken). Called in on_request; `handlers` must stay. After on_data has
 * answered (a refusal) no more data is handed over: net drains the rest of the
 * body for a short while, so that the client reads the answer, then closes the
 * connection. */
void request_receive(struct request *rq,
                     const struct request_handlers *handlers, uint64_t max);

/* Reads no more of the body until request_resume, because its receiver is
 * slower. Within on_data of its last bytes on_end still comes. The time does
 * not count towards the body's deadline. Within on_data, or later. May be
 * repeated; does nothing after the whole body. */
void request_pause(struct request *rq);
void request_resume(struct request *rq);

/* For later answers without a body to receive (GET): on_gone only. Not needed
 * if a ticket alone is enough to notice the end of the request. */
void request_defer(struct request *rq, const struct request_handlers *handlers);

/* Handles a deferred request anew, within on_request again: its head can be
 * read, and whatever a handler may do there is allowed. Calls `handle` at once.
 */
void request_again(struct request *rq,
                   void (*handle)(struct request *rq, void *user), void *user);

/* From now on every refusal of this request is a line of text/plain with its
 * detail only, for protocols that require it. */
void request_refuse_in_text(struct request *rq);

/* From now on debug builds abort (assert) if the handler answers with a status
 * for which `may_answer(route, status)` is false, with the route of
 * request_set_route. Refusals by net itself (a
 * broken or slow body) are not checked. */
typedef bool may_answer_fn(const void *route, unsigned status);
void request_expect(struct request *rq, may_answer_fn *may_answer);

/* Answers: response.h. Takes over what `response` holds. */
void request_answer(struct request *rq, struct response *response);

/* A name for other threads. */
struct ticket {
    struct service *service;
    uint32_t slot;
    uint32_t generation;
};

struct ticket request_ticket(struct request *rq);

/* On the ticket's service thread only. NULL: the request has ended. */
struct request *ticket_request(struct ticket ticket);

/* Accepts the upgrade on these terms: stream.h. */
struct stream_handlers;
struct stream_terms;
void request_accept_stream(struct request *rq, const struct stream_terms *terms,
                           const struct stream_handlers *handlers, void *user);

/* Begins an answer without a known end, within on_request, or within on_end of
 * a body: its head, and `opening`, the first bytes of its body (less than 1 KB,
 * copied). From there it is a stream: stream.h. The body goes out as it is
 * written. Unless request_is_1_0 the head says that the body is chunked, so the
 * owner must write chunks. The connection ends with the answer. */
void request_accept_long(struct request *rq, const struct response *head,
                         struct slice opening,
                         const struct stream_handlers *handlers, void *user);

/* What is known of a request when it has ended: for metrics and the access log
 * (server_options.on_end). Its end:
 *
 *   - the kernel has the last byte of the answer: is_whole;
 *   - the connection ended before: not is_whole;
 *   - a stream has ended, which had no last byte: is_stream. */
struct request_end {
    const struct service *service; /* the thread that calls */
    enum listener_kind listener;
    struct client_address client; /* of a request by a trusted proxy, the client
                           that the proxy names */
    enum method method;           /* METHODS: none that the server knows */
    const void *route;   /* of request_set_route; NULL: none was found */
    const char *pattern; /* of request_set_route; or NULL */
    unsigned status;     /* 0: the connection ended before there was one */
    bool is_whole;       /* all of the answer was given to the kernel */
    bool is_stream;      /* a WebSocket, or an answer without a known length */
    bool is_kept;        /* request_keep_for_log: agent, name; of a stream all
                            of the texts below */
    uint64_t received_bytes; /* of the body; of a WebSocket, of its frames */
    uint64_t sent_bytes;     /* with heads, without TLS */
    uint64_t n_messages;     /* of a stream: stream_count_message */
    int64_t duration_us;     /* since the head was complete */

    /* Lent until the call returns. */
    struct slice id; /* of X-Request-Id */
    struct slice path, query, agent, name;
};
