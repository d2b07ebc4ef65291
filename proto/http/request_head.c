/*
 * request_head.c - the head of an HTTP/1.1 request.
 *
 *     head_line_find --> read_request_line   the first line
 *                    --> read_field          each other line
 *                    --> judge_head          all fields, at the empty line
 *
 * Why no library: of 113 hostile heads and chunked bodies this reader refuses
 * all, http-parser 2.9.4 57 and libmicrohttpd 0.9.75 32 (strict; 11 more get no
 * answer). Both accept bare line feeds, folded lines, two Hosts,
 * "Content-Length : 5" and %00. CPU of a post with 8 fields, and of a browser's
 * GET with 20: 0.39 and 1.0 us here, 0.89 and 2.6 us in http-parser, which
 * refuses unknown methods. libmicrohttpd reads from its own sockets only (10 us
 * a request).
 *
 * The reader checks a line when its end has arrived. Of a head in pieces it
 * keeps no line: when the head is whole, it reads all of it again, for the
 * second and last time.
 */
#include "proto/http/request_head.h"

#include <netinet/in.h>

#include "proto/http/network_address.h"
#include "proto/number.h"
#include "proto/token.h"
#include "proto/uri.h"

/* Of a request line with the longest method and target. */
#define REQUEST_LINE_MAX \
    (REQUEST_METHOD_MAX + 1 + REQUEST_TARGET_MAX + 1 + VERSION_SIZE)

/* "HTTP/1.1" */
#define VERSION_SIZE 8

/* Bytes of the empty lines before a request line. */
#define EMPTY_MAX (REQUEST_EMPTY_LINES * HEAD_CRLF_SIZE)

struct reading {
    struct request_head *head;
    struct slice authority; /* of a target in absolute form; size 0: none */
    struct problem *why;
};

static const struct slice nothing = {NULL, 0};

/* Refuses the head. Quotes the front of `quoted`, unless it is `nothing`. */
static enum status
refuse_head(struct reading *r, unsigned status, const char *what,
            struct slice quoted)
{
    r->head->refusal = status;
    if (quoted.data)
        return problem_quoting(r->why, STATUS_INVALID, what, quoted);
    return problem(r->why, STATUS_INVALID, "%s", what);
}

/* The request line */

enum {
    IN_HOST = 1,  /* reg-name of RFC 3986: unreserved, sub-delims */
    IN_PATH = 2,  /* pchar and "/" */
    IN_QUERY = 4, /* more than RFC 3986 allows: clients send it */
    EVERYWHERE = IN_HOST | IN_PATH | IN_QUERY,
    NOT_IN_HOST = IN_PATH | IN_QUERY
};

/* Where a byte may stand for itself. '%' is not in it. */
static const unsigned char places[256] = {
    ['A' ... 'Z'] = EVERYWHERE, ['a' ... 'z'] = EVERYWHERE,
    ['0' ... '9'] = EVERYWHERE, ['-'] = EVERYWHERE,
    ['.'] = EVERYWHERE,         ['_'] = EVERYWHERE,
    ['~'] = EVERYWHERE,         ['!'] = EVERYWHERE,
    ['$'] = EVERYWHERE,         ['&'] = EVERYWHERE,
    ['\''] = EVERYWHERE,        ['('] = EVERYWHERE,
    [')'] = EVERYWHERE,         ['*'] = EVERYWHERE,
    ['+'] = EVERYWHERE,         [','] = EVERYWHERE,
    [';'] = EVERYWHERE,         ['='] = EVERYWHERE,
    [':'] = NOT_IN_HOST,        ['@'] = NOT_IN_HOST,
    ['/'] = NOT_IN_HOST,        ['?'] = IN_QUERY,
    ['['] = IN_QUERY,           [']'] = IN_QUERY,
    ['\\'] = IN_QUERY,          ['^'] = IN_QUERY,
    ['`'] = IN_QUERY,           ['{'] = IN_QUERY,
    ['|'] = IN_QUERY,           ['}'] = IN_QUERY,
};

/* Returns how many bytes at the front of `text` may stand there, escapes of
 * another byte than NUL included. */
static size_t
span_of(struct slice text, unsigned char place)
{
    size_t i = 0;

    while (i < text.size) {
        struct slice rest = slice_from(text, i);

        if (places[(unsigned char)text.data[i]] & place)
            i++;
        else if (uri_escape(rest) > 0)
            i += 3;
        else
            break;
    }
    return i;
}

/* Takes "http://host:port" off the front of `target`. */
static bool
take_authority(struct reading *r, struct slice *target)
{
    struct slice rest = *target;

    r->head->is_https = slice_starts_word(rest, "https://");
    if (!r->head->is_https && !slice_starts_word(rest, "http://"))
        return false;
    slice_skip(&rest, r->head->is_https ? 8 : 7);
    r->authority = slice_take_until(&rest, "/?");
    *target = rest;
    return r->authority.size > 0;
}

