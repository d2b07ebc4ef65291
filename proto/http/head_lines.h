/*
 * head_lines.h - the lines of a head of HTTP/1.1, read strictly: what requests
 * (request_head.h) and answers (response_head.h) have in common.
 *
 *     Name: value CR LF
 *
 * A line ends with CR LF. It is not folded, has no control character but the
 * tab, and no white space before its colon. The fields that say where the body
 * ends must not contradict each other (RFC 9112 section 6).
 *
 * Pure, any thread. Allocates nothing.
 */
#pragma once

#include "proto/problem.h"

#define HEAD_CRLF_SIZE 2

struct head_field {
    struct slice name;  /* a token, as sent */
    struct slice value; /* without white space around it; may be empty */
};

/* The place up to which a reader has seen a head that is not whole. All 0
 * before the first byte of a head. */
struct head_seen {
    uint16_t line;     /* offset of the first line without an end */
    uint16_t scanned;  /* offset at which the search for its end continues */
    uint16_t n_fields; /* field lines before that line, if the reader limits
                          them */
};

/* Finds the line at seen->line, and moves seen->scanned to its end. `bytes` are
 * all bytes since the beginning of the head, which has at most `head_max`, less
 * than 65,535. STATUS_AGAIN: the end has not arrived. STATUS_TOO_LARGE: the
 * line has more than `line_max` bytes, and seen->scanned is behind so many; or
 * the head is too long. STATUS_INVALID: a bad line end or a control character.
 */
MUST_CHECK enum status head_line_find(struct slice bytes,
                                      struct head_seen *seen, size_t line_max,
                                      size_t head_max, struct slice *line,
                                      struct problem *why);

/* Moves behind the line that was found. */
static inline void
head_line_pass(struct head_seen *seen)
{
    seen->scanned += HEAD_CRLF_SIZE;
    seen->line = seen->scanned;
}

/* Reads "Name: value", a line that is not empty. STATUS_INVALID. */
MUST_CHECK enum status head_field_read(struct head_field *field,
                                       struct slice line, struct problem *why);

/* Takes the next element off the front of a list, without white space. */
static inline bool
head_list_take(struct slice *list, struct slice *element)
{
    if (list->size == 0)
        return false;
    *element = slice_trimmed(slice_take(list, ','));
    return true;
}

/* The fields that concern the connection and the body, over all lines of their
 * names. All 0 before the first one. */
struct head_framing {
    unsigned n_lengths; /* Content-Length */
    struct slice length;
    bool is_close, is_keep_alive, is_upgrade; /* Connection */
    unsigned n_codings, n_chunked;            /* Transfer-Encoding */
    bool is_last_chunked, has_bad_coding;
};

/* Notes a field if it is one of these. */
void head_framing_note(struct head_framing *framing,
                       const struct head_field *field);

/* The body (RFC 9112 section 6.3): chunked, or `length` bytes. */
struct head_body {
    bool is_chunked;
    bool has_length;
    uint64_t length; /* at most INT64_MAX; 0 if not has_length */
};

/* Works out the body of a message of HTTP/1.`minor`. STATUS_INVALID: the fields
 * contradict each other. STATUS_UNSUPPORTED: another coding than chunked. */
MUST_CHECK enum status head_framing_judge(const struct head_framing *framing,
                                          unsigned minor,
                                          struct head_body *body,
                                          struct problem *why);

/* True if the connection stays open for another message (RFC 9112
 * section 9.3). */
static inline bool
head_framing_keeps(const struct head_framing *framing, unsigned minor)
{
    return !framing->is_close && (minor == 1 || framing->is_keep_alive);
}
