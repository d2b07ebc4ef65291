#include "tests/unit/readers/messages.h"

struct buf text;

int
messages_configure(void **state)
{
    buf_init(&text, SIZE_MAX);
    return stage_configure(state);
}

int
messages_open(void **state)
{
    buf_init(&text, SIZE_MAX);
    return stage_open(state);
}

int
messages_close(void **state)
{
    buf_fini(&text);
    return stage_close(state);
}

struct set *
post_each(unsigned posts, unsigned each)
{
    struct set *set = NULL;

    for (unsigned i = 0; i < posts; i++)
        set = sets_post(&s, "demo", i * each, each);
    return set;
}

uint64_t
write_wish(const struct message_wish *wish)
{
    struct problem why = {""};
    uint64_t last = 0;

    buf_clear(&text);
    if (message_write(&text, wish, &last, &why))
        fail_msg("%s", why.text);
    return last;
}

uint64_t
write_part(struct set *set, enum message_form form, uint64_t after,
           uint64_t upto, size_t max_bytes, enum log_patience patience)
{
    return write_wish(&(struct message_wish){
        .set = set,
        .form = form,
        .after = after,
        .upto = upto,
        .max_bytes = max_bytes,
        .patience = patience,
    });
}

uint64_t
write_on(struct set *set, enum message_form form, uint64_t after,
         size_t max_bytes)
{
    return write_part(set, form, after, UINT64_MAX, max_bytes, LOG_DISK);
}

static enum status
try_wish(const struct message_wish *wish)
{
    uint64_t last;
    enum status rc;

    buf_clear(&text);
    rc = message_write(&text, wish, &last, NULL);
    if (rc)
        assert_int_equal(text.size, 0);
    return rc;
}

enum status
try_part(struct set *set, enum message_form form, uint64_t after, uint64_t upto,
         enum log_patience patience)
{
    return try_wish(&(struct message_wish){
        .set = set,
        .form = form,
        .after = after,
        .upto = upto,
        .max_bytes = MIB,
        .patience = patience,
    });
}

enum status
try_heartbeat(struct set *set, enum message_form form, uint64_t seq,
              enum log_patience patience)
{
    return try_wish(&(struct message_wish){
        .set = set,
        .form = form,
        .after = seq,
        .upto = UINT64_MAX,
        .patience = patience,
        .is_heartbeat = true,
    });
}

struct coverage
receive(enum message_form form, change_fn *on_change, void *user)
{
    const struct format *format =
        format_of(form == MESSAGE_XML ? SLICE("application/xml")
                                      : SLICE("application/json"));
    struct input_reader *reader =
        input_reader_new(format, INPUT_MESSAGE, SIZE_MAX, on_change, user);
    struct problem why = {""};
    struct coverage coverage;

    if (input_reader_feed(reader, buf_slice(&text), &why) ||
        input_reader_end(reader, &why))
        fail_msg("%s", why.text);
    coverage = reader->coverage;
    input_reader_free(reader);
    return coverage;
}

struct seqs {
    uint64_t n, last;
};

static enum status
on_next(const struct change *change, void *user, struct problem *why)
{
    struct seqs *seqs = user;

    (void)why;
    if (seqs->n++ > 0)
        assert_int_equal(change->seq, seqs->last + 1);
    seqs->last = change->seq;
    return STATUS_OK;
}

struct coverage
receive_all(enum message_form form)
{
    struct seqs seqs = {0, 0};

    return receive(form, on_next, &seqs);
}

struct digest
digest_at(struct set *set, uint64_t seq)
{
    struct head head = sets_head(&s, set->name);
    struct digest d;
    struct batch *b;

    digest_sha256(&d, slice_of(head.epoch));
    if (seq == 0)
        return d;
    assert_int_equal(
        log_read(s.registry->log, set->log, seq - 1, LOG_DISK, &b, NULL),
        STATUS_OK);
    d = batch_digest(b, seq);
    batch_unref(b);
    return d;
}

void
assert_covers(struct set *set, enum message_form form, uint64_t after,
              uint64_t last)
{
    struct seqs seqs = {0, last};
    struct coverage coverage = receive(form, on_next, &seqs);
    struct digest d = digest_at(set, last);

    assert_int_equal(seqs.n, last - after);
    assert_int_equal(seqs.last, last);
    assert_int_equal(coverage.after, after);
    assert_int_equal(coverage.last, last);
    assert_string_equal(coverage.epoch, sets_head(&s, set->name).epoch);
    assert_true(coverage.has_digest);
    assert_memory_equal(coverage.digest.bytes, d.bytes, DIGEST_SIZE);
}
