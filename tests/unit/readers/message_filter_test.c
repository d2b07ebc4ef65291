#include <stdio.h>
#include <stdlib.h>

#include "broker/readers/selection.h"
#include "tests/test.h"
#include "tests/unit/readers/messages.h"

/* Posts entries `from` to `to` in posts of `each`; every third has the tag
 * "a", every fifth "b". */
static struct set *
post_tagged(unsigned from, unsigned to, unsigned each, size_t weight)
{
    char *padding = calloc(1, weight + 1);
    struct buf body;

    memset(padding, 'x', weight);
    buf_init(&body, SIZE_MAX);
    while (from <= to) {
        buf_clear(&body);
        for (unsigned i = 0; i < each && from <= to; i++, from++) {
            buf_add_format(&body,
                           "%s{\"loc\":\"http://example.com/r/%u\","
                           "\"change\":\"updated\",\"tags\":[\"%s\",\"%s\"],"
                           "\"attributes\":[{\"ns\":\"urn:x\",\"name\":\"x\","
                           "\"value\":\"",
                           i > 0 ? "," : "[", from, from % 3 ? "n" : "a",
                           from % 5 ? "m" : "b");
            buf_add_text(&body, padding);
            BUF_ADD(&body, "\"}]}");
        }
        BUF_ADD(&body, "]");
        assert_int_equal(
            sets_post_body(&s, "demo", "application/json", buf_slice(&body), 0)
                .rc,
            STATUS_OK);
    }
    buf_fini(&body);
    free(padding);
    return sets_find(&s, "demo");
}

static struct filter_class *
enter(const char *query)
{
    struct filter_class *class;
    struct filter f;

    assert_int_equal(filter_read(&f, slice_of(query), NULL), STATUS_OK);
    assert_int_equal(
        filters_enter(&s.registry->filters, &f, NULL, false, &class, NULL),
        STATUS_OK);
    return class;
}

/* The entries of `text`, from 1 on ... */
static struct {
    uint64_t seqs[20000];
    size_t n;
    struct coverage coverage;
} seen;

static enum status
on_seen(const struct change *change, void *user, struct problem *why)
{
    (void)user;
    (void)why;
    assert_true(seen.n < sizeof(seen.seqs) / sizeof(seen.seqs[0]));
    seen.seqs[seen.n++] = change->seq;
    return STATUS_OK;
}

static void
see(enum message_form form)
{
    seen.n = 0;
    seen.coverage = receive(form, on_seen, NULL);
}

static struct message_wish
wish_for(struct set *set, enum message_form form,
         const struct filter_class *class, uint64_t after, uint64_t upto)
{
    return (struct message_wish){.set = set,
                                 .form = form,
                                 .after = after,
                                 .upto = upto,
                                 .filter = class,
                                 .max_bytes = MIB,
                                 .patience = LOG_DISK};
}

FIXTURE(messages_open, messages_close);

/* R-349, design section 1: with any filter a message covers its whole range,
 * with the log's times and digest. */
TEST(covers_what_it_stands_for_and_has_what_passes)
{
    static const unsigned divisor[] = {3, 5, 0};
    struct set *set = post_tagged(1, 24, 5, 0);
    struct filter_class *classes[3];

    classes[0] = enter("tag=a");
    classes[1] = enter("tag=b");
    classes[2] = enter("change=deleted");
    for (size_t f = 0; f < 2; f++)
        for (size_t k = 0; k < 3; k++)
            for (uint64_t after = 0; after < 24; after++)
                for (uint64_t upto = after + 1; upto <= 24; upto++) {
                    struct message_wish wish =
                        wish_for(set, forms[f], classes[k], after, upto);
                    struct digest d = digest_at(set, upto);
                    uint64_t next = after + 1;

                    assert_int_equal(write_wish(&wish), upto);
                    see(forms[f]);
                    assert_int_equal(seen.coverage.after, after);
                    assert_int_equal(seen.coverage.last, upto);
                    assert_memory_equal(seen.coverage.digest.bytes, d.bytes,
                                        DIGEST_SIZE);
                    for (size_t i = 0; i < seen.n; i++, next++) {
                        while (next % divisor[k])
                            next++;
                        assert_int_equal(seen.seqs[i], next);
                    }
                    for (; next <= upto && divisor[k]; next++)
                        assert_true(next % divisor[k]);
                }
    for (size_t k = 0; k < 3; k++)
        filters_leave(classes[k]);
}

