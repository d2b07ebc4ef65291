/*
 * head.c - the head of a request: what the library has parsed, made safe.
 *
 * libwebsockets 4.1.6 percent-decodes paths and parameters, drops "//", "/./"
 * and "/../", and refuses bad escapes itself (403). Here they are encoded
 * again, so that what callers see is a well-formed URL of its own, whatever was
 * sent.
 */
#include <stdlib.h>

#include "broker/net/connection.h"
#include "broker/net/exchange.h"
#include "broker/net/response.h"
#include "broker/net/service.h"
#include "broker/net/stream.h"

/* The names of methods as the library tells them, and as a head begins. */
static const struct {
    enum lws_token_indexes token;
    enum method method;
    const char *start;
} methods[] = {
    {WSI_TOKEN_GET_URI, METHOD_GET, "GET "},
    {WSI_TOKEN_POST_URI, METHOD_POST, "POST "},
    {WSI_TOKEN_PUT_URI, METHOD_PUT, "PUT "},
    {WSI_TOKEN_DELETE_URI, METHOD_DELETE, "DELETE "},
    {WSI_TOKEN_HEAD_URI, METHOD_HEAD, "HEAD "},
    {WSI_TOKEN_OPTIONS_URI, METHOD_OPTIONS, "OPTIONS "},
    {WSI_TOKEN_PATCH_URI, METHOD_PATCH, "PATCH "},
};

#define N_METHODS (sizeof(methods) / sizeof(methods[0]))

/* The library's limits on what it looks at in an upgrade: longer, and it hangs
 * up without a word. */
#define UPGRADE_HEADER_MAX 127
#define SUBPROTOCOL_MAX    63

/* Headers */

/* The value of a header that the library knows; empty: not sent, or empty. */
static bool
known_header(struct request *rq, enum lws_token_indexes token,
             struct slice *value)
{
    struct lws *wsi = rq->connection->wsi;
    int size = lws_hdr_total_length(wsi, token);
    char *copy = NULL;

    if (size <= 0)
        return false;
    copy = request_memory(rq, (size_t)size + 1);
    if (!copy || lws_hdr_copy(wsi, copy, size + 1, token) != size)
        return false;
    *value = (struct slice){copy, (size_t)size};
    return true;
}

/* `name` in lower case, with its colon. */
static bool
other_header(struct request *rq, const char *name, struct slice *value)
{
    struct lws *wsi = rq->connection->wsi;
    int name_size = (int)strlen(name);
    int size = lws_hdr_custom_length(wsi, name, name_size);
    char *copy = NULL;

    if (size < 0)
        return false;
    copy = request_memory(rq, (size_t)size + 1);
    if (!copy ||
        lws_hdr_custom_copy(wsi, copy, size + 1, name, name_size) != size)
        return false;
    *value = (struct slice){copy, (size_t)size};
    return true;
}

bool
request_header(struct request *rq, const char *name, struct slice *value)
{
    static const struct {
        const char *name;
        enum lws_token_indexes token; /* WSI_TOKEN_COUNT: not known to it */
        const char *other;
    } headers[] = {
        {"host", WSI_TOKEN_HOST, NULL},
        {"origin", WSI_TOKEN_ORIGIN, NULL},
        {"content-type", WSI_TOKEN_HTTP_CONTENT_TYPE, NULL},
        {"content-encoding", WSI_TOKEN_HTTP_CONTENT_ENCODING, NULL},
        {"accept", WSI_TOKEN_HTTP_ACCEPT, NULL},
        {"accept-encoding", WSI_TOKEN_HTTP_ACCEPT_ENCODING, NULL},
        {"authorization", WSI_TOKEN_HTTP_AUTHORIZATION, NULL},
        {"if-none-match", WSI_TOKEN_HTTP_IF_NONE_MATCH, NULL},
        {"if-modified-since", WSI_TOKEN_HTTP_IF_MODIFIED_SINCE, NULL},
        {"if-match", WSI_TOKEN_HTTP_IF_MATCH, NULL},
        {"if-unmodified-since", WSI_TOKEN_HTTP_IF_UNMODIFIED_SINCE, NULL},
        {"if-range", WSI_TOKEN_HTTP_IF_RANGE, NULL},
        {"range", WSI_TOKEN_HTTP_RANGE, NULL},
        {"idempotency-key", WSI_TOKEN_COUNT, "idempotency-key:"},
        {"last-event-id", WSI_TOKEN_COUNT, "last-event-id:"},
        {"tidings-delivery", WSI_TOKEN_COUNT, "tidings-delivery:"},
        {"link", WSI_TOKEN_HTTP_LINK, NULL},
        {"user-agent", WSI_TOKEN_HTTP_USER_AGENT, NULL},
        {"forwarded", WSI_TOKEN_COUNT, "forwarded:"},
        {"via", WSI_TOKEN_HTTP_VIA, NULL},
        {"x-forwarded-for", WSI_TOKEN_X_FORWARDED_FOR, NULL},
        {"x-forwarded-host", WSI_TOKEN_COUNT, "x-forwarded-host:"},
        {"x-forwarded-proto", WSI_TOKEN_COUNT, "x-forwarded-proto:"},
        {"x-real-ip", WSI_TOKEN_HTTP_X_REAL_IP, NULL},
        {"sec-websocket-protocol", WSI_TOKEN_PROTOCOL, NULL},
    };

    if (!rq->is_head_there)
        return false;
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        if (strcmp(name, headers[i].name))
            continue;
        if (headers[i].other ? !other_header(rq, headers[i].other, value)
                             : !known_header(rq, headers[i].token, value))
            return false;
        *value = slice_trimmed(*value);
        return true;
    }
    return false;
}

