#include "broker/access/jwk_fetch.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/slice.h"
#include "tests/clock.h"
#include "tests/support/site.h"
#include "tests/test.h"
#include "tests/unit/access/jwt_maker.h"

static struct site *site;
static struct jwk_fetch *fetch;
static sem_t came;

/* Keys of the sets that were handed over, by the thread of the fetches; read
 * after `came`. */
static size_t sizes[8];
static unsigned n_sets;

static void
on_keys(struct jwk_set *keys, void *user)
{
    (void)user;
    sizes[n_sets++ % 8] = jwk_set_size(keys);
    jwk_set_unref(keys);
    sem_post(&came);
}

static void
put_keys(const char *path, unsigned n)
{
    char *jwk = maker_jwk(MAKER_EC, "");
    char text[2048] = "";

    for (unsigned i = 0; i < n; i++) {
        strcat(text, i ? "," : "");
        strcat(text, jwk);
    }
    site_putf(site, path, "application/json", "{\"keys\":[%s]}", text);
    free(jwk);
}

static int
open_fetch(void **state)
{
    (void)state;
    n_sets = 0;
    sem_init(&came, 0, 0);
    site = site_new();
    assert_int_equal(jwk_fetch_open(&fetch, on_keys, NULL, NULL), STATUS_OK);
    return 0;
}

static int
close_fetch(void **state)
{
    (void)state;
    jwk_fetch_close(fetch);
    site_free(site);
    sem_destroy(&came);
    return 0;
}

FIXTURE(open_fetch, close_fetch);

/* Lets the time pass at which the next call is due. */
static void
pass(int64_t us)
{
    jwk_fetch_await(fetch);
    clock_await_us(us);
    clock_pass_us(us);
}

TEST(fetches_at_once_and_every_few_minutes)
{
    put_keys("/keys", 1);
    jwk_fetch_from(fetch, site_link(site, "/keys"));
    jwk_fetch_await(fetch);
    assert_int_equal(sem_trywait(&came), 0);
    assert_int_equal(sizes[0], 1);
    assert_non_null(strstr(site_header(site, "/keys", 0, "Accept"),
                           "application/jwk-set+json"));

    pass(JWK_FETCH_EVERY_US); /* the same: not handed over */
    site_await(site, "/keys", 2);
    put_keys("/keys", 2);
    pass(JWK_FETCH_EVERY_US);
    sem_wait(&came);
    assert_int_equal(n_sets, 2);
    assert_int_equal(sizes[1], 2);
    assert_int_equal(site_count(site, "/keys"), 3);
}

/* However many strangers ask. */
TEST(fetches_for_unknown_keys_now_and_then)
{
    put_keys("/keys", 1);
    jwk_fetch_from(fetch, site_link(site, "/keys"));
    jwk_fetch_await(fetch);
    sem_wait(&came);
    for (int i = 0; i < 100; i++)
        jwk_fetch_ask(fetch);
    put_keys("/keys", 2);
    clock_await_us(JWK_FETCH_PAUSE_US); /* set back from five minutes */
    clock_pass_us(JWK_FETCH_PAUSE_US - 1000);
    clock_await_us(2000); /* it still waits for that, and calls nobody */
    assert_int_equal(site_count(site, "/keys"), 1);
    clock_pass_us(2000);
    sem_wait(&came);
    assert_int_equal(site_count(site, "/keys"), 2);

    /* later than that: at once */
    jwk_fetch_await(fetch);
    clock_await_us(JWK_FETCH_EVERY_US);
    clock_pass_us(2 * JWK_FETCH_PAUSE_US);
    put_keys("/keys", 3);
    jwk_fetch_ask(fetch);
    sem_wait(&came);
    assert_int_equal(sizes[2], 3);
}

