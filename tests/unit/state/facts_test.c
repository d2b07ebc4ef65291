/*
 * facts_test.c - in a cluster the rows of content follow from facts alone:
 * content.h, act.h.
 */

#include <stdio.h>
#include <stdlib.h>

#include "broker/state/content.h"
#include "tests/support/kept.h"
#include "tests/support/logs.h"
#include "tests/support/telling.h"
#include "tests/test.h"

struct world {
    struct telling *telling;
    struct logs logs;
    struct log_set *set;
    char dir[320];
};

static int
setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    assert_int_equal(telling_setup((void **)&w->telling), 0);
    snprintf(w->dir, sizeof(w->dir), "%s/log", w->telling->dir);
    logs_open(&w->logs, w->dir, 1000);
    w->set = logs_set(&w->logs, "news");
    assert_int_equal(logs_post(&w->logs, w->set, 1, 9, NULL, NULL), STATUS_OK);
    *state = w;
    return 0;
}

static int
teardown(void **state)
{
    struct world *w = *state;

    logs_close(&w->logs);
    telling_teardown((void **)&w->telling);
    free(w);
    return 0;
}

FIXTURE(setup, teardown);

/* The log gets a fact of entry `seq`: text `text` is kept; is it here? */
static void
keep(struct world *w, uint64_t seq, unsigned text, bool is_here)
{
    struct act act = {.kind = ACT_CONTENT,
                      .content = {.seq = seq,
                                  .length = kept_length(text),
                                  .is_here = is_here}};
    char bytes[KEPT_SIZE];

    kept_text(bytes, text);
    kept_digest(&act.content.digest, text);
    act.content.bytes = slice_of(bytes);
    assert_int_equal(log_act(w->logs.log, w->set, &act, 0, NULL), STATUS_OK);
}

static void
postpone(struct world *w, uint64_t seq, int64_t due_us)
{
    const struct act act = {.kind = ACT_CONTENT,
                            .content = {.seq = seq, .due_us = due_us}};

    assert_int_equal(log_act(w->logs.log, w->set, &act, 0, NULL), STATUS_OK);
}

/* Settles facts; then so many entries have no content, and there are so many
 * files. */
static void
assert_settled(struct world *w, uint64_t from, uint64_t missing, uint64_t files)
{
    const struct telling *t = w->telling;
    struct problem why = {""};
    bool is_more = true;

    if (content_settle(t->content, w->logs.log, w->set, from, t->arriving,
                       &is_more, &why))
        fail_msg("%s", why.text);
    assert_false(is_more);
    assert_int_equal(content_at(t->content)->missing, missing);
    assert_int_equal(content_at(t->content)->files, files);
}

/* Bytes that are in the store for another entry, or that nobody needs yet,
 * count nothing: at another broker they may be gone. */
TEST(no_entry_is_kept_without_a_fact)
{
    struct world *w = *state;
    struct content_missing m = {0};

    assert_settled(w, 1, 0, 0);
    telling_place(w->telling, 1);
    telling_tell(w->telling, 1, false, true, 1);
    telling_fold_to(w->telling, 1);
    assert_settled(w, 1, 1, 0);
    assert_int_equal(
        content_missing(w->telling->content, INT64_MAX - 1, &m, NULL),
        STATUS_OK);
    assert_false(m.is_settled);
    keep(w, 1, 1, true);
    assert_settled(w, 1, 0, 1);
}

/* The entries before the cluster have no facts: the store counts. */
TEST(the_store_counts_for_entries_from_before_the_cluster)
{
    struct world *w = *state;

    assert_settled(w, 2, 0, 0);
    telling_place(w->telling, 1);
    telling_tell(w->telling, 1, false, true, 1);
    telling_tell(w->telling, 2, false, true, 1);
    telling_fold_to(w->telling, 2);
    assert_settled(w, 2, 1, 1);
}

/* The bytes of a fact come into the store with its row; a fact waits for its
 * entry, and those behind it wait, too. None counts twice. */
TEST(a_fact_brings_bytes_and_row_once)
{
    struct world *w = *state;
    struct content_bytes bytes;

    keep(w, 1, 1, false);
    keep(w, 3, 3, false);
    keep(w, 2, 2, false);
    assert_settled(w, 1, 0, 0);
    for (unsigned i = 1; i <= 3; i++)
        telling_tell(w->telling, i, false, true, i);
    telling_fold_to(w->telling, 2);
    assert_settled(w, 1, 1, 1);
    assert_true(kept_is_there(w->telling->dir, 1));
    assert_false(kept_is_there(w->telling->dir, 2));
    telling_reopen(w->telling);
    telling_fold_to(w->telling, 3);
    for (int i = 0; i < 2; i++) {
        assert_settled(w, 1, 0, 3);
        assert_int_equal(content_find(w->telling->content, 3, &bytes, NULL),
                         STATUS_OK);
        assert_true(bytes.is_there && kept_is_there(w->telling->dir, 3));
    }
}

/* The last fact counts; but no fact takes back kept bytes. */
TEST(a_failed_fetch_is_a_fact_too)
{
    struct world *w = *state;
    struct content_missing m = {0};

    for (unsigned i = 1; i <= 3; i++)
        telling_tell(w->telling, i, false, true, i);
    assert_settled(w, 1, 0, 0);
    telling_fold_to(w->telling, 3);
    postpone(w, 1, 77);
    postpone(w, 2, CONTENT_NEVER);
    keep(w, 3, 3, false);
    postpone(w, 3, CONTENT_NEVER);
    assert_settled(w, 1, 2, 1);
    assert_int_equal(content_missing(w->telling->content, 77, &m, NULL),
                     STATUS_OK);
    assert_true(m.seq == 1 && m.due_us == 77 && m.tries == 1);
    assert_int_equal(
        content_missing(w->telling->content, INT64_MAX - 1, &m, NULL),
        STATUS_NOT_FOUND);
    keep(w, 1, 1, false);
    keep(w, 2, 2, false); /* of an owner that did not know better */
    assert_settled(w, 1, 0, 3);
}

/* A set that kept none for a while has lost its files: no row names one. */
TEST(a_fact_without_bytes_needs_the_file)
{
    struct world *w = *state;
    const struct act taken = {.kind = ACT_TAKEN, .taken = {.upto = 1}};

    telling_tell(w->telling, 1, false, true, 1);
    telling_tell(w->telling, 2, false, true, 2);
    assert_settled(w, 1, 0, 0);
    keep(w, 1, 1, false);
    keep(w, 2, 2, false);
    assert_int_equal(log_act(w->logs.log, w->set, &taken, 0, NULL), STATUS_OK);
    telling_fold_to(w->telling, 2);
    assert_settled(w, 1, 1, 1);
    assert_true(kept_is_there(w->telling->dir, 2));
}
