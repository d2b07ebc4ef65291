#include "broker/base/config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/tempdir.h"

static enum status
read_line(struct config *config, enum config_wish *wish, struct problem *why,
          const char *const *argv)
{
    int argc = 0;

    while (argv[argc])
        argc++;
    return config_read(config, argc, (char **)argv, wish, why);
}

static void
accept(struct config *config, const char *const *argv)
{
    struct problem why = {.text = ""};
    enum config_wish wish = CONFIG_HELP;

    if (read_line(config, &wish, &why, argv))
        fail_msg("%s", why.text);
    assert_int_equal(wish, CONFIG_RUN);
}

static void
refuse(const char *sentence, const char *const *argv)
{
    struct problem why = {.text = ""};
    struct config config;
    enum config_wish wish;

    assert_int_equal(read_line(&config, &wish, &why, argv), STATUS_INVALID);
    assert_string_equal(why.text, sentence);
}

/* READ(&config, "--data", "x"): these arguments are accepted; REFUSED("...",
 * "--data", "x"): they are refused with that sentence. */
#define ARGV(...)            ((const char *[]){"tidingsd", __VA_ARGS__, NULL})
#define READ(config, ...)    accept((config), ARGV(__VA_ARGS__))
#define REFUSED(reason, ...) refuse((reason), ARGV(__VA_ARGS__))

static void
nothing_said_is_the_defaults(void **state)
{
    struct config config;
    const char *argv[] = {"tidingsd", NULL};
    enum config_wish wish = CONFIG_HELP;

    (void)state;

    assert_int_equal(read_line(&config, &wish, NULL, argv), STATUS_OK);

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
    assert_int_equal(config.hub_retry_first_us, 1000000);
    assert_int_equal(config.hub_retry_max_us, 3600 * INT64_C(1000000));
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
    assert_false(config.insecure_open);
    assert_int_equal(config.log_level, DIAG_INFO);
    assert_false(config.check);
}

