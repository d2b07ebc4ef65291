/*
 * ndjson_read.c - reads NDJSON: one JSON entry a line.
 *
 *   {"loc":"http://example.com/a","change":"created"}
 *   {"loc":"http://example.com/b","change":"updated","length":3}
 *
 * Each line is a JSON post of one entry (json.h). Skips lines of white
 * space; a last line needs no line feed; CR LF ends a line as well. For posts
 * only: messages never have this form.
 *
 * No line is kept: its bytes go to the JSON reader as they come.
 */
#include <stdlib.h>

#include "proto/memory.h"
#include "proto/resourcesync/input_reader.h"
#include "proto/resourcesync/json_scan.h"
#include "proto/utf8.h"

struct ndjson {
    struct input_reader *reader;
    void *json;    /* json_parser's: reads the line as a document of its own */
    unsigned bom;  /* bytes of it that were there: utf8.h */
    uint64_t line; /* that it stands in */
    bool is_in_line; /* something but white space of the line was there */
    bool is_faulty;  /* the rest of the line is skipped */
    bool is_scanning;
    struct json_scan scan; /* reads most lines; `json` reads the others */
};

/* The line's first byte that says something: a JSON document may be an array as
 * well, but a line is an entry. */
static enum status
begin_line(struct ndjson *n, char first, struct problem *why)
{
    if (n->reader->use == INPUT_MESSAGE)
        return problem(why, STATUS_UNSUPPORTED, "no message is NDJSON");
    if (first != '{')
        return problem(why, STATUS_MALFORMED,
                       "not NDJSON: the line does not begin with \"{\"");
    n->is_in_line = true;
    return json_parser.reset(n->json);
}

static enum status
feed_line(struct ndjson *n, struct slice bytes, struct problem *why)
{
    if (!n->is_in_line) {
        enum status rc;

        while (bytes.size > 0 && slice_is_space(bytes.data[0]))
            slice_skip(&bytes, 1);
        if (bytes.size == 0)
            return STATUS_OK;
        rc = begin_line(n, bytes.data[0], why);
        if (rc)
            return rc;
    }
    return json_parser.feed(n->json, bytes, why);
}

static enum status
end_line(struct ndjson *n, struct problem *why)
{
    if (!n->is_in_line)
        return STATUS_OK;
    if (n->reader->is_in_entry)
        return problem(why, STATUS_MALFORMED,
                       "not NDJSON: the line ends within its entry");
    n->is_in_line = false;
    return json_parser.end(n->json, why);
}

/* Reports a fault of the line, and skips the rest of it. False: nobody wants
 * faults. */
static bool
skip_line(struct ndjson *n, enum status rc, struct problem *why)
{
    if (!n->reader->on_fault)
        return false;
    if (rc == STATUS_MALFORMED)
        rc = STATUS_INVALID;       /* the next line is a document of its own */
    n->reader->is_in_entry = true; /* a line is an entry */
    return input_reader_skip_entry(n->reader, rc, why);
}

static void
ndjson_close(void *state)
{
    struct ndjson *n = state;

    if (n->json)
        json_parser.close(n->json);
    free(n);
}

static void
begin_ndjson(struct ndjson *n)
{
    n->bom = 0;
    n->line = 1;
    n->is_in_line = false;
    n->is_faulty = false;
    n->is_scanning = scanning_is_on() && n->reader->use != INPUT_MESSAGE;
    n->scan.held.n = 0;
}

static void *
ndjson_open(struct input_reader *reader)
{
    struct ndjson *n = memory_new(1, sizeof(*n));

    if (!n)
        return NULL;
    n->reader = reader;
    begin_ndjson(n);
    n->json = json_parser.open(reader);
    if (!n->json) {
        ndjson_close(n);
        return NULL;
    }
    json_read_entries(n->json);
    return n;
}

/* The JSON reader is made ready when a line begins. */
static enum status
ndjson_reset(void *state)
{
    begin_ndjson(state);
    return STATUS_OK;
}

