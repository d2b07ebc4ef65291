/* Options on the command line. */
#include <stdio.h>
#include <string.h>

#include "proto/shown_address.h"
#include "tests/test.h"
#include "tests/unit/config/configured.h"

TEST(nothing_said_is_the_defaults)
{
    struct config config;
    const char *argv[] = {"tidingsd", NULL};
    enum config_wish wish = CONFIG_HELP;

    assert_int_equal(configured_read(&config, &wish, NULL, argv), STATUS_OK);

    assert_int_equal(wish, CONFIG_RUN);
    assert_string_equal(config.listen_host, "127.0.0.1");
    assert_int_equal(config.listen_port, 8787);
    assert_string_equal(config.data, "./tidings-data");
    assert_string_equal(config.public_url, "");
    assert_in_range(config.threads, 1, 64);
    assert_int_equal(config.rotate_entries, 50000);
    assert_int_equal(config.rotate_bytes, 52428800);
    assert_int_equal(config.rotate_age_us, 86400 * INT64_C(1000000));
    assert_int_equal(config.index_lists, 1000);
    assert_int_equal(config.max_body, 52428800);
    assert_int_equal(config.ingest_bytes, 256 << 20);
    assert_int_equal(config.tail_bytes, 64 << 20);
    assert_int_equal(config.message_bytes, 1 << 20);
    assert_int_equal(config.linger_us, 0);
    assert_int_equal(config.heartbeat_us, 20000000);
    assert_int_equal(config.request_timeout_us, 30000000);
    assert_int_equal(config.hub_lease_min_us, 300 * INT64_C(1000000));
    assert_int_equal(config.hub_lease_default_us, 864000 * INT64_C(1000000));
    assert_int_equal(config.hub_lease_max_us, 2678400 * INT64_C(1000000));
    assert_int_equal(config.hub_retry.first_us, 1000000);
    assert_int_equal(config.hub_retry.max_us, 3600 * INT64_C(1000000));
    assert_int_equal(config.hub_give_up_us, 86400 * INT64_C(1000000));
    assert_int_equal(config.hub_timeout_us, 10000000);
    assert_int_equal(config.hub_connections, 1000);
    assert_int_equal(config.hub_host_connections, 32);
    assert_int_equal(config.hub_body_bytes, 64 << 20);
    assert_string_equal(config.hub_signature, "sha256");
    assert_false(config.hub_trust_simple);
    assert_int_equal(config.hub_subscriptions, 100000);
    assert_int_equal(config.relay_documents, 1000);
    assert_int_equal(config.relay_bytes, 256 << 20);
    assert_string_equal(config.allow_callbacks, "");
    assert_null(config.bridges);
    assert_int_equal(config.n_bridges, 0);
    assert_false(config.insecure_open);
    assert_int_equal(config.log_level, DIAG_INFO);
    assert_false(config.check);
}

TEST(values_stand_behind_an_equals_sign_or_in_the_next_argument)
{
    struct config config;

    READ(&config, "--data", "here", "--rotate-entries=3", "--insecure-open",
         "--log-level", "debug", "--check", "--threads=64");

    assert_string_equal(config.data, "here");
    assert_int_equal(config.rotate_entries, 3);
    assert_true(config.insecure_open);
    assert_int_equal(config.log_level, DIAG_DEBUG);
    assert_true(config.check);
    assert_int_equal(config.threads, 64);
}

/* W-070, W-089: limits of the hub are settings; a test may have short ones. */
TEST(times_of_the_hub_may_be_fractions)
{
    struct config config;

    READ(&config, "--hub-lease-min=0.25", "--hub-retry-first=0.01",
         "--hub-retry-max", "0.04", "--hub-give-up=0.5", "--hub-timeout=0.2",
         "--hub-signature=sha512", "--hub-trust-simple", "--allow-callbacks",
         "127.0.0.0/8,::1");

    assert_int_equal(config.hub_lease_min_us, 250000);
    assert_int_equal(config.hub_retry.first_us, 10000);
    assert_int_equal(config.hub_retry.max_us, 40000);
    assert_int_equal(config.hub_give_up_us, 500000);
    assert_int_equal(config.hub_timeout_us, 200000);
    assert_string_equal(config.hub_signature, "sha512");
    assert_true(config.hub_trust_simple);
    assert_string_equal(config.allow_callbacks, "127.0.0.0/8,::1");

    /* No lease is for ever, or nearly: W-070. */
    REFUSED("--hub-lease-min: 0 is not between 0.01 and 7776000",
            "--hub-lease-min", "0");
    REFUSED("--hub-lease-max: 7776001 is not between 0.01 and 7776000",
            "--hub-lease-max", "7776001");
}

