#include "proto/http/multipart.h"

#include "proto/token.h"

/*
 *   BODY --delimiter--> BEHIND --LWSP CR LF--> HEADERS --empty line--> BODY
 *     ^                   |
 *  (preamble)             +--"--"--> CLOSED --CR LF or the end--> EPILOGUE
 */
enum state {
    STATE_BODY,      /* of a part, or the preamble */
    STATE_BEHIND,    /* right behind a delimiter */
    STATE_DASH,      /* behind its first "-" */
    STATE_PADDING,   /* white space behind a delimiter */
    STATE_BREAK,     /* its CR was there */
    STATE_HEADERS,   /* lines, up to an empty one */
    STATE_CLOSED,    /* behind the last delimiter: white space */
    STATE_CLOSED_CR, /* its CR was there */
    STATE_EPILOGUE
};

/* A failure, with where it was seen. */
static enum status
refuse_part(const struct multipart *m, enum status rc, struct problem *why,
            const char *what, struct slice quoted)
{
    char where[48] = "";

    if (m->number > 0)
        snprintf(where, sizeof(where), "part %" PRIu64 ", ", m->number);
    if (quoted.data)
        return problem(why, rc, "%sbyte %" PRIu64 ": %s: \"%s\"", where,
                       m->offset, what, problem_quote(quoted).text);
    return problem(why, rc, "%sbyte %" PRIu64 ": %s", where, m->offset, what);
}

static const struct slice nothing = {NULL, 0};

/* Content-Type */

/* Takes a value off the front of `rest`: a quoted string, or what stands before
 * the next ";" (a token, or more: boundaries with "/" or "=" are found without
 * quotes, too). false: it is none, or too long for `to`. */
static bool
take_value(struct slice *rest, char *to, size_t room)
{
    struct slice value;
    size_t n;

    *rest = slice_trimmed(*rest);
    if (rest->size > 0 && rest->data[0] == '"') {
        if (!token_take_value(rest, to, room, &n) || n >= room)
            return false;
        to[n] = '\0';
        return slice_trimmed(slice_take(rest, ';')).size == 0;
    }
    value = slice_trimmed(slice_take(rest, ';'));
    return value.size > 0 && slice_copy(to, room, value) && !strchr(to, '"');
}

static struct slice
without_brackets(struct slice id)
{
    if (id.size >= 2 && id.data[0] == '<' && id.data[id.size - 1] == '>')
        return (struct slice){id.data + 1, id.size - 2};
    return id;
}

/* Reads one parameter of the type. */
static enum status
take_parameter(struct slice *rest, struct multipart_type *type, char *boundary,
               size_t room, struct problem *why)
{
    struct slice name = slice_trimmed(slice_take_until(rest, "="));
    char ignored[1024];
    char *to = ignored;
    size_t size = sizeof(ignored);

    if (slice_is_word(name, "boundary")) {
        to = boundary;
        size = room;
    } else if (slice_is_word(name, "type")) {
        to = type->type;
        size = sizeof(type->type);
    } else if (slice_is_word(name, "start")) {
        to = type->start;
        size = sizeof(type->start);
    }
    if (!slice_take_char(rest, '=') || !token_is(name))
        return problem(why, STATUS_MALFORMED,
                       "Content-Type: a parameter is NAME=VALUE, not \"%s\"",
                       problem_quote(name).text);
    if (to != ignored && to[0])
        return problem(why, STATUS_MALFORMED,
                       "Content-Type: \"%s\" is there twice",
                       problem_quote(name).text);
    if (!take_value(rest, to, size))
        return problem(why, STATUS_MALFORMED,
                       "Content-Type: the value of \"%s\" is none, or has "
                       "more than %zu bytes",
                       problem_quote(name).text, size - 1);
    return STATUS_OK;
}

enum status
multipart_read_type(struct slice content_type, struct multipart_type *type,
                    struct problem *why)
{
    struct slice rest = content_type;
    struct slice media_type = slice_trimmed(slice_take(&rest, ';'));
    char boundary[MULTIPART_PARAMETER_MAX + 1] = "";
    struct slice start;
    size_t size;

    memset(type, 0, sizeof(*type));
    if (!slice_is_word(media_type, "multipart/related"))
        return problem(why, STATUS_UNSUPPORTED,
                       "changes with their content are multipart/related, not "
                       "\"%s\"",
                       problem_quote(media_type).text);
    while (rest = slice_trimmed(rest), rest.size > 0) {
        enum status rc =
            take_parameter(&rest, type, boundary, sizeof(boundary), why);

        if (rc)
            return rc;
    }
    if (!boundary[0])
        return problem(why, STATUS_MALFORMED,
                       "Content-Type: multipart/related needs a boundary");
    /* bchars of RFC 2046, a space not at the end. */
    size = strlen(boundary);
    if (size > MULTIPART_BOUNDARY_MAX || boundary[size - 1] == ' ' ||
        boundary[strspn(boundary, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz"
                                  "0123456789'()+_,-./:=? ")])
        return problem(why, STATUS_MALFORMED,
                       "Content-Type: boundary: not 1 to %d letters, digits, "
                       "spaces within and '()+_,-./:=?: \"%s\"",
                       MULTIPART_BOUNDARY_MAX,
                       problem_quote(slice_of(boundary)).text);
    memcpy(type->boundary, boundary, size + 1);
    start = without_brackets(slice_of(type->start));
    memmove(type->start, start.data, start.size);
    type->start[start.size] = '\0';
    return STATUS_OK;
}

