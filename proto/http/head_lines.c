#include "proto/http/head_lines.h"

#include "proto/number.h"
#include "proto/swar.h"
#include "proto/token.h"

/* Returns where the first control character at or behind `at` is, the tab not
 * counted, or `stop`. */
static size_t
find_control(const char *data, size_t at, size_t stop)
{
    while (at + 8 <= stop) {
        uint64_t v = swar_load(data + at);
        uint64_t found = swar_below(v, 0x20) | swar_equal(v, 0x7f);

        at += found ? swar_first(found) : 8;
        if (found && slice_is_control(data[at]))
            return at;
        at += found != 0; /* a tab */
    }
    while (at < stop && !slice_is_control(data[at]))
        at++;
    return at;
}

enum status
head_line_find(struct slice bytes, struct head_seen *seen, size_t line_max,
               size_t head_max, struct slice *line, struct problem *why)
{
    size_t most = (size_t)seen->line + line_max + 1;
    size_t limit = most < head_max ? most : head_max;
    size_t stop = bytes.size < limit ? bytes.size : limit;
    size_t at = find_control(bytes.data, seen->scanned, stop);

    seen->scanned = (uint16_t)at;
    if (at == most || at == head_max)
        return STATUS_TOO_LARGE;
    if (at == bytes.size)
        return STATUS_AGAIN;
    if (bytes.data[at] == '\n')
        return problem(why, STATUS_INVALID,
                       "a line feed without a carriage return");
    if (bytes.data[at] != '\r')
        return problem(why, STATUS_INVALID, "a control character in the head");
    if (at + 1 == head_max)
        return STATUS_TOO_LARGE;
    if (at + 1 == bytes.size)
        return STATUS_AGAIN;
    if (bytes.data[at + 1] != '\n')
        return problem(why, STATUS_INVALID,
                       "a carriage return without a line feed");
    *line = (struct slice){bytes.data + seen->line, at - seen->line};
    return STATUS_OK;
}

/* Fields */

/* The value has no control character: head_line_find. */
enum status
head_field_read(struct head_field *field, struct slice line,
                struct problem *why)
{
    size_t size = token_size(line);

    if (slice_is_blank(line.data[0]))
        return problem(why, STATUS_INVALID, "a folded field line");
    if (size > 0 && size < line.size && slice_is_blank(line.data[size]))
        return problem_quoting(why, STATUS_INVALID,
                               "white space behind the name of a field",
                               slice_take(&line, ':'));
    if (size == 0 || size == line.size || line.data[size] != ':')
        return problem_quoting(why, STATUS_INVALID,
                               "a field line without a name and a colon",
                               slice_take(&line, ':'));
    field->name = (struct slice){line.data, size};
    slice_skip(&line, size + 1);
    field->value = slice_trimmed(line);
    return STATUS_OK;
}

/* Unlike in other lists an empty element is an error: two readers may
 * understand "chunked," differently. So are parameters of chunked (RFC 9112
 * section 7.1). */
static void
note_codings(struct head_framing *f, struct slice list)
{
    struct slice coding;

    if (list.size == 0 || list.data[list.size - 1] == ',') {
        f->n_codings++;
        f->has_bad_coding = true;
    }
    while (head_list_take(&list, &coding)) {
        struct slice name = slice_trimmed(slice_take(&coding, ';'));
        bool has_parameters = name.data + name.size != coding.data;

        f->n_codings++;
        f->is_last_chunked = slice_is_word(name, "chunked");
        f->n_chunked += f->is_last_chunked;
        f->has_bad_coding |=
            !token_is(name) || (f->is_last_chunked && has_parameters);
    }
}

/* Compares sizes first: nearly all other names differ in them. */
void
head_framing_note(struct head_framing *f, const struct head_field *field)
{
    struct slice list = field->value, word;

    switch (field->name.size) {
    case sizeof("Connection") - 1:
        if (!slice_is_word(field->name, "Connection"))
            break;
        while (head_list_take(&list, &word)) {
            f->is_close |= slice_is_word(word, "close");
            f->is_keep_alive |= slice_is_word(word, "keep-alive");
            f->is_upgrade |= slice_is_word(word, "upgrade");
        }
        break;
    case sizeof("Content-Length") - 1:
        if (slice_is_word(field->name, "Content-Length")) {
            f->n_lengths++;
            f->length = field->value;
        }
        break;
    case sizeof("Transfer-Encoding") - 1:
        if (slice_is_word(field->name, "Transfer-Encoding"))
            note_codings(f, field->value);
        break;
    default:
        break;
    }
}

enum status
head_framing_judge(const struct head_framing *f, unsigned minor,
                   struct head_body *body, struct problem *why)
{
    *body = (struct head_body){false, false, 0};
    if (f->n_codings > 0) {
        if (f->n_lengths > 0)
            return problem(why, STATUS_INVALID,
                           "Transfer-Encoding beside Content-Length");
        if (minor == 0)
            return problem(why, STATUS_INVALID,
                           "Transfer-Encoding in HTTP/1.0");
        if (f->has_bad_coding || !f->is_last_chunked || f->n_chunked > 1)
            return problem(why, STATUS_INVALID,
                           "Transfer-Encoding does not end with one chunked");
        if (f->n_codings > 1)
            return problem(why, STATUS_UNSUPPORTED,
                           "a transfer coding other than chunked");
        body->is_chunked = true;
    }
    if (f->n_lengths > 1)
        return problem(why, STATUS_INVALID, "two Content-Length fields");
    if (f->n_lengths == 1) {
        body->has_length = true;
        if (!number_read(f->length, &body->length) || body->length > INT64_MAX)
            return problem_quoting(why, STATUS_INVALID,
                                   "Content-Length is not one plain number",
                                   f->length);
    }
    return STATUS_OK;
}
