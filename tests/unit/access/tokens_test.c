/*
 * tokens_test.c - tokens.db: finding, ending and keeping tokens.
 */
#include "broker/access/tokens.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/clock.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

FIXTURE(tempdir_setup, tempdir_teardown);

static struct tokens *
reopen(void **state, struct tokens *tokens)
{
    struct problem why = {""};

    tokens_close(tokens);
    if (tokens_open(&tokens, tempdir_path(state), &why))
        fail_msg("%s", why.text);
    return tokens;
}

static struct token_terms
terms_of(const char *name, const char *publish, int64_t ends_us)
{
    struct token_terms terms = {.ends_us = ends_us};

    snprintf(terms.name, sizeof(terms.name), "%s", name);
    snprintf(terms.rights.publish, PATTERNS_SIZE, "%s", publish);
    return terms;
}

static void
add(struct tokens *tokens, const char *name, int64_t ends_us,
    char text[TOKEN_TEXT_SIZE])
{
    struct token_terms terms = terms_of(name, "news", ends_us);
    struct problem why = {""};

    if (tokens_add(tokens, NULL, &terms, text, &why))
        fail_msg("%s", why.text);
}

/* The name of the token's principal; "": none. */
static const char *
found(struct tokens *tokens, const char *text)
{
    static char name[PRINCIPAL_NAME_MAX + 1];
    struct principal *p = tokens_find(tokens, slice_of(text), clock_now_us());

    snprintf(name, sizeof(name), "%s", p ? p->name : "");
    principal_unref(p);
    return name;
}

static bool
may_publish(struct tokens *tokens)
{
    struct principal *p = tokens_anonymous(tokens, clock_now_us());
    bool may = rights_include(&p->rights, RIGHT_PUBLISH, SLICE("news"));

    principal_unref(p);
    return may;
}

/* The first token ends openness at once, and for ever: also when none is left,
 * and after a restart. */
TEST(the_first_token_closes_the_broker_for_ever)
{
    struct tokens *tokens = reopen(state, NULL);
    struct principal *open = tokens_anonymous(tokens, clock_now_us());
    char text[TOKEN_TEXT_SIZE];

    assert_true(tokens_are_open(tokens));
    assert_true(may_publish(tokens));
    assert_no_file(tempdir_fd(state), "tokens.db");
    add(tokens, "press", INT64_MAX, text);
    assert_false(tokens_are_open(tokens));
    assert_false(may_publish(tokens));
    assert_true(principal_is_over(open, clock_now_us()));
    principal_unref(open);
    assert_int_equal(tokens_revoke(tokens, NULL, SLICE("press"), NULL),
                     STATUS_OK);
    assert_false(tokens_are_open(tokens));
    tokens = reopen(state, tokens);
    assert_false(tokens_are_open(tokens));
    assert_false(may_publish(tokens));
    tokens_close(tokens);
}

struct guard {
    enum status outcome;
    unsigned n_on, n_off;
};

static enum status
note_guard(void *user, bool is_on, struct problem *why)
{
    struct guard *guard = user;

    guard->n_on += is_on;
    guard->n_off += !is_on;
    return guard->outcome ? problem(why, guard->outcome, "no room") : STATUS_OK;
}

/* No token is made that the store does not know of. */
TEST(the_guard_comes_before_the_first_token)
{
    struct tokens *tokens = reopen(state, NULL);
    struct token_terms terms = terms_of("press", "news", INT64_MAX);
    struct guard guard = {.outcome = STATUS_BUSY};
    struct problem why = {""};
    char text[TOKEN_TEXT_SIZE];

    tokens_guard(tokens, note_guard, &guard);
    assert_int_equal(tokens_add(tokens, NULL, &terms, text, &why), STATUS_BUSY);
    assert_string_equal(why.text, "no room");
    assert_string_equal(text, "");
    assert_true(tokens_are_open(tokens));
    assert_no_file(tempdir_fd(state), "tokens.db");
    guard.outcome = STATUS_OK;
    add(tokens, "press", INT64_MAX, text);
    assert_int_equal(guard.n_on, 2);
    assert_false(tokens_are_open(tokens));
    assert_int_equal(tokens_open_again(tokens, &why), STATUS_CONFLICT);
    assert_int_equal(tokens_revoke(tokens, NULL, SLICE("press"), NULL),
                     STATUS_OK);
    assert_int_equal(tokens_open_again(tokens, &why), STATUS_OK);
    assert_int_equal(guard.n_off, 1);
    assert_false(tokens_are_open(tokens)); /* until the next start */
    tokens = reopen(state, tokens);
    assert_true(tokens_are_open(tokens));
    assert_true(may_publish(tokens));
    tokens_close(tokens);
}

