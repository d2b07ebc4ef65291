#include "broker/access/identity_provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/access/jwt_maker.h"

#define SECOND   ((int64_t)1000000)
#define ISSUER   "https://idp.example"
#define AUDIENCE "tidings"

static struct identity_provider *v;

/* A set with these keys, by "rsa", "ec" and "secret". */
static struct jwk_set *
keys(const char *names)
{
    static const char *const all[] = {"rsa", "ec", "secret"};
    char text[8192] = "", members[64];
    size_t size = 0;

    for (unsigned i = 0; i < 3; i++) {
        char *jwk;

        if (!strstr(names, all[i]))
            continue;
        snprintf(members, sizeof(members), "\"kid\":\"%s\",", all[i]);
        jwk = maker_jwk((enum maker_key)i, members);
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%s",
                                 size ? "," : "", jwk);
        free(jwk);
    }
    return maker_set(text);
}

static int
open_verifier(void **state)
{
    (void)state;
    v = identity_provider_new("https://push.example");
    assert_non_null(v);
    identity_provider_expect(v, ISSUER, AUDIENCE);
    identity_provider_set_keys(keys("rsa ec secret"), v);
    return 0;
}

static int
close_verifier(void **state)
{
    (void)state;
    identity_provider_free(v);
    return 0;
}

FIXTURE(open_verifier, close_verifier);

/* A token for some seconds. */
static char *
token_of(enum maker_key key, const char *sub, int64_t seconds)
{
    static const char *const algs[] = {"RS256", "ES256", "HS256"};
    static const char *const kids[] = {"rsa", "ec", "secret"};
    char header[128], claims[512];

    snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"kid\":\"%s\"}",
             algs[key], kids[key]);
    snprintf(
        claims, sizeof(claims),
        "{\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE
        "\",\"exp\":%lld,\"sub\":\"%s\",\"tidings\":{\"publish\":[\"a\"]}}",
        (long long)(clock_day_us() / SECOND + seconds), sub);
    return maker_token(algs[key], maker_key(key), header, claims);
}

static struct principal *
find(const char *token)
{
    bool is_key_unknown;

    return identity_provider_verify(v, slice_of(token), clock_day_us(),
                                    &is_key_unknown);
}

static bool
is_over(const struct principal *p)
{
    return principal_is_over(p, clock_day_us());
}

TEST(verifies_a_token_once)
{
    char *token = token_of(MAKER_EC, "alice", 60);
    char *other = token_of(MAKER_EC, "bob", 60);
    struct principal *p = find(token), *again = find(token), *q = find(other);

    assert_non_null(p);
    assert_ptr_equal(p, again);
    assert_ptr_not_equal(p, q);
    assert_non_null(strstr(p->name, ":alice"));
    assert_true(rights_include(&p->rights, RIGHT_PUBLISH, SLICE("a")));
    assert_false(p->is_everyone);
    principal_unref(p);
    principal_unref(again);
    principal_unref(q);
    free(token);
    free(other);
}

TEST(ends_a_token_at_its_end)
{
    char *token = token_of(MAKER_EC, "alice", 60);
    struct principal *p = find(token);

    assert_false(is_over(p));
    clock_pass_us(60 * SECOND);
    assert_true(is_over(p));
    assert_null(find(token));
    assert_null(find(token));
    principal_unref(p);
    free(token);
}

/* Keys that stay are not noticed. */
TEST(ends_the_tokens_of_a_removed_key)
{
    char *by_rsa = token_of(MAKER_RSA, "alice", 60);
    char *by_ec = token_of(MAKER_EC, "alice", 60);
    struct principal *p = find(by_rsa), *q = find(by_ec), *again;

    identity_provider_set_keys(keys("rsa ec"), v);
    assert_false(is_over(p));
    identity_provider_set_keys(keys("ec secret"), v);
    assert_true(is_over(p));
    assert_false(is_over(q));
    assert_null(find(by_rsa));
    again = find(by_ec);
    assert_ptr_equal(q, again);
    principal_unref(again);

    /* the key comes back: another principal */
    identity_provider_set_keys(keys("rsa"), v);
    assert_true(is_over(p) && is_over(q));
    again = find(by_rsa);
    assert_non_null(again);
    assert_false(is_over(again));
    principal_unref(again);
    principal_unref(p);
    principal_unref(q);
    free(by_rsa);
    free(by_ec);
}

TEST(ends_all_tokens_with_another_issuer_or_audience)
{
    static const char *const rows[][2] = {
        {ISSUER "/", AUDIENCE}, {ISSUER, "other"}, {"", ""}};
    char *token = token_of(MAKER_EC, "alice", 60);

    for (int i = 0; i < 3; i++) {
        struct principal *p = find(token);

        identity_provider_expect(v, ISSUER, AUDIENCE);
        assert_false(is_over(p)); /* the same */
        identity_provider_expect(v, rows[i][0], rows[i][1]);
        assert_true(is_over(p));
        assert_null(find(token));
        identity_provider_expect(v, ISSUER, AUDIENCE);
        principal_unref(p);
    }
    free(token);
}

/* Whether it is worth while to look for new keys. */
TEST(tells_unknown_keys)
{
    char *token = token_of(MAKER_EC, "alice", 60);
    bool is_unknown = false;

    identity_provider_set_keys(keys("rsa"), v);
    assert_null(identity_provider_verify(v, slice_of(token), clock_day_us(),
                                         &is_unknown));
    assert_true(is_unknown);
    identity_provider_set_keys(NULL, v);
    assert_null(identity_provider_verify(v, slice_of(token), clock_day_us(),
                                         &is_unknown));
    assert_true(is_unknown);
    identity_provider_set_keys(keys("ec"), v);
    token[strlen(token) - 3] ^= 1;
    assert_null(identity_provider_verify(v, slice_of(token), clock_day_us(),
                                         &is_unknown));
    assert_false(is_unknown);
    free(token);
}

/* An issuer that hands out many tokens does not fill the memory, and those in
 * use are found whenever their key goes. */
TEST(remembers_as_many_tokens_as_it_has_room_for)
{
    enum { IN_USE = 20 };

    char *first = token_of(MAKER_SECRET, "first", 600), *used[IN_USE];
    struct principal *holders[IN_USE], *p = find(first);

    principal_unref(p);
    for (int i = 0; i < IN_USE; i++) {
        char sub[32];

        snprintf(sub, sizeof(sub), "used-%d", i);
        used[i] = token_of(MAKER_SECRET, sub, 600);
        holders[i] = find(used[i]);
    }
    for (int i = 0; i < JWT_VERIFIED_MAX + 2 * IN_USE; i++) {
        char sub[32], *token;

        snprintf(sub, sizeof(sub), "n-%d", i);
        token = token_of(MAKER_SECRET, sub, 600);
        p = find(token);
        assert_non_null(p);
        principal_unref(p);
        free(token);
    }
    p = find(first); /* again */
    assert_non_null(p);
    assert_int_equal(atomic_load(&p->authority.refs), 2);
    principal_unref(p);
    for (int i = 0; i < IN_USE; i++) {
        p = find(used[i]);
        assert_ptr_equal(p, holders[i]);
        principal_unref(p);
    }
    identity_provider_set_keys(keys("rsa"), v);
    for (int i = 0; i < IN_USE; i++) {
        assert_true(is_over(holders[i]));
        principal_unref(holders[i]);
        free(used[i]);
    }
    free(first);
}
