#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "broker/documents/documents.h"
#include "tests/support/bodies.h"
#include "tests/support/build_orders.h"
#include "tests/support/model.h"
#include "tests/support/schema.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

static struct document_wish
wish_of(struct build_orders *w, int64_t at_us, enum document_form form)
{
    return (struct document_wish){
        .registry = w->sets.registry,
        .set = sets_find(&w->sets, "demo"),
        .head = sets_head(&w->sets, "demo"),
        .form = form,
        .page = 1,
        .patience = LOG_DISK,
        .at_us = at_us,
    };
}

static const char *
find_value(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    assert_non_null(at);
    return at + strlen(name);
}

/* Moves the wish to the page that `next` of the page names. False: none. */
static bool
follow_next(struct document_wish *wish, const char *page)
{
    const char *next = wish->form == DOCUMENT_JSON
                           ? strstr(page, "\"next\":")
                           : strstr(page, "rel=\"next\"");

    if (!next)
        return false;
    assert_int_equal(
        datetime_read((struct slice){find_value(next, "as-of="), DATETIME_SIZE},
                      &wish->at_us),
        STATUS_OK);
    wish->number = strtoull(find_value(next, "list="), NULL, 10);
    wish->page = strtoull(find_value(next, "page="), NULL, 10);
    return true;
}

/* Appends a page, with a NUL. */
static enum status
read_page(const struct document_wish *wish, struct buf *text,
          struct problem *why)
{
    struct document document;
    enum status rc = past_resources_open(wish, &document, why);

    if (rc)
        return rc;
    bodies_read(document.body, text);
    if (wish->form == DOCUMENT_XML)
        assert_valid(buf_slice(text));
    buf_add(text, "", 1);
    return STATUS_OK;
}

/* Appends all pages of a state, without NULs; returns their number. `between`,
 * if it is not NULL, is called before each but the first. */
static unsigned
read_state(struct build_orders *w, int64_t at_us, enum document_form form,
           void (*between)(struct build_orders *w), struct buf *text)
{
    struct document_wish wish = wish_of(w, at_us, form);
    struct buf page = {.max = SIZE_MAX};
    struct problem why = {""};
    unsigned n = 0;

    do {
        if (n++ > 0 && between)
            between(w);
        wish.head = sets_head(&w->sets, "demo");
        buf_clear(&page);
        if (read_page(&wish, &page, &why))
            fail_msg("%s", why.text);
        buf_add(text, page.data, page.size - 1);
    } while (follow_next(&wish, page.data));
    buf_fini(&page);
    buf_add(text, "", 1);
    return n;
}

static unsigned
count(const char *text, const char *word)
{
    unsigned n = 0;

    while ((text = strstr(text, word))) {
        text += strlen(word);
        n++;
    }
    return n;
}

/* The pages have exactly the resources of the log folded up to `seq`: what a
 * reader of all changes has that stopped there. */
static void
assert_state(struct build_orders *w, uint64_t seq, const char *text,
             enum document_form form)
{
    static struct model m;
    unsigned n = 0;
    char loc[100];

    model_init(&m);
    model_fold_log(&m, w->sets.registry->log, sets_find(&w->sets, "demo")->log,
                   seq);
    for (unsigned i = 0; i < m.n_told; i++) {
        snprintf(loc, sizeof(loc), "{\"loc\":\"http://example.com/r/%u\"", i);
        n += m.resources[i].entry != NULL;
        if (form == DOCUMENT_JSON)
            assert_int_equal(count(text, loc), m.resources[i].entry != NULL);
        else if (m.resources[i].entry)
            assert_int_equal(count(text, m.resources[i].entry), 1);
    }
    assert_int_equal(count(text, form == DOCUMENT_JSON ? "{\"loc\":" : "<url>"),
                     n);
    model_fini(&m);
}

static void
post(struct build_orders *w, unsigned n, unsigned n_resources)
{
    struct buf json = {.max = SIZE_MAX};
    struct sets_outcome o;

    model_changes(&json, &w->random, n, n_resources);
    o = sets_post_body(&w->sets, "demo", "application/json", buf_slice(&json),
                       0);
    if (o.rc)
        fail_msg("%s", o.why.text);
    buf_fini(&json);
}

