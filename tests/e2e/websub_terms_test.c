/*
 * websub_terms_test.c - what a subscriber asks for besides: filters, a place in
 * the past, an interval; and the simple subscription of the 2012 draft.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/forms.h"
#include "tests/support/hub_stage.h"
#include "tests/support/mixture.h"
#include "tests/support/notice.h"
#include "tests/support/schema.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* Asks for more, once, and waits until it is active. */
static void
join_with(struct hub_stage *s, struct callback *cb, const char *more)
{
    hub_assert_taken(&s->http,
                     HUB_SUBSCRIBE(&s->http, .set = HUB_SET, .more = more,
                                   .callback = callback_url(cb)));
    hub_await_active(&s->http, HUB_SET, callback_url(cb));
}

/* The request that was made as the n-th of this callback was judged: somebody
 * who came behind it is active, and one thread of the hub reads both. */
static void
settle(struct hub_stage *s, struct callback *cb, size_t n)
{
    static unsigned n_fences;
    char target[40];

    callback_await(cb, SEEN_VERIFICATION, n);
    snprintf(target, sizeof(target), "/cb/settled/%u", n_fences++);
    hub_stage_join(s, target);
}

static void
renew_with(struct hub_stage *s, struct callback *cb, const char *more)
{
    size_t n = callback_count(cb, SEEN_VERIFICATION);

    hub_assert_taken(&s->http,
                     HUB_SUBSCRIBE(&s->http, .set = HUB_SET, .more = more,
                                   .callback = callback_url(cb)));
    settle(s, cb, n + 1);
}

/* Entries */

/* Entries as they stand in messages, and their seqs. */
struct fragments {
    struct buf text;
    uint64_t *seqs;
    size_t n;
};

/* All that it got, in messages that are valid each; the caller's to end. */
static void
collect(struct fragments *f, struct callback *cb)
{
    size_t n = callback_count(cb, SEEN_DELIVERY);

    *f = (struct fragments){.seqs = NULL};
    buf_init(&f->text, SIZE_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct seen *d = callback_seen(cb, SEEN_DELIVERY, i);
        struct slice body = {d->body, d->body_size};
        struct problem why = {""};
        struct xmldoc doc;

        assert_valid(body);
        if (!xmldoc_read(&doc, body, &why))
            fail_msg("%s", why.text);
        assert_string_equal(doc.capability, "change-notification");
        f->seqs =
            realloc(f->seqs, (f->n + doc.n_entries + 1) * sizeof(*f->seqs));
        assert_non_null(f->seqs);
        for (size_t k = 0; k < doc.n_entries; k++) {
            f->seqs[f->n++] = doc.entries[k].seq;
            buf_add_slice(&f->text, doc.entries[k].line);
        }
        xmldoc_free(&doc);
    }
}

static void
fragments_fini(struct fragments *f)
{
    free(f->seqs);
    buf_fini(&f->text);
}

/* What `got` is, is what a filter lets through of `all`: grep. */
static void
assert_is_grep(const struct fragments *got, const struct fragments *all,
               const struct mixture_filter *filter)
{
    const char *line = all->text.data, *end = line + all->text.size;
    struct buf wanted;
    size_t n = 0;

    buf_init(&wanted, SIZE_MAX);
    for (size_t i = 0; i < all->n; i++) {
        static const char last[] = "</url>\n";
        const char *next =
            memmem(line, (size_t)(end - line), last, strlen(last));

        assert_non_null(next);
        next += strlen(last);
        if (filter->passes(all->seqs[i])) {
            assert_true(n < got->n);
            assert_int_equal(got->seqs[n++], all->seqs[i]);
            buf_add(&wanted, line, (size_t)(next - line));
        }
        line = next;
    }
    assert_int_equal(n, got->n);
    assert_int_equal(wanted.size, got->text.size);
    assert_memory_equal(wanted.data, got->text.data, wanted.size);
    buf_fini(&wanted);
}

/* A query as a form has it: there a plus is a blank. */
static void
write_form(char *to, size_t size, const char *query)
{
    size_t n = (size_t)snprintf(to, size, "&");

    for (const char *c = query; *c; c++)
        n += (size_t)snprintf(to + n, size - n, *c == '+' ? "%%2B" : "%c", *c);
    assert_true(n < size);
}

FIXTURE(NULL, hub_stage_teardown);

/* the same entries, with the same seqs and bytes; and who gets
 * nothing is not called, but is at the head. */