/* And hands nothing over. */
TEST(tries_again_soon_after_a_failure)
{
    static const struct {
        unsigned status;
        const char *body;
    } rows[] = {
        {404, NULL},
        {500, NULL},
        {302, NULL}, /* nobody follows it */
        {0, "<html>"},
        {0, "{\"keys\":[]}"},
        {0, "{\"keys\":[{\"kty\":\"oct\",\"k\":"
            "\"MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY\"}]}"},
        {0, ""}, /* too large: below */
    };

    char *huge = calloc(1, JWK_SET_BYTES_MAX + 2);
    unsigned n = 0;

    memset(huge, ' ', JWK_SET_BYTES_MAX + 1);
    put_keys("/other", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].body)
            site_put(site, "/keys", NULL,
                     slice_of(*rows[i].body ? rows[i].body : huge));
        else
            put_keys("/keys", 1);
        site_status(site, "/keys", rows[i].status,
                    rows[i].status == 302 ? "Location: /other" : NULL, 0);
        if (i == 0)
            jwk_fetch_from(fetch, site_link(site, "/keys"));
        else
            pass(JWK_FETCH_PAUSE_US);
        site_await(site, "/keys", ++n);
        jwk_fetch_await(fetch);
    }
    assert_int_equal(n_sets, 0);
    put_keys("/keys", 1);
    pass(JWK_FETCH_PAUSE_US);
    sem_wait(&came);
    assert_int_equal(n_sets, 1);
    assert_int_equal(site_count(site, "/other"), 0);
    free(huge);
}

/* A provider that takes the call and says nothing: the start of a broker waits
 * no longer than this. */
TEST(gives_up_a_silent_provider)
{
    put_keys("/keys", 1);
    site_hold(site, "/keys");
    jwk_fetch_from(fetch, site_link(site, "/keys"));
    site_await(site, "/keys", 1);
    clock_await_us(JWK_FETCH_TIMEOUT_US);
    clock_pass_us(JWK_FETCH_TIMEOUT_US);
    jwk_fetch_await(fetch);
    assert_int_equal(n_sets, 0);
    site_release(site, "/keys");
    pass(JWK_FETCH_PAUSE_US);
    sem_wait(&came);
    assert_int_equal(n_sets, 1);
}

/* The answer of the earlier URL comes too late. */
TEST(goes_over_to_another_url)
{
    put_keys("/one", 1);
    put_keys("/two", 2);
    site_hold(site, "/one");
    jwk_fetch_from(fetch, site_link(site, "/one"));
    site_await(site, "/one", 1);
    jwk_fetch_from(fetch, site_link(site, "/two"));
    site_release(site, "/one");
    jwk_fetch_await(fetch);
    sem_wait(&came);
    assert_int_equal(sizes[0], 2);
    jwk_fetch_from(fetch, "");
    jwk_fetch_await(fetch);
    jwk_fetch_ask(fetch);
    jwk_fetch_from(fetch, site_link(site, "/one"));
    sem_wait(&came);
    assert_int_equal(sizes[1], 1);
    assert_int_equal(site_count(site, "/two"), 1);
}

TEST(takes_urls_that_nobody_can_change_on_the_way)
{
    static const struct {
        const char *url;
        bool is_good;
    } rows[] = {
        {"https://idp.example/keys", true},
        {"https://10.0.0.1:8443/keys?x=1", true},
        {"https://[fd00::1]/keys", true},
        {"http://127.0.0.1:8080/keys", true},
        {"http://localhost/keys", true},
        {"http://[::1]:8080/keys", true},
        {"http://idp.example/keys", false},
        {"http://10.0.0.1/keys", false},
        {"http://localhost.example/keys", false},
        {"http://127.0.0.1@idp.example/keys", false},
        {"https://user:word@idp.example/keys", false},
        {"http://[::1/keys", false},
        {"https:///keys", false},
        {"ftp://idp.example/keys", false},
        {"file:///etc/keys", false},
        {"https://", false},
        {"", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct problem why = {""};

        if (!jwk_fetch_check_url(rows[i].url, &why) != rows[i].is_good)
            fail_msg("%s: %s", rows[i].url, why.text);
    }
}