static int64_t
time_of(struct build_orders *w, uint64_t seq)
{
    struct log_set *set = sets_find(&w->sets, "demo")->log;
    struct batch *batch = NULL;
    struct head head = sets_head(&w->sets, "demo");
    int64_t us = seq ? head.last_us : head.created_us;

    if (seq > 0 && seq < head.last) {
        assert_int_equal(log_read(w->sets.registry->log, set, seq - 1, LOG_DISK,
                                  &batch, NULL),
                         STATUS_OK);
        us = batch_time(batch, seq);
        batch_unref(batch);
    }
    return us;
}

/* At the time of an entry, between two, and before the next one. */
static void
assert_moments(struct build_orders *w, uint64_t seq)
{
    struct head head = sets_head(&w->sets, "demo");
    int64_t at_us = time_of(w, seq);
    int64_t end_us = seq < head.last ? time_of(w, seq + 1) : at_us + 1000;
    const int64_t moments[] = {at_us, (at_us + end_us) / 2, end_us - 1};

    for (size_t i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) {
            enum document_form form = k ? DOCUMENT_JSON : DOCUMENT_XML;
            struct buf text = {.max = SIZE_MAX};

            (void)read_state(w, moments[i], form, NULL, &text);
            assert_state(w, seq, text.data, form);
            buf_fini(&text);
        }
}

/* The answer at that time is "gone", and has this sentence. */
static void
assert_gone(struct build_orders *w, int64_t at_us, const char *sentence)
{
    const struct document_wish wish = wish_of(w, at_us, DOCUMENT_JSON);
    struct buf text = {.max = SIZE_MAX};
    struct problem why = {""};

    assert_int_equal(read_page(&wish, &text, &why), STATUS_GONE);
    if (!strstr(why.text, sentence))
        fail_msg("%s", why.text);
    buf_fini(&text);
}

/* The archive keeps every list of that many. */
static void
open_set(struct build_orders *w, void **state, uint64_t keep)
{
    build_orders_configure(w, tempdir_path(state));
    w->sets.config.resource_list_keep = keep;
    w->sets.config.rotate_entries = 40;
    build_orders_begin(w);
}

/* Keeps so many Change Lists, when the state is on the disk. */
static void
retain(struct build_orders *w, uint64_t n)
{
    atomic_store(&sets_find(&w->sets, "demo")->retain_lists, n);
    for (int i = 0; i < 2; i++) {
        sets_retain(&w->sets);
        build_orders_work(w);
    }
    assert_true(sets_head(&w->sets, "demo").earliest > 0);
}

