/*
 * shared_tokens_test.c - tokens of a cluster: those of two brokers, `a` and
 * `b`, that follow one stream.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "broker/access/tokens.h"
#include "tests/clock.h"
#include "tests/support/shared_streams.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

struct broker {
    struct streams_seat seat;
    char dir[300];
    struct tokens *tokens;
};

struct pair {
    struct tempdir dir;
    struct shared_streams all;
    struct broker a, b;
};

static void
broker_begin(struct pair *p, struct broker *b, const char *name)
{
    snprintf(b->dir, sizeof(b->dir), "%s/%s", p->dir.path, name);
    assert_int_equal(mkdir(b->dir, 0700), 0);
    streams_seat_take(&b->seat, &p->all, name);
}

/* Opens its tokens, as a broker that is alone. */
static void
open_alone(struct broker *b)
{
    struct problem why = {""};

    tokens_close(b->tokens);
    if (tokens_open(&b->tokens, b->dir, &why))
        fail_msg("%s", why.text);
}

static void
join(struct broker *b, const char *refusal)
{
    struct problem why = {""};

    open_alone(b);
    if (tokens_join(b->tokens, &b->seat.streams, refusal, &why))
        fail_msg("%s", why.text);
}

static int
setup(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    tempdir_open(&p->dir);
    shared_streams_init(&p->all);
    broker_begin(p, &p->a, "a");
    broker_begin(p, &p->b, "b");
    *state = p;
    return 0;
}

static int
teardown(void **state)
{
    struct pair *p = *state;

    tokens_close(p->a.tokens);
    tokens_close(p->b.tokens);
    shared_streams_fini(&p->all);
    tempdir_close(&p->dir);
    free(p);
    return 0;
}

FIXTURE(setup, teardown);

static void
join_both(struct pair *p)
{
    join(&p->a, NULL);
    join(&p->b, NULL);
}

static enum status
follow(struct broker *b)
{
    struct problem why;

    return tokens_follow(b->tokens, &why);
}

static enum status
add(struct broker *b, const char *name, char text[TOKEN_TEXT_SIZE],
    struct problem *why)
{
    struct token_terms terms = {.ends_us = INT64_MAX};

    snprintf(terms.name, sizeof(terms.name), "%s", name);
    snprintf(terms.rights.publish, PATTERNS_SIZE, "news");
    return tokens_add(b->tokens, NULL, &terms, text, why);
}

static void
must_add(struct broker *b, const char *name, char text[TOKEN_TEXT_SIZE])
{
    struct problem why = {""};

    if (add(b, name, text, &why))
        fail_msg("%s", why.text);
}

static struct principal *
find(struct broker *b, const char *text)
{
    return tokens_find(b->tokens, slice_of(text), clock_now_us());
}

static bool
is_known(struct broker *b, const char *text)
{
    struct principal *p = find(b, text);

    principal_unref(p);
    return p != NULL;
}

TEST(a_token_holds_at_all_brokers)
{
    struct pair *p = *state;
    char text[TOKEN_TEXT_SIZE], other[TOKEN_TEXT_SIZE];

    join_both(p);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_true(tokens_are_open(p->b.tokens));
    must_add(&p->a, "press", text);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_false(tokens_are_open(p->b.tokens));
    assert_true(is_known(&p->b, text));
    must_add(&p->b, "desk", other);
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_true(is_known(&p->a, other));
    assert_true(is_known(&p->a, text));
}

TEST(a_token_revoked_at_one_broker_ends_at_the_others)
{
    struct pair *p = *state;
    char text[TOKEN_TEXT_SIZE], other[TOKEN_TEXT_SIZE];
    struct principal *ended, *kept;

    join_both(p);
    must_add(&p->a, "press", text);
    must_add(&p->a, "desk", other);
    assert_int_equal(follow(&p->b), STATUS_OK);
    ended = find(&p->b, text);
    kept = find(&p->b, other);
    assert_int_equal(tokens_revoke(p->a.tokens, NULL, SLICE("press"), NULL),
                     STATUS_OK);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_true(principal_is_over(ended, clock_now_us()));
    assert_false(principal_is_over(kept, clock_now_us()));
    assert_false(is_known(&p->b, text));
    principal_unref(ended);
    principal_unref(kept);
    /* Also the last one, and for a broker that comes later. */
    assert_int_equal(tokens_revoke(p->a.tokens, NULL, SLICE("desk"), NULL),
                     STATUS_OK);
    shared_streams_forget(&p->all);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_false(tokens_are_open(p->b.tokens));
}