/* Takes the next element of a comma-separated list. */
static bool
next_of(struct slice *list, struct slice *element)
{
    if (!list->size)
        return false;
    *element = slice_trimmed(slice_take(list, ','));
    return true;
}

static bool
list_has(struct slice list, const char *word)
{
    struct slice element = {NULL, 0};

    while (next_of(&list, &element))
        if (slice_is_word(element, word))
            return true;
    return false;
}

/* Path and query */

static bool
is_plain(unsigned char c, const char *also)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || (c && strchr(also, c));
}

/* Writes `from`, escaped where necessary; returns the end. */
static char *
encode(char *to, struct slice from, const char *also)
{
    static const char hex[] = "0123456789ABCDEF";

    for (size_t i = 0; i < from.size; i++) {
        unsigned char c = (unsigned char)from.data[i];

        if (is_plain(c, also)) {
            *to++ = (char)c;
        } else {
            *to++ = '%';
            *to++ = hex[c >> 4];
            *to++ = hex[c & 15];
        }
    }
    return to;
}

static bool
read_path(struct request *rq, enum lws_token_indexes token)
{
    struct slice sent = {NULL, 0};
    char *path = NULL;

    if (!known_header(rq, token, &sent))
        return false;
    path = request_memory(rq, 3 * sent.size);
    if (!path)
        return false;
    rq->path.data = path;
    rq->path.size = (size_t)(encode(path, sent, "/-._~!$&'()*+,;=:@") - path);
    return true;
}

/* The library hands over the parameters decoded, one fragment each. */
static bool
read_query(struct request *rq)
{
    struct lws *wsi = rq->connection->wsi;
    size_t total = (size_t)lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_URI_ARGS);
    char *query = NULL, *to = NULL, *fragment = NULL;

    if (!total)
        return true;
    query = to = request_memory(rq, 3 * total + 3);
    fragment = request_memory(rq, total + 1);
    if (!query || !fragment)
        return false;
    for (int i = 0;; i++) {
        int size = lws_hdr_copy_fragment(wsi, fragment, (int)total + 1,
                                         WSI_TOKEN_HTTP_URI_ARGS, i);
        struct slice name = {fragment, 0}, rest = {NULL, 0};

        if (size < 0)
            break;
        if (to != query)
            *to++ = '&';
        name.size = (size_t)size;
        rest.data = memchr(fragment, '=', name.size);
        if (rest.data) {
            rest.size = name.size - (size_t)(rest.data - fragment);
            name.size -= rest.size;
        }
        to = encode(to, name, "-._~!$'()*,:@/?");
        to = encode(to, rest, "-._~!$'()*,:@/?=");
    }
    rq->query = (struct slice){query, (size_t)(to - query)};
    return true;
}

/* The head */

/* Does the client want to go on with this connection? By the library's own
 * rule, which must not differ: it is the one that reads on or does not. */
static bool
wants_to_stay(struct request *rq)
{
    struct lws *wsi = rq->connection->wsi;
    struct slice connection = {NULL, 0};
    char version[12], word[25];
    bool is_1_1 =
        lws_hdr_copy(wsi, version, sizeof(version), WSI_TOKEN_HTTP) > 7 &&
        version[5] == '1' && version[7] == '1';
    int size = lws_hdr_copy(wsi, word, sizeof(word), WSI_TOKEN_CONNECTION);

    rq->is_1_0 = !is_1_1;
    if (!is_1_1)
        return size > 0 && !strcasecmp(word, "keep-alive");
    return !known_header(rq, WSI_TOKEN_CONNECTION, &connection) ||
           !list_has(connection, "close");
}

/* Reads the announced length; false: not a plain number. */
static bool
read_length(struct request *rq)
{
    struct slice length = {NULL, 0};

    if (!known_header(rq, WSI_TOKEN_HTTP_CONTENT_LENGTH, &length))
        return true;
    rq->has_length = true;
    length = slice_trimmed(length);
    if (!length.size || length.size > 15)
        return false;
    for (size_t i = 0; i < length.size; i++) {
        if (length.data[i] < '0' || length.data[i] > '9')
            return false;
        rq->content_length =
            rq->content_length * 10 + (uint64_t)(length.data[i] - '0');
    }
    return true;
}