static void
assert_known_since(struct build_orders *w, int64_t us)
{
    char since[100] = "from ";

    datetime_write(since + strlen(since), us);
    assert_gone(w, us - 1, since);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* a state at any time is what a reader has that stopped there: before
 * the first list and behind it, at lists and between them, with deletions and
 * new creations, over closed lists. */
TEST(is_what_a_reader_has_that_stopped_there)
{
    struct build_orders w;
    uint64_t last;

    open_set(&w, state, 2);
    for (unsigned i = 0; i < 6; i++) {
        post(&w, 20, 60); /* few resources: many deletions */
        if (i % 2 == 1)
            build_orders_work(&w);
        sets_file_all(&w.sets);
    }
    post(&w, 7, 60);
    last = sets_head(&w.sets, "demo").last;
    assert_int_equal(last, 127);
    for (uint64_t seq = 0; seq <= last; seq += seq < 44 ? 1 : 3)
        assert_moments(&w, seq);
    assert_moments(&w, last);
    assert_known_since(&w, sets_head(&w.sets, "demo").created_us);
    build_orders_end(&w);
}

/* The log does not know what retention has removed. The answer names the first
 * list of which it keeps all later changes. */
TEST(is_known_from_the_first_list_that_all_changes_follow)
{
    struct build_orders w;
    struct head head;
    uint64_t first = 0;

    open_set(&w, state, 2);
    for (unsigned i = 0; i < 6; i++) {
        post(&w, 40, 60);
        build_orders_work(&w);
        sets_file_all(&w.sets);
        if (i == 3)
            first = sets_head(&w.sets, "demo").last;
    }
    retain(&w, 3);
    head = sets_head(&w.sets, "demo");
    assert_in_range(head.earliest, 81, first);
    assert_known_since(&w, time_of(&w, first));
    build_orders_end(&w);
}

/* A set that has lost its first changes, and has no list, has no past. */
TEST(names_the_next_list_where_there_is_none)
{
    struct build_orders w;

    open_set(&w, state, 2);
    atomic_store(&sets_unborn(&w.sets, "demo")->resource_list_every_us, 0);
    post(&w, 120, 60);
    sets_file_all(&w.sets);
    retain(&w, 1);
    assert_gone(&w, sets_head(&w.sets, "demo").last_us,
                "from its next Resource List");
    build_orders_end(&w);
}

static void
change_and_build(struct build_orders *w)
{
    post(w, 5, 60);
    build_orders_work(w);
}

/* all pages are of one state, whatever is posted and built meanwhile:
 * changes that are not later than the time, which no change has passed yet; a
 * later list of the same state. */
TEST(pages_are_of_one_state)
{
    static const struct {
        unsigned behind; /* the list */
        void (*between)(struct build_orders *w);
    } cases[] = {
        {9, change_and_build}, {0, change_and_build}, {9, build_orders_work}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf text = {.max = SIZE_MAX};
        struct build_orders w;
        uint64_t last;

        open_set(&w, state, 1);
        post(&w, 200, 60);
        build_orders_work(&w);
        if (cases[i].behind > 0)
            post(&w, cases[i].behind, 60);
        last = sets_head(&w.sets, "demo").last;
        assert_in_range(read_state(&w, sets_head(&w.sets, "demo").last_us + 5,
                                   DOCUMENT_XML, cases[i].between, &text),
                        3, 7);
        assert_state(&w, last, text.data, DOCUMENT_XML);
        buf_fini(&text);
        build_orders_end(&w);
        tempdir_teardown(state);
        tempdir_setup(state);
    }
}

/* A page of a list that is no longer kept is refused, not made of another. */
TEST(a_page_of_another_list_is_gone)
{
    struct buf text = {.max = SIZE_MAX};
    struct document_wish wish;
    struct build_orders w;

    open_set(&w, state, OPTION_KEEP_NONE);
    post(&w, 200, 60);
    build_orders_work(&w);
    wish = wish_of(&w, sets_head(&w.sets, "demo").last_us, DOCUMENT_XML);
    assert_int_equal(read_page(&wish, &text, NULL), STATUS_OK);
    assert_true(follow_next(&wish, text.data));
    change_and_build(&w);
    wish.head = sets_head(&w.sets, "demo");
    assert_int_equal(read_page(&wish, &text, NULL), STATUS_GONE);
    wish.number = 0;
    assert_int_equal(read_page(&wish, &text, NULL), STATUS_GONE);
    wish.page = 1;
    assert_int_equal(read_page(&wish, &text, NULL), STATUS_OK);
    buf_fini(&text);
    build_orders_end(&w);
}

/* A request reads no more changes than a post may have bytes. */
TEST(has_a_limit)
{
    static const struct {
        unsigned heavy;
        enum status rc;
    } cases[] = {{9, STATUS_OK}, {11, STATUS_TOO_LARGE}};
    struct problem why = {""};

    for (size_t i = 0; i < 2; i++) {
        struct buf text = {.max = SIZE_MAX};
        struct document_wish wish;
        struct build_orders w;

        open_set(&w, state, 2);
        w.sets.config.max_body = 10 * 2100;
        sets_post_heavy(&w.sets, "demo", (unsigned)i, cases[i].heavy, 2000);
        wish = wish_of(&w, sets_head(&w.sets, "demo").last_us, DOCUMENT_XML);
        assert_int_equal(read_page(&wish, &text, &why), cases[i].rc);
        buf_fini(&text);
        build_orders_end(&w);
        tempdir_teardown(state);
        tempdir_setup(state);
    }
    assert_non_null(strstr(why.text, "--max-body"));
}

/* A page counts what it reads, and stops when its turn is used up or nobody
 * waits for it. */
TEST(a_page_ends_with_its_turn_or_its_client)
{
    struct buf text = {.max = SIZE_MAX};
    struct effort effort = {.most = 1000};
    struct document_wish wish;
    struct build_orders w;

    open_set(&w, state, 2);
    post(&w, 20, 60);
    wish = wish_of(&w, sets_head(&w.sets, "demo").last_us, DOCUMENT_XML);
    wish.effort = &effort;
    assert_int_equal(read_page(&wish, &text, NULL), STATUS_OK);
    assert_in_range(effort.used, 20, 1000);
    effort.most = effort.used - 1;
    effort.used = 0;
    assert_int_equal(read_page(&wish, &text, NULL), STATUS_LIMITED);
    effort = (struct effort){.most = 1000, .is_unwanted = true};
    assert_int_equal(read_page(&wish, &text, NULL), STATUS_STOPPED);
    assert_int_equal(effort.used, EFFORT_OF_ENTRY);
    buf_fini(&text);
    build_orders_end(&w);
}
