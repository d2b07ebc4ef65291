#include "broker/sets/upstream_topics.h"

#include <stdio.h>

#include "tests/test.h"

static struct set *const one = (struct set *)8, *const two = (struct set *)16;

static struct upstream *
claim(struct upstreams *u, const char *url, const char *owner)
{
    struct upstream *claim = NULL;
    struct problem why = {""};

    if (upstreams_claim(u, slice_of(url), owner, &claim, &why))
        fail_msg("%s", why.text);
    return claim;
}

static void
assert_taken(struct upstreams *u, const char *url, const char *owner,
             const char *by)
{
    struct upstream *claim;
    struct problem why = {""};

    assert_int_equal(upstreams_claim(u, slice_of(url), owner, &claim, &why),
                     STATUS_INVALID);
    assert_non_null(strstr(why.text, by));
}

static struct set *
find(struct upstreams *u, const char *url)
{
    return upstreams_find(u, slice_of(url));
}

/* W-026 */
TEST(finds_a_topic_however_it_is_spelled)
{
    struct upstreams u = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct upstream *c;

    assert_null(find(&u, "http://a.example/"));
    c = claim(&u, "http://a.example/%7Etopic", "set one");
    assert_null(find(&u, "http://a.example/~topic"));
    upstream_settle(c, one);

    assert_ptr_equal(find(&u, "http://a.example/~topic"), one);
    assert_ptr_equal(find(&u, "HTTP://A.example:80/%7etopic"), one);
    assert_null(find(&u, "https://a.example/~topic"));
    assert_null(find(&u, "http://a.example/~topic/"));

    upstream_release(c);
    assert_null(find(&u, "http://a.example/~topic"));
    upstreams_fini(&u);
}

/* From the claim on, not only when it is settled. */
TEST(gives_a_topic_to_one_owner)
{
    struct upstreams u = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct upstream *c, *again;

    c = claim(&u, "http://a.example/t", "set one");
    assert_taken(&u, "http://a.example:80/t", "set two",
                 "is the topic of set one already");
    assert_taken(&u, "http://a.example/t", "relay one", "set one");
    upstream_settle(c, one);

    /* The same settings again: in between it leads to the set as before. */
    again = claim(&u, "http://a.example/t", "set one");
    assert_ptr_equal(again, c);
    upstream_release(c);
    assert_ptr_equal(find(&u, "http://a.example/t"), one);
    upstream_release(again);

    c = claim(&u, "http://a.example/t", "set two");
    upstream_settle(c, two);
    assert_ptr_equal(find(&u, "http://a.example/t"), two);
    upstream_release(c);
    upstream_release(NULL);
    upstreams_fini(&u);
}

TEST(holds_a_topic_for_every_set)
{
    static struct upstream *claims[50000];
    struct upstreams u = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    char url[60], owner[60];

    for (unsigned i = 0; i < 50000; i++) {
        snprintf(url, sizeof(url), "http://a.example/%u", i);
        snprintf(owner, sizeof(owner), "set %u", i);
        claims[i] = claim(&u, url, owner);
        upstream_settle(claims[i], i % 2 ? one : two);
    }
    for (unsigned i = 0; i < 50000; i++) {
        snprintf(url, sizeof(url), "http://a.example/%u", i);
        assert_ptr_equal(find(&u, url), i % 2 ? one : two);
        upstream_release(claims[i]);
        assert_null(find(&u, url));
    }
    upstreams_fini(&u);
}