struct request *
head_read(struct connection *c, bool is_upgrade)
{
    struct request *rq = calloc(1, sizeof(*rq));
    struct slice expect = {NULL, 0};
    size_t i = 0;

    if (!rq)
        return NULL;
    rq->connection = c;
    rq->service = c->service;
    rq->is_upgrade = is_upgrade;
    rq->is_head_there = true;
    while (i < N_METHODS && !lws_hdr_total_length(c->wsi, methods[i].token))
        i++;
    if (i == N_METHODS || !read_path(rq, methods[i].token) || !read_query(rq)) {
        request_free(rq);
        return NULL;
    }
    rq->method = methods[i].method;
    c->own_head = methods[i].start;

    rq->is_closing = !wants_to_stay(rq);
    rq->is_continue = known_header(rq, WSI_TOKEN_HTTP_EXPECT, &expect) &&
                      slice_is_word(slice_trimmed(expect), "100-continue");
    return rq;
}

/* Is some header too long? The library cuts what is over its limit, so that as
 * long as that is too long. */
static bool
is_too_long(const struct connection *c)
{
    for (int i = 0; i < WSI_TOKEN_COUNT; i++)
        if (lws_hdr_total_length(c->wsi, (enum lws_token_indexes)i) >=
            HEADER_MAX)
            return true;
    return false;
}

/* RFC 6455 section 4.2.1; what the library would hang up on, or let pass. */
static bool
is_good_handshake(struct request *rq)
{
    struct slice connection = {NULL, 0}, key = {NULL, 0}, list = {NULL, 0};
    struct slice one = {NULL, 0};

    if (rq->method != METHOD_GET || rq->has_length ||
        !known_header(rq, WSI_TOKEN_HOST, &one) ||
        !known_header(rq, WSI_TOKEN_CONNECTION, &connection) ||
        connection.size > UPGRADE_HEADER_MAX ||
        !list_has(connection, "upgrade") ||
        !known_header(rq, WSI_TOKEN_KEY, &key) || slice_trimmed(key).size != 24)
        return false;
    if (!known_header(rq, WSI_TOKEN_PROTOCOL, &list))
        return true;
    if (list.size > UPGRADE_HEADER_MAX)
        return false;
    while (next_of(&list, &one))
        if (!one.size || one.size > SUBPROTOCOL_MAX)
            return false;
    return true;
}

/* Whatever a refused head was meant to announce may still come. */
static bool
refuse(struct request *rq, unsigned status, const char *text)
{
    struct problem why = {"", 0, 0};

    rq->is_closing = true;
    rq->is_open_ended = true;
    problem_set(&why, "%s", text);
    request_answer_problem(rq, status, &why, NULL, NULL);
    return true;
}

static bool
refuse_version(struct request *rq)
{
    struct response r;

    rq->is_closing = true;
    response_init(&r, 426, NULL);
    response_header(&r, "Sec-WebSocket-Version", "13");
    request_answer(rq, &r);
    return true;
}

bool
head_refuse(struct request *rq)
{
    struct connection *c = rq->connection;
    struct slice value = {NULL, 0};
    bool is_number = read_length(rq);
    bool takes_body = rq->method == METHOD_POST || rq->method == METHOD_PUT ||
                      rq->method == METHOD_PATCH;

    rq->has_body = is_number && rq->content_length;
    /* No length means no body (RFC 9112 section 6.3), but the library waits for
     * one here; nobody knows how long. */
    if (takes_body && !rq->has_length)
        rq->is_open_ended = rq->is_closing = true;

    if (is_too_long(c))
        return refuse(rq, 431, "a header is longer than 8 KB");
    if (lws_hdr_total_length(c->wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) ||
        other_header(rq, "transfer-encoding :", &value))
        return refuse(rq, 501, "Transfer-Encoding is not understood here");
    if (!is_number || other_header(rq, "content-length :", &value))
        return refuse(rq, 400, "Content-Length is not one plain number");
    if (!takes_body && rq->content_length)
        return refuse(rq, 400, "this method takes no body");
    if (!rq->is_upgrade)
        return false;

    if (!known_header(rq, WSI_TOKEN_UPGRADE, &value) ||
        !slice_is_word(slice_trimmed(value), "websocket"))
        return refuse(rq, 400, "the only upgrade is to websocket");
    if (!is_good_handshake(rq))
        return refuse(rq, 400, "not a handshake of RFC 6455");
    if (!known_header(rq, WSI_TOKEN_VERSION, &value) ||
        !slice_is(slice_trimmed(value), "13"))
        return refuse_version(rq);
    return false;
}