TEST(the_open_principal_is_no_administrator)
{
    struct tokens *tokens = reopen(state, NULL);
    struct principal *open = tokens_anonymous(tokens, clock_now_us());
    struct principal *operator= tokens_operator(tokens);

    for (unsigned bit = RIGHT_PUBLISH; bit <= RIGHT_ADMIN; bit <<= 1) {
        assert_int_equal(rights_include(&open->rights, bit, SLICE("news")),
                         bit != RIGHT_ADMIN);
        assert_true(rights_include(&operator->rights, bit, SLICE("news")));
    }
    principal_unref(open);
    principal_unref(operator);
    tokens_close(tokens);
}

TEST(a_token_is_found_by_its_whole_text)
{
    struct tokens *tokens = reopen(state, NULL);
    char text[TOKEN_TEXT_SIZE], other[TOKEN_TEXT_SIZE], bad[TOKEN_TEXT_SIZE];

    add(tokens, "press", INT64_MAX, text);
    add(tokens, "desk", INT64_MAX, other);
    for (int i = 0; i < 2; i++, tokens = reopen(state, tokens)) {
        assert_string_equal(found(tokens, text), "press");
        assert_string_equal(found(tokens, other), "desk");
    }
    for (size_t i = 0; i < strlen(text); i++) {
        memcpy(bad, text, sizeof(bad));
        bad[i] = bad[i] == '0' ? '1' : '0';
        assert_string_equal(found(tokens, bad), "");
    }
    memcpy(bad, text, sizeof(bad));
    memcpy(bad, other, 3 + TOKEN_ID_SIZE); /* the secret of another one */
    assert_string_equal(found(tokens, bad), "");
    assert_string_equal(found(tokens, ""), "");
    bad[TOKEN_TEXT_SIZE - 2] = '\0';
    assert_string_equal(found(tokens, bad), "");
    tokens_close(tokens);
}

/* No page of the database has a secret. */
TEST(the_database_has_no_secret)
{
    struct tokens *tokens = reopen(state, NULL);
    char text[TOKEN_TEXT_SIZE], path[4096];
    static char bytes[1 << 20];
    size_t n;
    FILE *file;

    add(tokens, "press", INT64_MAX, text);
    tokens_close(tokens);
    snprintf(path, sizeof(path), "%s/tokens.db", tempdir_path(state));
    file = fopen(path, "rb");
    assert_non_null(file);
    n = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    assert_non_null(memmem(bytes, n, "press", 5));
    assert_null(memmem(bytes, n, text + 4 + TOKEN_ID_SIZE, 16));
}

TEST(an_end_is_kept)
{
    struct tokens *tokens = reopen(state, NULL);
    struct principal *p;
    char text[TOKEN_TEXT_SIZE];

    add(tokens, "press", clock_now_us() + 1000, text);
    p = tokens_find(tokens, slice_of(text), clock_now_us());
    assert_non_null(p);
    clock_pass_us(1000);
    assert_true(principal_is_over(p, clock_now_us()));
    principal_unref(p);
    assert_string_equal(found(tokens, text), "");
    tokens = reopen(state, tokens);
    assert_string_equal(found(tokens, text), "");
    tokens_close(tokens);
}