/* Reads the line, or the rest of one, that `bytes` begin with. */
static enum status
read_line(struct ndjson *n, struct slice *bytes, struct problem *why)
{
    const char *end = memchr(bytes->data, '\n', bytes->size);
    struct slice part = {bytes->data,
                         end ? (size_t)(end - bytes->data) : bytes->size};
    uint64_t n_faults = n->reader->n_faults;
    enum status rc = n->is_faulty ? STATUS_OK : feed_line(n, part, why);

    if (!rc && end && n->reader->n_faults == n_faults)
        rc = end_line(n, why);
    if (rc && (rc == STATUS_MEMORY || n->reader->n_faults == n_faults) &&
        !skip_line(n, rc, why))
        return rc;
    if (n->reader->n_faults > n_faults) { /* one fault a line */
        n->is_faulty = true;
        n->is_in_line = false;
    }
    if (end)
        n->is_faulty = false;
    n->line += end != NULL;
    slice_skip(bytes, part.size + (end != NULL));
    return STATUS_OK;
}

/* Reads an object that is a line, and all white space behind it. */
static enum token
scan_line(struct ndjson *n, struct json_reading *r)
{
    enum token token = json_scan_change(&n->scan, r, &n->reader->entry);

    if (r->n_lines > 0)
        return TOKEN_UNKNOWN;
    if (token)
        return token;
    json_scan_spaces(r);
    if (r->n_lines > 0)
        return TOKEN_TAKEN;
    return r->at == r->end ? TOKEN_CUT : TOKEN_UNKNOWN;
}

/* Takes a line off `*bytes`, or holds its beginning. */
static enum status
scan_next(struct ndjson *n, struct slice *bytes, struct problem *why)
{
    struct slice held = {n->scan.held.bytes, n->scan.held.n};
    struct slice input = scanning_input(&n->scan.held, *bytes);
    struct json_reading r = {input.data, input.data + input.size, 0};
    enum token token = scan_line(n, &r);
    enum status rc;

    if (token == TOKEN_CUT && scanning_hold(&n->scan.held, bytes))
        return STATUS_OK;
    if (token || !input_reader_is_good(n->reader)) {
        n->scan.held.n = 0;
        return read_line(n, held.size > 0 ? &held : bytes, why);
    }
    scanning_take(&n->scan.held, bytes, (size_t)(r.at - input.data));
    rc = input_reader_hand_over(n->reader, why);
    if (rc && !skip_line(n, rc, why))
        return rc;
    n->line += r.n_lines;
    return STATUS_OK;
}

static enum status
ndjson_feed(void *state, struct slice bytes, struct problem *why)
{
    struct ndjson *n = state;
    enum status rc = STATUS_OK;

    if (!bom_skip(&n->bom, &bytes))
        return problem(why, STATUS_MALFORMED,
                       "not NDJSON: it begins with half a byte order mark");
    while (!rc && bytes.size > 0)
        rc = n->is_scanning && !n->is_in_line && !n->is_faulty &&
                     (n->scan.held.n > 0 || bytes.data[0] == '{')
                 ? scan_next(n, &bytes, why)
                 : read_line(n, &bytes, why);
    return rc;
}

static enum status
ndjson_finish(void *state, struct problem *why)
{
    struct ndjson *n = state;
    struct slice held = {n->scan.held.bytes, n->scan.held.n};
    enum status rc = held.size > 0 ? read_line(n, &held, why) : STATUS_OK;

    if (!rc)
        rc = end_line(n, why);
    return rc && skip_line(n, rc, why) ? STATUS_OK : rc;
}

static uint64_t
ndjson_line(const void *state)
{
    const struct ndjson *n = state;

    return n->line;
}

static size_t
ndjson_held(const void *state)
{
    const struct ndjson *n = state;

    if (n->scan.held.n > 0)
        return n->scan.held.n;
    return n->is_in_line ? json_parser.held(n->json) : 0;
}

const struct parser ndjson_parser = {
    .open = ndjson_open,
    .close = ndjson_close,
    .reset = ndjson_reset,
    .feed = ndjson_feed,
    .end = ndjson_finish,
    .line = ndjson_line,
    .held = ndjson_held,
};