/* The headers of a part */

/* The size of the first line of `lines`, which has its CR LF. A folded line
 * (RFC 5322 section 2.2.3) ends with its last part. */
static size_t
line_size(struct slice lines)
{
    const char *end = lines.data;

    do
        end = (const char *)memchr(end, '\n',
                                   lines.size - (size_t)(end - lines.data)) +
              1;
    while (end < lines.data + lines.size && slice_is_blank(*end));
    return (size_t)(end - lines.data);
}

/* Removes the ends of line within a header; a CR alone is none, and stays. */
static size_t
unfold_line(char *line, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < size; i++)
        if (line[i] != '\n' &&
            !(line[i] == '\r' && i + 1 < size && line[i + 1] == '\n'))
            line[n++] = line[i];
    return n;
}

static enum status
read_header(struct multipart *m, struct slice line, struct multipart_part *part,
            struct slice *encoding, struct problem *why)
{
    const struct {
        const char *name;
        struct slice *to;
    } known[] = {
        {"content-type", &part->type},
        {"content-location", &part->location},
        {"content-id", &part->id},
        {"content-transfer-encoding", encoding},
    };
    struct slice value = line;
    struct slice name = slice_take(&value, ':');
    bool is_bad = name.size == line.size || !token_is(name);

    for (size_t i = 0; i < value.size; i++)
        is_bad |= slice_is_control(value.data[i]);
    if (is_bad)
        return refuse_part(m, STATUS_MALFORMED, why, "this is no header", line);
    value = slice_trimmed(value);
    for (size_t i = 0; i < N_ELEMENTS(known); i++) {
        if (!slice_is_word(name, known[i].name))
            continue;
        if (known[i].to->data)
            return refuse_part(m, STATUS_MALFORMED, why,
                               "this header is there twice", name);
        *known[i].to = value;
    }
    return STATUS_OK;
}

/* The empty line was there: the body begins behind it. */
static enum status
begin_part(struct multipart *m, struct problem *why)
{
    struct multipart_part part = {.number = m->number, .offset = m->offset};
    struct slice lines = {m->headers.data, m->headers.size - 2};
    struct slice encoding = nothing;
    enum status rc = STATUS_OK;

    while (!rc && lines.size > 0) {
        size_t size = line_size(lines);
        char *line = m->headers.data + (lines.data - m->headers.data);

        rc = read_header(m, (struct slice){line, unfold_line(line, size)},
                         &part, &encoding, why);
        slice_skip(&lines, size);
    }
    if (!rc && encoding.size > 0 && !slice_is_word(encoding, "binary") &&
        !slice_is_word(encoding, "8bit") && !slice_is_word(encoding, "7bit"))
        rc = refuse_part(
            m, STATUS_UNSUPPORTED, why,
            "Content-Transfer-Encoding is binary, 8bit or 7bit, not", encoding);
    if (rc)
        return rc;
    part.id = without_brackets(part.id);
    m->state = STATE_BODY;
    m->matched = m->unseen = 2;
    return m->sink.begin(&part, m->sink.user, why);
}

static enum status
read_headers(struct multipart *m, struct slice *bytes, struct problem *why)
{
    while (bytes->size > 0) {
        const char *end = memchr(bytes->data, '\n', bytes->size);
        size_t size = end ? (size_t)(end + 1 - bytes->data) : bytes->size;
        const struct buf *b = &m->headers;

        if (b->size + size > MULTIPART_HEADERS_MAX) {
            m->offset += MULTIPART_HEADERS_MAX - b->size;
            return refuse_part(m, STATUS_TOO_LARGE, why,
                               "its headers have more than 16384 bytes",
                               nothing);
        }
        buf_add(&m->headers, bytes->data, size);
        if (b->failed)
            return problem_memory(why);
        slice_skip(bytes, size);
        m->offset += size;
        if (!end)
            continue;
        if (b->size < 2 || b->data[b->size - 2] != '\r')
            return refuse_part(m, STATUS_MALFORMED, why,
                               "a line of its headers does not end with CR LF",
                               nothing);
        if (b->size == 2 ||
            (b->size >= 4 && !memcmp(b->data + b->size - 4, "\r\n", 2)))
            return begin_part(m, why);
    }
    return STATUS_OK;
}

/* Bodies */