/* message.h: its bytes are a function of the set, the form, the filter and the
 * two seqs, whether something was kept with the batches or not. */
TEST(has_the_same_bytes_whatever_is_kept)
{
    struct set *set = post_tagged(1, 100, 17, 40);
    struct filter_class *one, *two;
    struct buf first;

    buf_init(&first, SIZE_MAX);
    one = enter("tag=a&tag=b");
    for (size_t f = 0; f < 2; f++) {
        struct message_wish wish = wish_for(set, forms[f], one, 2, 95);

        write_wish(&wish);
        assert_true(text.size > 0);
        buf_clear(&first);
        buf_add_slice(&first, buf_slice(&text));
        two = enter("tag=b&tag=a&tag=a");
        assert_ptr_equal(one, two);
        for (int i = 0; i < 3; i++) { /* made and kept; lent; of all entries */
            write_wish(&wish);
            assert_true(slice_equal(buf_slice(&text), buf_slice(&first)));
            if (i == 1)
                write_on(set, MESSAGE_JSON, 0, MIB);
        }
        filters_leave(two);
    }
    filters_leave(one);
    buf_fini(&first);
}

static enum status
count_data(const struct change *change, void *user, struct problem *why)
{
    unsigned *n = user;

    (void)why;
    assert_string_equal(change->title.data ? "T" : "", "T");
    *n += change->data.size > 0;
    return STATUS_OK;
}

/* data=no: the same entries and coverage without their data, whatever readers
 * of all of it, or of the same class, have asked for before. */
TEST(leaves_data_out_for_a_class_that_wants_none)
{
    static const char body[] =
        "[{\"loc\":\"http://example.com/a\",\"change\":\"updated\","
        "\"title\":\"T\",\"tags\":[\"a\"]},"
        "{\"loc\":\"http://example.com/b\",\"change\":\"updated\","
        "\"title\":\"T\",\"data\":{\"a\":1}},"
        "{\"loc\":\"http://example.com/c\",\"change\":\"updated\","
        "\"title\":\"T\",\"data\":[2],\"tags\":[\"a\"]}]";

    static const struct {
        const char *query;
        unsigned n, n_data;
    } rows[] = {{"", 3, 2},        {"data=no", 3, 0},
                {"tag=a", 2, 1},   {"tag=a&data=no", 2, 0},
                {"data=no", 3, 0}, {"", 3, 2}};
    struct filter_class *classes[N_ELEMENTS(rows)];
    struct set *set;

    assert_int_equal(
        sets_post_body(&s, "demo", "application/json", SLICE(body), 0).rc,
        STATUS_OK);
    set = sets_find(&s, "demo");
    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        classes[i] = enter(rows[i].query);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
            for (size_t f = 0; f < 2; f++) {
                struct message_wish wish =
                    wish_for(set, forms[f], classes[i], 0, 3);
                unsigned n_data = 0;

                assert_int_equal(write_wish(&wish), 3);
                receive(forms[f], count_data, &n_data);
                assert_int_equal(n_data, rows[i].n_data);
                see(forms[f]);
                assert_int_equal(seen.n, rows[i].n);
                assert_int_equal(seen.coverage.last, 3);
            }
    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        filters_leave(classes[i]);
}

/* Returns the form of a batch that a class keeps, or NULL. */
static const struct form *
kept_form(struct set *set, const struct filter_class *class, bool is_json)
{
    const struct form *form;
    struct batch *b;

    assert_int_equal(
        log_read(s.registry->log, set->log, 0, LOG_MEMORY, &b, NULL),
        STATUS_OK);
    form = batch_form(b, class->id * 4 + is_json);
    batch_unref(b); /* the tail has it */
    return form;
}

/* log.md, reading: only the messages that several readers share are kept, and
 * made once. */
