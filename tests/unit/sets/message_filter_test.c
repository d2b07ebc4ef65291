#include <stdio.h>
#include <stdlib.h>

#include "broker/sets/selection.h"
#include "tests/test.h"
#include "tests/unit/sets/messages.h"

/* Posts entries `from` to `to` in posts of `each`; every third has the tag
 * "a", every fifth "b". */
static struct set *
post_tagged(struct sets *s, unsigned from, unsigned to, unsigned each,
            size_t weight)
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
            sets_post_body(s, "demo", "application/json", buf_slice(&body), 0)
                .rc,
            STATUS_OK);
    }
    buf_fini(&body);
    free(padding);
    return sets_find(s, "demo");
}

static struct filter_class *
enter(struct sets *s, const char *query)
{
    struct filter_class *class;
    struct filter f;

    assert_int_equal(filter_read(&f, slice_of(query), NULL), STATUS_OK);
    assert_int_equal(
        filters_enter(registry_filters(s->registry), &f, &class, NULL),
        STATUS_OK);
    return class;
}

/* Which of entries 1 ... have been seen. */
struct seen {
    uint64_t seqs[20000];
    size_t n;
    struct coverage coverage;
};

static enum status
on_seen(const struct change *change, void *user, struct problem *why)
{
    struct seen *seen = user;

    (void)why;
    assert_true(seen->n < sizeof(seen->seqs) / sizeof(seen->seqs[0]));
    seen->seqs[seen->n++] = change->seq;
    return STATUS_OK;
}