TEST(a_revoked_token_ends_what_acts_for_it)
{
    struct tokens *tokens = reopen(state, NULL);
    struct principal *p;
    char text[TOKEN_TEXT_SIZE];

    add(tokens, "press", INT64_MAX, text);
    p = tokens_find(tokens, slice_of(text), clock_now_us());
    assert_int_equal(tokens_revoke(tokens, NULL, SLICE("press"), NULL),
                     STATUS_OK);
    assert_true(principal_is_over(p, clock_now_us()));
    principal_unref(p);
    assert_string_equal(found(tokens, text), "");
    assert_int_equal(tokens_revoke(tokens, NULL, SLICE("press"), NULL),
                     STATUS_NOT_FOUND);
    tokens = reopen(state, tokens);
    assert_string_equal(found(tokens, text), "");
    tokens_close(tokens);
}

/* Both secrets hold for the grace. */
TEST(a_rotated_token_has_a_grace)
{
    struct tokens *tokens = reopen(state, NULL);
    char old[TOKEN_TEXT_SIZE], text[TOKEN_TEXT_SIZE];

    add(tokens, "press", INT64_MAX, old);
    assert_int_equal(
        tokens_rotate(tokens, NULL, SLICE("press"), 1000, text, NULL),
        STATUS_OK);
    for (int i = 0; i < 2; i++, tokens = reopen(state, tokens)) {
        assert_string_equal(found(tokens, old), "press");
        assert_string_equal(found(tokens, text), "press");
    }
    clock_pass_us(1000);
    assert_string_equal(found(tokens, old), "");
    assert_string_equal(found(tokens, text), "press");
    assert_int_equal(tokens_rotate(tokens, NULL, SLICE("none"), 0, text, NULL),
                     STATUS_NOT_FOUND);
    tokens_close(tokens);
}

/* The token "everyone" gives rights to requests without a token. */
/* A certificate holds as long as a token of its name; two tokens cannot name
 * it. */
TEST(a_certificate_is_that_of_one_token)
{
    struct slice one = SLICE("abababababababababababababababab"
                             "abababababababababababababababab");
    struct token_terms terms = terms_of("press", "news", INT64_MAX);
    struct problem why = {""};
    struct tokens *tokens = reopen(state, NULL);
    char text[TOKEN_TEXT_SIZE];
    struct principal *p;

    assert_null(tokens_by(tokens, TOKEN_BY_CERTIFICATE, one, clock_now_us()));
    memcpy(terms.certificate, one.data, one.size);
    assert_int_equal(tokens_add(tokens, NULL, &terms, text, &why), STATUS_OK);
    assert_int_equal(
        tokens_rotate(tokens, NULL, SLICE("press"), 10 * 1000000, text, &why),
        STATUS_OK);
    tokens = reopen(state, tokens);
    memcpy(terms.name, "other", sizeof("other"));
    assert_int_equal(tokens_add(tokens, NULL, &terms, text, &why),
                     STATUS_CONFLICT);
    assert_string_equal(why.text,
                        "the token \"press\" names the same certificate");
    clock_pass_us(11 * 1000000);
    p = tokens_by(tokens, TOKEN_BY_CERTIFICATE, one, clock_now_us());
    assert_non_null(p);
    assert_string_equal(p->name, "press");
    assert_false(principal_is_over(p, clock_now_us()));

    assert_int_equal(tokens_revoke(tokens, NULL, SLICE("press"), &why),
                     STATUS_OK);
    assert_true(principal_is_over(p, clock_now_us()));
    principal_unref(p);
    assert_null(tokens_by(tokens, TOKEN_BY_CERTIFICATE, one, clock_now_us()));
    assert_int_equal(tokens_add(tokens, NULL, &terms, text, &why), STATUS_OK);
    tokens_close(tokens);
}

TEST(everyone_has_the_rights_of_its_token)
{
    struct tokens *tokens = reopen(state, NULL);
    char text[TOKEN_TEXT_SIZE];

    add(tokens, PRINCIPAL_EVERYONE, INT64_MAX, text);
    assert_string_equal(text, "");
    assert_true(may_publish(tokens));
    assert_int_equal(
        tokens_rotate(tokens, NULL, SLICE("everyone"), 0, text, NULL),
        STATUS_INVALID);
    tokens = reopen(state, tokens);
    assert_true(may_publish(tokens));
    assert_int_equal(tokens_revoke(tokens, NULL, SLICE("everyone"), NULL),
                     STATUS_OK);
    assert_false(may_publish(tokens));
    tokens_close(tokens);
}

