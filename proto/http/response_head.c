#include "proto/http/response_head.h"

#include "proto/ascii.h"
#include "proto/number.h"

/* "HTTP/1.1 200", and what must follow: a space and the reason, or nothing. */
#define STATUS_LINE_MIN 12

static enum status
read_status_line(struct response_head *h, struct slice line,
                 struct problem *why)
{
    uint64_t status = 0;

    if (line.size < STATUS_LINE_MIN || !ascii_is_digit(line.data[7]) ||
        line.data[8] != ' ' || line.data[9] == '0' ||
        !number_read((struct slice){line.data + 9, 3}, &status) ||
        (line.size > STATUS_LINE_MIN && line.data[STATUS_LINE_MIN] != ' '))
        return problem_quoting(why, STATUS_INVALID,
                               "an answer without a status", line);
    h->minor = line.data[7] > '0';
    h->status = (unsigned)status;
    return STATUS_OK;
}

/* Reads the lines from seen->line on, up to the empty line, and checks each. */
static enum status
read_lines(struct response_head *h, struct slice bytes, struct head_seen *seen,
           struct problem *why)
{
    for (;;) {
        bool is_first = seen->line == 0;
        struct slice line = {NULL, 0};
        struct head_field field;
        enum status rc = head_line_find(bytes, seen, RESPONSE_HEAD_MAX,
                                        RESPONSE_HEAD_MAX, &line, why);

        if (rc)
            return rc;
        if (!is_first && line.size == 0) {
            h->size = (size_t)seen->scanned + HEAD_CRLF_SIZE;
            return STATUS_OK;
        }
        rc = is_first ? read_status_line(h, line, why)
                      : head_field_read(&field, line, why);
        if (rc)
            return rc;
        head_line_pass(seen);
    }
}

enum status
response_head_read(struct response_head *h, struct slice bytes,
                   struct head_seen *seen, struct problem *why)
{
    struct slice begin = SLICE("HTTP/1."), fields, line;
    struct head_framing framing = {.n_lengths = 0};
    struct head_field field;
    enum status rc;

    if (bytes.size < begin.size)
        begin.size = bytes.size;
    if (bytes.size > 0 && memcmp(bytes.data, begin.data, begin.size) != 0)
        return problem(why, STATUS_UNSUPPORTED, "the answer is not of HTTP/1");
    rc = read_lines(h, bytes, seen, why);
    if (rc == STATUS_TOO_LARGE)
        problem_set(why, "the head has more than 32,768 bytes");
    if (rc)
        return rc;

    /* Reads the lines, which were checked, again: it was perhaps in pieces. */
    fields = (struct slice){bytes.data, h->size - HEAD_CRLF_SIZE};
    line = slice_take(&fields, '\r');
    slice_skip(&fields, 1);
    h->fields = fields;
    rc = read_status_line(h, line, why);
    if (rc)
        return rc;
    while (response_head_next(&fields, &field))
        head_framing_note(&framing, &field);
    h->is_kept = head_framing_keeps(&framing, h->minor);
    rc = head_framing_judge(&framing, h->minor, &h->body, why);
    if (!rc)
        *seen = (struct head_seen){0};
    return rc == STATUS_UNSUPPORTED ? STATUS_INVALID : rc;
}

bool
response_head_next(struct slice *fields, struct head_field *field)
{
    struct slice line = slice_take(fields, '\r');

    return slice_take_char(fields, '\n') && !head_field_read(field, line, NULL);
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

    for (size_t i = 0; i < N_ELEMENTS(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}
