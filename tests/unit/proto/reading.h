/*
 * reading.h - for tests of the readers: bytes in, every change as text out.
 */
#ifndef TESTS_UNIT_PROTO_READING_H
#define TESTS_UNIT_PROTO_READING_H

#include <stdio.h>
#include <stdlib.h>

#include "proto/buf.h"
#include "proto/input/input_formats.h"
#include "tests/support/describe.h"
#include "tests/support/examples.h"
#include "tests/test.h"

#define XML    "application/xml"
#define JSON   "application/json"
#define NDJSON "application/x-ndjson"

#define XML_HEAD                                                  \
    "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS             \
    "' xmlns:td='" NS_TIDINGS "' xmlns:x='http://example.org/x'>" \
    "<rs:md capability='changelist'/>"

/* The contents of a document. */
struct reading {
    enum status rc;
    struct problem why;
    size_t n;        /* changes */
    struct buf text; /* all of them, described */
    struct coverage coverage;
    int capability;
};

static inline enum status
describe_each(const struct change *change, void *user, struct problem *why)
{
    struct reading *reading = user;

    (void)why;
    reading->n++;
    describe(&reading->text, change);
    return STATUS_OK;
}

/* Feeds `step` bytes at a time, each from memory of its own, so that a look
 * beyond it is found by the address sanitizer. */
static inline void
feed_in_steps(struct input_reader *reader, struct reading *reading,
              struct slice bytes, size_t step)
{
    for (size_t at = 0; at < bytes.size && !reading->rc; at += step) {
        size_t size = bytes.size - at < step ? bytes.size - at : step;
        char *copy = malloc(size);

        assert_non_null(copy);
        memcpy(copy, bytes.data + at, size);
        reading->rc = input_reader_feed(reader, (struct slice){copy, size},
                                        &reading->why);
        free(copy);
    }
    if (!reading->rc)
        reading->rc = input_reader_end(reader, &reading->why);
}

static inline struct reading
read_steps(const char *type, enum input_use use, struct slice bytes,
           size_t step)
{
    struct reading reading = {.rc = STATUS_OK};
    const struct format *format = format_of(slice_of(type));
    struct input_reader *reader;

    assert_non_null(format);
    buf_init(&reading.text, 1 << 26);
    reader = input_reader_new(format, use, 50000, describe_each, &reading);
    assert_non_null(reader);
    feed_in_steps(reader, &reading, bytes, step);
    reading.coverage = reader->coverage;
    reading.capability = reader->capability;
    input_reader_free(reader);
    buf_add(&reading.text, "", 1); /* terminated */
    assert_false(reading.text.failed);
    return reading;
}

static inline struct reading
read_all(const char *type, struct slice bytes)
{
    return read_steps(type, INPUT_POST, bytes, bytes.size);
}

static inline void
reading_fini(struct reading *reading)
{
    buf_fini(&reading->text);
}

/* Asserts that the document is refused with this status and, if `text` is not
 * NULL, this sentence; returns the place. */
static inline struct problem
assert_refused(const char *type, const char *document, enum status rc,
               const char *text)
{
    struct reading reading = read_all(type, slice_of(document));

    if (reading.rc != rc || !reading.why.text[0] ||
        (text && strcmp(reading.why.text, text) != 0))
        fail_msg("%s: %d, %s", document, (int)reading.rc, reading.why.text);
    reading_fini(&reading);
    return reading.why;
}

/* Asserts that the document is accepted, in pieces of 1 to `most` bytes, and
 * reads as `text`. */
static inline void
assert_reads_in_pieces(const char *type, const char *document, size_t most,
                       const char *text)
{
    for (size_t step = 1; step <= most; step++) {
        struct reading reading =
            read_steps(type, INPUT_POST, slice_of(document), step);

        if (reading.rc || reading.why.text[0] ||
            strcmp(reading.text.data, text) != 0)
            fail_msg("%s in pieces of %zu: %d, %s%s", document, step,
                     (int)reading.rc, reading.why.text, reading.text.data);
        reading_fini(&reading);
    }
}

/* The same in one piece. */
static inline void
assert_reads(const char *type, const char *document, const char *text)
{
    struct reading reading = read_all(type, slice_of(document));

    assert_string_equal(reading.why.text, "");
    assert_int_equal(reading.rc, STATUS_OK);
    assert_string_equal(reading.text.data, text);
    reading_fini(&reading);
}

#endif
