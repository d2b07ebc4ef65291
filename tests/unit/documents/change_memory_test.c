#include "broker/documents/change_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/metrics.h"
#include "proto/input/input_formats.h"
#include "tests/unit/documents/stage.h"

/* The entries of a page. */
struct page {
    uint64_t first, last, n;
    bool is_wrong;
    struct buf text;
};

static enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    struct page *p = user;

    (void)why;
    if (p->n++ == 0)
        p->first = change->seq;
    else
        p->is_wrong |= change->seq != p->last + 1;
    p->last = change->seq;
    return STATUS_OK;
}

/* The page after `after`; *next is where the next one begins. */
static struct page
open_page(struct set *set, uint64_t after, uint64_t *next)
{
    struct page p = {.n = 0};
    struct input_reader *reader =
        input_reader_new(format_of(SLICE("application/json")), INPUT_MESSAGE,
                         SIZE_MAX, on_change, &p);
    const struct memory_wish wish = {.message = {.set = set,
                                                 .form = MESSAGE_JSON,
                                                 .after = after,
                                                 .patience = LOG_DISK}};
    struct memory_page made;

    buf_init(&p.text, SIZE_MAX);
    assert_int_equal(memory_open(&wish, &made, NULL), STATUS_OK);
    *next = made.last;
    bodies_read(made.body, &p.text);
    assert_int_equal(input_reader_feed(reader, buf_slice(&p.text), NULL),
                     STATUS_OK);
    assert_int_equal(input_reader_end(reader, NULL), STATUS_OK);
    assert_int_equal(reader->coverage.after, after);
    assert_int_equal(reader->coverage.last, *next);
    input_reader_free(reader);
    return p;
}

static void
assert_next(const struct page *p, const struct head *head, uint64_t seq)
{
    char next[200];

    snprintf(next, sizeof(next),
             "\"next\":\"" SETS_URL "/sets/demo/changes?after=%s-%llu\"",
             head->epoch, (unsigned long long)seq);
    assert_non_null(memmem(p->text.data, p->text.size, next, strlen(next)));
}

/* Asks for what follows entry `after` of `n`: the page has the rest, and `next`
 * names the last entry. */
static void
assert_rest(struct sets *s, unsigned n, uint64_t after)
{
    struct set *set;
    struct page p;
    uint64_t next;
    struct head head;

    sets_open(s);
    set = sets_post(s, "demo", 1, n);
    head = sets_head(s, "demo");
    p = open_page(set, after, &next);
    assert_int_equal(p.n, n - after);
    assert_int_equal(p.first, p.n ? after + 1 : 0);
    assert_int_equal(p.last, p.n ? n : 0);
    assert_int_equal(next, n);
    assert_next(&p, &head, n);
    buf_fini(&p.text);
}

FIXTURE(stage_setup, stage_teardown);

/* exactly the events after N; `next` names the last one included. */
TEST(gives_exactly_the_entries_after_a_position)
{
    assert_rest(*state, 22, 20);
}

/* at the head the page is empty and its `next` equals its `self`. */
TEST(is_empty_at_the_head_and_names_itself)
{
    assert_rest(*state, 5, 5);
}

/* following `next` yields every event once, in pages within the limits,
 * over closed lists and a restart. */
TEST(yields_every_entry_once_page_by_page)
{
    struct sets *s = *state;
    uint64_t after = 0, pages = 0;
    struct set *set;

    s->config.rotate_entries = 3000;
    s->config.message_bytes = (uint64_t)512 << 10;
    sets_open(s);
    sets_post(s, "demo", 1, 10000);
    sets_file_all(s);
    sets_close(s);
    sets_open(s);
    set = sets_post(s, "demo", 10001, 2000);
    while (after < 12000) {
        uint64_t next;
        struct page p = open_page(set, after, &next);

        assert_false(p.is_wrong);
        assert_int_equal(p.first, after + 1);
        assert_int_equal(p.last, next);
        assert_true(p.text.size <= s->config.message_bytes);
        after = next;
        pages++;
        buf_fini(&p.text);
    }
    assert_int_equal(after, 12000);
    assert_in_range(pages, 3, 12);
}

/* Design section 3: a worker reads pages that are not in memory. */
TEST(says_when_it_would_wait_for_a_disk)
{
    struct sets *s = *state;
    struct memory_wish wish = {.message = {.form = MESSAGE_JSON, .after = 2}};
    struct memory_page page = {NULL};

    sets_open(s);
    sets_post(s, "demo", 1, 5);
    sets_close(s);
    sets_open(s);
    wish.message.set = sets_find(s, "demo");
    assert_int_equal(memory_open(&wish, &page, NULL), STATUS_AGAIN);
    assert_null(page.body);
}

/* ahead of the log is an error. */
TEST(refuses_the_future)
{
    struct sets *s = *state;
    struct memory_wish wish = {
        .message = {.form = MESSAGE_JSON, .after = 6, .patience = LOG_DISK}};
    struct memory_page page = {NULL};
    struct problem why = {""};

    sets_open(s);
    wish.message.set = sets_post(s, "demo", 1, 5);
    assert_int_equal(memory_open(&wish, &page, &why), STATUS_GONE);
    assert_null(page.body);
    assert_string_equal(why.text,
                        "entry 6 is ahead of the log, which ends at 5");
}

/* How many readers were refused, for having as much as one client may read. */
static uint64_t
count_refusals(void)
{
    static const char name[] =
        "tidings_client_refusals_total{limit=\"answers\"} ";
    const char *found;
    struct buf text;
    uint64_t n;

    buf_init(&text, SIZE_MAX);
    metrics_write(&text);
    buf_add(&text, "", 1);
    assert_false(text.failed);
    found = strstr(text.data, name);
    assert_non_null(found);
    n = strtoull(found + strlen(name), NULL, 10);
    buf_fini(&text);
    return n;
}

/* A reader that can wait for its client's share is not refused, and does not
 * count as refused. */
TEST(only_a_reader_that_cannot_wait_is_refused)
{
    static const struct client_key key = {.address = {1}};
    struct sets *s = *state;
    struct memory_wish wish = {
        .message = {.form = MESSAGE_JSON, .patience = LOG_DISK}};
    struct memory_page page = {NULL};
    struct problem why = {""};
    struct clients *clients;
    struct holding other;
    uint64_t before = count_refusals();

    sets_open(s);
    wish.message.set = sets_post(s, "demo", 1, 5);
    clients = &s->registry->clients;
    clients_limit_each(clients, CLIENT_ANSWERS, 1);
    wish.client = client_of(clients, &key);
    holding_init(&other, clients, wish.client, CLIENT_ANSWERS);
    assert_true(holding_try(&other, 1));

    wish.message.is_silent = true;
    assert_int_equal(memory_open(&wish, &page, &why), STATUS_BUSY);
    assert_int_equal(count_refusals(), before);
    wish.message.is_silent = false;
    assert_int_equal(memory_open(&wish, &page, &why), STATUS_LIMITED);
    assert_int_equal(count_refusals(), before + 1);

    assert_null(page.body);
    holding_end(&other);
    client_unref(wish.client);
}