TEST(a_filter_is_a_grep_of_everything)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *plain = hub_stage_join(s, "/cb/plain");
    struct callback **filtered =
        calloc(mixture_n_filters, sizeof(struct callback *));
    const uint64_t parts[] = {1, 250, 251, 252, 600, 900};
    struct fragments all;

    assert_non_null(filtered);
    for (size_t i = 0; i < mixture_n_filters; i++) {
        char target[40], more[300];

        snprintf(target, sizeof(target), "/cb/%zu", i);
        write_form(more, sizeof(more), mixture_filters[i].query);
        filtered[i] = callbacks_add(s->callbacks, target);
        join_with(s, filtered[i], more);
    }
    for (size_t i = 0; i + 1 < N(parts); i++)
        mixture_post(&s->http, HUB_SET, parts[i] + (i > 0), parts[i + 1]);

    callback_await_last(plain, 900);
    collect(&all, plain);
    assert_int_equal(all.n, 900);
    for (size_t i = 0; i < mixture_n_filters; i++) {
        struct fragments got;

        hub_await_head(&s->http, HUB_SET, callback_url(filtered[i]));
        collect(&got, filtered[i]);
        assert_is_grep(&got, &all, &mixture_filters[i]);
        assert_int_equal(callback_journal(filtered[i]).n_holes, 0);
        fragments_fini(&got);
    }
    fragments_fini(&all);
    free(filtered);
    hub_stage_end(s);
}

/* what a filter has let through, is repeated with the same bytes. */
TEST(a_filtered_delivery_that_failed_comes_again_the_same)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.waits = true, .status = 500, .times = 1},
                  {.status = 200});
    join_with(s, cb, "&change=deleted");
    mixture_post(&s->http, HUB_SET, 1, 30);
    callback_await(cb, SEEN_DELIVERY, 1);
    mixture_post(&s->http, HUB_SET, 31, 60);
    callback_release(cb);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    assert_string_equal(callback_seen(cb, SEEN_DELIVERY, 0)->id,
                        callback_seen(cb, SEEN_DELIVERY, 1)->id);
    seen_assert_same_body(callback_seen(cb, SEEN_DELIVERY, 0),
                          callback_seen(cb, SEEN_DELIVERY, 1));
    hub_stage_end(s);
}

/* The past */

/* Through archived, closed and open lists, in a process that has none of it in
 * memory: one history, whose digests are those of the lists. */
TEST(who_asks_for_the_past_gets_all_of_it)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK, "--rotate-entries",
                                         "10", "--index-lists", "3");
    struct callback *whole = callbacks_add(s->callbacks, "/cb/whole");
    struct callback *part = callbacks_add(s->callbacks, "/cb/part");
    struct hub_state told;
    char more[100];
    struct trace t;

    hub_stage_join(s, "/cb/fence");
    for (unsigned i = 0; i < 19; i++)
        hub_stage_post(s, 5);
    assert_int_equal(
        http_get(&s->http, "/sets/" HUB_SET "/changelist-archive.xml"), 200);
    broker_kill9(&s->broker);
    broker_restart(&s->broker);

    join_with(s, whole, "&after=0");
    assert_true(hub_look(&s->http, HUB_SET, callback_url(whole), &told));
    callback_await_last(whole, 95);
    snprintf(more, sizeof(more), "&after=%.16s-37", told.position);
    join_with(s, part, more);
    callback_await_last(part, 95);
    hub_stage_post(s, 4);
    callback_await_last(whole, 99);
    callback_await_last(part, 99);

    callback_trace(whole, &t);
    assert_int_equal(t.after, 0);
    assert_int_equal(t.last, 99);
    assert_true(t.has_digests);
    trace_fini(&t);
    assert_int_equal(callback_journal(part).first_after, 37);
    callback_trace(part, &t);
    assert_int_equal(t.last, 99);
    trace_fini(&t);
    hub_stage_end(s);
}

/* Renewals */

/* W-036: a renewal replaces the filter, with another, or with none. */
TEST(a_renewal_replaces_the_filter)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    static const struct mixture_filter *const is_deleted = &mixture_filters[0];
    struct fragments got;
    size_t n = 0;

    join_with(s, cb, "&change=deleted");
    mixture_post(&s->http, HUB_SET, 1, 30);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.status = 404});
    renew_with(s, cb, "&change=created"); /* nobody confirms that */
    mixture_post(&s->http, HUB_SET, 31, 60);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.status = 200});
    renew_with(s, cb, "&change=created");
    mixture_post(&s->http, HUB_SET, 61, 90);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    renew_with(s, cb, NULL);
    mixture_post(&s->http, HUB_SET, 91, 120);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));

    collect(&got, cb);
    for (uint64_t seq = 1; seq <= 120; seq++) {
        bool is_due = seq <= 60   ? is_deleted->passes(seq)
                      : seq <= 90 ? seq % 3 == 0 /* created: mixture.c */
                                  : true;

        if (is_due) {
            assert_true(n < got.n);
            assert_int_equal(got.seqs[n++], seq);
        }
    }
    assert_int_equal(n, got.n);
    fragments_fini(&got);
    hub_stage_end(s);
}