static void
values_stand_behind_an_equals_sign_or_in_the_next_argument(void **state)
{
    struct config config;

    (void)state;

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
static void
times_of_the_hub_may_be_fractions(void **state)
{
    struct config config;

    (void)state;

    READ(&config, "--hub-lease-min=0.25", "--hub-retry-first=0.01",
         "--hub-retry-max", "0.04", "--hub-give-up=0.5", "--hub-timeout=0.2",
         "--hub-signature=sha512", "--hub-trust-simple", "--allow-callbacks",
         "127.0.0.0/8,::1");

    assert_int_equal(config.hub_lease_min_us, 250000);
    assert_int_equal(config.hub_retry_first_us, 10000);
    assert_int_equal(config.hub_retry_max_us, 40000);
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

static void
addresses_to_listen_on(void **state)
{
    struct config config;

    (void)state;

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

static void
what_is_no_address_is_refused(void **state)
{
    static const char *const bad[] = {
        ":8787",      "8787",          "localhost",
        "localhost:", "::1:8787",      "[::1]",
        "[]:1",       "[localhost]:1", "a b:1",
        "a:65536",    "a:-1",          "a:1x",
        "a:0000001",  "http://a:80",   "a/b:1",
        "[::1:1",     "::1]:1",        "a:99999999999999999999",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char want[200];

        snprintf(want, sizeof(want),
                 "--listen: \"%s\" is not HOST:PORT, such as 127.0.0.1:8787 or "
                 "[::1]:8787",
                 bad[i]);
        REFUSED(want, "--listen", bad[i]);
    }
}

static void
a_public_url_loses_the_slashes_at_its_end(void **state)
{
    struct config config;

    (void)state;

    READ(&config, "--public-url", "https://example.org/tidings/");
    assert_string_equal(config.public_url, "https://example.org/tidings");
    READ(&config, "--public-url", "http://example.org:8080//");
    assert_string_equal(config.public_url, "http://example.org:8080");
}

static void
what_cannot_stand_before_a_path_is_no_public_url(void **state)
{
    char url[600];
    const char *argv[] = {"tidingsd", "--public-url", url, NULL};
    struct config config;
    enum config_wish wish;

    (void)state;

    REFUSED("--public-url: \"ftp://example.org/\" is not an http:// or "
            "https:// URL",
            "--public-url", "ftp://example.org/");
    REFUSED("--public-url: \"http://example.org/?a\" has a query or a "
            "fragment; paths are put behind it",
            "--public-url", "http://example.org/?a");
    REFUSED("--public-url: \"http://example.org/#\" has a query or a "
            "fragment; paths are put behind it",
            "--public-url", "http://example.org/#");

    REFUSED("--public-url: \"example.org\" is not a URL", "--public-url",
            "example.org");
    REFUSED("--public-url: \"http://a.org/b c\" is not a URL", "--public-url",
            "http://a.org/b c");
    REFUSED("--public-url: is empty", "--public-url", "");
    REFUSED("--public-url: \"http://\" is not a URL", "--public-url",
            "http://");

    memset(url, 'a', sizeof(url));
    memcpy(url, "http://", 7);
    url[500] = '\0';
    assert_int_equal(read_line(&config, &wish, NULL, argv), STATUS_OK);
    assert_string_equal(config.public_url, url);
    url[500] = 'a';
    url[501] = '\0';
    REFUSED("--public-url: is longer than 500 bytes", "--public-url", url);
}

/* Whoever reads documents connects there; and whether a broker is open depends
 * on it, so that nothing may only look like a host. */
static void
a_public_url_names_a_host_and_maybe_a_port(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        snprintf(want, sizeof(want),
                 "--public-url: \"%s\" has something else than HOST or "
                 "HOST:PORT before its path",
                 wrong[i]);
        REFUSED(want, "--public-url", wrong[i]);
    }
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
        READ(&config, "--public-url", right[i]);
}

static void
bytes_may_end_in_a_unit(void **state)
{
    struct config config;

    (void)state;

    READ(&config, "--max-body=1K", "--tail-bytes=3M", "--ingest-bytes=2G",
         "--message-bytes=1048577");
    assert_int_equal(config.max_body, 1024);
    assert_int_equal(config.tail_bytes, 3 << 20);
    assert_int_equal(config.ingest_bytes, INT64_C(2) << 30);
    assert_int_equal(config.message_bytes, 1048577);

    REFUSED("--max-body: \"1KB\" is not a number of bytes, such as 65536, 64K "
            "or 50M",
            "--max-body", "1KB");
    REFUSED("--max-body: \"K\" is not a number of bytes, such as 65536, 64K "
            "or 50M",
            "--max-body", "K");
    REFUSED("--max-body: \"1.5M\" is not a number of bytes, such as 65536, 64K "
            "or 50M",
            "--max-body", "1.5M");
}

static void
times_may_have_decimals_and_are_exact(void **state)
{
    struct config config;

    (void)state;

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

static void
what_is_no_number_is_refused(void **state)
{
    static const char *const bad[] = {"",     "x",     "1x",  "-1",       "+1",
                                      ".5",   "5.",    " 1",  "1 ",       "1e3",
                                      "0x10", "1.2.3", "1,5", "0.1234567"};

    (void)state;
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

static void
a_value_out_of_range_is_told_its_limits(void **state)
{
    struct config config;

    (void)state;

    REFUSED("--rotate-entries: 0 is not between 1 and 50000",
            "--rotate-entries", "0");
    REFUSED("--rotate-entries: 50001 is not between 1 and 50000",
            "--rotate-entries=50001");
    REFUSED("--rotate-bytes: 524287 is not between 512K and 50M",
            "--rotate-bytes", "524287");
    REFUSED("--rotate-bytes: 51M is not between 512K and 50M", "--rotate-bytes",
            "51M");
    REFUSED("--message-bytes: 17M is not between 512K and 16M",
            "--message-bytes", "17M");
    REFUSED("--max-body: 1023 is not between 1K and 1G", "--max-body", "1023");
    REFUSED("--index-lists: 50000 is not between 1 and 49999", "--index-lists",
            "50000");
    REFUSED("--threads: 65 is not between 1 and 64", "--threads", "65");
    REFUSED("--heartbeat: 0.09 is not between 0.1 and 3600", "--heartbeat",
            "0.09");
    REFUSED("--request-timeout: 3601 is not between 0.1 and 3600",
            "--request-timeout", "3601");
    REFUSED("--linger: 10000.001 is not between 0 and 10000", "--linger",
            "10000.001");
    READ(&config, "--rotate-bytes=512K", "--message-bytes=16M", "--max-body=1G",
         "--index-lists=49999", "--rotate-entries=1", "--threads=1");
}

/* 2^64 and beyond must not come round to something small. */
static void
a_number_beyond_all_types_is_out_of_range(void **state)
{
    (void)state;

    REFUSED("--rotate-entries: 18446744073709551617 is not between 1 and 50000",
            "--rotate-entries", "18446744073709551617");
    REFUSED("--rotate-entries: 99999999999999999999999 is not between 1 and "
            "50000",
            "--rotate-entries", "99999999999999999999999");
    REFUSED("--max-body: 18014398509481985K is not between 1K and 1G",
            "--max-body", "18014398509481985K");
    REFUSED("--heartbeat: 18446744073710 is not between 0.1 and 3600",
            "--heartbeat", "18446744073710");
}

static void
what_is_not_understood_is_refused(void **state)
{
    (void)state;

    REFUSED("--mqtt: there is no such option; --help lists them", "--mqtt",
            "mqtt://localhost");
    REFUSED("--rotate: there is no such option; --help lists them", "--rotate");
    REFUSED("\"--\" is not an option; --help lists them", "--");
    REFUSED("\"-h\" is not an option; --help lists them", "-h");
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

static void
help_and_version_are_wishes_and_the_rest_is_not_looked_at(void **state)
{
    const char *help[] = {"tidingsd", "--threads=0", "--help", "--nonsense",
                          NULL};
    const char *version[] = {"tidingsd", "--version", NULL};
    struct config config;
    enum config_wish wish = CONFIG_RUN;

    (void)state;

    assert_int_equal(read_line(&config, &wish, NULL, help), STATUS_OK);
    assert_int_equal(wish, CONFIG_HELP);
    assert_int_equal(read_line(&config, &wish, NULL, version), STATUS_OK);
    assert_int_equal(wish, CONFIG_VERSION);
}

/* The file */

static void
a_file_has_one_option_a_line_and_the_command_line_wins(void **state)
{
    struct config config;
    char path[300];

    snprintf(path, sizeof(path), "%s/t.ini", tempdir_path(state));
    tempdir_write(tempdir_fd(state), "t.ini",
                  "# the broker of the library\n"
                  "\n"
                  "listen = [::1]:1\n"
                  "  data = /srv/tidings ; not the default\n"
                  "rotate-age=3600\r\n"
                  "insecure-open = yes\n"
                  "check = no\n"
                  "heartbeat = 5");

    READ(&config, "--heartbeat", "7", "--config", path);

    assert_string_equal(config.listen_host, "::1");
    assert_int_equal(config.listen_port, 1);
    assert_string_equal(config.data, "/srv/tidings");
    assert_int_equal(config.rotate_age_us, 3600 * INT64_C(1000000));
    assert_true(config.insecure_open);
    assert_false(config.check);
    assert_int_equal(config.heartbeat_us, 7000000);
}

/* Writes `text` as a file and expects "FILE:sentence". */
static void
refused_in_file(void **state, const char *text, const char *sentence)
{
    char path[300], want[600];

    snprintf(path, sizeof(path), "%s/t.ini", tempdir_path(state));
    snprintf(want, sizeof(want), "%s:%s", path, sentence);
    tempdir_write(tempdir_fd(state), "t.ini", text);
    REFUSED(want, "--config", path);
}

static void
an_error_in_the_file_names_its_line(void **state)
{
    char line[400];

    refused_in_file(state, "\n# here\nrotate-entries = 0\nmore = bad\n",
                    "3: rotate-entries: 0 is not between 1 and 50000");
    refused_in_file(state, "mqtt = x\n", "1: mqtt: there is no such option");
    refused_in_file(state, "data = a\n\ndata = a\n",
                    "3: data: is there twice, first in line 1");
    refused_in_file(state, "data\n", "1: this is not NAME = VALUE");
    refused_in_file(state, "nonsense\nrotate-entries = 0\n",
                    "1: this is not NAME = VALUE");
    refused_in_file(state, "data = a\n[broker\n",
                    "2: [broker]: there are no sections");
    refused_in_file(state, "[broker]\ndata = a\n",
                    "1: [broker]: there are no sections");
    refused_in_file(state, "data = a\n\n  [br\x1b[oker] ; empty\n",
                    "3: [br?[oker]: there are no sections");
    refused_in_file(state, "\xef\xbb\xbf[broker]\n",
                    "1: [broker]: there are no sections");
    refused_in_file(state, "data =\n", "1: data: is empty");
    refused_in_file(state, "check = true\n",
                    "1: check: \"true\" is not yes or no");
    refused_in_file(state, "help = yes\n",
                    "1: help: stands on the command line only");
    refused_in_file(state, "config = other.ini\n",
                    "1: config: stands on the command line only");

    /* libinih would cut it, and take the rest for the next line. */
    memset(line, 'x', sizeof(line));
    memcpy(line, "data = ", 7);
    line[sizeof(line) - 1] = '\0';
    refused_in_file(state, line, "1: this line is too long, or has a NUL");

    /* What stands there is not what the words say. */
    refused_in_file(state, " = 3\n", "1: this is not NAME = VALUE");
    refused_in_file(state, "listen 127.0.0.1:8787\n",
                    "1: this is not NAME = VALUE");
    refused_in_file(state, "data = \"/srv/tidings\"\n",
                    "1: data: a value has no quotes around it");
    refused_in_file(state, "data = '/srv/tidings' ; here\n",
                    "1: data: a value has no quotes around it");
    refused_in_file(state, "threads = \"2\"\n",
                    "1: threads: a value has no quotes around it");
}

/* Wherever it stands: what follows it must not be lost without a word. */
static void
a_nul_in_the_file_is_refused(void **state)
{
    static const struct {
        struct slice text;
        unsigned line;
    } files[] = {
        {SLICE("threads = 2\0\n"), 1},       {SLICE("threads = 2\0"), 1},
        {SLICE("threads = 2\0data = x"), 1}, {SLICE("threads = 2\n\0"), 2},
        {SLICE("\xff\xfet\0h\0r\0"), 1},
    };

    char path[300], want[400];

    snprintf(path, sizeof(path), "%s/t.ini", tempdir_path(state));
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        FILE *to = fopen(path, "w");

        assert_int_equal(fwrite(files[i].text.data, 1, files[i].text.size, to),
                         files[i].text.size);
        fclose(to);
        snprintf(want, sizeof(want),
                 "%s:%u: this line is too long, or has a NUL", path,
                 files[i].line);
        REFUSED(want, "--config", path);
    }
}

/* Unknown keys are errors with a suggestion; the same on the
 * command line. */
static void
what_was_misspelt_is_told_what_was_meant(void **state)
{
    static const struct {
        const char *written, *meant;
    } words[] = {
        {"rotat-age", "rotate-age"},
        {"rotate_age", "rotate-age"},
        {"Rotate-Age", "rotate-age"},
        {"something-else", NULL},
        {"lsiten", "listen"},
        {"dta", "data"},
        {"dir", NULL},
        {"rotate-entires", "rotate-entries"},
        {"request-timout", "request-timeout"},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        char line[100], want[200], option[100];

        snprintf(option, sizeof(option), "--%s", words[i].written);
        if (words[i].meant)
            snprintf(want, sizeof(want),
                     "%s: there is no such option; did you mean --%s?", option,
                     words[i].meant);
        else
            snprintf(want, sizeof(want),
                     "%s: there is no such option; --help lists them", option);
        REFUSED(want, option, "1");

        snprintf(line, sizeof(line), "# here\n%s = 1\n", words[i].written);
        if (words[i].meant)
            snprintf(want, sizeof(want),
                     "2: %s: there is no such option; did you mean %s?",
                     words[i].written, words[i].meant);
        else
            snprintf(want, sizeof(want), "2: %s: there is no such option",
                     words[i].written);
        refused_in_file(state, line, want);
    }
}

static void
a_byte_order_mark_is_no_part_of_the_first_key(void **state)
{
    struct config config;
    char path[300];

    snprintf(path, sizeof(path), "%s/t.ini", tempdir_path(state));
    tempdir_write(tempdir_fd(state), "t.ini", "\xef\xbb\xbf heartbeat = 5\n");

    READ(&config, "--config", path);

    assert_int_equal(config.heartbeat_us, 5000000);
}

/* The example of a file. */

static size_t
print_example(char *to, size_t size)
{
    FILE *file = fmemopen(to, size, "w");

    config_example(file);
    fclose(file);
    return strlen(to);
}

/* To mend it: tidingsd --example > broker/tidingsd.ini */
static void
the_example_stands_in_tidingsd_ini(void **state)
{
    char text[16384] = "", stored[16384] = "";
    FILE *from = fopen(SPEC_DIR "/../../broker/tidingsd.ini", "re");

    (void)state;
    assert_non_null(from);

    print_example(text, sizeof(text));

    assert_true(fread(stored, 1, sizeof(stored) - 1, from) > 0);
    fclose(from);
    assert_string_equal(text, stored);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        assert_in_range(strlen(line), 1, 80);
}

/* As it stands it says nothing; with the marks taken away, the defaults. Every
 * option that --help names is in it, but for those of the command line. */
static void
the_example_says_the_defaults_of_all_options(void **state)
{
    char help[16384] = "", text[16384] = "", path[300], *line, *rest = NULL;
    FILE *to = fmemopen(help, sizeof(help), "w");
    struct config defaults, same;
    unsigned n = 0;
    int fd;

    config_help(to);
    fclose(to);
    print_example(text, sizeof(text));
    snprintf(path, sizeof(path), "%s/t.ini", tempdir_path(state));
    tempdir_write(tempdir_fd(state), "t.ini", text);
    READ(&defaults, "--config", path);

    fd = openat(tempdir_fd(state), "t.ini", O_WRONLY | O_TRUNC | O_CLOEXEC);
    for (line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char name[64], option[80];
        size_t size = strcspn(line, " =");

        if (line[0] != '#' || size < 2)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)size - 1, line + 1);
        snprintf(option, sizeof(option), "\n  --%s ", name);
        assert_non_null(strstr(help, option));
        n++;
        /* These have no default that could be written. */
        if (strcmp(name, "public-url") && strcmp(name, "threads") &&
            strcmp(name, "tls-cert") && strcmp(name, "tls-key") &&
            strcmp(name, "allow-callbacks"))
            dprintf(fd, "%s\n", line + 1);
    }
    close(fd);
    READ(&same, "--config", path);

    assert_memory_equal(&same, &defaults, sizeof(same));
    for (const char *at = help; (at = strstr(at, "\n  --")); at++)
        n--;
    assert_int_equal(n, (unsigned)-4); /* config, example, version, help */
}

static void
a_line_of_198_bytes_is_read_whole(void **state)
{
    struct config config;
    char path[300], text[200];

    memset(text, 'x', sizeof(text));
    memcpy(text, "data = ", 7);
    text[198] = '\n';
    text[199] = '\0';
    snprintf(path, sizeof(path), "%s/t.ini", tempdir_path(state));
    tempdir_write(tempdir_fd(state), "t.ini", text);

    READ(&config, "--config", path);

    assert_int_equal(strlen(config.data), 198 - 7);
}

static void
a_file_that_cannot_be_read_is_named(void **state)
{
    char path[300], want[400];

    snprintf(path, sizeof(path), "%s/none.ini", tempdir_path(state));
    snprintf(want, sizeof(want),
             "--config: cannot read %s: No such file or directory", path);
    REFUSED(want, "--config", path);

    snprintf(want, sizeof(want), "--config: cannot read %s: Is a directory",
             tempdir_path(state));
    snprintf(path, sizeof(path), "%s", tempdir_path(state));
    REFUSED(want, "--config", path);
}

static void
help_names_every_option_within_80_columns(void **state)
{
    static const char *const names[] = {
        "config",          "listen",        "data",       "public-url",
        "threads",         "rotate-bytes",  "rotate-age", "rotate-entries",
        "index-lists",     "max-body",      "linger",     "ingest-bytes",
        "tail-bytes",      "heartbeat",     "log-level",  "message-bytes",
        "request-timeout", "insecure-open", "check",      "example",
        "version",         "help",
    };
    char text[16384] = "";
    FILE *to = fmemopen(text, sizeof(text), "w");

    (void)state;

    config_help(to);
    fclose(to);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char option[64];

        snprintf(option, sizeof(option), "\n  --%s ", names[i]);
        if (!strstr(text, option))
            fail_msg("--%s is missing", names[i]);
    }
    assert_non_null(
        strstr(text, "\n"
                     "  --rotate-bytes BYTES       close a Change List at this "
                     "size (512K to 50M;\n"
                     "                             default 50M)\n"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        assert_in_range(strlen(line), 1, 80);
}

/* What broker/start --help shows without a build. To mend it:
 * tidingsd --help > broker/options.txt */
static void
help_stands_in_options_txt_as_well(void **state)
{
    char text[16384] = "", stored[16384] = "";
    FILE *to = fmemopen(text, sizeof(text), "w");
    FILE *from = fopen(SPEC_DIR "/../../broker/options.txt", "re");

    (void)state;
    assert_non_null(from);

    config_help(to);
    fclose(to);

    assert_true(fread(stored, 1, sizeof(stored) - 1, from) > 0);
    fclose(from);
    assert_string_equal(text, stored);
}

#define IN_TEMPDIR(test) \
    cmocka_unit_test_setup_teardown(test, tempdir_setup, tempdir_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_said_is_the_defaults),
        cmocka_unit_test(
            values_stand_behind_an_equals_sign_or_in_the_next_argument),
        cmocka_unit_test(times_of_the_hub_may_be_fractions),
        cmocka_unit_test(addresses_to_listen_on),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(a_public_url_loses_the_slashes_at_its_end),
        cmocka_unit_test(what_cannot_stand_before_a_path_is_no_public_url),
        cmocka_unit_test(a_public_url_names_a_host_and_maybe_a_port),
        cmocka_unit_test(bytes_may_end_in_a_unit),
        cmocka_unit_test(times_may_have_decimals_and_are_exact),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(a_value_out_of_range_is_told_its_limits),
        cmocka_unit_test(a_number_beyond_all_types_is_out_of_range),
        cmocka_unit_test(what_is_not_understood_is_refused),
        cmocka_unit_test(
            help_and_version_are_wishes_and_the_rest_is_not_looked_at),
        IN_TEMPDIR(a_file_has_one_option_a_line_and_the_command_line_wins),
        IN_TEMPDIR(an_error_in_the_file_names_its_line),
        IN_TEMPDIR(a_nul_in_the_file_is_refused),
        IN_TEMPDIR(what_was_misspelt_is_told_what_was_meant),
        IN_TEMPDIR(a_byte_order_mark_is_no_part_of_the_first_key),
        cmocka_unit_test(the_example_stands_in_tidingsd_ini),
        IN_TEMPDIR(the_example_says_the_defaults_of_all_options),
        IN_TEMPDIR(a_line_of_198_bytes_is_read_whole),
        IN_TEMPDIR(a_file_that_cannot_be_read_is_named),
        cmocka_unit_test(help_names_every_option_within_80_columns),
        cmocka_unit_test(help_stands_in_options_txt_as_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
