/*
 * input_formats.h - the input formats: media type -> reader.
 *
 * A reader is fed bytes as they arrive and hands over one checked change after
 * the other; it never holds more than one entry. It may be used again after
 * input_reader_reset, which keeps the parser's memory (measured: a new libxml2
 * context costs 0.4 us per document). One thread at a time.
 *
 *     input_reader_new -> input_reader_feed ... input_reader_end
 *                           ^                        |
 *                           +-- input_reader_reset <-+
 */
#pragma once

#include "proto/http/idempotency_key.h"
#include "proto/resourcesync/entry_builder.h"

struct format;

/* The format of a Content-Type, parameters ignored except that a charset other
 * than UTF-8 is refused (NULL). application/xml, text/xml; application/json;
 * application/x-ndjson and its other names, application/ndjson and
 * application/jsonl; CloudEvents in JSON, alone or a batch. NULL: none here
 * reads it. */
const struct format *format_of(struct slice content_type);

/* What a 415 answer offers: one media type of each format, commas between. */
extern const char formats_offered[];

/* Entries of one document, at most: of a Sitemap, R-026; the others are no
 * documents of ResourceSync, and only their bytes are limited. */
size_t format_entries_max(const struct format *format);

/* Says so, and what to send instead. `what`: "changes". STATUS_UNSUPPORTED. */
enum status format_refuse(const char *what, struct slice content_type,
                          struct problem *why);

/* What a reader is for. */
enum input_use {
    INPUT_POST,     /* a source's post: strict, td:* but tags dropped */
    INPUT_MESSAGE,  /* a message or document of a broker: td:* is read, and
                        heartbeats without entries are fine */
    INPUT_RESOURCES /* a source's resources as they are: a Resource List, or a
                        Sitemap without anything of ResourceSync, an array of
                        JSON, or lines of NDJSON. Entries have no change (they
                       are handed over as created); a datetime is read as a
                       lastmod; there may be none. Of td:* only tags */
};

/* A CloudEvent has come whose changes are handed over next. `key` is a digest
 * of its source and id, which no other event has. */
typedef enum status input_event_fn(const struct digest *key, void *user,
                                   struct problem *why);

/* A fault of an entry: why->entry and why->line name the place. */
typedef void input_fault_fn(const struct problem *why, void *user);

/* What the reader takes beyond its format. All zero: no more. */
struct input_options {
    /* A document of changes may have any capability: deployments differ in what
     * they call a notification (W-144). */
    bool takes_any_capability;

    /* Of a INPUT_POST: the document may also be a message of a broker. Its
     * header is read (input_reader_coverage) and must come before its entries;
     * members of a JSON message that nobody knows are passed over, heartbeats
     * without entries are fine, and its capability may be called anything.
     * Entries are read as those of a post: seqs and times of another log are
     * dropped. And it may have a name: input_reader_id. */
    bool takes_message;

    /* Of JSON: skips members that the reader does not know, with their values,
     * instead of refusing them. */
    bool ignores_unknown;

    /* Called, if set, for each entry that is refused (STATUS_INVALID): the
     * reader goes on behind that entry; in NDJSON behind the line, also if the
     * line is no JSON. A fault elsewhere ends the reading. */
    input_fault_fn *on_fault;
    void *fault_user;

    /* Called, if set, for each event. */
    input_event_fn *on_event;
    void *event_user;
};

/* A reader, and what the document has said so far. Others than readers look at
 * the commented fields alone. */
struct input_reader {
    const struct format *format;
    void *state; /* of the parser */
    enum input_use use;
    size_t max_entries;
    change_fn *on_change;
    void *user;

    /* To be set before the first byte of a document: input_reader_reset clears
     * them. */
    struct input_options options;

    enum status rc;     /* the first failure; the reader stops there */
    uint64_t n_entries; /* handed over */
    bool is_in_entry;
    int capability; /* of the XML document's root; -1 before it is known */

    /* Which part of the log the document stands for, as far as its header says:
     * complete after input_reader_end; in XML, and in JSON that we wrote, from
     * the first change on. */
    struct coverage coverage;

    /* What the document calls itself: the member "id" at the top of a message,
     * or of a document that is a single change, in JSON; a string or number
     * that is a valid key (idempotency_key.h). Of a reader that takes messages,
     * complete after input_reader_end; size 0: it has none. */
    struct key id;

    struct entry entry;
};

/* At most `max_entries` changes go to `on_change`. NULL: no memory. */
struct input_reader *input_reader_new(const struct format *format,
                                      enum input_use use, size_t max_entries,
                                      change_fn *on_change, void *user);
void input_reader_free(struct input_reader *reader); /* NULL is allowed */

/* Begins the next document; also changes whom the changes are handed to. */
void input_reader_reset(struct input_reader *reader, change_fn *on_change,
                        void *user);

/* STATUS_MALFORMED, STATUS_INVALID, STATUS_TOO_LARGE (more than max_entries) or
 * what on_change returned; `why` then names entry and line where known. After
 * an error only input_reader_reset and input_reader_free are allowed. */
MUST_CHECK enum status input_reader_feed(struct input_reader *reader,
                                         struct slice bytes,
                                         struct problem *why);
MUST_CHECK enum status input_reader_end(struct input_reader *reader,
                                        struct problem *why);