/* The rows are gone; what remains is that there were some. */
TEST(whoever_was_revoked_at_another_broker_changes_no_token)
{
    struct pair *p = *state;
    struct token_terms terms = {.name = "new", .ends_us = INT64_MAX};
    char text[TOKEN_TEXT_SIZE], other[TOKEN_TEXT_SIZE];
    struct principal *press;
    const struct authority *by;

    join_both(p);
    must_add(&p->a, "press", text);
    must_add(&p->a, "desk", other);
    assert_int_equal(follow(&p->b), STATUS_OK);
    press = find(&p->b, text);
    by = &press->authority;
    snprintf(terms.rights.publish, PATTERNS_SIZE, "news");
    assert_int_equal(tokens_revoke(p->a.tokens, NULL, SLICE("press"), NULL),
                     STATUS_OK);

    /* It has not followed since. */
    assert_int_equal(tokens_add(p->b.tokens, by, &terms, text, NULL),
                     STATUS_DENIED);
    assert_int_equal(
        tokens_rotate(p->b.tokens, by, SLICE("desk"), 0, text, NULL),
        STATUS_DENIED);
    assert_string_equal(text, "");
    assert_int_equal(tokens_revoke(p->b.tokens, by, SLICE("desk"), NULL),
                     STATUS_DENIED);
    assert_true(is_known(&p->b, other));
    principal_unref(press);
}

TEST(a_broker_that_comes_after_the_last_token_is_closed)
{
    struct pair *p = *state;
    char text[TOKEN_TEXT_SIZE];

    join(&p->a, NULL);
    must_add(&p->a, "press", text);
    assert_int_equal(tokens_revoke(p->a.tokens, NULL, SLICE("press"), NULL),
                     STATUS_OK);
    shared_streams_forget(&p->all);
    join(&p->b, NULL);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_false(tokens_are_open(p->b.tokens));
}

TEST(a_rotated_token_has_its_grace_at_all_brokers)
{
    struct pair *p = *state;
    char old[TOKEN_TEXT_SIZE], text[TOKEN_TEXT_SIZE];

    join_both(p);
    must_add(&p->a, "press", old);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_int_equal(
        tokens_rotate(p->a.tokens, NULL, SLICE("press"), 1000, text, NULL),
        STATUS_OK);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_true(is_known(&p->b, old));
    assert_true(is_known(&p->b, text));
    clock_pass_us(1001);
    assert_false(is_known(&p->b, old));
    assert_true(is_known(&p->b, text));
}

/* A change reads first what others have changed. */
TEST(a_name_is_taken_at_all_brokers_at_once)
{
    struct pair *p = *state;
    char text[TOKEN_TEXT_SIZE], other[TOKEN_TEXT_SIZE];
    struct problem why = {""};

    join_both(p);
    must_add(&p->a, "press", text);
    assert_int_equal(add(&p->b, "press", other, &why), STATUS_CONFLICT);
    assert_string_equal(other, "");
    assert_true(is_known(&p->b, text));
    assert_int_equal(tokens_revoke(p->b.tokens, NULL, SLICE("press"), NULL),
                     STATUS_OK);
    must_add(&p->b, "press", other);
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_false(is_known(&p->a, text));
    assert_true(is_known(&p->a, other));
}

/* As of a single broker that becomes the first. */
TEST(the_first_broker_brings_its_tokens)
{
    struct pair *p = *state;
    char text[TOKEN_TEXT_SIZE];

    open_alone(&p->a);
    must_add(&p->a, "press", text);
    join_both(p);
    assert_int_equal(follow(&p->a), STATUS_OK);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_true(is_known(&p->b, text));
}

