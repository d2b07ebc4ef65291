#include "broker/net/response.h"

#include <stdarg.h>
#include <stdio.h>

#include "broker/net/exchange.h"
#include "proto/accept_header.h"
#include "proto/buf.h"
#include "proto/json.h"

#define PROBLEM_MAX 16384

void
response_init(struct response *r, unsigned status, const char *content_type)
{
    r->status = status;
    r->content_type = content_type;
    r->text = (struct slice){NULL, 0};
    r->body = NULL;
    r->is_long = false;
    r->headers_size = 0;
    r->headers[0] = '\0';
}

void
response_header(struct response *r, const char *name, const char *format, ...)
{
    const size_t name_size = strlen(name);
    size_t room = sizeof(r->headers) - r->headers_size;
    char *line = r->headers + r->headers_size, *value = line + name_size + 2;
    va_list args;
    int n = 0;

    if (room <= name_size + 4)
        return;
    room -= name_size + 4;
    memcpy(line, name, name_size);
    memcpy(line + name_size, ": ", 2);
    va_start(args, format);
    n = vsnprintf(value, room, format, args);
    va_end(args);
    for (const char *c = value; n >= 0 && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            n = -1;
    if (n < 0 || (size_t)n >= room) {
        *line = '\0';
        return;
    }
    memcpy(value + n, "\r\n", sizeof("\r\n"));
    r->headers_size += name_size + 2 + (size_t)n + 2;
}

unsigned
response_status_of(enum status status)
{
    switch (status) {
    case STATUS_OK:
        return 200;
    case STATUS_MALFORMED:
        return 400;
    case STATUS_NOT_FOUND:
        return 404;
    case STATUS_LATE:
        return 408;
    case STATUS_RUNNING:
    case STATUS_CONFLICT:
        return 409;
    case STATUS_GONE:
        return 410;
    case STATUS_TOO_LARGE:
        return 413;
    case STATUS_UNSUPPORTED:
        return 415;
    case STATUS_INVALID:
        return 422;
    case STATUS_LIMITED:
        return 429;
    case STATUS_BUSY:
    case STATUS_MEMORY:
    case STATUS_STOPPED:
        return 503;
    case STATUS_AGAIN:
    case STATUS_IO:
    case STATUS_REFUSED: /* a peer's answers are not the client's */
    case STATUS_UNREACHABLE:
    case STATUS_DIFFERENT:
        return 500;
    }
    return 500;
}

static void
begin_refusal(struct response *r, unsigned status, const char *allow)
{
    response_init(r, status, NULL);
    if (status == 503 || status == 409 || status == 429)
        response_header(r, "Retry-After", status == 429 ? "10" : "1");
    if (allow)
        response_header(r, status == 415 ? "Accept-Encoding" : "Allow", "%s",
                        allow);
}

void
request_answer_problem(struct request *rq, unsigned status,
                       const struct problem *why, const char *allow,
                       const char *members)
{
    struct response r;

    begin_refusal(&r, status, allow);
    response_answer_problem(rq, &r, why, members);
}

bool
request_answer_events_later(struct request *rq)
{
    struct slice accept;
    struct response r;

    if (request_method(rq) != METHOD_GET || request_is_upgrade(rq) ||
        !request_header(rq, "accept", &accept) ||
        !accept_names(accept, "text/event-stream"))
        return false;
    response_init(&r, 200, "text/event-stream");
    response_header(&r, "Cache-Control", "no-store");
    r.text = SLICE("retry: 1000\n\n");
    request_answer(rq, &r);
    return true;
}

void
response_answer_problem(struct request *rq, struct response *r,
                        const struct problem *why, const char *members)
{
    struct buf text;

    /* Without this header caches may keep 404, 405 and 410 (RFC 9110 section
     * 15.1), and hide a document that is made later. */
    response_header(r, "Cache-Control", "no-store");
    buf_init(&text, PROBLEM_MAX);
    if (rq->is_text) {
        r->content_type = "text/plain; charset=utf-8";
        buf_add_text(&text, why && why->text[0] ? why->text
                                                : response_reason(r->status));
        BUF_ADD(&text, "\n");
    } else {
        r->content_type = "application/problem+json";
        json_problem_begin(&text, r->status, response_reason(r->status), why);
        if (members)
            buf_add_text(&text, members);
        BUF_ADD(&text, "}\n");
    }
    if (!text.failed)
        r->text = buf_slice(&text);
    request_answer(rq, r);
    buf_fini(&text);
}

const char *
response_reason(unsigned status)
{
    static const struct {
        unsigned status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {426, "Upgrade Required"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}