TEST(a_bad_token_is_refused_and_leaves_no_file)
{
    struct tokens *tokens = reopen(state, NULL);
    static const char *const names[] = {"", "self", "A", "-a", "a b", "a/b"};
    struct token_terms terms;
    struct problem why = {""};
    char text[TOKEN_TEXT_SIZE];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        terms = terms_of(names[i], "news", INT64_MAX);
        assert_int_equal(tokens_add(tokens, NULL, &terms, text, &why),
                         STATUS_INVALID);
    }
    terms = terms_of("press", "", INT64_MAX);
    assert_int_equal(tokens_add(tokens, NULL, &terms, text, &why),
                     STATUS_INVALID);
    terms = terms_of("press", "news", clock_now_us());
    assert_int_equal(tokens_add(tokens, NULL, &terms, text, &why),
                     STATUS_INVALID);
    terms = terms_of(PRINCIPAL_EVERYONE, "news", INT64_MAX);
    terms.rights.admin = true;
    assert_int_equal(tokens_add(tokens, NULL, &terms, text, &why),
                     STATUS_INVALID);
    assert_no_file(tempdir_fd(state), "tokens.db");
    assert_true(tokens_are_open(tokens));
    add(tokens, "press", INT64_MAX, text);
    terms = terms_of("press", "news", INT64_MAX);
    assert_int_equal(tokens_add(tokens, NULL, &terms, text, &why),
                     STATUS_CONFLICT);
    tokens_close(tokens);
}

TEST(the_last_use_is_kept)
{
    struct tokens *tokens = reopen(state, NULL);
    struct principal *p;
    char text[TOKEN_TEXT_SIZE];
    int64_t used_us;

    add(tokens, "press", INT64_MAX, text);
    clock_pass_us(5000000);
    assert_string_equal(found(tokens, text), "press");
    used_us = clock_now_us();
    tokens = reopen(state, tokens);
    p = tokens_named(tokens, SLICE("press"), clock_now_us());
    assert_int_equal(atomic_load(&p->used_us), used_us);
    principal_unref(p);
    tokens_close(tokens);
}

/* The use of the only token, as the disk has it. */
static enum status
see_use(const struct token_view *view, void *user)
{
    *(int64_t *)user = view->used_us;
    return STATUS_OK;
}

static int64_t
use_on_disk(void **state)
{
    struct tokens *tokens = NULL;
    int64_t used_us = -1;

    assert_int_equal(tokens_open(&tokens, tempdir_path(state), NULL),
                     STATUS_OK);
    assert_int_equal(tokens_each(tokens, see_use, &used_us), STATUS_OK);
    tokens_close(tokens);
    return used_us;
}

static void
save(struct tokens *tokens)
{
    assert_int_equal(tokens_save_uses(tokens, false, NULL), STATUS_OK);
}

/* The disk has a use after a minute at most, and the last one in the end. */
TEST(saves_uses_once_a_minute_and_at_the_end)
{
    struct tokens *tokens = reopen(state, NULL);
    char text[TOKEN_TEXT_SIZE];
    int64_t first_us;

    save(tokens); /* there is no database yet */
    add(tokens, "press", INT64_MAX, text);
    save(tokens);
    assert_int_equal(use_on_disk(state), 0);
    assert_string_equal(found(tokens, text), "press");
    save(tokens);
    first_us = clock_now_us();
    assert_int_equal(use_on_disk(state), first_us);

    clock_pass_us(59999999);
    assert_string_equal(found(tokens, text), "press");
    save(tokens);
    assert_int_equal(use_on_disk(state), first_us);
    clock_pass_us(1);
    assert_string_equal(found(tokens, text), "press");
    save(tokens);
    assert_int_equal(use_on_disk(state), first_us + 60000000);

    clock_pass_us(1000000);
    assert_string_equal(found(tokens, text), "press");
    tokens_close(tokens);
    assert_int_equal(use_on_disk(state), first_us + 61000000);
}