/* A bad one is 4xx, at once, and leaves the old one as it was. */
TEST(a_bad_renewal_changes_nothing)
{
    static const struct {
        const char *more;
        long status;
    } bad[] = {
        {"&change=renamed", 400},
        {"&change=created&interval=-1", 400},
        {"&interval=1e9", 400},
        {"&after=yesterday", 400},
        {"&after=0123456789abcdef-0", 410},
        {"&type=", 400},
    };
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    struct hub_state before, after;
    struct fragments got;

    join_with(s, cb, "&change=deleted");
    assert_true(hub_look(&s->http, HUB_SET, callback_url(cb), &before));
    for (size_t i = 0; i < N(bad); i++) {
        long status =
            HUB_SUBSCRIBE(&s->http, .set = HUB_SET, .more = bad[i].more,
                          .callback = callback_url(cb));

        if (status != bad[i].status)
            fail_msg("%s: %ld", bad[i].more, status);
    }
    settle(s, cb, 1);
    assert_int_equal(callback_count(cb, SEEN_VERIFICATION), 1);
    assert_true(hub_look(&s->http, HUB_SET, callback_url(cb), &after));
    assert_string_equal(after.lease_end, before.lease_end);
    mixture_post(&s->http, HUB_SET, 1, 30);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    collect(&got, cb);
    assert_int_equal(got.n, 10); /* the deleted ones */
    fragments_fini(&got);
    hub_stage_end(s);
}

/* Both ways back: a renewal with a place, and the operator's redelivery. What
 * is sent again has the same entries. */
TEST(a_subscription_can_be_sent_back)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callbacks *others = callbacks_new("127.0.0.3", true); /* to a
 journal, to be sent back is a fault */
    struct callback *cb = callbacks_add(others, "/cb/1");
    struct hub_state told;
    char path[200];
    size_t n;

    hub_join(&s->http, HUB_SET, cb);
    for (unsigned i = 1; i <= 4; i++)
        callback_await_last(cb, hub_stage_post(s, 5));
    hub_await_head(&s->http, HUB_SET, callback_url(cb));

    n = callback_count(cb, SEEN_DELIVERY);
    renew_with(s, cb, "&after=7");
    callback_await(cb, SEEN_DELIVERY, n + 1);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    assert_int_equal(callback_seen(cb, SEEN_DELIVERY, n)->after, 7);
    assert_int_equal(callback_seen(cb, SEEN_DELIVERY, n)->last, 20);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), n + 1);

    assert_true(hub_look(&s->http, HUB_SET, callback_url(cb), &told));
    snprintf(path, sizeof(path),
             "/sets/" HUB_SET "/subscriptions/%s/redeliver?after=%.16s-11",
             told.id, told.position);
    n = callback_count(cb, SEEN_DELIVERY);
    http_ask(&s->http, "POST", path, NULL);
    assert_int_equal(s->http.status / 100, 2);
    callback_await(cb, SEEN_DELIVERY, n + 1);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    assert_int_equal(callback_seen(cb, SEEN_DELIVERY, n)->after, 11);
    assert_int_equal(callback_seen(cb, SEEN_DELIVERY, n)->last, 20);

    /* From there on as ever. */
    hub_stage_post(s, 1);
    callback_await(cb, SEEN_DELIVERY, n + 2);
    assert_int_equal(callback_seen(cb, SEEN_DELIVERY, n + 1)->after, 20);
    hub_stage_end(s);
    callbacks_free(others);
}

/* Intervals */

/* What comes within an interval goes out at its end, together. */
TEST(an_interval_gathers_changes)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    const struct seen *second;
    int64_t begin_us;

    join_with(s, cb, "&interval=10");
    begin_us = callbacks_now_us();
    hub_stage_post(s, 1);
    callback_await(cb, SEEN_DELIVERY, 1);
    for (unsigned i = 0; i < 5; i++)
        hub_stage_post(s, 2);
    second = callback_await(cb, SEEN_DELIVERY, 2);
    assert_true(second->at_us - begin_us >= 10000000);
    assert_int_equal(second->after, 1);
    assert_int_equal(second->last, 11);
    hub_stage_end(s);
}