/* Neither table is lost. */
TEST(a_broker_with_tokens_of_its_own_keeps_them)
{
    struct pair *p = *state;
    char text[TOKEN_TEXT_SIZE], own[TOKEN_TEXT_SIZE], other[TOKEN_TEXT_SIZE];
    struct problem why = {""};

    open_alone(&p->b);
    must_add(&p->b, "desk", own);
    join_both(p);
    must_add(&p->a, "press", text);
    assert_int_equal(follow(&p->b), STATUS_DIFFERENT);
    assert_true(is_known(&p->b, own));
    assert_false(is_known(&p->b, text));
    assert_int_equal(add(&p->b, "more", other, &why), STATUS_BUSY);
    assert_non_null(strstr(why.text, "move the file away"));
}

TEST(a_change_without_the_journal_is_refused)
{
    static const struct {
        enum append_outcome outcome;
        bool is_kept;
    } cases[] = {{APPEND_LOST, false},
                 {APPEND_UNKNOWN_LOST, false},
                 {APPEND_UNKNOWN_KEPT, true}};
    struct pair *p = *state;
    char text[TOKEN_TEXT_SIZE], name[20], lost[TOKEN_TEXT_SIZE];

    join_both(p);
    must_add(&p->a, "press", text);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct problem why = {""};

        snprintf(name, sizeof(name), "lost-%u", i);
        p->a.seat.outcome = cases[i].outcome;
        assert_int_equal(add(&p->a, name, lost, &why), STATUS_BUSY);
        p->a.seat.outcome = APPEND_KEPT;
        assert_string_equal(lost, "");
        assert_int_equal(follow(&p->a), STATUS_OK);
        assert_int_equal(follow(&p->b), STATUS_OK);
        assert_int_equal(tokens_revoke(p->b.tokens, NULL, slice_of(name), NULL),
                         cases[i].is_kept ? STATUS_OK : STATUS_NOT_FOUND);
    }
    streams_seat_cut(&p->a.seat, true);
    assert_int_equal(tokens_revoke(p->a.tokens, NULL, SLICE("press"), NULL),
                     STATUS_BUSY);
    assert_int_equal(follow(&p->a), STATUS_UNREACHABLE);
    assert_true(is_known(&p->a, text));
}

TEST(a_broker_that_only_reads_changes_no_token)
{
    struct pair *p = *state;
    char text[TOKEN_TEXT_SIZE], other[TOKEN_TEXT_SIZE];
    struct problem why = {""};

    join(&p->a, NULL);
    must_add(&p->a, "press", text);
    join(&p->b, "it only reads");
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_true(is_known(&p->b, text));
    assert_int_equal(add(&p->b, "desk", other, &why), STATUS_FORBIDDEN);
    assert_string_equal(why.text, "it only reads");
}

/* A new broker must not let everybody in while the journal does not answer. */
TEST(a_broker_that_never_asked_does_not_know_whether_it_is_open)
{
    struct pair *p = *state;

    streams_seat_cut(&p->b.seat, true);
    join(&p->b, NULL);
    assert_int_equal(follow(&p->b), STATUS_UNREACHABLE);
    assert_true(tokens_are_unknown(p->b.tokens));
    assert_false(tokens_are_open(p->b.tokens));
    streams_seat_cut(&p->b.seat, false);
    assert_int_equal(follow(&p->b), STATUS_OK);
    assert_false(tokens_are_unknown(p->b.tokens));
    assert_true(tokens_are_open(p->b.tokens));
    streams_seat_cut(&p->b.seat, true); /* a restart remembers the answer */
    join(&p->b, NULL);
    assert_false(tokens_are_unknown(p->b.tokens));
    assert_true(tokens_are_open(p->b.tokens));
}

TEST(the_database_says_whose_tokens_it_has)
{
    struct pair *p = *state;
    char text[TOKEN_TEXT_SIZE];
    bool are_shared = true;

    open_alone(&p->a);
    assert_int_equal(tokens_look_shared(p->a.tokens, &are_shared, NULL),
                     STATUS_OK);
    assert_false(are_shared);
    must_add(&p->a, "press", text);
    assert_int_equal(tokens_look_shared(p->a.tokens, &are_shared, NULL),
                     STATUS_OK);
    assert_false(are_shared);
    join(&p->a, NULL);
    assert_int_equal(follow(&p->a), STATUS_OK);
    open_alone(&p->a);
    assert_int_equal(tokens_look_shared(p->a.tokens, &are_shared, NULL),
                     STATUS_OK);
    assert_true(are_shared);
}