static enum status
read_target(struct reading *r, struct slice target)
{
    struct request_head *h = r->head;
    bool is_options = slice_is(h->method, "OPTIONS");
    struct slice rest = target;
    size_t size;

    if (is_options && slice_is(target, "*")) {
        h->path = target;
        return STATUS_OK;
    }
    if (rest.data[0] != '/' && !take_authority(r, &rest))
        return refuse_head(r, 400, "the target is no path", target);
    size = span_of(rest, IN_PATH);
    h->path = (struct slice){rest.data, size};
    if (size == 0) /* RFC 9110 section 4.2.3, RFC 9112 section 3.2.4 */
        h->path = is_options && rest.size == 0 ? SLICE("*") : SLICE("/");
    if (size < rest.size && rest.data[size] == '?') {
        h->has_query = true;
        h->query = slice_from(rest, size + 1);
        rest = h->query;
        size = span_of(rest, IN_QUERY);
    }
    if (size < rest.size)
        return refuse_head(
            r, 400,
            rest.data[size] == '%'
                ? "the target has a bad escape"
                : "the target has a character that must be escaped",
            slice_from(rest, size));
    return STATUS_OK;
}

static enum status
read_method(struct reading *r, struct slice line)
{
    size_t size = token_size(line);

    /* RFC 9112 section 3: 501 for one that is longer than all we know. */
    if (size > REQUEST_METHOD_MAX)
        return refuse_head(r, 501, "the method has more than 32 bytes", line);
    if (size == 0 || size == line.size || line.data[size] != ' ')
        return refuse_head(
            r, 400, "the request line does not begin with a method", line);
    r->head->method = (struct slice){line.data, size};
    return STATUS_OK;
}

/* "POST /sets/demo/changes?wait=1 HTTP/1.1", one space at each place. */
static enum status
read_request_line(struct reading *r, struct slice line)
{
    struct slice target, version;
    enum status rc = read_method(r, line);

    if (rc)
        return rc;
    version = slice_from(line, r->head->method.size + 1);
    target = slice_take(&version, ' ');
    if (version.size != VERSION_SIZE || !slice_starts(version, "HTTP/") ||
        version.data[6] != '.' || version.data[5] < '0' ||
        version.data[5] > '9' || version.data[7] < '0' || version.data[7] > '9')
        return refuse_head(
            r, 400, "the request line does not end with a version", version);
    if (version.data[5] != '1' || version.data[7] > '1')
        return refuse_head(r, 505, "neither HTTP/1.0 nor HTTP/1.1", version);
    r->head->minor = (unsigned)(version.data[7] - '0');
    if (target.size == 0)
        return refuse_head(r, 400, "the request line has no target", line);
    if (target.size > REQUEST_TARGET_MAX)
        return refuse_head(r, 414, "the target has more than 8,192 bytes",
                           nothing);
    return read_target(r, target);
}

/* Fields */

static enum status
read_field(struct reading *r, struct slice line)
{
    struct request_head *h = r->head;
    struct head_field field;

    if (head_field_read(&field, line, r->why))
        return STATUS_INVALID;
    if (h->n_fields == REQUEST_FIELDS_MAX)
        return refuse_head(r, 431, "more than 100 fields", nothing);
    h->fields[h->n_fields++] = field;
    return STATUS_OK;
}

/* The fields that concern the request, over all lines of their names. */
struct meaning {
    struct head_framing framing;
    unsigned n_hosts;
    bool has_upgrade, is_websocket;      /* Upgrade */
    bool has_expect, has_unknown_expect; /* Expect */
};

/* Compares sizes first: nearly all other names differ in them. */
static void
note_field(struct request_head *h, struct meaning *m,
           const struct head_field *f)
{
    struct slice list = f->value, word;

    switch (f->name.size) {
    case sizeof("Host") - 1:
        if (slice_is_word(f->name, "Host")) {
            m->n_hosts++;
            h->host = f->value;
        }
        break;
    case sizeof("Expect") - 1:
        if (!slice_is_word(f->name, "Expect"))
            break;
        while (head_list_take(&list, &word)) {
            bool is_known = slice_is_word(word, "100-continue");

            m->has_expect |= is_known;
            m->has_unknown_expect |= !is_known && word.size > 0;
        }
        break;
    case sizeof("Upgrade") - 1:
        if (!slice_is_word(f->name, "Upgrade"))
            break;
        while (head_list_take(&list, &word)) {
            m->has_upgrade |= word.size > 0;
            m->is_websocket |= slice_is_word(word, "websocket");
        }
        break;
    default:
        head_framing_note(&m->framing, f);
        break;
    }
}

/* True if `host` is host[:port]. The port may be empty (RFC 3986
 * section 3.2.3); brackets hold an IPv6 address. */
static bool
is_host(struct slice host)
{
    struct in6_addr six;
    struct slice name;
    uint64_t port;

    if (host.size > 0 && host.data[0] == '[') {
        name = slice_take_until(&host, "]");
        if (!slice_take_char(&host, ']') ||
            !address_read_bracketed((struct slice){name.data, name.size + 1},
                                    &six))
            return false;
    } else {
        size_t size = span_of(host, IN_HOST);

        if (size == 0)
            return false;
        host = slice_from(host, size);
    }
    if (host.size <= 1)
        return host.size == 0 || host.data[0] == ':';
    return host.data[0] == ':' && number_read(slice_from(host, 1), &port) &&
           port <= 65535;
}