/* A renewal replaces it, also while one is waited for. */
TEST(a_renewal_ends_an_interval)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");

    join_with(s, cb, "&interval=86400");
    callback_await_last(cb, hub_stage_post(s, 1));
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    hub_stage_post(s, 3);
    settle(s, cb, 1);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 1);
    renew_with(s, cb, NULL);
    callback_await_last(cb, 4);
    hub_stage_end(s);
}

/* Simple subscriptions */

static void
subscribe_simply(struct hub_stage *s, struct callback *cb, const char *more)
{
    char encoded[400];

    forms_encode(encoded, sizeof(encoded), callback_url(cb));
    hub_assert_taken(&s->http,
                     forms_post(&s->http, "/sets/" HUB_SET "/subscribe",
                                "callbackURI=%s%s", encoded, more));
}

/* The entries of a notification, and nothing to navigate by. */
static void
assert_plain(const struct seen *d, const struct seen *full)
{
    struct slice body = {d->body, d->body_size};
    struct slice other = {full->body, full->body_size};
    struct problem why = {""};
    struct xmldoc plain, links;
    struct xpath x;

    assert_valid(body);
    xpath_open(&x, body);
    assert_xpath_count(&x, "/s:urlset/rs:ln", 0);
    xpath_close(&x);
    xpath_open(&x, other);
    assert_xpath_count(&x, "/s:urlset/rs:ln[@rel='up']", 1); /* that has some */
    xpath_close(&x);
    if (!xmldoc_read(&plain, body, &why) || !xmldoc_read(&links, other, &why))
        fail_msg("%s", why.text);
    assert_string_equal(plain.from, links.from);
    assert_string_equal(plain.until, links.until);
    assert_int_equal(plain.after, links.after);
    assert_int_equal(plain.last, links.last);
    assert_int_equal(plain.n_entries, links.n_entries);
    for (size_t i = 0; i < plain.n_entries; i++) {
        assert_int_equal(plain.entries[i].line.size,
                         links.entries[i].line.size);
        assert_memory_equal(plain.entries[i].line.data,
                            links.entries[i].line.data,
                            plain.entries[i].line.size);
    }
    xmldoc_free(&plain);
    xmldoc_free(&links);
}

/* behind verification of intent. */
TEST(a_simple_subscription_is_verified)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *full = hub_stage_join(s, "/cb/full");
    struct callback *cb = callbacks_add(s->callbacks, "/cb/simple?a=b");
    struct callback *no = callbacks_add(s->callbacks, "/cb/no");
    const struct seen *v;

    CALLBACK_DOES(no, SEEN_VERIFICATION, {.status = 404});
    subscribe_simply(s, no, "");
    subscribe_simply(s, cb, "&change=created&change=updated");
    v = callback_await(cb, SEEN_VERIFICATION, 1);
    seen_assert_parameter(v, "hub.mode", "subscribe");
    seen_assert_parameter(v, "hub.topic", s->topic.text);
    hub_await_active(&s->http, HUB_SET, callback_url(cb));
    hub_await_gone(&s->http, HUB_SET, callback_url(no));

    callback_await_last(full, hub_stage_post(s, 3));
    callback_await_last(cb, 3);
    assert_plain(callback_seen(cb, SEEN_DELIVERY, 0),
                 callback_seen(full, SEEN_DELIVERY, 0));
    seen_assert_header(callback_seen(cb, SEEN_DELIVERY, 0), "Content-Type",
                       "application/xml");
    assert_int_equal(callback_count(no, SEEN_DELIVERY), 0);
    hub_stage_end(s);
}

/* Where the operator trusts: it is there with its 202, and nobody is asked. */
TEST(a_trusted_one_is_not)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-trust-simple");
    struct callback *full = hub_stage_join(s, "/cb/full");
    struct callback *cb = callbacks_add(s->callbacks, "/cb/simple");
    struct hub_state told;

    subscribe_simply(s, cb, "&interval=0.1");
    assert_true(hub_look(&s->http, HUB_SET, callback_url(cb), &told));
    assert_string_equal(told.state, "active");
    callback_await_last(full, hub_stage_post(s, 3));
    callback_await_last(cb, 3);
    assert_plain(callback_seen(cb, SEEN_DELIVERY, 0),
                 callback_seen(full, SEEN_DELIVERY, 0));
    assert_int_equal(callback_count(cb, SEEN_VERIFICATION), 0);
    assert_int_equal(callback_count(full, SEEN_VERIFICATION), 1);
    hub_stage_end(s);
}