TEST(addresses_to_listen_on)
{
    struct config config;

    READ(&config, "--listen", "[::1]:8787");
    assert_string_equal(config.listen_host, "::1");
    assert_int_equal(config.listen_port, 8787);
    READ(&config, "--listen", "localhost:0");
    assert_string_equal(config.listen_host, "localhost");
    assert_int_equal(config.listen_port, 0);
    READ(&config, "--listen=0.0.0.0:65535");
    assert_string_equal(config.listen_host, "0.0.0.0");
    assert_int_equal(config.listen_port, 65535);
}

TEST(what_is_no_address_is_refused)
{
    static const char *const bad[] = {
        ":8787",      "8787",          "localhost",
        "localhost:", "::1:8787",      "[::1]",
        "[]:1",       "[localhost]:1", "a b:1",
        "a:65536",    "a:-1",          "a:1x",
        "a:0000001",  "http://a:80",   "a/b:1",
        "[::1:1",     "::1]:1",        "a:99999999999999999999",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char want[200];

        snprintf(want, sizeof(want),
                 "--listen: \"%s\" is not HOST:PORT, such as 127.0.0.1:8787 or "
                 "[::1]:8787",
                 bad[i]);
        REFUSED(want, "--listen", bad[i]);
    }
}

TEST(a_public_url_loses_the_slashes_at_its_end)
{
    struct config config;

    READ(&config, "--public-url", "https://example.org/tidings/");
    assert_string_equal(config.public_url, "https://example.org/tidings");
    READ(&config, "--public-url", "http://example.org:8080//");
    assert_string_equal(config.public_url, "http://example.org:8080");
}

TEST(what_cannot_stand_before_a_path_is_no_public_url)
{
    static const struct {
        const char *url, *problem;
    } bad[] = {
        {"ftp://example.org/",
         "\"ftp://example.org/\" is not an http:// or https:// URL"},
        {"http://example.org/?a", "\"http://example.org/?a\" has a query or a "
                                  "fragment; paths are put behind it"},
        {"http://example.org/#", "\"http://example.org/#\" has a query or a "
                                 "fragment; paths are put behind it"},
        {"example.org", "\"example.org\" is not a URL"},
        {"http://a.org/b c", "\"http://a.org/b c\" is not a URL"},
        {"", "is empty"},
        {"http://", "\"http://\" is not a URL"},
    };

    char url[600], want[200];
    const char *argv[] = {"tidingsd", "--public-url", url, NULL};
    struct config config;
    enum config_wish wish;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(want, sizeof(want), "--public-url: %s", bad[i].problem);
        REFUSED(want, "--public-url", bad[i].url);
    }

    memset(url, 'a', sizeof(url));
    memcpy(url, "http://", 7);
    url[500] = '\0';
    assert_int_equal(configured_read(&config, &wish, NULL, argv), STATUS_OK);
    assert_string_equal(config.public_url, url);
    url[500] = 'a';
    url[501] = '\0';
    REFUSED("--public-url: is longer than 500 bytes", "--public-url", url);
}

/* Readers of documents connect to that host; and it decides whether a broker is
 * open, so no text may only look like a host. */
TEST(a_public_url_names_a_host_and_maybe_a_port)
{
    static const char *const wrong[] = {
        "http://localhost:80@example.org/",
        "http://a:b@example.org",
        "http://@example.org",
        "http://example.org:",
        "http://example.org:x/",
        "http://example.org:65536/",
        "http://example.org:080808/",
        "http://[::1",
        "http://[::1/]",
        "http://[::1]x/",
        "http://[::1]:x",
        "http://exa[mple.org/",
    };
    static const char *const right[] = {
        "http://[::1]",
        "https://[::1]:8787/a",
        "http://a.org:65535",
        "http://a.org/~me@home:8/",
    };
    struct config config;
    char want[200];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        snprintf(want, sizeof(want),
                 "--public-url: \"%s\" has something else than HOST or "
                 "HOST:PORT before its path",
                 wrong[i]);
        shown_address(want);
        REFUSED(want, "--public-url", wrong[i]);
    }
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
        READ(&config, "--public-url", right[i]);
}