static enum status
give_bytes(struct multipart *m, const char *data, size_t size,
           struct problem *why)
{
    if (m->number == 0 || size == 0)
        return STATUS_OK;
    return m->sink.add((struct slice){data, size}, m->sink.user, why);
}

/* A delimiter begins with CR, and has no other one: after a false begin, the
 * search begins anew at the current byte. */
static enum status
read_body(struct multipart *m, struct slice *bytes, struct problem *why)
{
    const char *from = bytes->data; /* first byte that was not given yet */
    const char *at = from;
    const char *end = from + bytes->size;
    size_t before = m->matched; /* seen before these bytes */
    enum status rc = STATUS_OK;

    while (at < end && m->matched < m->size) {
        if (*at == m->delimiter[m->matched]) {
            m->matched++;
            at++;
            continue;
        }
        if (before > 0) {
            /* Gives the body the beginning of a false delimiter. */
            rc = give_bytes(m, m->delimiter + m->unseen, before - m->unseen,
                            why);
            if (rc)
                return rc;
            before = 0;
        }
        m->unseen = m->matched = 0;
        at = memchr(at, '\r', (size_t)(end - at));
        if (!at)
            at = end;
    }
    /* Holds back the matched bytes. */
    if (before == 0)
        rc = give_bytes(m, from, (size_t)(at - from) - m->matched, why);
    bytes->data = at;
    bytes->size = (size_t)(end - at);
    m->offset += (uint64_t)(at - from);
    if (rc || m->matched < m->size)
        return rc;
    m->matched = m->unseen = 0;
    m->state = STATE_BEHIND;
    return m->number > 0 ? m->sink.end(m->sink.user, why) : STATUS_OK;
}

/* Reads the text around delimiters, byte by byte. */
static enum status
read_delimited(struct multipart *m, char c, struct problem *why)
{
    static const struct step {
        int from;
        char c; /* a space: also a tab */
        int to;
    } steps[] = {
        {STATE_BEHIND, '-', STATE_DASH},
        {STATE_BEHIND, ' ', STATE_PADDING},
        {STATE_BEHIND, '\r', STATE_BREAK},
        {STATE_DASH, '-', STATE_CLOSED},
        {STATE_PADDING, ' ', STATE_PADDING},
        {STATE_PADDING, '\r', STATE_BREAK},
        {STATE_BREAK, '\n', STATE_HEADERS},
        {STATE_CLOSED, ' ', STATE_CLOSED},
        {STATE_CLOSED, '\r', STATE_CLOSED_CR},
        {STATE_CLOSED_CR, '\n', STATE_EPILOGUE},
    };

    size_t i = 0;

    m->number += m->state == STATE_BEHIND && c != '-';
    while (i < N_ELEMENTS(steps) &&
           (steps[i].from != m->state || steps[i].c != (c == '\t' ? ' ' : c)))
        i++;
    if (i == N_ELEMENTS(steps))
        return refuse_part(
            m, STATUS_MALFORMED, why,
            "behind a boundary stands what does not end its line",
            (struct slice){&c, 1});
    m->state = steps[i].to;
    if (m->state == STATE_HEADERS)
        buf_clear(&m->headers);
    return STATUS_OK;
}

void
multipart_init(struct multipart *m, const struct multipart_type *type,
               const struct multipart_sink *sink)
{
    memset(m, 0, sizeof(*m));
    m->sink = *sink;
    m->state = STATE_BODY;
    m->size = (size_t)snprintf(m->delimiter, sizeof(m->delimiter), "\r\n--%s",
                               type->boundary);
    m->matched = m->unseen = 2;
    buf_init(&m->headers, MULTIPART_HEADERS_MAX);
}

void
multipart_fini(struct multipart *m)
{
    buf_fini(&m->headers);
}

enum status
multipart_feed(struct multipart *m, struct slice bytes, struct problem *why)
{
    enum status rc = STATUS_OK;

    while (!rc && bytes.size > 0) {
        if (m->state == STATE_BODY) {
            rc = read_body(m, &bytes, why);
        } else if (m->state == STATE_HEADERS) {
            rc = read_headers(m, &bytes, why);
        } else if (m->state == STATE_EPILOGUE) {
            m->offset += bytes.size;
            bytes.size = 0;
        } else {
            rc = read_delimited(m, *bytes.data, why);
            m->offset++;
            slice_skip(&bytes, 1);
        }
    }
    return rc;
}

enum status
multipart_end(struct multipart *m, struct problem *why)
{
    if (m->state != STATE_CLOSED && m->state != STATE_EPILOGUE)
        return refuse_part(m, STATUS_MALFORMED, why,
                           m->number > 0
                               ? "the body ends before its last delimiter"
                               : "there is no line with the delimiter",
                           (struct slice){m->delimiter + 2, m->size - 2});
    if (m->number == 0)
        return refuse_part(m, STATUS_MALFORMED, why, "the body has no part",
                           nothing);
    return STATUS_OK;
}
