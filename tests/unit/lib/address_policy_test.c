#include "client/lib/address_policy.h"

#include <stdlib.h>

#include "client/lib/curl_loop.h"
#include "tests/test.h"

#define NEAR   "127.0.0.1"
#define LAN    "10.0.0.9"
#define CLOUD  "169.254.169.254"
#define PUBLIC "8.8.8.8"

static struct sockaddr_storage
address(const char *text)
{
    struct sockaddr_storage to;

    assert_true(address_read(text, &to));
    return to;
}

/* One at a time. */
static struct address_policy *
empty_policy(void)
{
    static struct address_policy policy;

    policy = (struct address_policy){.sources = NULL};
    return &policy;
}

static bool
may(struct address_policy *reach, const char *host, const char *at)
{
    struct sockaddr_storage to = address(at);
    struct address_policy_check check;

    address_policy_begin(reach, &check, host, false, false);
    return address_policy_allows(&check, (struct sockaddr *)&to, false);
}

/* Connects, and sends a request. */
static bool
asks(struct address_policy *reach, const char *host, const char *at)
{
    struct sockaddr_storage to = address(at);
    struct address_policy_check check;

    address_policy_begin(reach, &check, host, false, false);
    return address_policy_allows(&check, (struct sockaddr *)&to, false) &&
           address_policy_allows(&check, (struct sockaddr *)&to, true);
}

static struct address_policy *
reach_of(const char *source, const char *at)
{
    struct address_policy *reach = empty_policy();

    assert_true(address_policy_add_source(reach, source));
    assert_true(asks(reach, source, at));
    return reach;
}

/* The addresses that a source may name, by its own address. */
TEST(a_source_names_what_reaches_no_further_than_itself)
{
    static const struct {
        const char *at;
        bool public, lan, cloud, near;
    } rows[] = {
        {PUBLIC, true, false, false, false},
        {LAN, true, true, false, false},
        {"169.254.1.1", true, true, true, false},
        {NEAR, true, true, true, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct address_policy *reach = reach_of("source.example", rows[i].at);

        assert_int_equal(may(reach, "x.example", PUBLIC), rows[i].public);
        assert_int_equal(may(reach, "x.example", LAN), rows[i].lan);
        assert_int_equal(may(reach, "x.example", CLOUD), rows[i].cloud);
        assert_int_equal(may(reach, "x.example", NEAR), rows[i].near);
        assert_int_equal(may(reach, NEAR, NEAR), rows[i].near);
        address_policy_fini(reach);
    }
}

/* DNS makes its name lead to another address: for a new connection, and for a
 * kept one. */
TEST(a_source_cannot_move_into_this_machine)
{
    struct address_policy *reach = reach_of("source.example", PUBLIC);
    struct sockaddr_storage near = address(NEAR);
    struct address_policy_check check;

    assert_false(asks(reach, "source.example", NEAR));
    assert_false(asks(reach, "SOURCE.example", LAN));
    address_policy_begin(reach, &check, "source.example", false, false);
    assert_false(address_policy_allows(&check, (struct sockaddr *)&near, true));
    assert_string_equal(address_policy_refused(&check).text,
                        "it leads to 127.0.0.1, an address of this machine, "
                        "which no source elsewhere may name without "
                        "--allow-private");
    assert_true(asks(reach, "source.example", "1.1.1.1"));
    address_policy_fini(reach);

    /* The source was near, is public, and is not near again, nor may it name a
     * near address. */
    reach = reach_of("source.example", NEAR);
    assert_true(may(reach, "x.example", NEAR));
    assert_true(asks(reach, "source.example", PUBLIC));
    assert_false(may(reach, "source.example", NEAR));
    assert_false(may(reach, "x.example", LAN));
    address_policy_fini(reach);
}

/* Nobody has connected to the source yet, so its address is unknown, unless its
 * URL states the address. */
TEST(a_source_that_nobody_has_connected_to_names_nothing_near)
{
    struct address_policy *reach = empty_policy();

    assert_true(address_policy_add_source(reach, "source.example"));
    assert_true(may(reach, "source.example", LAN));
    assert_false(may(reach, "x.example", LAN));
    assert_true(may(reach, "x.example", PUBLIC));
    address_policy_fini(reach);

    reach = empty_policy();
    assert_true(address_policy_add_source(reach, NEAR));
    assert_true(may(reach, "x.example", LAN));
    address_policy_fini(reach);
}

TEST(of_several_sources_the_one_that_reaches_least_counts)
{
    struct address_policy *reach = reach_of("near.example", NEAR);

    assert_true(address_policy_add_source(reach, "far.example"));
    assert_true(may(reach, "x.example", NEAR));
    assert_true(asks(reach, "far.example", PUBLIC));
    assert_false(may(reach, "x.example", NEAR));
    assert_true(asks(reach, "near.example", NEAR));
    assert_false(may(reach, "x.example", NEAR));
    address_policy_fini(reach);
}

TEST(what_the_program_names_itself_is_not_judged)
{
    struct sockaddr_storage near = address(NEAR);
    struct address_policy *reach = empty_policy();
    struct address_policy_check check;

    assert_true(asks(reach, "x.example", NEAR)); /* there is no source */
    assert_true(address_policy_add_source(reach, PUBLIC));
    assert_false(asks(reach, "x.example", NEAR));
    address_policy_begin(reach, &check, "x.example", true, false);
    assert_true(address_policy_allows(&check, (struct sockaddr *)&near, true));
    reach->allows_all = true;
    assert_true(asks(reach, "x.example", NEAR));
    address_policy_fini(reach);
}

/* The address is the proxy's: it says nothing of where the request goes. */
TEST(behind_a_proxy_the_written_host_is_judged)
{
    static const struct {
        const char *host;
        bool may;
    } rows[] = {
        {"source.example", true},
        {"x.example", true},
        {PUBLIC, true},
        {NEAR, false},
        {LAN, false},
        {"::1", false},
        {"localhost", false},
        {"a.localhost", false},
    };
    struct sockaddr_storage proxy = address(NEAR);
    struct address_policy *reach = empty_policy();
    struct address_policy_check check;

    assert_true(address_policy_add_source(reach, "source.example"));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        address_policy_begin(reach, &check, rows[i].host, false, true);
        if (address_policy_allows(&check, (struct sockaddr *)&proxy, true) !=
            rows[i].may)
            fail_msg("%s", rows[i].host);
    }
    assert_false(may(reach, "x.example", NEAR)); /* by no_proxy */
    address_policy_fini(reach);
}

