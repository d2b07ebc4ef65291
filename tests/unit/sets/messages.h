/*
 * messages.h - for tests of messages: written, and read as a receiver would.
 */
#ifndef TESTS_UNIT_SETS_MESSAGES_H
#define TESTS_UNIT_SETS_MESSAGES_H

#include <string.h>

#include "broker/sets/message.h"
#include "proto/formats.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define MIB ((size_t)1 << 20)

static const enum message_form forms[] = {MESSAGE_XML, MESSAGE_JSON};

static inline enum status
write_message(struct buf *to, struct set *set, enum message_form form,
              uint64_t after, uint64_t upto, size_t max_bytes,
              enum log_patience patience, uint64_t *last)
{
    const struct message_wish wish = {
        .set = set,
        .form = form,
        .after = after,
        .upto = upto,
        .max_bytes = max_bytes,
        .patience = patience,
    };

    buf_clear(to);
    return message_write(to, &wish, last, NULL);
}

static inline enum status
write_heartbeat(struct buf *to, struct set *set, enum message_form form,
                uint64_t seq, enum log_patience patience)
{
    const struct message_wish wish = {
        .set = set, .form = form, .after = seq, .patience = patience};

    return message_heartbeat(to, &wish, NULL);
}

/* The whole of what follows `after`. */
static inline uint64_t
write_on(struct buf *to, struct set *set, enum message_form form,
         uint64_t after, size_t max_bytes)
{
    uint64_t last = 0;

    assert_int_equal(write_message(to, set, form, after, UINT64_MAX, max_bytes,
                                   LOG_DISK, &last),
                     STATUS_OK);
    return last;
}

/* What a receiver makes of a message. */
struct received {
    struct coverage coverage;
    uint64_t seqs; /* of its changes, which must be consecutive */
    uint64_t n;
    bool is_wrong;
};

static inline enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    struct received *r = user;

    (void)why;
    r->is_wrong |= r->n > 0 && change->seq != r->seqs + 1;
    r->seqs = change->seq;
    r->n++;
    return STATUS_OK;
}

static inline struct received
receive(const struct buf *message, enum message_form form)
{
    const struct format *format =
        format_of(form == MESSAGE_XML ? SLICE("application/xml")
                                      : SLICE("application/json"));
    struct received r = {.n = 0};
    struct problem why = {""};
    struct reader *reader =
        reader_new(format, READER_MESSAGE, SIZE_MAX, on_change, &r);

    if (reader_feed(reader, buf_slice(message), &why) ||
        reader_end(reader, &why))
        fail_msg("%s", why.text);
    r.coverage = *reader_coverage(reader);
    reader_free(reader);
    assert_false(r.is_wrong);
    return r;
}

/* d(seq), from the beginning. */
static inline struct digest
digest_at(struct sets *s, struct set *set, uint64_t seq)
{
    struct head head = sets_head(s, set->name);
    struct digest d;
    struct batch *b;

    digest_start(&d, slice_of(head.epoch));
    if (seq == 0)
        return d;
    assert_int_equal(log_read(registry_log(s->registry), set->log, seq - 1,
                              LOG_DISK, &b, NULL),
                     STATUS_OK);
    d = batch_digest(b, seq);
    batch_unref(b);
    return d;
}

static inline void
assert_covers(struct sets *s, struct set *set, const struct buf *message,
              enum message_form form, uint64_t after, uint64_t last)
{
    struct received r = receive(message, form);
    struct head head = sets_head(s, set->name);
    struct digest d = digest_at(s, set, last);

    assert_int_equal(r.n, last - after);
    if (r.n > 0)
        assert_int_equal(r.seqs, last);
    assert_int_equal(r.coverage.after, after);
    assert_int_equal(r.coverage.last, last);
    assert_string_equal(r.coverage.epoch, head.epoch);
    assert_true(r.coverage.has_digest);
    assert_memory_equal(r.coverage.digest.bytes, d.bytes, DIGEST_SIZE);
}

static inline struct set *
open_in(struct sets *s, void **state, unsigned posts, unsigned each)
{
    struct set *set = NULL;

    sets_configure(s, tempdir_path(state));
    sets_open(s);
    for (unsigned i = 0; i < posts; i++)
        set = sets_post(s, "demo", i * each, each);
    return set;
}

#endif
