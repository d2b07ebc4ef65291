/*
 * resume_text.h - one text with the positions of all sets of a stream.
 *
 *     base64url( version | log | made | newest | n
 *                | n times: number less the one before | seq | mark
 *                | CRC-32 )
 *
 * All numbers are LEB128; `log` is the epoch of the log of framework events, so
 * a text of another broker is refused. A set is named by its number
 * (log_set_number): some five bytes, where name and position take fifty. A
 * number may be given again when nothing is left of its set, so there is a
 * mark, a byte of its epoch, too, and a set that began after the text was made
 * is another one.
 *
 * Why no change is lost. The text has for each set a position, not a time:
 * entries of a set are numbered without gaps, so the position says exactly what
 * was sent. (A time would not. Entries may carry a time of their source: the
 * log may accept an entry after a text was made, with an earlier time.)
 * The text is made between two messages from the positions of the readers,
 * which move only when a message was written to its last byte, and it is
 * written behind these messages: a client that has the text has them all. The
 * search for a time (`since`) delays the text until the set has a position. For
 * a set that is not in the text the
 * client gets "gone", and no start of the broker's choice, unless it is new to
 * a pattern: `newest` says so. All sets with numbers up to `newest` had been
 * offered to the patterns when the text was made.
 *
 * Bounded: RESUME_TEXT_MAX, 1,000 sets with millions of entries. A stream of
 * more sets gets no text; its client keeps positions.
 */
#pragma once

#include "proto/buf.h"
#include "proto/problem.h"

/* It stands in one field of a request, which has at most 8,192 bytes. */
#define RESUME_TEXT_MAX 7168

struct resume_entry {
    uint64_t number; /* of the set */
    uint64_t seq;    /* all entries up to this one were sent, or did not pass
                        the filter */
    uint8_t mark;    /* resume_mark */
};

struct resume_text {
    int64_t made_us;              /* wall clock */
    uint64_t newest;              /* sets with larger numbers are new */
    struct resume_entry *entries; /* as read or written: by their numbers */
    size_t n;
};

/* A byte of an epoch. */
uint8_t resume_mark(const char *epoch);

/* Sorts the entries, and appends the text, of at most RESUME_TEXT_MAX bytes;
 * `log`: the epoch of the framework log. False: it would be longer; then
 * nothing was appended. */
MUST_CHECK bool resume_text_write(struct buf *to, const char *log,
                                  const struct resume_text *text);

/* Reads a text; the caller frees `text->entries` after any status.
 * STATUS_INVALID: damaged, or of another broker. */
MUST_CHECK enum status resume_text_read(struct resume_text *text,
                                        const char *log, struct slice from,
                                        struct problem *why);

/* The entry of a set; NULL: there is none. */
const struct resume_entry *resume_text_find(const struct resume_text *text,
                                            uint64_t number);