/* As libcurl reads the environment. */
TEST(the_environment_names_proxies)
{
    static const struct {
        const char *name, *value, *no_proxy, *scheme, *host;
        bool is_used;
    } rows[] = {
        {"http_proxy", "http://p:1", NULL, "http", "a.example", true},
        {"http_proxy", "http://p:1", NULL, "https", "a.example", false},
        {"http_proxy", "", NULL, "http", "a.example", false},
        {"HTTP_PROXY", "http://p:1", NULL, "http", "a.example", false},
        {"https_proxy", "http://p:1", NULL, "https", "a.example", true},
        {"HTTPS_PROXY", "http://p:1", "", "HTTPS", "a.example", true},
        {"all_proxy", "http://p:1", NULL, "http", "a.example", true},
        {"ALL_PROXY", "http://p:1", "*", "https", "a.example", false},
        {"all_proxy", "http://p:1", "b.example,.EXAMPLE", "http", "a.example",
         false},
        {"all_proxy", "http://p:1", "a.example.", "http", "x.a.example", false},
        {"all_proxy", "http://p:1", "a.example", "http", "ba.example", true},
        {"all_proxy", "http://p:1", ".", "http", "a.example", true},
        {"all_proxy", "http://p:1", "10.0.0.0/8 ::1", "http", LAN, false},
        {"all_proxy", "http://p:1", "10.0.0.0/8 ::1", "http", "::1", false},
        {"all_proxy", "http://p:1", "10.0.0.0/8", "http", "11.0.0.1", true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setenv(rows[i].name, rows[i].value, 1);
        if (rows[i].no_proxy)
            setenv("no_proxy", rows[i].no_proxy, 1);
        if (!!curl_loop_proxy(rows[i].scheme, rows[i].host) != rows[i].is_used)
            fail_msg("row %zu", i);
        unsetenv(rows[i].name);
        unsetenv("no_proxy");
    }
}