/* An empty Host is an error, too: with the target it makes "http:///path",
 * which a recipient has to reject (RFC 9110 sections 4.2.1 and 7.2). */
static enum status
judge_host(struct reading *r, const struct meaning *m)
{
    struct request_head *h = r->head;

    if (m->n_hosts > 1)
        return refuse_head(r, 400, "two Host fields", nothing);
    if (m->n_hosts == 0 && (h->minor == 1 || r->authority.size > 0))
        return refuse_head(r, 400, "no Host field", nothing);
    if (m->n_hosts == 1 && !is_host(h->host))
        return refuse_head(r, 400, "Host is not a host and a port", h->host);
    if (r->authority.size > 0 &&
        (r->authority.size != h->host.size ||
         strncasecmp(r->authority.data, h->host.data, h->host.size)))
        return refuse_head(r, 400, "the target is of another host than Host",
                           r->authority);
    return STATUS_OK;
}

/* Works out what the fields mean for the connection, and refuses fields that
 * contradict each other. */
static enum status
judge_head(struct reading *r)
{
    struct request_head *h = r->head;
    struct meaning m = {.n_hosts = 0};
    enum status rc;

    for (size_t i = 0; i < h->n_fields; i++)
        note_field(h, &m, &h->fields[i]);
    rc = judge_host(r, &m);
    if (rc)
        return rc;
    rc = head_framing_judge(&m.framing, h->minor, &h->body, r->why);
    if (rc) {
        h->refusal = rc == STATUS_UNSUPPORTED ? 501 : 400;
        return STATUS_INVALID;
    }
    if (m.has_unknown_expect)
        return refuse_head(r, 417, "an expectation other than 100-continue",
                           nothing);

    h->is_kept = head_framing_keeps(&m.framing, h->minor);
    if (h->minor == 1) { /* RFC 9110 sections 7.8 and 10.1.1 */
        h->is_continue =
            m.has_expect && (h->body.is_chunked || h->body.length > 0);
        if (m.framing.is_upgrade && m.has_upgrade)
            h->upgrade = m.is_websocket ? REQUEST_UPGRADE_WEBSOCKET
                                        : REQUEST_UPGRADE_OTHER;
    }
    return STATUS_OK;
}

/* The head */

/* Reads the lines from seen->line on, up to the empty line. */
static enum status
read_lines(struct reading *r, struct slice bytes, struct head_seen *seen)
{
    struct request_head *h = r->head;

    memset(h, 0, offsetof(struct request_head, fields));
    h->n_fields = seen->n_fields; /* these fields are valid */
    for (;;) {
        /* Only empty lines may stand before the request line, which is longer
         * than these. */
        bool is_first = seen->line <= EMPTY_MAX;
        struct slice line = nothing;
        size_t max = is_first ? REQUEST_LINE_MAX : REQUEST_FIELD_MAX;
        enum status rc =
            head_line_find(bytes, seen, max, REQUEST_HEAD_MAX, &line, r->why);

        if (rc == STATUS_TOO_LARGE && seen->scanned <= seen->line + max)
            return refuse_head(r, 431, "the head has more than 16,384 bytes",
                               nothing);
        if (rc == STATUS_TOO_LARGE && !is_first)
            return refuse_head(r, 431, "a field line has more than 8,192 bytes",
                               nothing);
        if (rc == STATUS_TOO_LARGE) {
            rc = read_method(r, slice_from(bytes, seen->line));
            return rc ? rc
                      : refuse_head(r, 414,
                                    "the target has more than 8,192 bytes",
                                    nothing);
        }
        if (rc)
            return rc;
        if (!is_first && line.size == 0) {
            h->size = seen->scanned + HEAD_CRLF_SIZE;
            return STATUS_OK;
        }
        if (!is_first)
            rc = read_field(r, line);
        else if (line.size > 0 || seen->line == EMPTY_MAX)
            rc = read_request_line(r, line);
        if (rc)
            return rc;
        seen->n_fields = (uint16_t)h->n_fields;
        head_line_pass(seen);
    }
}

enum status
request_head_read(struct request_head *h, struct slice bytes,
                  struct head_seen *seen, struct problem *why)
{
    struct reading r = {.head = h, .why = why};
    bool is_new = seen->line == 0; /* so `h` gets every line */
    enum status rc = read_lines(&r, bytes, seen);

    if (!rc && !is_new) {
        *seen = (struct head_seen){0};
        rc = read_lines(&r, bytes, seen);
    }
    if (!rc)
        rc = judge_head(&r);
    if (rc == STATUS_INVALID && h->refusal == 0)
        h->refusal = 400;
    if (!rc)
        *seen = (struct head_seen){0};
    return rc;
}

const struct head_field *
request_head_field(const struct request_head *h, const char *name, size_t *at)
{
    while (*at < h->n_fields) {
        const struct head_field *f = &h->fields[(*at)++];

        if (slice_is_word(f->name, name))
            return f;
    }
    return NULL;
}