TEST(bytes_may_end_in_a_unit)
{
    static const char *const bad[] = {"1KB", "K", "1.5M"};
    struct config config;
    char want[200];

    READ(&config, "--max-body=1K", "--tail-bytes=3M", "--ingest-bytes=2G",
         "--message-bytes=1048577");
    assert_int_equal(config.max_body, 1024);
    assert_int_equal(config.tail_bytes, 3 << 20);
    assert_int_equal(config.ingest_bytes, INT64_C(2) << 30);
    assert_int_equal(config.message_bytes, 1048577);

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(want, sizeof(want),
                 "--max-body: \"%s\" is not a number of bytes, such as 65536, "
                 "64K or 50M",
                 bad[i]);
        REFUSED(want, "--max-body", bad[i]);
    }
}

TEST(times_may_have_decimals_and_are_exact)
{
    struct config config;

    READ(&config, "--heartbeat=0.1", "--linger=0.5", "--rotate-age=0.000001",
         "--request-timeout", "3600.000000");
    assert_int_equal(config.heartbeat_us, 100000);
    assert_int_equal(config.linger_us, 500);
    assert_int_equal(config.rotate_age_us, 1);
    assert_int_equal(config.request_timeout_us, 3600000000);
    READ(&config, "--linger=10000", "--rotate-age=0", "--heartbeat=12.345678");
    assert_int_equal(config.linger_us, 10000000);
    assert_int_equal(config.rotate_age_us, 0);
    assert_int_equal(config.heartbeat_us, 12345678);
}

TEST(what_is_no_number_is_refused)
{
    static const char *const bad[] = {"",     "x",     "1x",  "-1",       "+1",
                                      ".5",   "5.",    " 1",  "1 ",       "1e3",
                                      "0x10", "1.2.3", "1,5", "0.1234567"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char want[200];

        snprintf(want, sizeof(want),
                 "--rotate-age: \"%s\" is not a number of seconds, such as 20 "
                 "or 0.25",
                 bad[i]);
        REFUSED(want, "--rotate-age", bad[i]);
    }
    REFUSED("--linger: \"0.0001\" is not a number of milliseconds, such as 5 "
            "or 0.5",
            "--linger", "0.0001");
    REFUSED("--index-lists: \"1.0\" is not a whole number", "--index-lists",
            "1.0");
}

TEST(a_value_out_of_range_is_told_its_limits)
{
    static const struct {
        const char *option, *value, *limits;
    } rows[] = {
        {"--rotate-entries", "0", "1 and 50000"},
        {"--rotate-entries", "50001", "1 and 50000"},
        {"--rotate-bytes", "524287", "512K and 50M"},
        {"--rotate-bytes", "51M", "512K and 50M"},
        {"--message-bytes", "17M", "512K and 16M"},
        {"--max-body", "1023", "1K and 1G"},
        {"--index-lists", "50000", "1 and 49999"},
        {"--threads", "65", "1 and 64"},
        {"--heartbeat", "0.09", "0.1 and 3600"},
        {"--request-timeout", "3601", "0.1 and 3600"},
        {"--linger", "10000.001", "0 and 10000"},
        /* 2^64 and beyond must not come round to something small. */
        {"--rotate-entries", "18446744073709551617", "1 and 50000"},
        {"--rotate-entries", "99999999999999999999999", "1 and 50000"},
        {"--max-body", "18014398509481985K", "1K and 1G"},
        {"--heartbeat", "18446744073710", "0.1 and 3600"},
    };
    struct config config;
    char want[200], joined[80];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(want, sizeof(want), "%s: %s is not between %s", rows[i].option,
                 rows[i].value, rows[i].limits);
        REFUSED(want, rows[i].option, rows[i].value);
        snprintf(joined, sizeof(joined), "%s=%s", rows[i].option,
                 rows[i].value);
        REFUSED(want, joined);
    }
    READ(&config, "--rotate-bytes=512K", "--message-bytes=16M", "--max-body=1G",
         "--index-lists=49999", "--rotate-entries=1", "--threads=1");
}