static void
see(struct seen *seen, const struct buf *text, enum message_form form)
{
    struct problem why = {""};
    struct reader *reader =
        reader_new(format_of(form == MESSAGE_XML ? SLICE("application/xml")
                                                 : SLICE("application/json")),
                   READER_MESSAGE, SIZE_MAX, on_seen, seen);

    seen->n = 0;
    if (reader_feed(reader, buf_slice(text), &why) || reader_end(reader, &why))
        fail_msg("%s", why.text);
    seen->coverage = *reader_coverage(reader);
    reader_free(reader);
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

FIXTURE(tempdir_setup, tempdir_teardown);

/* R-349, design section 1: whatever a filter lets through, a message covers all
 * of what it stands for, with the log's times and digest. */
TEST(covers_what_it_stands_for_and_has_what_passes)
{
    static const unsigned divisor[] = {3, 5, 0};
    struct filter_class *classes[3];
    struct sets s;
    struct set *set;
    struct buf text;
    static struct seen seen;

    sets_configure(&s, tempdir_path(state));
    sets_open(&s);
    set = post_tagged(&s, 1, 24, 5, 0);
    buf_init(&text, SIZE_MAX);
    classes[0] = enter(&s, "tag=a");
    classes[1] = enter(&s, "tag=b");
    classes[2] = enter(&s, "change=deleted");
    for (size_t f = 0; f < 2; f++)
        for (size_t k = 0; k < 3; k++)
            for (uint64_t after = 0; after < 24; after++)
                for (uint64_t upto = after + 1; upto <= 24; upto++) {
                    struct message_wish wish =
                        wish_for(set, forms[f], classes[k], after, upto);
                    struct digest d = digest_at(&s, set, upto);
                    uint64_t last, next = after + 1;

                    buf_clear(&text);
                    assert_int_equal(message_write(&text, &wish, &last, NULL),
                                     STATUS_OK);
                    assert_int_equal(last, upto);
                    see(&seen, &text, forms[f]);
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
    buf_fini(&text);
    sets_close(&s);
}

/* message.h: its bytes are a function of the set, the form, the filter and the
 * two seqs, whether something was kept with the batches or not. */
TEST(has_the_same_bytes_whatever_is_kept)
{
    struct filter_class *one, *two;
    struct sets s;
    struct set *set;
    struct buf first, again;
    uint64_t last;

    sets_configure(&s, tempdir_path(state));
    sets_open(&s);
    set = post_tagged(&s, 1, 100, 17, 40);
    buf_init(&first, SIZE_MAX);
    buf_init(&again, SIZE_MAX);
    one = enter(&s, "tag=a&tag=b");
    for (size_t f = 0; f < 2; f++) {
        struct message_wish wish = wish_for(set, forms[f], one, 2, 95);

        buf_clear(&first);
        assert_int_equal(message_write(&first, &wish, &last, NULL), STATUS_OK);
        assert_true(first.size > 0);
        two = enter(&s, "tag=b&tag=a&tag=a");
        assert_ptr_equal(one, two);
        for (int i = 0; i < 3; i++) { /* made and kept; lent; of all entries */
            buf_clear(&again);
            assert_int_equal(message_write(&again, &wish, &last, NULL),
                             STATUS_OK);
            assert_int_equal(again.size, first.size);
            assert_memory_equal(again.data, first.data, first.size);
            if (i == 1)
                write_on(&again, set, MESSAGE_JSON, 0, MIB);
        }
        filters_leave(two);
    }
    filters_leave(one);
    buf_fini(&first);
    buf_fini(&again);
    sets_close(&s);
}

/* What a class has of a batch, or NULL. */
static const struct form *
kept_form(struct sets *s, struct set *set, const struct filter_class *class,
          bool is_json)
{
    const struct form *form;
    struct batch *b;

    assert_int_equal(
        log_read(registry_log(s->registry), set->log, 0, LOG_MEMORY, &b, NULL),
        STATUS_OK);
    form = batch_form(b, class->id * 2 + is_json);
    batch_unref(b); /* the tail has it */
    return form;
}

/* log.md, reading: only what several readers share is kept, and made once. */
TEST(keeps_what_a_shared_class_gets)
{
    struct filter_class *class;
    const struct form *picked, *json;
    struct message_wish wish;
    struct sets s;
    struct set *set;
    struct buf text;
    uint64_t last;

    sets_configure(&s, tempdir_path(state));
    sets_open(&s);
    set = post_tagged(&s, 1, 20, 20, 0);
    buf_init(&text, SIZE_MAX);
    class = enter(&s, "tag=a");
    wish = wish_for(set, MESSAGE_JSON, class, 0, UINT64_MAX);
    assert_int_equal(message_write(&text, &wish, &last, NULL), STATUS_OK);
    assert_null(kept_form(&s, set, class, false));
    assert_null(kept_form(&s, set, class, true));

    assert_ptr_equal(enter(&s, "tag=a"), class);
    assert_int_equal(message_write(&text, &wish, &last, NULL), STATUS_OK);
    picked = kept_form(&s, set, class, false);
    json = kept_form(&s, set, class, true);
    assert_non_null(picked);
    assert_non_null(json);
    assert_int_equal(picked->n, 6);
    assert_int_equal(picked->entries[0], 2);
    assert_int_equal(json->n, 6);
    assert_int_equal(message_write(&text, &wish, &last, NULL), STATUS_OK);
    assert_ptr_equal(kept_form(&s, set, class, false), picked);
    assert_ptr_equal(kept_form(&s, set, class, true), json);
    filters_leave(class);
    filters_leave(class);
    buf_fini(&text);
    sets_close(&s);
}

/* message.h: silence, then a message that begins where the last one ended. */
TEST(is_silent_where_nothing_passes)
{
    struct filter_class *class;
    struct message_wish wish;
    struct sets s;
    struct set *set;
    static struct seen seen;
    struct buf text;
    uint64_t last;

    sets_configure(&s, tempdir_path(state));
    sets_open(&s);
    set = post_tagged(&s, 1, 4, 1, 0);
    buf_init(&text, SIZE_MAX);
    class = enter(&s, "tag=b");
    for (size_t f = 0; f < 2; f++) {
        uint64_t head = sets_head(&s, "demo").last;

        wish = wish_for(set, forms[f], class, head - 4, UINT64_MAX);
        wish.is_silent = true;
        buf_clear(&text);
        assert_int_equal(message_write(&text, &wish, &last, NULL), STATUS_OK);
        assert_int_equal(text.size, 0);
        assert_int_equal(last, head);
        wish.reached = last;
        assert_int_equal(message_write(&text, &wish, &last, NULL), STATUS_OK);
        assert_int_equal(text.size, 0);
        assert_int_equal(last, head);

        assert_int_equal(message_heartbeat(&text, &wish, NULL), STATUS_OK);
        see(&seen, &text, forms[f]);
        assert_int_equal(seen.n, 0);
        assert_int_equal(seen.coverage.after, head - 4);
        assert_int_equal(seen.coverage.last, head);
        assert_true(seen.coverage.now_us != DATETIME_NONE);
        assert_true(seen.coverage.from_us < seen.coverage.until_us);
        assert_int_equal(seen.coverage.until_us, sets_head(&s, "demo").last_us);

        post_tagged(&s, 5, 9, 5, 0);
        buf_clear(&text);
        assert_int_equal(message_write(&text, &wish, &last, NULL), STATUS_OK);
        see(&seen, &text, forms[f]);
        assert_int_equal(last, head + 5);
        assert_int_equal(seen.coverage.after, head - 4);
        assert_int_equal(seen.coverage.last, head + 5);
        assert_int_equal(seen.n, 1);
        assert_int_equal(seen.seqs[0], head + 1);
        post_tagged(&s, 1, 4, 1, 0);
    }
    filters_leave(class);
    buf_fini(&text);
    sets_close(&s);
}

/* Design section 3: a turn looks at so much of the log; what comes of all turns
 * is the same, and each can be made again. */
TEST(looks_at_so_much_a_turn)
{
    struct filter_class *class;
    struct message_wish wish;
    struct sets s;
    struct set *set;
    static struct seen seen;
    struct buf text, again;
    uint64_t reached = 0, last, next = 3;
    unsigned turns = 0;

    sets_configure(&s, tempdir_path(state));
    sets_open(&s);
    set = post_tagged(&s, 1, 12000, 600, 500);
    buf_init(&text, SIZE_MAX);
    buf_init(&again, SIZE_MAX);
    class = enter(&s, "change=deleted");
    while (reached < 12000) {
        wish = wish_for(set, MESSAGE_XML, class, 0, UINT64_MAX);
        wish.patience = LOG_MEMORY;
        wish.is_silent = true;
        wish.reached = reached;
        assert_int_equal(message_write(&text, &wish, &last, NULL), STATUS_OK);
        assert_int_equal(text.size, 0);
        assert_in_range(last, reached + 1, reached + 3000);
        reached = last;
        turns++;
    }
    assert_in_range(turns, 5, 12);
    filters_leave(class);

    /* With entries that pass: no more than a message may have. */
    class = enter(&s, "tag=a");
    for (uint64_t after = 0; after < 12000; after = last) {
        uint64_t remade;

        wish = wish_for(set, MESSAGE_XML, class, after, UINT64_MAX);
        wish.max_bytes = MIB / 2;
        buf_clear(&text);
        assert_int_equal(message_write(&text, &wish, &last, NULL), STATUS_OK);
        assert_true(text.size <= MIB / 2);
        see(&seen, &text, MESSAGE_XML);
        assert_int_equal(seen.coverage.after, after);
        assert_int_equal(seen.coverage.last, last);
        for (size_t i = 0; i < seen.n; i++, next += 3)
            assert_int_equal(seen.seqs[i], next);
        assert_true(last < next);

        wish.upto = last;
        wish.patience = LOG_MEMORY;
        buf_clear(&again);
        assert_int_equal(message_write(&again, &wish, &remade, NULL),
                         STATUS_OK);
        assert_int_equal(remade, last);
        assert_int_equal(again.size, text.size);
        assert_memory_equal(again.data, text.data, text.size);
    }
    assert_int_equal(next, 12003);
    filters_leave(class);
    buf_fini(&text);
    buf_fini(&again);
    sets_close(&s);
}
