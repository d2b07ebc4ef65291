/*
 * request.h - one HTTP request, from its headers to its answer.
 *
 *     on_request -+-> request_answer                   refused or answered
 *                 +-> request_receive -> on_data ... on_end -> request_answer
 *                 +-> rq->handlers = ... -> request_answer         later
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

#include "broker/base/access_log.h"
#include "broker/net/body.h"
#include "broker/net/server.h"
#include "proto/http/chunked.h"

struct response;

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

/* True if the handler may answer with a status, with the `route` of its
 * request. */
typedef bool may_answer_fn(const void *route, unsigned status);

/* The body of a request, as it comes. */
struct incoming {
    uint64_t length; /* announced; 0: none, or chunked */
    uint64_t max;    /* of a chunked one */
    uint64_t left;   /* bytes that may still come */
    struct chunked chunked;
    bool is_chunked;
    bool is_open_ended; /* refused: the length of the rest is unknown */
    bool is_wanted;     /* a handler receives it, and it is not complete */
    bool is_complete;
    bool is_paused; /* reading is paused */
};

/* The body of its answer, as it goes. */
struct outgoing {
    struct body *body;        /* NULL: all is sent */
    struct slice piece;       /* lent by body, not sent yet */
    bool is_from_file;        /* pieces stay in their file: */
    struct file_part in_file; /* then this one, and piece.data is NULL */
    uint64_t left;            /* bytes to send */
    struct job job;
    bool is_working;         /* the job is on the worker pool */
    enum body_result result; /* of the job; BODY_WAITS: ask again */
};

/* Digits of a request's id: those of the thread, and all. */
#define REQUEST_ID_THREAD_SIZE 12
#define REQUEST_ID_SIZE        24

#define REQUEST_NAME_MAX 200

struct request {
    /* For handlers to read */
    enum method method;
    struct slice path;  /* "/sets/demo/changes": as sent, nothing decoded or
                           left out, so that a proxy and the router see the same
                           path (proto/http/request_head.h). Lent until the
                           answer */
    struct slice query; /* the text behind "?", likewise; empty: none */
    bool has_body;      /* of at least 1 byte or of unknown length (chunked) */
    bool is_upgrade;    /* it asks to become a WebSocket: then only
                           request_answer (a refusal) or request_accept_stream
                           are allowed, within on_request */
    bool is_1_0;        /* HTTP/1.0: an answer without a known length is not
                           chunked */
    bool prefers_page;  /* a page for people to what programs read
                           (accept_prefers_page) */
    enum listener_kind listener; /* that it came by: LISTENER_CONTROL: it is the
                                    operator's own */
    struct service *service;
    struct incoming in; /* its length */

    /* For handlers to set; all but `user` during on_request */
    void *user; /* the handler's own data */
    const struct request_handlers
        *handlers;       /* of a later answer without a body to receive (GET):
                            on_gone only. Not needed if a ticket alone is enough to
                            notice the end. Else see request_receive */
    const void *route;   /* for its end; NULL: it has none */
    const char *pattern; /* of its path; stays for ever; or NULL */
    may_answer_fn *may_answer; /* debug builds abort (assert) if the handler
                                  answers with another status. NULL: any. Not
                                  for refusals by net itself (a broken or slow
                                  body) */
    bool is_text;    /* every refusal is a line of text/plain with its detail
                        only, for protocols that require it */
    bool is_charged; /* the client pays for the bytes of the body, as they come
                        (CLIENT_BYTE_RATE) */

    /* For this folder only */
    struct connection *connection;     /* NULL: gone */
    bool is_continue;                  /* waits for "100 Continue" */
    struct buf lines;                  /* request_add_lines */
    size_t head_size;                  /* bytes of `head` */
    const struct request_head *fields; /* in on_request only; else NULL */
    const char *sent;                  /* the bytes behind its slices */
    struct slice behind;               /* the head, in the same bytes */
    uint32_t slot;                     /* of its ticket; 0: none */

    /* For its end */
    int64_t began_us;         /* steady clock; the head was complete */
    uint64_t received_before; /* of connection->received */
    uint64_t sent_before;     /* of connection->sent */
    unsigned status;          /* of its answer; 0: none */
    struct slice id, agent;   /* in head, or the arrays below */
    bool has_method;          /* that the server knows */
    bool is_kept;             /* request_keep_for_log */
    bool is_ended;            /* its end was reported, or a stream will
                                 report it */

    bool is_answered;
    bool is_denied;  /* its authority has ended */
    bool is_closing; /* the connection ends with this answer */
    struct outgoing out;

    /* Not zero at the beginning */
    char own_id[REQUEST_ID_SIZE];
    char name[REQUEST_NAME_MAX + 1]; /* request_set_name */
    char head[]; /* as sent; behind it the room of request_parameter and
                    request_header */
};

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

/* The fields that say whether a client prefers a page, for Vary. */
#define REQUEST_PAGE_VARY \
    "Accept, Sec-Fetch-Dest, Sec-Fetch-Mode, Upgrade-Insecure-Requests"

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

/* Ends the request if its client has gone, as net does once a second. */
void request_check_client(struct request *rq);

/* For the end of the request (struct request_end). During on_request.
 *
 * request_keep_for_log keeps what the access log names: the User-Agent, and of
 * a stream path and query, too. request_set_name then keeps the name that the
 * request has by its token, up to REQUEST_NAME_MAX bytes. */
void request_keep_for_log(struct request *rq);
void request_set_name(struct request *rq, const char *name);

/* Adds lines ("Name: value\r\n") to the head of the answer, whoever gives it;
 * copied, at most REQUEST_LINES_MAX bytes in all. During on_request. */
#define REQUEST_LINES_MAX 1024
void request_add_lines(struct request *rq, struct slice lines);

/* True if a trusted proxy sent it (server_options.trusted). */
bool request_is_proxied(const struct request *rq);

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
 * repeated; does nothing after the whole body. NULL is allowed. */
void request_pause(struct request *rq);
void request_resume(struct request *rq);

/* Handles a deferred request anew, within on_request again: its head can be
 * read, and whatever a handler may do there is allowed. Calls `handle` at once.
 */
void request_again(struct request *rq,
                   void (*handle)(struct request *rq, void *user), void *user);

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
    const void *route;             /* of the request; NULL: none was found */
    bool is_kept; /* request_keep_for_log: agent, name; of a stream all
                     texts */

    /* Its line, but for the time. Texts are lent until the call returns. Status
     * 0: the connection ended before there was one. is_whole: all of the answer
     * was given to the kernel. is_stream: a WebSocket, or an answer without a
     * known length. Sent bytes are with heads, without TLS. */
    struct access_entry entry;
};
