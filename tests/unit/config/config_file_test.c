/* The file of options; its example, and the help.
 */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "broker/commands/command_table.h"
#include "tests/places.h"
#include "tests/test.h"
#include "tests/unit/config/configured.h"

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(a_file_has_one_option_a_line_and_the_command_line_wins)
{
    struct config config;
    const char *path =
        configured_write(state, "# the broker of the library\n"
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

TEST(an_error_in_the_file_names_its_line)
{
    static const struct {
        const char *text, *problem;
    } bad[] = {
        {"\n# here\nrotate-entries = 0\nmore = bad\n",
         "3: rotate-entries: 0 is not between 1 and 50000"},
        {"amqp = x\n", "1: amqp: there is no such option"},
        {"cluster-unsafe = yes\n",
         "1: cluster-unsafe: there is no such option any more: give "
         "cluster-durable-by provider, or disk"},
        {"data = a\n\ndata = a\n", "3: data: is there twice, first in line 1"},
        {"data\n", "1: this is not NAME = VALUE"},
        {"nonsense\nrotate-entries = 0\n", "1: this is not NAME = VALUE"},
        {"data =\n", "1: data: is empty"},
        {"check = true\n", "1: check: \"true\" is not yes or no"},
        {"help = yes\n", "1: help: stands on the command line only"},
        {"config = other.ini\n", "1: config: stands on the command line only"},
        /* The line is no NAME = VALUE, or its value is quoted. */
        {" = 3\n", "1: this is not NAME = VALUE"},
        {"listen 127.0.0.1:8787\n", "1: this is not NAME = VALUE"},
        {"data = \"/srv/tidings\"\n",
         "1: data: a value has no quotes around it"},
        {"data = '/srv/tidings' ; here\n",
         "1: data: a value has no quotes around it"},
        {"threads = \"2\"\n", "1: threads: a value has no quotes around it"},
    };

    char line[400];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refused_in_file(state, bad[i].text, bad[i].problem);

    /* libinih would cut it, and take the rest for the next line. */
    memset(line, 'x', sizeof(line));
    memcpy(line, "data = ", 7);
    line[sizeof(line) - 1] = '\0';
    refused_in_file(state, line, "1: this line is too long, or has a NUL");
}

/* A NUL anywhere: the text behind it must not be lost without a word. */
TEST(a_nul_in_the_file_is_refused)
{
    static const struct {
        struct slice text;
        unsigned line;
    } files[] = {
        {SLICE("threads = 2\0\n"), 1},       {SLICE("threads = 2\0"), 1},
        {SLICE("threads = 2\0data = x"), 1}, {SLICE("threads = 2\n\0"), 2},
        {SLICE("\xff\xfet\0h\0r\0"), 1},
    };

    const char *path = configured_write(state, "");
    char want[400];

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
TEST(what_was_misspelt_is_told_what_was_meant)
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

TEST(a_byte_order_mark_is_no_part_of_the_first_key)
{
    struct config config;

    read_file(state, &config, "\xef\xbb\xbf heartbeat = 5\n");
    assert_int_equal(config.heartbeat_us, 5000000);
}

TEST(a_line_of_198_bytes_is_read_whole)
{
    struct config config;
    char text[200];

    memset(text, 'x', sizeof(text));
    memcpy(text, "data = ", 7);
    text[198] = '\n';
    text[199] = '\0';

    read_file(state, &config, text);
    assert_int_equal(strlen(config.data), 198 - 7);
}

TEST(a_file_that_cannot_be_read_is_named)
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

/* The example of a file, and what --help says */

#define TEXT_MAX 32768

static void
print(void (*what)(FILE *to), char to[TEXT_MAX])
{
    FILE *file = fmemopen(to, TEXT_MAX, "w");

    what(file);
    fclose(file);
}

/* `text` is what the file of that name has, in lines of up to 80 columns. */
static void
assert_stored(char *text, const char *path)
{
    char stored[TEXT_MAX] = "";
    FILE *from = fopen(path, "re");

    assert_non_null(from);
    assert_true(fread(stored, 1, sizeof(stored) - 1, from) > 0);
    fclose(from);
    assert_string_equal(text, stored);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        assert_in_range(strlen(line), 1, 80);
}

/* To mend it: tidingsd --example > broker/tidingsd.ini */
TEST(the_example_stands_in_tidingsd_ini)
{
    char text[TEXT_MAX] = "";

    print(config_example, text);
    assert_stored(text, SPEC_DIR "/../../broker/tidingsd.ini");
}

/* Takes the comment marks of keys away from the lines of the example, up to a
 * section or from it on; calls `keep` for each. */
static void
uncomment(char *text, bool of_section,
          void (*keep)(const char *name, const char *line, void *user),
          void *user)
{
    char *line, *rest = NULL;
    bool is_in_section = false;

    for (line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char name[64];
        size_t size = strcspn(line, " =");

        if (line[0] != '#' || size < 2)
            continue;
        is_in_section |= line[1] == '[';
        snprintf(name, sizeof(name), "%.*s", (int)size - 1, line + 1);
        if (is_in_section == of_section)
            keep(name, line + 1, user);
    }
}

struct examined {
    char help[TEXT_MAX];
    FILE *file;
    unsigned n;
};

static void
keep_option(const char *name, const char *line, void *user)
{
    static const char *const none[] = {
        "public-url",    "threads",        "tls-cert",        "ca-file",
        "tls-client-ca", "tls-key",        "allow-callbacks", "trusted-proxies",
        "cluster",       "cluster-name",   "cluster-from",    "mqtt",
        "listen-unix",   "peer-tokens",    "jwt-keys",        "jwt-issuer",
        "jwt-audience",  "jwt-client",     "allow-origins",   "access-log",
        "otlp",          "otlp-token",     "postgresql",      "postgresql-as",
        "archive",       "s3-credentials", "witness"};

    struct examined *e = user;
    char option[80];

    snprintf(option, sizeof(option), "\n  --%s ", name);
    assert_non_null(strstr(e->help, option));
    e->n++;
    /* These have no default that could be written. */
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        if (!strcmp(name, none[i]))
            return;
    fprintf(e->file, "%s\n", line);
}

/* The example itself sets nothing; without the comment marks it sets the
 * defaults. It has every option of --help, except those of the command line. */
TEST(the_example_says_the_defaults_of_all_options)
{
    struct examined e = {.n = 0};
    char text[TEXT_MAX] = "";
    const char *path;
    struct config defaults, same;

    print(command_table_help, e.help);
    print(config_example, text);
    path = configured_write(state, text);
    READ(&defaults, "--config", path);

    e.file = fopen(path, "we");
    uncomment(text, false, keep_option, &e);
    fclose(e.file);
    READ(&same, "--config", path);

    assert_true(same.origins.line_of[1] > 0);
    same.origins = defaults.origins; /* each option has a line now */
    assert_memory_equal(&same, &defaults, sizeof(same));
    for (const char *at = e.help; (at = strstr(at, "\n  --")); at++)
        e.n--;
    assert_int_equal(e.n, (unsigned)-8); /* config, example, routes, limits,
                                          openapi, asyncapi, version, help */
}

/* Keys that have no default get a value that is good. */
static void
keep_key(const char *name, const char *line, void *user)
{
    static const struct {
        const char *name, *value;
    } given[] = {
        {"[mqtt", NULL},      {"url", "mqtts://a.org"}, {"user", "u"},
        {"as", "press"},      {"password-file", "p"},   {"ca", "ca.pem"},
        {"cert", "cert.pem"}, {"key", "key.pem"},       {"client-id", "id"},
        {"out", "*"},         {"public-url", "none"},   {"in", "a/+ -> +"},
    };

    struct examined *e = user;

    e->n++;
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
        if (!strcmp(name, given[i].name)) {
            if (given[i].value)
                fprintf(e->file, "%s = %s\n", name, given[i].value);
            return;
        }
    fprintf(e->file, "%s\n", line);
}

/* The same for the section: its keys are all that exist, with their
 * defaults. */
TEST(the_example_says_the_defaults_of_a_section)
{
    const char *path =
        configured_write(state, "[mqtt a]\nurl = mqtts://a.org\nout = *\n");
    struct examined e = {.n = 0};
    char text[TEXT_MAX] = "";
    struct config defaults, same;
    struct bridge_config *is, *was;

    READ(&defaults, "--config", path);

    print(config_example, text);
    e.file = fopen(path, "we");
    fprintf(e.file, "[mqtt a]\n");
    uncomment(text, true, keep_key, &e);
    fclose(e.file);
    READ(&same, "--config", path);

    assert_int_equal(e.n, 1 + bridge_options.n);
    is = same.bridges;
    was = defaults.bridges;
    assert_int_equal(is->version, was->version);
    assert_int_equal(is->keepalive_us, was->keepalive_us);
    assert_int_equal(is->retry.first_us, was->retry.first_us);
    assert_int_equal(is->retry.max_us, was->retry.max_us);
    assert_int_equal(is->inflight, was->inflight);
    assert_int_equal(is->packet_bytes, was->packet_bytes);
    assert_string_equal(is->prefix, was->prefix);
    assert_int_equal(is->begins_at_start, was->begins_at_start);
    assert_int_equal(is->qos, was->qos);
    assert_int_equal(is->form, was->form);
    assert_int_equal(is->publish, was->publish);
    config_fini(&defaults);
    config_fini(&same);
}

TEST(help_names_every_option)
{
    static const char *const names[] = {
        "config",          "listen",        "data",       "public-url",
        "threads",         "rotate-bytes",  "rotate-age", "rotate-entries",
        "index-lists",     "max-body",      "linger",     "ingest-bytes",
        "tail-bytes",      "heartbeat",     "log-level",  "message-bytes",
        "request-timeout", "insecure-open", "check",      "example",
        "version",         "help",
    };
    char text[TEXT_MAX] = "";

    print(command_table_help, text);
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
}

/* The output of broker/start --help without a build. To mend it: tidingsd
 * --help > broker/options.txt */
TEST(help_stands_in_options_txt_as_well)
{
    char text[TEXT_MAX] = "";

    print(command_table_help, text);
    assert_stored(text, SPEC_DIR "/../../broker/options.txt");
}