TEST(what_is_not_understood_is_refused)
{
    REFUSED("--amqp: there is no such option; --help lists them", "--amqp",
            "amqp://localhost");
    REFUSED("--rotate: there is no such option; --help lists them", "--rotate");
    REFUSED("--cluster-unsafe: there is no such option any more: give "
            "--cluster-durable-by provider, or disk",
            "--cluster-unsafe");
    REFUSED("--cluster-durable-by: \"none\" is not standbys, provider or disk",
            "--cluster-durable-by", "none");
    REFUSED("\"--\" is not an option; --help lists them", "--");
    REFUSED("\"-x\" is not an option; --help lists them", "-x");
    REFUSED("\"file\" is not an option; --help lists them", "file");
    REFUSED("\"\" is not an option; --help lists them", "");
    REFUSED("--data: is there twice", "--data", "a", "--data=b");
    REFUSED("--check: is there twice", "--check", "--check");
    REFUSED("--data: DIR is missing", "--data");
    REFUSED("--data: DIR is missing", "--data", "--check");
    REFUSED("--data: is empty", "--data=");
    REFUSED("--check: takes no value", "--check=yes");
    REFUSED("--log-level: \"loud\" is not error, warning, info or debug",
            "--log-level", "loud");
}

TEST(help_and_version_are_wishes_and_the_rest_is_not_looked_at)
{
    const char *help[] = {"tidingsd", "--threads=0", "--help", "--nonsense",
                          NULL};
    const char *short_help[] = {"tidingsd", "-h", NULL};
    const char *version[] = {"tidingsd", "--version", NULL};
    struct config config;
    enum config_wish wish = CONFIG_RUN;

    assert_int_equal(configured_read(&config, &wish, NULL, help), STATUS_OK);
    assert_int_equal(wish, CONFIG_HELP);
    wish = CONFIG_RUN;
    assert_int_equal(configured_read(&config, &wish, NULL, short_help),
                     STATUS_OK);
    assert_int_equal(wish, CONFIG_HELP);
    assert_int_equal(configured_read(&config, &wish, NULL, version), STATUS_OK);
    assert_int_equal(wish, CONFIG_VERSION);
}

/* Reloading */

struct resource_diff {
    char live[200], later[200]; /* names, each with a blank behind it */
};

static void
on_difference(const char *name, bool is_live, void *user)
{
    struct resource_diff *d = user;
    char *to = is_live ? d->live : d->later;

    snprintf(to + strlen(to), 200 - strlen(to), "%s ", name);
}

static void
assert_difference(struct config *running, const struct config *next,
                  const char *live, const char *later)
{
    struct resource_diff d = {"", ""};

    config_compare(running, next, on_difference, &d);
    assert_string_equal(d.live, live);
    assert_string_equal(d.later, later);
    d = (struct resource_diff){"", ""};
    config_take_live(running, next);
    config_compare(running, next, on_difference, &d);
    assert_string_equal(d.live, "");
    assert_string_equal(d.later, later);
}

/* One option of each kind. TLS itself cannot begin while the broker runs, but
 * may have other files. */
TEST(a_reload_finds_what_differs_and_takes_what_it_can)
{
    struct config running, next;

    READ(&running, "--data", "a-long-name");
    READ(&next, "--data", "a", "--listen", "127.0.0.1:1", "--public-url",
         "http://localhost", "--rotate-entries", "3", "--rotate-bytes", "1M",
         "--rotate-age", "1", "--resource-list-keep", "none", "--content",
         "fetch", "--linger", "1", "--insecure-open", "--log-level", "debug",
         "--tls-cert", "c", "--tls-key", "k", "--allow-callbacks", "10.0.0.1",
         "--trusted-proxies", "10.0.0.2");
    assert_difference(&running, &running, "", "");
    assert_difference(
        &running, &next, "trusted-proxies allow-callbacks log-level ",
        "listen data public-url tls-cert tls-key rotate-entries rotate-bytes "
        "rotate-age resource-list-keep content linger insecure-open ");
    assert_int_equal(running.log_level, DIAG_DEBUG);
    assert_string_equal(running.allow_callbacks, "10.0.0.1");
    assert_string_equal(running.tls_cert, "");

    READ(&running, "--tls-cert", "c", "--tls-key", "k");
    READ(&next, "--tls-cert", "d", "--tls-key", "l");
    assert_difference(&running, &next, "tls-cert tls-key ", "");
    assert_string_equal(running.tls_cert, "d");
}