TEST(keeps_what_a_shared_class_gets)
{
    struct set *set = post_tagged(1, 20, 20, 0);
    struct filter_class *class = enter("tag=a");
    struct message_wish wish =
        wish_for(set, MESSAGE_JSON, class, 0, UINT64_MAX);
    const struct form *picked, *json;

    write_wish(&wish);
    assert_null(kept_form(set, class, false));
    assert_null(kept_form(set, class, true));

    assert_ptr_equal(enter("tag=a"), class);
    write_wish(&wish);
    picked = kept_form(set, class, false);
    json = kept_form(set, class, true);
    assert_non_null(picked);
    assert_non_null(json);
    assert_int_equal(picked->n, 6);
    assert_int_equal(picked->entries[0], 2);
    assert_int_equal(json->n, 6);
    write_wish(&wish);
    assert_ptr_equal(kept_form(set, class, false), picked);
    assert_ptr_equal(kept_form(set, class, true), json);
    filters_leave(class);
    filters_leave(class);
}

/* message.h: silence, then a message that begins where the last one ended. */
TEST(is_silent_where_nothing_passes)
{
    struct set *set = post_tagged(1, 4, 1, 0);
    struct filter_class *class = enter("tag=b");

    for (size_t f = 0; f < 2; f++) {
        uint64_t head = sets_head(&s, "demo").last;
        struct message_wish wish =
            wish_for(set, forms[f], class, head - 4, UINT64_MAX);

        wish.is_silent = true;
        assert_int_equal(write_wish(&wish), head);
        assert_int_equal(text.size, 0);
        wish.reached = head;
        assert_int_equal(write_wish(&wish), head);
        assert_int_equal(text.size, 0);

        wish.is_heartbeat = true;
        write_wish(&wish);
        wish.is_heartbeat = false;
        see(forms[f]);
        assert_int_equal(seen.n, 0);
        assert_int_equal(seen.coverage.after, head - 4);
        assert_int_equal(seen.coverage.last, head);
        assert_true(seen.coverage.now_us != DATETIME_NONE);
        assert_true(seen.coverage.from_us < seen.coverage.until_us);
        assert_int_equal(seen.coverage.until_us, sets_head(&s, "demo").last_us);

        post_tagged(5, 9, 5, 0);
        assert_int_equal(write_wish(&wish), head + 5);
        see(forms[f]);
        assert_int_equal(seen.coverage.after, head - 4);
        assert_int_equal(seen.coverage.last, head + 5);
        assert_int_equal(seen.n, 1);
        assert_int_equal(seen.seqs[0], head + 1);
        post_tagged(1, 4, 1, 0);
    }
    filters_leave(class);
}

/* Design section 3: a turn reads a bounded part of the log; all turns together
 * give the same, and each can be repeated. */
TEST(looks_at_so_much_a_turn)
{
    struct set *set = post_tagged(1, 12000, 600, 500);
    struct filter_class *class = enter("change=deleted");
    struct message_wish wish;
    struct buf first;
    uint64_t reached = 0, last, next = 3;
    unsigned turns = 0;

    while (reached < 12000) {
        wish = wish_for(set, MESSAGE_XML, class, 0, UINT64_MAX);
        wish.patience = LOG_MEMORY;
        wish.is_silent = true;
        wish.reached = reached;
        last = write_wish(&wish);
        assert_int_equal(text.size, 0);
        assert_in_range(last, reached + 1, reached + 3000);
        reached = last;
        turns++;
    }
    assert_in_range(turns, 5, 12);
    filters_leave(class);

    /* With entries that pass: no more than a message may have. */
    class = enter("tag=a");
    for (uint64_t after = 0; after < 12000; after = last) {
        wish = wish_for(set, MESSAGE_XML, class, after, UINT64_MAX);
        wish.max_bytes = MIB / 2;
        last = write_wish(&wish);
        assert_true(text.size <= MIB / 2);
        see(MESSAGE_XML);
        assert_int_equal(seen.coverage.after, after);
        assert_int_equal(seen.coverage.last, last);
        for (size_t i = 0; i < seen.n; i++, next += 3)
            assert_int_equal(seen.seqs[i], next);
        assert_true(last < next);

        wish.upto = last;
        wish.patience = LOG_MEMORY;
        first = text;
        buf_init(&text, SIZE_MAX);
        assert_int_equal(write_wish(&wish), last);
        assert_true(slice_equal(buf_slice(&text), buf_slice(&first)));
        buf_fini(&first);
    }
    assert_int_equal(next, 12003);
    filters_leave(class);
}
